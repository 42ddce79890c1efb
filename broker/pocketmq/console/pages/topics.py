"""Topics: the list, one topic, and its creation, change, purge and removal."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from pocketmq.client import ClientError, TopicChange, TopicState, errors
from pocketmq.console.browsing import newest, places_of, rows_of
from pocketmq.console.listing import FoundList, forget, soon
from pocketmq.console.web import Route, Visit
from pocketmq.model.administration import PurgedQueue, TopicProducer
from pocketmq.model.listing import MEASURED_MAX, TopicOrder
from pocketmq.model.topic import TYPE_NAMES

ORDERS: Final = {one.value: one for one in TopicOrder}
LAGS_S: Final = 0.5
"""Time for which the lags of a topic's groups are kept."""
PRODUCERS_MAX: Final = 50
HOUR_MS: Final = 3_600_000
NOTHING: Final = "-"
"""Value of the form's field `until` if the plan purges no queue."""
READ_WRITE: Final = {"rw": 6, "r": 4, "w": 2}


async def topics(page: Visit) -> Response:
    """Lists topics, filtered by a part of the name and sorted by a column."""
    found = FoundList(
        "topics", page.client.admin.find_topics, ORDERS,
        lambda one: one.counts.size_bytes if one.counts else 0,
    )  # fmt: skip
    return await found.page(page, types=TYPE_NAMES, measured_max=MEASURED_MAX)


async def topic(page: Visit) -> Response:
    """Shows one topic."""
    name = page.text("name")
    state = await page.client.admin.describe_topic(name)
    counts, read, lags, producers = await asyncio.gather(
        page.client.admin.topic_counts(name),
        newest(page, name, state.queues, page.text("below")),
        _lags(page, name),
        _producers(page, name),
    )
    most = max((one.max_offset - one.min_offset for one in state.queues), default=0)
    return page.render(
        "topic.html", topic=state, counts=counts, older=read, lags=lags, most=most,
        worst=max((one.lag_messages for one in lags), default=0), permissions=READ_WRITE,
        producers=producers, producers_max=PRODUCERS_MAX,
    )  # fmt: skip


async def _lags(page: Visit, name: str) -> list[Any]:
    try:
        found = await soon(
            page, f"lags of {name}", lambda: page.client.admin.all_lags(topic=name), LAGS_S
        )
        return [] if found is None else found.items
    except (errors.AccessDenied, errors.AdminsOnly):
        return []


async def _producers(page: Visit, name: str) -> list[TopicProducer] | None:
    """Returns the producers of a topic; None: unknown, or the visitor may not see them."""
    if page.console.directory:
        return None
    try:
        return await soon(
            page, f"producers of {name}", lambda: page.client.admin.list_producers(name), LAGS_S
        )
    except ClientError as error:
        if error.status not in ("UNIMPLEMENTED", "PERMISSION_DENIED"):
            raise
        return None


async def create(page: Visit) -> Response:
    """Creates a topic."""
    name = page.text("name").strip()
    kind = page.choice("type", TYPE_NAMES) if page.has("type") else TYPE_NAMES[0]
    queues = page.exact_number("queues", 0, 10**6)
    await page.client.admin.create_topic(name, queue_count=queues, type_name=kind)
    forget(page)
    command = page.console.command(
        "topic", "create", name, "--type", kind, *(("--queues", queues) if queues else ())
    )
    page.note(f"Topic {name} exists.", command)
    return page.redirect("/topic", name=name)


async def edit(page: Visit) -> Response:
    """Changes queues, permission and retention of a topic."""
    name = page.text("name")
    before = await page.client.admin.describe_topic(name)
    change, words = _change(page, before)
    if words:
        await page.client.admin.update_topic(name, change)
        forget(page)
        page.note("The topic was changed.", page.console.command("topic", "edit", name, *words))
    return page.redirect("/topic", name=name)


