"""Overview: one sentence on the broker's state, rates, and what needs an operator."""

import asyncio
import time
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from pocketmq.client import GroupState, errors
from pocketmq.console import plots, texts
from pocketmq.console.listing import answered_s, soon, topic_sums, worst_group
from pocketmq.console.rates import POINTS, RecentFlow
from pocketmq.console.web import Route, Visit
from pocketmq.model.administration import DeadLetters, StoreStatus
from pocketmq.model.listing import GroupTotals

PLOT_WIDTH: Final = 720
PLOT_HEIGHT: Final = 120
COUNTED_MAX: Final = 1_000
"""Maximum number of delayed messages in one answer of the broker."""
SLOW_S: Final = 10.0
"""Time in seconds for which a page keeps counts that are expensive for the broker."""
OLD_S: Final = 10.0
"""Age in seconds from which the page shows how old its counts are."""
COUNTS: Final = ("topic sums", "group sums")
"""Kept answers whose age the page shows."""
NO_GROUPS: Final = GroupTotals(0, 0, 0, 0, 0)
FULL_SHARE: Final = 0.1
FULL_MS: Final = 7 * texts.DAY_MS
STATES: Final = {
    "running": ("good", "The broker accepts messages.", ""),
    "following": ("good", "The broker follows another broker: it serves reads.", ""),
    "recovering": ("warn", "The broker recovers its store; it serves soon.", ""),
    "starting": ("warn", "The broker starts.", ""),
    "draining": ("warn", "The broker stops; it accepts no messages.", ""),
    "disk_full": (
        "bad", "The disk is full: sends are refused, reads are served.",
        "Free space; sends resume on their own.",
    ),
    "read_only": (
        "bad", "The store is read-only: sends are refused.",
        "The log event store.refused has the reason.",
    ),
    "damaged": (
        "bad", "The log is damaged: the broker serves reads only.",
        "Stop it, then: pocketmq store verify DIR, pocketmq store repair DIR",
    ),
    "failed": ("bad", "The store has failed.", "Read the log of the broker."),
}  # fmt: skip


class StateSentence(NamedTuple):
    """One sentence on the state, with the next step; the tone is good, warn or bad."""

    tone: str
    text: str
    step: str = ""
    path: str = ""


class Facts(NamedTuple):
    """Facts of the overview; None: the visitor may not see it, or it is unknown."""

    status: StoreStatus | None
    topic_count: int | None
    message_count: int | None
    incoming: float
    worst: GroupState | None
    lag: int
    member_count: int
    delayed: int | None
    dead: list[DeadLetters] | None
    full_ms: float | None


async def overview(page: Visit) -> Response:
    """Shows the overview."""
    return page.render("overview.html", **await _values(page))


async def live(page: Visit) -> Response:
    """Shows the part of the overview that changes."""
    return page.render("overview_live.html", **await _values(page))


async def _values(page: Visit) -> dict[str, Any]:
    facts, rates = await _facts(page)
    top = plots.nice_ceiling(max([*rates.incoming, *rates.outgoing, 0.0]))
    return {
        "facts": facts, "verdict": verdict(facts), "top": top, "age_s": _age_s(page),
        "incoming": list(rates.incoming), "outgoing": list(rates.outgoing),
        "width": PLOT_WIDTH, "height": PLOT_HEIGHT, "slots": POINTS,
        "delayed_max": COUNTED_MAX, "old_s": OLD_S,
    }  # fmt: skip


