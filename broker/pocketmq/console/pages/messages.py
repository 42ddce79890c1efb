"""Messages: the search, one message with its body and its records, and its body as a file."""

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse, Response

from pocketmq.client import ClientError, KeyQuery, StoredMessage, errors
from pocketmq.console import texts
from pocketmq.console.bodies import SHOWN_MAX, Body, body_of
from pocketmq.console.browsing import at_offset, newest, place_of
from pocketmq.console.listing import topic_names
from pocketmq.console.times import moment_from_text
from pocketmq.console.web import Route, Visit
from pocketmq.format.addresses import text_from_host
from pocketmq.model.message import FLAG_COMPRESSED, RESERVED_PROPERTIES, UNIQUE_KEY

if TYPE_CHECKING:
    from pocketmq.console.message_types import MessageTypes

FOUND_MAX: Final = 50
PROPERTIES_MAX: Final = 100
"""Properties on one page."""


async def messages(page: Visit) -> Response:
    """Searches messages of a topic by id, key or time."""
    names = await topic_names(page)
    topic, how, wanted = page.text("topic"), page.text("by", "key"), page.text("q").strip()
    found: list[StoredMessage] = []
    more, failure = "", ""
    try:
        if how == "id" and wanted:
            message = await _by_id(page, topic, wanted, names)
            return page.redirect(
                "/message", topic=message.topic, queue=message.queue_id, at=message.queue_offset
            )
        if topic and how == "time":
            found, more = await _by_time(page, topic, wanted)
        elif topic and wanted:
            answer = await page.client.admin.query_by_key(
                KeyQuery(topic, wanted, FOUND_MAX, page_token=page.text("more"))
            )
            found, more = answer.messages, "" if answer.complete else answer.next_cursor
    except errors.Unauthenticated:
        raise
    except (ClientError, ValueError) as error:
        failure = str(getattr(error, "message", error))
    is_asked = bool(topic and (wanted or how == "time"))
    if not is_asked and not failure and (topic or wanted):
        failure = _what_lacks(topic, how)
    return page.render(
        "messages.html", names=names, topic=topic, by=how, q=page.text("q"),
        found=found, more=more, failure=failure, is_asked=is_asked,
        command=_command(page, topic, how, wanted),
    )  # fmt: skip


def _what_lacks(topic: str, how: str) -> str:
    """Returns what a search needs that the form left empty."""
    if not topic:
        return f"Name a topic: only a search by id needs none, and this one is by {how}."
    other = "" if how == "time" else "; for the newest messages search by time"
    return f"Write the {how} to search for in {topic}{other}."


async def _by_id(page: Visit, topic: str, wanted: str, names: list[str]) -> StoredMessage:
    """Returns the message with an id; without a topic all topics are searched."""
    failure: Exception = ValueError("there is no topic")
    for name in [topic] if topic else names:
        try:
            return await page.client.admin.query_by_id(name, wanted)
        except errors.MessageNotFound as error:
            failure = error
    raise failure


async def _by_time(page: Visit, topic: str, wanted: str) -> tuple[list[StoredMessage], str]:
    """Returns messages stored at a time or before, newest first."""
    state = await page.client.admin.describe_topic(topic)
    place = page.text("more")
    if not place and wanted:
        time_ms = moment_from_text(wanted, page.now_ms)
        bounds = {
            one.queue_id: await page.client.query_by_time(topic, one.queue_id, time_ms + 1)
            for one in state.queues
        }
        place = place_of(bounds)
    older = await newest(page, topic, state.queues, place, FOUND_MAX)
    return older.messages, older.place


def _command(page: Visit, topic: str, how: str, wanted: str) -> str:
    name = topic or "TOPIC"
    if how == "id":
        words = ["msg", "get", wanted or "ID", *(("--topic", topic) if topic else ())]
    elif how == "time":
        if wanted:
            return ""  # No command prints messages up to a time.
        words = ["tail", name, "--last", str(FOUND_MAX), "--no-follow"]
    else:
        words = ["msg", "by-key", name, wanted or "KEY"]
    return page.console.command(*words)


