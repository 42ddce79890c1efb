"""Complete lists of a broker's topics and groups, kept for a few seconds, and pages of them."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

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
