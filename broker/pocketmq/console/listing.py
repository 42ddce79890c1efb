"""Pages of lists, and answers of the broker that pages share for a few seconds.

The broker searches and orders its topics and groups, so that a page gets only its rows. The URL's
parameters are q (a part of a row's text), sort (a column) and from (the first row).
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from starlette.responses import Response

from pocketmq.client import GroupState
from pocketmq.console.web import Visit
from pocketmq.console.working import worked
from pocketmq.model.listing import FoundRows, GroupOrder, GroupTotals, TopicTotals
from pocketmq.model.message import INT32_MAX

ROWS: Final = 50
"""Rows of a page."""
KEPT_S: Final = 1.5
PAGE_SIZE: Final = 100
"""Rows of one call, which the console handles in one turn of its loop."""
NAMES_MAX: Final = 500
"""Topics that a form offers, and that a search for an id without a topic reads."""
ANSWERS_MAX: Final = 16
"""Answers that are kept for a visitor; a further one replaces the oldest."""
PAUSE: Final = 20
"""An answer is kept for this many times its call's duration, so calls take 5 % of a processor."""
KEPT_MAX_S: Final = 30.0
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
    answers = page.visitor.memory.setdefault("answers", {})
    found = answers.pop(name, None) or KeptAnswer()
    while len(answers) >= ANSWERS_MAX:
        del answers[next(iter(answers))]
    answers[name] = found  # now the last one
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


async def topic_names(page: Visit) -> list[str]:
    """Returns the first names of topics, in the order of the names: at most NAMES_MAX."""
    admin = page.client.admin

    async def ask() -> list[str]:
        names: list[str] = []
        while len(names) < NAMES_MAX:
            found = await admin.find_topics(skip=len(names), page_size=PAGE_SIZE)
            names += [one.name for one in found.items]
            if len(found.items) < PAGE_SIZE:
                break
        return names

    return await kept(page, "names", ask)


class FoundList(NamedTuple):
    """A list that the broker searches.

    name     of its templates: NAME.html and NAME_rows.html
    ask      `find_topics` or `find_groups` of a client
    orders   orders of its rows by the values of the URL's parameter `sort`
    bar      row -> value that its bar shows; `largest` in the template is the largest
    """

    name: str
    ask: Callable[..., Awaitable[FoundRows[Any, Any]]]
    orders: Mapping[str, Any]
    bar: Callable[[Any], float]

    async def page(self, page: Visit, **values: Any) -> Response:
        """Returns the page of the list, or its rows alone for the script."""
        first = page.number("from", largest=INT32_MAX)
        found, is_late = await self._rows(page, first)
        if not found.items and found.found_count:  # The list is shorter than the URL expects.
            first = (found.found_count - 1) // ROWS * ROWS
            found, is_late = await self._rows(page, first)
        end = first + ROWS
        shown = ListedRows(
            found.items, found.found_count, first, max(first - ROWS, 0) if first else None,
            end if end < found.found_count else None,
        )  # fmt: skip
        part = "_rows" if "hx-request" in page.request.headers else ""
        return page.render(
            f"{self.name}{part}.html", shown=shown, total=found.total_count, q=page.text("q"),
            sort=self._sort(page), largest=max(map(self.bar, found.items), default=0),
            is_late=is_late, **values,
        )  # fmt: skip

    def _sort(self, page: Visit) -> str:
        sort = page.text("sort")
        return sort if sort in self.orders else next(iter(self.orders))

    async def _rows(self, page: Visit, first: int) -> tuple[FoundRows[Any, Any], bool]:
        """Returns (rows, False); (rows by name without counts, True) if the broker is slow."""
        part, order = page.text("q").strip(), self.orders[self._sort(page)]
        where = f"{self.name} from {first} with {part}"
        ask = partial(self.ask, part, skip=first, page_size=ROWS)
        counted = partial(ask, order=order, with_stats=True)
        found = await soon(page, f"{where} by {order}", counted)
        return (await kept(page, where, ask), True) if found is None else (found, False)


async def topic_sums(page: Visit) -> TopicTotals | None:
    """Returns sums over all topics; None while the broker computes the first ones."""
    ask = partial(page.client.admin.find_topics, page_size=1, with_sums=True)
    found = await soon(page, "topic sums", ask)
    return None if found is None else found.sums


async def worst_group(page: Visit) -> FoundRows[GroupState, GroupTotals] | None:
    """Returns the group with the largest lag, and sums over all groups; None: as `topic_sums`."""
    ask = partial(
        page.client.admin.find_groups, order=GroupOrder.LAG, page_size=1, with_stats=True,
        with_sums=True,
    )  # fmt: skip
    return await soon(page, "group sums", ask)
