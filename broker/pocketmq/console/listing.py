"""Lists of topics and groups, cached for a few seconds, and pages of their rows.

The URL's parameters are q (a part of a row's text), sort (a column) and from (the first row).
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from starlette.responses import Response

from pocketmq.client import GroupState, TopicState
from pocketmq.console.web import Visit
from pocketmq.console.working import worked
from pocketmq.model.administration import GroupStats, Page, TopicCounts

ROWS: Final = 50
"""Rows of a page."""
KEPT_S: Final = 1.5
PAGE_SIZE: Final = 100
"""Rows of one call. Broker and console handle all rows of a call in one turn of their loops."""
MEASURED_MAX: Final = 1_000
"""With more topics than this, lists show no sizes and times, for which the broker reads the log."""
PAUSE: Final = 20
"""An answer is kept for this many times its call's duration, so calls take 5 % of a processor."""
KEPT_MAX_S: Final = 30.0
REST: Final = 2.0
"""Pause between two parts of counts, for each second that a part took."""
LIVE_PAUSE: Final = 200
"""`PAUSE` of pages that reload themselves, so that they cost less than 1 % of a processor."""
LIVE_MAX_S: Final = 180.0
TIMES: Final = 3
"""Number of last calls whose durations are kept; the shortest is the cost, as load slows others."""

Row = TypeVar("Row")


class ListedRows(NamedTuple):
    """The rows of one page, and the places of the pages before and after it.

    total   number of rows of all pages
    before, after   first row of the page; None: there is none
    """

    rows: list[Any]
    total: int
    first: int
    before: int | None
    after: int | None


def cut(rows: Sequence[Row], page: Visit, count: int = ROWS) -> ListedRows:
    """Returns the rows from the URL's parameter `from` on."""
    first = min(page.number("from"), max(len(rows) - 1, 0) // count * count)
    found = list(rows[first : first + count])
    before = max(first - count, 0) if first else None
    after = first + count if first + count < len(rows) else None
    return ListedRows(found, len(rows), first, before, after)


async def list_page(
    page: Visit, name: str, rows: Sequence[Row], text: Callable[[Row], str],
    sorts: Mapping[str, Callable[[Row], Any]], bar: Callable[[Row], float] | None = None,
    count: int = ROWS, **values: Any,
) -> Response:  # fmt: skip
    """Returns the page of a list, or its rows alone for the script.

    name    of the templates: NAME.html and NAME_rows.html
    text    row -> text that contains the wanted part, in any case
    sorts   column -> key of a row; the first column is the default
    bar     row -> value that its bar shows; `largest` in the template is the largest
    """
    assert sorts, "a list has an order"
    wanted, sort = page.text("q").strip().lower(), page.text("sort")
    sort = sort if sort in sorts else next(iter(sorts))

    def arranged() -> tuple[list[Row], float]:
        found = [one for one in rows if wanted in text(one).lower()] if wanted else [*rows]
        found.sort(key=sorts[sort])
        return found, max(map(bar, found), default=0) if bar else 0

    found, largest = await worked(arranged)
    part = "_rows" if "hx-request" in page.request.headers else ""
    return page.render(
        f"{name}{part}.html", shown=cut(found, page, count), total=len(rows), sort=sort,
        q=page.text("q"), largest=largest, **values,
    )  # fmt: skip


@dataclass
class KeptAnswer:
    """An answer that pages share, and the call in progress that gets the next one.

    answered_s   monotonic time of the answer; 0: there is none yet
    took_s       durations of the last calls
    keep_s       least time for which pages use the answer without a new call
    """

    answer: Any = None
    answered_s: float = 0.0
    took_s: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES))
    keep_s: float = 0.0
    asking: "asyncio.Task[Any] | None" = None

    def is_fresh(self, *, is_live: bool) -> bool:
        """Returns whether pages use the answer without a new call.

        The first call may be slow, as nothing is cached yet, so one call alone shows no cost.
        is_live   the page reloads a part of itself at intervals
        """
        pause, longest_s = (LIVE_PAUSE, LIVE_MAX_S) if is_live else (PAUSE, KEPT_MAX_S)
        cost_s = min(self.took_s) if len(self.took_s) > 1 else 0.0
        assert cost_s >= 0, "a question took less than no time"
        fresh_s = max(self.keep_s, min(pause * cost_s, longest_s))
        return self.answered_s > 0 and time.monotonic() - self.answered_s < fresh_s

    async def ask(self, question: Callable[[], Awaitable[Any]], keep_s: float) -> Any:
        """Gets a new answer; a slow one is kept for longer."""
        begun_s = time.monotonic()
        self.answer = await question()
        self.answered_s = time.monotonic()
        self.took_s.append(self.answered_s - begun_s)
        self.keep_s = keep_s
        return self.answer


def _asked(
    page: Visit, name: str, ask: Callable[[], Awaitable[Any]], keep_s: float
) -> tuple[KeptAnswer, "asyncio.Task[Any]"]:
    """Returns an old answer, and the call in progress that replaces it."""
    found = page.visitor.memory.setdefault("answers", {}).setdefault(name, KeptAnswer())
    if found.asking is None or found.asking.done():
        found.asking = asyncio.Task(found.ask(ask, keep_s))
        found.asking.add_done_callback(_mark_retrieved)
    return found, found.asking