async def _facts(page: Visit) -> tuple[Facts, RecentFlow]:
    admin = page.client.admin
    counts, groups, status, delayed, dead = await asyncio.gather(
        topic_sums(page),
        _or_none(worst_group(page)),
        _or_none(admin.store_status()),
        _or_none(soon(page, "delayed", admin.list_delayed, SLOW_S)),
        _or_none(soon(page, "dead", admin.list_dead_letters, SLOW_S)),
    )
    rates: RecentFlow = page.visitor.memory.setdefault("rates", RecentFlow())
    sums = groups.sums if groups else NO_GROUPS
    if counts is not None and groups is not None:
        now_s = min(answered_s(page, name) or time.monotonic() for name in COUNTS)
        appended = status.appended_offset if status else 0
        rates.add(now_s, counts.stored_count, sums.committed_sum, appended)
    worst = groups.items[0] if groups and sums.lag_messages else None
    facts = Facts(
        status, counts.topic_count if counts else None, counts.message_count if counts else None,
        counts.in_per_s if counts else 0.0, worst, sums.lag_messages, sums.member_count,
        None if delayed is None else len(delayed.items), None if dead is None else dead.items,
        _full_ms(status, rates),
    )  # fmt: skip
    return facts, rates


def _age_s(page: Visit) -> float:
    """Returns the age of the oldest count on the page; 0 if there is none yet."""
    times = [answered_s(page, name) for name in COUNTS]
    return time.monotonic() - min(times) if all(times) else 0.0


async def _or_none(question: Any) -> Any:
    """Returns an answer; None if the visitor may not see it, or the broker does not support it."""
    try:
        return await question
    except (errors.AccessDenied, errors.AdminsOnly, errors.UnsupportedFeature):
        return None


def _full_ms(status: StoreStatus | None, rates: RecentFlow) -> float | None:
    """Returns the time until the disk is full at the last minutes' rate; None: over a year."""
    written = sum(rates.bytes_in) / len(rates.bytes_in) if rates.bytes_in else 0.0
    if status is None or not status.disk_total_bytes or written < 1:
        return None
    left_ms = 1000 * status.disk_free_bytes / written
    return left_ms if left_ms < texts.YEAR_MS else None


def verdict(facts: Facts) -> StateSentence:
    """Returns the sentence on the most urgent fact."""
    status = facts.status
    if status is None:
        return StateSentence("good", "You see what your grants allow.")
    tone, text, step = STATES.get(status.state, ("warn", f"The state is {status.state}.", ""))
    why = status.send_refusal
    if tone == "bad" and why and status.state in ("read_only", "disk_full"):
        return StateSentence(
            tone, f"Sends are refused: {why}. Reads are served.",
            "Free space on that disk; sends resume on their own.", "/settings",
        )  # fmt: skip
    if tone != "good":
        return StateSentence(tone, text, step)
    if status.disk_total_bytes and status.disk_free_bytes < FULL_SHARE * status.disk_total_bytes:
        return StateSentence(
            "warn", f"The disk has {texts.size(status.disk_free_bytes)} left.",
            "Shorten retention, or add space.", "/settings",
        )  # fmt: skip
    if facts.full_ms is not None and facts.full_ms < FULL_MS:
        return StateSentence(
            "warn", f"At this rate the disk is full in {texts.duration(facts.full_ms)}.",
            "Shorten retention, or add space.", "/settings",
        )  # fmt: skip
    waiting = sum(one.waiting_count for one in facts.dead or ())
    if waiting and facts.dead:
        worst = max(facts.dead, key=lambda one: one.waiting_count)
        of = worst.group if worst.waiting_count == waiting else f"groups, most of {worst.group}"
        return StateSentence(
            "warn", f"{texts.counted(waiting, 'message')} of {of} could not be consumed.",
            "Look at the dead letters, then redrive or purge them.", "/dead-letters",
        )  # fmt: skip
    if facts.lag and not facts.member_count:
        waits = "waits" if facts.lag == 1 else "wait"
        return StateSentence(
            "warn", f"{texts.counted(facts.lag, 'message')} {waits}, and no consumer is connected.",
            "Start a consumer of the group.", "/groups",
        )  # fmt: skip
    return StateSentence("good", f"{text} Nothing needs you.")


ROUTES: Final = [Route("/", overview), Route("/overview/live", live)]
