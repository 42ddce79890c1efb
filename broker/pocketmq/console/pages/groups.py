"""Groups: the list, one group with lag and members, and the changes of its offsets and state."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from pocketmq.client import GroupSettings, GroupState, ResetTarget
from pocketmq.console.browsing import places_of, rows_of
from pocketmq.console.listing import FoundList, forget
from pocketmq.console.times import moment_from_text
from pocketmq.console.web import Route, Visit
from pocketmq.model.administration import MovedOffset
from pocketmq.model.listing import GroupOrder
from pocketmq.model.topic import DLQ_PREFIX, RETRY_PREFIX

ORDERS: Final = {one.value: one for one in GroupOrder}
EARLIEST: Final = ResetTarget()
LINES_MAX: Final = 200
"""Lines of a plan that a page shows."""


async def groups(page: Visit) -> Response:
    """Lists groups, filtered by a part of the name and sorted by a column."""
    found = FoundList(
        "groups", page.client.admin.find_groups, ORDERS,
        lambda one: one.stats.lag_messages if one.stats else 0,
    )  # fmt: skip
    return await found.page(page)


async def group(page: Visit) -> Response:
    """Shows one group."""
    name, admin = page.text("name"), page.client.admin
    state, lags, members = await asyncio.gather(
        admin.describe_group(name), admin.group_lag(name), admin.list_members(name)
    )
    largest = max((queue.lag_messages for lag in lags for queue in lag.queues), default=0)
    return page.render(
        "group.html", group=state, lags=lags, members=members, largest=largest,
        lag=sum(one.lag_messages for one in lags), names=_own_topics(state),
    )  # fmt: skip


def _own_topics(state: GroupState) -> list[str]:
    prefixes = (RETRY_PREFIX, DLQ_PREFIX)
    return [one for one in state.topics if not one.startswith(prefixes)]


async def create(page: Visit) -> Response:
    """Creates a group."""
    name = page.text("name").strip()
    settings = GroupSettings(fifo=page.text("fifo") == "true" or None)
    await page.client.admin.create_group(name, settings)
    forget(page)
    fifo = ("--fifo", "true") if settings.fifo else ()
    page.note(f"Group {name} exists.", page.console.command("group", "create", name, *fifo))
    return page.redirect("/group", name=name)


async def change_state(page: Visit) -> Response:
    """Pauses a group, or lets it consume again."""
    name, is_on = page.text("name"), page.choice("enabled", ("true", "false")) == "true"
    await page.client.admin.update_group(name, GroupSettings(enabled=is_on))
    forget(page)
    words = ("group", "edit", name, "--enabled", str(is_on).lower())
    text = "The group consumes again." if is_on else "The group is paused: it gets no messages."
    page.note(text, page.console.command(*words))
    return page.redirect("/group", name=name)


async def reset(page: Visit) -> Response:
    """Shows the plan of a reset, and runs it once the plan was confirmed.

    The form of the plan contains the new offsets, so that a reset to the end does not skip messages
    that arrive before the confirmation.
    """
    name, topic, to = page.text("name"), page.text("topic"), page.text("to", "latest").strip()
    try:
        target = _target(to, page.now_ms)
    except ValueError as error:
        page.note(str(error))
        return page.redirect("/group", name=name)
    queues = (page.exact_number("queue"),) if topic and page.has("queue") else ()
    is_done = page.text("confirm") == name
    if is_done and page.has("until") and target != EARLIEST:
        moved = await _moved_as_planned(page, name)
    else:
        moved = await _moved(page, name, topic, target, queues, is_done=is_done)
    words: list[object] = ["group", "reset", name, "--to", to]
    words += ["--topic", topic] if topic else []
    words += ["--queue", *queues] if queues else []
    command = page.console.command(*words, "--yes")
    changed = [row for row in moved if row.old_offset != row.new_offset]
    if is_done:
        forget(page)
        page.note(f"Changed the offsets of {len(changed)} queues.", command)
        return page.redirect("/group", name=name)
    return page.render(
        "plan.html", title=f"Reset {name} to {to}", lines=_lines(changed), confirm=name,
        target="/group/reset", verb="Reset",
        fields={
            "name": name, "topic": topic, "to": to, "queue": page.text("queue"),
            "until": places_of((one.topic, one.queue_id, one.new_offset) for one in moved) or "-",
        },
        command=command, back=page.url("/group", name=name),
    )  # fmt: skip


async def _moved(
    page: Visit, name: str, topic: str, target: ResetTarget, queues: tuple[int, ...],
    *, is_done: bool,
) -> list[MovedOffset]:  # fmt: skip
    state = await page.client.admin.describe_group(name)
    moved: list[MovedOffset] = []
    for each in [topic] if topic else _own_topics(state):
        moved += await page.client.admin.reset_offsets(
            name, each, target, queue_ids=queues, dry_run=not is_done
        )
    return moved


async def _moved_as_planned(page: Visit, name: str) -> list[MovedOffset]:
    planned: dict[str, dict[int, int]] = {}
    for topic, queue_id, queue_offset in rows_of(page.text("until")):
        planned.setdefault(topic, {})[queue_id] = queue_offset
    moved: list[MovedOffset] = []
    for topic, queue_offsets in planned.items():
        moved += await page.client.admin.set_offsets(name, topic, queue_offsets)
    return moved


def _target(to: str, now_ms: int) -> ResetTarget:
    if to in ("earliest", "latest"):
        return ResetTarget(latest=to == "latest")
    if to.isascii() and to.isdecimal() and len(to) < 9:
        return ResetTarget(queue_offset=int(to))
    return ResetTarget(time_ms=moment_from_text(to, now_ms))


def _lines(moved: list[MovedOffset]) -> list[str]:
    lines = [
        f"{row.topic}, queue {row.queue_id}: "
        f"{'none' if row.old_offset is None else row.old_offset} → {row.new_offset}"
        for row in moved
    ]
    if len(lines) > LINES_MAX:
        return [*lines[:LINES_MAX], f"and {len(lines) - LINES_MAX} more queues"]
    return lines or ["nothing: all offsets are there already"]


async def plan_removal(page: Visit) -> Response:
    """Shows what a removal would do."""
    name = page.text("name")
    state = await page.client.admin.describe_group(name)
    removed = await page.client.admin.delete_group(name, with_topics=True, dry_run=True)
    lines: list[Any] = [f"offsets in topic {one}" for one in state.topics]
    lines += [f"topic {one}" for one in removed]
    return page.render(
        "plan.html", title=f"Remove {name}", lines=[f"group {name}", *lines], confirm=name,
        target="/group/remove", fields={"name": name}, verb="Remove",
        command=page.console.command("group", "rm", name, "--with-topics", "--yes"),
        back=page.url("/group", name=name),
    )  # fmt: skip


async def remove(page: Visit) -> Response:
    """Removes a group whose name was typed as confirmation."""
    name = page.text("name")
    if page.text("confirm") != name:
        return await plan_removal(page)
    await page.client.admin.delete_group(name, with_topics=True)
    forget(page)
    command = page.console.command("group", "rm", name, "--with-topics", "--yes")
    page.note(f"Removed group {name}.", command)
    return page.redirect("/groups")


ROUTES: Final = [
    Route("/groups", groups),
    Route("/group", group),
    Route("/group/plan", plan_removal),
    Route("/group/create", create, is_action=True),
    Route("/group/state", change_state, is_action=True),
    Route("/group/reset", reset, is_action=True),
    Route("/group/remove", remove, is_action=True),
]
