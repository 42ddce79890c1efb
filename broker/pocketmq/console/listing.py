"""Lists: all topics and groups, kept for a few seconds, and pages of rows by the URL.

The URL's parameters are q (a part of a row's text), sort (a column) and from (the first row).
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from starlette.responses import Response

from pocketmq.client import GroupState, TopicState
from pocketmq.console.web import Visit

ROWS: Final = 50
"""Rows of a page."""
KEPT_S: Final = 1.5
PAGE_SIZE: Final = 1_000

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


def list_page(
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
    found = [one for one in rows if wanted in text(one).lower()] if wanted else [*rows]
    found.sort(key=sorts[sort])
    largest = max(map(bar, found), default=0) if bar else 0
    part = "_rows" if "hx-request" in page.request.headers else ""
    return page.render(
        f"{name}{part}.html", shown=cut(found, page, count), total=len(rows), sort=sort,
        q=page.text("q"), largest=largest, **values,
    )  # fmt: skip


async def kept(
    page: Visit, name: str, ask: Callable[[], Awaitable[Row]], keep_s: float = KEPT_S
) -> Row:
    """Returns an answer that the visitor's pages share for a few seconds."""
    answers = page.visitor.memory.setdefault("answers", {})
    found = answers.get(name)
    if found is not None and time.monotonic() - found[0] < keep_s:
        answer: Row = found[1]
        return answer
    answer = await ask()
    answers[name] = (time.monotonic(), answer)
    return answer


def forget(page: Visit) -> None:
    """Drops kept answers, as an action has changed the broker."""
    page.visitor.memory.pop("answers", None)


async def all_topics(page: Visit) -> list[TopicState]:
    """Returns all topics with their counts, ordered by name; none of the broker's own."""

    async def ask() -> list[TopicState]:
        found: list[TopicState] = []
        token = ""
        while True:
            part = await page.client.admin.list_topics(
                page_size=PAGE_SIZE, page_token=token, with_stats=True
            )
            found += part.items
            token = part.next_page_token
            if not token:
                return found

    return await kept(page, "topics", ask)


async def all_groups(page: Visit) -> list[GroupState]:
    """Returns all groups with lag and members, ordered by name; none of the broker's own."""

    async def ask() -> list[GroupState]:
        found: list[GroupState] = []
        token = ""
        while True:
            part = await page.client.admin.list_groups(page_token=token, with_stats=True)
            found += part.items
            token = part.next_page_token
            if not token:
                return found

    return await kept(page, "groups", ask)
