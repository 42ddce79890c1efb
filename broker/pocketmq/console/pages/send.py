"""Send: a test message of each type."""

from typing import Any, Final

from starlette.responses import Response

from pocketmq.client import ClientError, Message, Receipt, errors
from pocketmq.console import texts
from pocketmq.console.browsing import at_offset
from pocketmq.console.listing import forget, topic_names
from pocketmq.console.times import delivery_from_text
from pocketmq.console.web import Route, Visit
from pocketmq.model.nearness import NEAR, nearest

BODY_MAX: Final = 256 * 1024
"""Bytes of a stored body that the form offers to send again; browsers are slow with more."""
SAVE_IT: Final = "Save it on its page, and send the file by the command line."
TYPES: Final = ("normal", "fifo", "delay", "transaction", "priority")
FIELDS: Final = ("topic", "body", "keys", "tag", "properties", "type", "wish")
WISHES: Final = {
    "normal": "",
    "fifo": "Message group",
    "delay": "Delay (30s) or time",
    "transaction": "Producer group",
    "priority": "Priority",
}
"""Message type -> label of the form's field "wish", whose meaning depends on the type."""


async def form(page: Visit) -> Response:
    """Shows the form, filled from the URL or from a stored message."""
    values = {name: page.text(name) for name in FIELDS}
    failure = ""
    if page.has("again"):
        one = await at_offset(page, page.text("topic"), page.number("queue"), page.number("again"))
        if one is not None:
            body, failure = _again(one.body)
            values |= {"body": body, "keys": " ".join(one.keys), "tag": one.tag or ""}
    return await _show(page, values, failure)


def _again(content: bytes) -> tuple[str, str]:
    """Returns (text, "") for a stored body; ("", reason) if the form cannot contain the body."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "", f"The body is no text. {SAVE_IT}"
    if len(content) > BODY_MAX:
        return "", f"The body is larger than {texts.size(BODY_MAX)}. {SAVE_IT}"
    return text, ""


async def _show(
    page: Visit, values: dict[str, Any], failure: str = "", receipt: Receipt | None = None,
    status: int = 200, *, is_new: bool = False,
) -> Response:  # fmt: skip
    try:
        names = await topic_names(page)
    except (errors.AccessDenied, errors.AdminsOnly):
        names = []
    return page.render(
        "send.html", status, names=names, values=values, types=TYPES, wishes=WISHES,
        failure=failure, receipt=receipt, command=_command(page, values) if receipt else "",
        is_new=is_new, near=nearest(values["topic"].strip(), names, NEAR) if is_new else "",
    )  # fmt: skip


async def send(page: Visit) -> Response:
    """Sends the message of a form."""
    values = {name: page.text(name) for name in FIELDS}
    try:
        message = _message(page, values)
        is_new = await _is_missing(page, message.topic)
        receipt = await page.client.send(message)
    except errors.Unauthenticated:
        raise
    except (ClientError, ValueError) as error:
        text = str(getattr(error, "message", error))
        step = str(getattr(error, "next_step", ""))
        if isinstance(error, errors.KindConflict):
            step = f"choose type {error.type.lower()} above"
        return await _show(page, values, f"{text}; {step}" if step else text, status=400)
    forget(page)
    return await _show(page, values, receipt=receipt, is_new=is_new)


async def _is_missing(page: Visit, topic: str) -> bool:
    """Returns whether a topic does not exist; False if the visitor may not ask."""
    try:
        await page.client.admin.describe_topic(topic)
    except errors.TopicNotFound:
        return True
    except (errors.AccessDenied, errors.AdminsOnly):
        return False
    return False


def _message(page: Visit, values: dict[str, str]) -> Message:
    """Returns the message that a form describes.

    Errors   ValueError
    """
    kind, wish = values["type"] or "normal", values["wish"].strip()
    if kind != "normal" and kind != "transaction" and not wish:
        raise ValueError(f"a message of type {kind} needs: {WISHES.get(kind, '')}")
    fields: dict[str, Any] = {}
    if kind == "fifo":
        fields["message_group"] = wish
    elif kind == "delay":
        fields |= delivery_from_text(wish, page.now_ms)
    elif kind == "transaction":
        fields |= {"transactional": True, "producer_group": wish}
    elif kind == "priority":
        if not (wish.isascii() and wish.isdecimal() and len(wish) < 10):
            raise ValueError(f"{wish!r} is no priority: write a number from 0 on")
        fields["priority"] = int(wish)
    return Message(
        values["topic"].strip(), values["body"].encode("utf-8", "replace"),
        tag=values["tag"].strip() or None, keys=values["keys"].split(),
        properties=_properties(values["properties"]), **fields,
    )  # fmt: skip


def _properties(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if line.strip() and not separator:
            raise ValueError(f"{line!r} is no property: write NAME=VALUE")
        if line.strip():
            found[name.strip()] = value.strip()
    return found


def _command(page: Visit, values: dict[str, str]) -> str:
    option = {"fifo": "--message-group", "priority": "--priority"}.get(values["type"])
    if values["type"] == "delay":
        given = delivery_from_text(values["wish"].strip(), page.now_ms)
        option = "--delay" if "delay_ms" in given else "--at"
    words: list[object] = ["produce", values["topic"].strip(), values["body"]]
    for key in values["keys"].split():
        words += ["-k", key]
    if values["tag"].strip():
        words += ["-t", values["tag"].strip()]
    for name, value in _properties(values["properties"]).items():
        words += ["-p", f"{name}={value}"]
    if option:
        words += [option, values["wish"].strip()]
    if values["type"] == "transaction":
        group = values["wish"].strip()
        words += ["--transactional", *(("--producer-group", group) if group else ())]
    return page.console.command(*words)


ROUTES: Final = [Route("/send", form), Route("/send", send, is_action=True)]
