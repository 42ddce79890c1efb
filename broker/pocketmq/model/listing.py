"""Lists of topics and groups: their orders, and the rows that one page of a list shows."""

from collections.abc import Callable, Iterable
from enum import Enum
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pocketmq.model.administration import (
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
    Page,
    TopicCounts,
    page_of,
)
from pocketmq.model.errors import IllegalPageToken
from pocketmq.model.message import INT32_MAX
from pocketmq.model.names import check_number

MEASURED_MAX: Final = 1_000
"""Upper limit of topics that are ordered by size or last message, which need reads of the log."""
SortKey = tuple[Any, str]
"""A value and a name; rows are listed by ascending keys."""
Item = TypeVar("Item")
Sums = TypeVar("Sums")


class TopicOrder(Enum):
    """Order of topics: by name or type, else the largest first; equal ones by name."""

    NAME = "name"
    TYPE = "type"
    QUEUES = "queues"
    MESSAGES = "messages"
    SIZE = "size"
    RATE = "rate"
    LAST = "last"


class GroupOrder(Enum):
    """Order of groups: by name, else the largest first; equal ones by name."""

    NAME = "name"
    LAG = "lag"
    MEMBERS = "members"


READING_ORDERS: Final = (TopicOrder.SIZE, TopicOrder.LAST)
"""Orders for which a broker reads the log."""
COUNTED: Final = {
    TopicOrder.MESSAGES: "message_count",
    TopicOrder.SIZE: "size_bytes",
    TopicOrder.RATE: "in_per_s",
    TopicOrder.LAST: "last_store_timestamp_ms",
}
"""Order -> field of `TopicCounts`."""


class ListPart(NamedTuple):
    """The rows of a list that a page shows.

    name_part    only rows whose name contains it, in any case
    skip         number of these rows left out before the page
    page_size    0: PAGE_SIZE_DEFAULT
    page_token   only in the order by name: the last name of the previous page
    """

    name_part: str = ""
    skip: int = 0
    page_size: int = 0
    page_token: str = ""

    def check(self, *, is_by_name: bool) -> None:
        """Raises IllegalNumber, or IllegalPageToken for a token in an order by other values."""
        check_number("skip", self.skip, upper=INT32_MAX)
        check_number("page_size", self.page_size, upper=PAGE_SIZE_MAX)
        if self.page_token and not is_by_name:
            raise IllegalPageToken(token=self.page_token)

    def found(self, names: Iterable[str]) -> list[str]:
        """Returns the names with the wanted part."""
        wanted = self.name_part.lower()
        return [name for name in names if wanted in name.lower()] if wanted else [*names]

    def page(self, found: list[str], check_name: Callable[[str], None]) -> Page[str]:
        """Returns the page's part of the found names.

        Errors   IllegalPageToken
        """
        return page_of(found[self.skip :], self.page_size, self.page_token, check_name)

    @property
    def end(self) -> int:
        """The number of rows up to the end of the page."""
        return self.skip + (self.page_size or PAGE_SIZE_DEFAULT)

    def cut(self, rows: list[Item]) -> list[Item]:
        """Returns the page's part of all rows."""
        return rows[self.skip : self.end]


class FoundRows(NamedTuple, Generic[Item, Sums]):
    """A page of a list.

    next_page_token   "": the last page, or another order than by name
    found_count       rows with the wanted part of the name
    total_count       all rows
    sums              of all rows; None: not asked for
    """

    items: list[Item]
    next_page_token: str
    found_count: int
    total_count: int
    sums: Sums | None = None


class TopicTotals(NamedTuple):
    """Sums over all topics; the fields of `TopicCounts`."""

    topic_count: int
    message_count: int
    stored_count: int
    in_per_s: float


class GroupTotals(NamedTuple):
    """Sums over all groups.

    committed_sum     of the offsets in all queues
    consuming_count   groups with members
    """

    group_count: int
    lag_messages: int
    committed_sum: int
    member_count: int
    consuming_count: int


def topic_key(
    order: TopicOrder, name: str, kind: str, queue_count: int, counts: TopicCounts | None
) -> SortKey:
    """Returns the key of a topic; counts may be None for an order without them."""
    if order is TopicOrder.TYPE:
        return kind, name
    if order is TopicOrder.QUEUES:
        return -queue_count, name
    field = COUNTED.get(order)
    return -getattr(counts, field, 0) if field else 0, name


class Ranking(Generic[Item]):
    """The first rows of a list in an order, from rows that are added in pieces."""

    __slots__ = ("_count", "_rows")

    def __init__(self, count: int) -> None:
        assert count > 0, "an empty ranking"
        self._count = count
        self._rows: list[tuple[SortKey, Item]] = []

    def add(self, rows: Iterable[tuple[SortKey, Item]]) -> None:
        """Adds rows; no two of all have the same key."""
        self._rows += rows
        self._rows.sort(key=itemgetter(0))
        del self._rows[self._count :]

    @property
    def items(self) -> list[Item]:
        """The first rows."""
        return [row for _, row in self._rows]
