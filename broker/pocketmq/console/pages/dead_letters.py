"""Dead letters: the groups that have some, those of one group, redriving and purging."""

from typing import Final

from starlette.responses import Response

from pocketmq.client import ResetTarget
from pocketmq.console import texts
from pocketmq.console.browsing import bounds_of, newest, place_of
from pocketmq.console.listing import forget
from pocketmq.console.web import Route, Visit
from pocketmq.model.message import DLQ_ORIGIN_TOPIC, RETRY_TOPIC

REDRIVEN_MAX: Final = 1_024
"""Dead letters that one call sends again."""
ROUNDS_MAX: Final = 1_000
LINES_MAX: Final = 100


async def dead_letters(page: Visit) -> Response:
    """Lists groups with dead letters."""
    found = await page.client.admin.list_dead_letters(page_token=page.text("more"))
    rows = sorted(found.items, key=lambda one: (-one.waiting_count, one.group))
    largest = max((one.waiting_count for one in rows), default=0)
    return page.render("dead_letters.html", rows=rows, largest=largest, more=found.next_page_token)


async def of_group(page: Visit) -> Response:
    """Shows dead letters of a group, the newest first."""
    group = page.text("group")
    (letters,) = (await page.client.admin.list_dead_letters(group)).items
    state = await page.client.admin.describe_topic(letters.topic) if letters.stored_count else None
    queues = state.queues if state else []
    older = await newest(page, letters.topic, queues, page.text("below"))
    offsets = await page.client.admin.list_offsets(group, letters.topic) if state else []
    return page.render(
        "dead_letter.html", letters=letters, older=older, origin=(DLQ_ORIGIN_TOPIC, RETRY_TOPIC),
        handled={one.queue_id: one.queue_offset for one in offsets},
    )  # fmt: skip


async def redrive(page: Visit) -> Response:
    """Shows what a redrive would send, and sends it once the plan was confirmed.

    The form of the plan has the end of each queue, so that later dead letters stay pending.
    """
    group, topic = page.text("group"), page.text("topic").strip()
    count = page.exact_number("count", 0, 10**9)
    words: list[object] = ["dlq", "redrive", group]
    words += ["--limit", count] if count else []
    words += ["--to-topic", topic] if topic else []
    command = page.console.command(*words, "--yes")
    back = page.url("/dead-letters/group", group=group)
    if page.text("confirm") != group:
        first = min(count, REDRIVEN_MAX) if count else 0
        plan, waiting, until = await page.client.admin.redrive_dead_letters(
            group, first, topic=topic, dry_run=True
        )
        total = min(waiting, count) if count else waiting
        lines = [f"{texts.counted(total, 'dead letter')} of {group}, the oldest first:"]
        lines += [f"{one.message_id} → {one.topic}" for one in plan[:LINES_MAX]]
        return page.render(
            "plan.html", title=f"Redrive {group}", lines=lines, confirm=group, verb="Redrive",
            target="/dead-letters/redrive", back=back, command=command,
            fields={
                "group": group, "topic": topic, "count": page.text("count"),
                "until": place_of(until) or "0:0",
            },
        )  # fmt: skip
    sent, left = 0, count
    until = bounds_of(page.text("until"))
    for _ in range(ROUNDS_MAX):
        asked = min(left, REDRIVEN_MAX) if count else 0
        done, waiting, until = await page.client.admin.redrive_dead_letters(
            group, asked, topic=topic, until=until
        )
        sent, left = sent + len(done), left - len(done)
        if not done or not waiting or (count and left <= 0):
            break
    forget(page)
    page.note(f"Sent {texts.counted(sent, 'dead letter')} again.", command)
    return page.redirect("/dead-letters/group", group=group)


async def purge(page: Visit) -> Response:
    """Shows what a purge would mark as handled, and marks it once the plan was confirmed.

    The form of the plan has the end of each queue, so that later dead letters stay pending.
    """
    group = page.text("group")
    (letters,) = (await page.client.admin.list_dead_letters(group)).items
    end, rows = ResetTarget(latest=True), []
    if letters.waiting_count:
        rows = await page.client.admin.reset_offsets(group, letters.topic, end, dry_run=True)
    command = page.console.command("dlq", "purge", group, "--yes")
    if page.text("confirm") != group or not page.has("until"):
        until = place_of({one.queue_id: one.new_offset for one in rows})
        waiting = texts.counted(letters.waiting_count, "dead letter")
        lines = [f"{waiting} of {group} would count as handled"]
        return page.render(
            "plan.html", title=f"Purge {group}", lines=lines, confirm=group, verb="Purge",
            target="/dead-letters/purge", fields={"group": group, "until": until or "0:0"},
            command=command, back=page.url("/dead-letters/group", group=group),
        )  # fmt: skip
    planned, count = bounds_of(page.text("until")), 0
    for one in rows:
        last = min(planned.get(one.queue_id, 0), one.new_offset)
        if last > (one.old_offset or 0):
            await page.client.admin.reset_offsets(
                group, letters.topic, ResetTarget(queue_offset=last), queue_ids=(one.queue_id,)
            )
            count += last - (one.old_offset or 0)
    forget(page)
    page.note(f"Counted {texts.counted(count, 'dead letter')} as handled.", command)
    return page.redirect("/dead-letters")


ROUTES: Final = [
    Route("/dead-letters", dead_letters),
    Route("/dead-letters/group", of_group),
    Route("/dead-letters/redrive", redrive, is_action=True),
    Route("/dead-letters/purge", purge, is_action=True),
]