async def message(page: Visit) -> Response:
    """Shows one message."""
    one = await _asked(page)
    if one is None:
        return page.render("gone.html", 404, topic=page.text("topic"))
    own = sorted(one.properties.items())
    first = page.number("properties") // PROPERTIES_MAX * PROPERTIES_MAX
    body, failure = _body(page, one)
    types: MessageTypes | None = page.visitor.memory.get("types")
    return page.render(
        "message.html", message=one, body=body, failure=failure, typed=page.text("type"),
        types=types.names if types else [],
        properties=own[first : first + PROPERTIES_MAX], first=first, total=len(own),
        step=PROPERTIES_MAX, reserved=RESERVED_PROPERTIES, life=await _life(page, one),
        born=text_from_host(one.born_host), stored=text_from_host(one.store_host),
        is_compressed=bool(one.system_flag & FLAG_COMPRESSED), program=_program(page, one),
        command=page.console.command(
            "msg", "get", "--offset", f"{one.topic}:{one.queue_id}:{one.queue_offset}"
        ),
    )  # fmt: skip


def _body(page: Visit, one: StoredMessage) -> tuple[Body, str]:
    """Returns the body in the wanted form, and why it is not of the wanted type."""
    body, name = body_of(one.body, page.text("as")), page.text("type")
    types: MessageTypes | None = page.visitor.memory.get("types")
    if not name or types is None:
        return body, ""
    try:
        text = types.text(name, one.body)
    except ValueError as error:
        return body, str(error)
    return body._replace(text=text[:SHOWN_MAX], form="", is_cut=len(text) > SHOWN_MAX), ""


async def take_types(page: Visit) -> Response:
    """Keeps message types for the visitor's session."""
    place = {name: page.text(name) for name in ("topic", "queue", "at")}
    # Protobuf's descriptors and JSON form take half a MiB of memory.
    from pocketmq.console.message_types import types_from_text

    try:
        page.visitor.memory["types"] = types = types_from_text(page.text("types"))
    except ValueError as error:
        page.note(str(error))
        return page.redirect("/message", **place)
    page.note(f"{len(types.names)} message types are known until the session ends.")
    return page.redirect("/message", **place, type=types.names[0])


async def _asked(page: Visit) -> StoredMessage | None:
    topic, wanted = page.text("topic"), page.text("id")
    if wanted:
        return await page.client.admin.query_by_id(topic, wanted)
    return await at_offset(page, topic, page.number("queue"), page.number("at"))


async def _life(page: Visit, one: StoredMessage) -> list[Any]:
    """Returns the records of a message in the order of the log."""
    key = one.properties.get(UNIQUE_KEY, "")
    if not key:
        return []
    try:
        return (await page.client.admin.trace_message(key, ""))[1]
    except ClientError:
        return []


def _program(page: Visit, one: StoredMessage) -> str:
    """Returns a Python program that reads a message."""
    place = f"{one.topic!r}, {one.queue_id}, {one.queue_offset}"
    return texts.plain(
        "from pocketmq.client import Client, PullQuery\n\n"
        f"with Client({page.console.endpoint!r}) as client:\n"
        f"    page = client.pull(PullQuery({place}, max_messages=1))"
    )


async def save(page: Visit) -> Response:
    """Returns the body of a message as a file."""
    one = await _asked(page)
    if one is None:
        return PlainTextResponse("there is no such message", 404)
    name = f"message-{one.queue_id}-{one.queue_offset}.bin"
    return Response(
        one.body, media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )  # fmt: skip


ROUTES: Final = [
    Route("/messages", messages),
    Route("/message", message),
    Route("/message/body", save),
    Route("/message/types", take_types, is_action=True),
]