def _change(page: Visit, before: TopicState) -> tuple[TopicChange, list[object]]:
    """Returns the change that a form requests, and the options of the command line for it."""
    read = page.exact_number("read_queues", before.read_queue_count, 10**6)
    write = page.exact_number("write_queues", before.write_queue_count, 10**6)
    permission = before.permission
    if page.has("permission"):
        permission = READ_WRITE[page.choice("permission", READ_WRITE)]
    keep_ms = before.retention_ms
    if page.has("retention_hours"):
        keep_ms = page.exact_number("retention_hours", 0, 10**7) * HOUR_MS
    words: list[object] = []
    if read != before.read_queue_count:
        words += ["--read-queues", read]
    if write != before.write_queue_count:
        words += ["--write-queues", write]
    if permission != before.permission:
        words += ["--permission", page.text("permission")]
    attributes = None
    if keep_ms != before.retention_ms:
        words += ["--retention-age", f"{keep_ms // HOUR_MS}h"]
        attributes = {"pocketmq.retention.ms": str(keep_ms)}
    change = TopicChange(read, write, permission, set_attributes=attributes)
    return change, words


async def plan(page: Visit) -> Response:
    """Shows what a removal, or a purge, would do."""
    return await (_plan_purge if page.text("what") == "purge" else _plan_removal)(page)


async def _plan_purge(page: Visit) -> Response:
    name = page.text("name")
    queues = await page.client.admin.purge_topic(name, dry_run=True)
    lines = [f"{one.topic}, queue {one.queue_id}: {one.message_count} messages" for one in queues]
    until = places_of((one.topic, one.queue_id, one.new_min_offset) for one in queues)
    return _plan(
        page, name, "purge", lines or ["nothing: there are no messages"], until=until or NOTHING
    )


async def _plan_removal(page: Visit) -> Response:
    name = page.text("name")
    removed = await page.client.admin.delete_topic(name, dry_run=True)
    return _plan(page, name, "remove", [f"topic {one}" for one in removed])


def _plan(page: Visit, name: str, what: str, lines: list[str], **fields: str) -> Response:
    verb = "purge" if what == "purge" else "rm"
    return page.render(
        "plan.html", title=f"{what.capitalize()} {name}", lines=lines, confirm=name,
        target="/topic/purge" if what == "purge" else "/topic/remove",
        fields={"name": name, **fields},
        command=page.console.command("topic", verb, name, "--yes"), verb=what.capitalize(),
        back=page.url("/topic", name=name),
    )  # fmt: skip


async def remove(page: Visit) -> Response:
    """Removes a topic whose name was typed as confirmation."""
    name = page.text("name")
    if page.text("confirm") != name:
        return await _plan_removal(page)
    removed = await page.client.admin.delete_topic(name)
    forget(page)
    page.note(f"Removed {', '.join(removed)}.", page.console.command("topic", "rm", name, "--yes"))
    return page.redirect("/topics")


async def purge(page: Visit) -> Response:
    """Purges what a plan showed of a topic whose name was typed as confirmation."""
    name, rows = page.text("name"), rows_of(page.text("until"))
    planned = [PurgedQueue(topic, queue_id, 0, end) for topic, queue_id, end in rows]
    if page.text("confirm") != name or not page.has("until"):
        return await _plan_purge(page)
    queues = await page.client.admin.purge_topic(name, planned=planned) if planned else []
    forget(page)
    count = sum(one.message_count for one in queues)
    page.note(f"Purged {count} messages.", page.console.command("topic", "purge", name, "--yes"))
    return page.redirect("/topic", name=name)


ROUTES: Final = [
    Route("/topics", topics),
    Route("/topic", topic),
    Route("/topic/plan", plan),
    Route("/topic/create", create, is_action=True),
    Route("/topic/edit", edit, is_action=True),
    Route("/topic/remove", remove, is_action=True),
    Route("/topic/purge", purge, is_action=True),
]