def _mark_retrieved(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # Otherwise asyncio logs the error of a question that no page awaits.


def _fresh(page: Visit, name: str) -> KeptAnswer | None:
    found = page.visitor.memory.setdefault("answers", {}).get(name)
    return found if found is not None and found.is_fresh(is_live=page.is_live) else None


async def kept(
    page: Visit, name: str, ask: Callable[[], Awaitable[Row]], keep_s: float = KEPT_S
) -> Row:
    """Returns an answer that the visitor's pages share for a few seconds.

    If the broker is slow, returns the last answer; waits only if there is none.
    """
    fresh = _fresh(page, name)
    if fresh is None:
        fresh, asking = _asked(page, name, ask, keep_s)
        if fresh.answered_s:
            await asyncio.wait((asking,), timeout=page.console.patience_s)
        else:
            await asyncio.shield(asking)
        if asking.done():
            asking.result()
    answer: Row = fresh.answer
    return answer


async def soon(
    page: Visit, name: str, ask: Callable[[], Awaitable[Row]], keep_s: float = KEPT_S
) -> Row | None:
    """Returns an answer like `kept`; if the broker is slow, an old answer or None.

    Errors   those of the question, if it fails in time
    """
    fresh = _fresh(page, name)
    if fresh is None:
        fresh, asking = _asked(page, name, ask, keep_s)
        await asyncio.wait((asking,), timeout=page.console.patience_s)
        if asking.done():
            asking.result()
    answer: Row | None = fresh.answer
    return answer


def answered_s(page: Visit, name: str) -> float:
    """Returns the monotonic time of a kept answer; 0: there is none."""
    found: KeptAnswer | None = page.visitor.memory.get("answers", {}).get(name)
    return 0.0 if found is None else found.answered_s


def forget(page: Visit) -> None:
    """Drops kept answers, as an action has changed the broker."""
    page.visitor.memory.pop("answers", None)


async def every(ask: Callable[[str], Awaitable[Page[Row]]], rest: float = 0.0) -> list[Row]:
    """Returns the rows of all pages of an answer.

    ask    called with the token of a page
    rest   pause before the next page, as a multiple of the last page's duration; the broker serves
           others meanwhile
    """
    found: list[Row] = []
    token = ""
    while True:
        begun_s = time.monotonic()
        part = await ask(token)
        found += part.items
        token = part.next_page_token
        if not token:
            return found
        await asyncio.sleep(rest * (time.monotonic() - begun_s))


async def all_topics(page: Visit) -> list[TopicState]:
    """Returns all topics but system topics, without counts, ordered by name."""
    admin = page.client.admin
    return await kept(
        page, "topics",
        lambda: every(lambda token: admin.list_topics(page_size=PAGE_SIZE, page_token=token)),
    )  # fmt: skip


class AllCounts(NamedTuple):
    """The counts of all topics by name, and their sums."""

    rows: dict[str, TopicCounts]
    topic_count: int
    message_count: int
    stored_count: int
    in_per_s: float


def _summed(rows: Sequence[TopicCounts]) -> AllCounts:
    return AllCounts(
        {one.name: one for one in rows}, len(rows), sum(one.message_count for one in rows),
        sum(one.stored_count for one in rows), sum(one.in_per_s for one in rows),
    )  # fmt: skip


async def all_counts(page: Visit) -> AllCounts | None:
    """Returns the counts of all topics; without sizes and times if there are many.

    Returns None while the broker computes the first counts.
    """
    admin, topics = page.client.admin, await all_topics(page)

    async def ask() -> AllCounts:
        if len(topics) <= MEASURED_MAX:
            found = await every(
                lambda token: admin.list_topics(
                    page_size=PAGE_SIZE, page_token=token, with_stats=True
                ),
                REST,
            )
            return _summed([one.counts for one in found if one.counts])
        counts = await every(
            lambda token: admin.all_topic_counts(page_size=PAGE_SIZE, page_token=token), REST
        )
        return await worked(partial(_summed, counts))

    return await soon(page, "counts", ask)


async def counted_topics(page: Visit) -> list[TopicState]:
    """Returns all topics with counts, which are None while the broker computes the first ones."""
    topics, found = await all_topics(page), await all_counts(page)
    counts = found.rows if found else {}
    return await worked(lambda: [one._replace(counts=counts.get(one.name)) for one in topics])


async def all_groups(page: Visit) -> list[GroupState]:
    """Returns all groups but system groups, without lag and members, ordered by name."""
    admin = page.client.admin
    return await kept(
        page, "groups",
        lambda: every(lambda token: admin.list_groups(page_size=PAGE_SIZE, page_token=token)),
    )  # fmt: skip


async def counted_groups(page: Visit) -> list[GroupState]:
    """Returns all groups with lag and members.

    Their `stats` are None while the broker computes the first ones.
    """
    admin, groups = page.client.admin, await all_groups(page)

    async def ask() -> dict[str, GroupStats]:
        found = await every(
            lambda token: admin.list_groups(page_size=PAGE_SIZE, page_token=token, with_stats=True),
            REST,
        )
        return {one.name: one.stats for one in found if one.stats}

    stats = await soon(page, "stats", ask) or {}
    return [one._replace(stats=stats.get(one.name)) for one in groups]
