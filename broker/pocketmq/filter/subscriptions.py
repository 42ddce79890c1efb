"""Bloom-filter bitmaps of the groups whose filters match a message, for extension units.

    config/consumerFilter.json     for each topic and group: an expression, and the positions of
                                   its bits, by default 3 of 112
    bitmap of a message            the bits of all groups whose expression matches it

Groups may share bits, so a bitmap may accept a message that a filter rejects, but never the
reverse. A removed group stays in the file and keeps its bits.
Source: ConsumerFilterManager, CommitLogDispatcherCalcBitMap, BloomFilter, BitsArray.
"""

from typing import Any, Final, NamedTuple

from pocketmq.filter.parsing import parse_filter
from pocketmq.format.table_json import decode_table
from pocketmq.model.errors import IllegalFilter
from pocketmq.model.filter import Filter

SQL: Final = "SQL92"
BIT_COUNT_MAX: Final = 8 * 1024


class Subscription(NamedTuple):
    """Filter of one group on a topic (None: the expression is invalid), and the group's bits."""

    wanted: Filter | None
    bits: int


class FilterBits:
    """The subscriptions by topic. Immutable."""

    __slots__ = ("_topics",)

    def __init__(self, topics: dict[str, tuple[int, list[Subscription]]]) -> None:
        self._topics = topics

    def has(self, topic: str) -> bool:
        """Returns whether messages of a topic have a bitmap."""
        return topic in self._topics

    def bitmap(self, topic: str, record: bytes) -> bytes:
        """Returns the bitmap of a stored record, or b""; bit 0 is the lowest bit of byte 0.

        An invalid expression counts as matching every message.
        """
        if topic not in self._topics:
            return b""
        size, subscriptions = self._topics[topic]
        bits = 0
        for wanted, own in subscriptions:
            if wanted is None or wanted.matches(record):
                bits |= own
        return bits.to_bytes(size, "little")


NO_BITS: Final = FilterBits({})


def read_subscriptions(content: bytes) -> FilterBits:
    """Parses config/consumerFilter.json; skips invalid entries.

    Errors   ValueError: the text is no JSON object
    """
    topics: dict[str, tuple[int, list[Subscription]]] = {}
    for topic, row in _items(decode_table(content), "filterDataByTopic"):
        count, subscriptions = 0, []
        for _, entry in _items(row, "groupFilterData"):
            bloom = entry.get("bloomFilterData")
            if entry.get("expressionType") != SQL or not isinstance(bloom, dict):
                continue
            own_count, bits = _count_and_bits(bloom.get("bitNum"), bloom.get("bitPos"))
            if not own_count or count not in (0, own_count):
                continue
            count = own_count
            subscriptions.append(Subscription(_wanted(entry.get("expression")), bits))
        if subscriptions:
            topics[topic] = (count // 8, subscriptions)
    return FilterBits(topics)


def _items(table: dict[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    found = table.get(name)
    rows = found.items() if isinstance(found, dict) else ()
    return [(str(key), row) for key, row in rows if isinstance(row, dict)]


def _count_and_bits(count: Any, places: Any) -> tuple[int, int]:
    """Returns the length of a bitmap in bits, 0 if invalid, and the bits as a number."""
    if not isinstance(count, int) or not 0 < count <= BIT_COUNT_MAX or count % 8:
        return 0, 0
    if not isinstance(places, list) or not all(place in range(count) for place in places):
        return 0, 0
    return count, sum({1 << place for place in places})


def _wanted(expression: Any) -> Filter | None:
    try:
        return parse_filter(expression, is_sql=True) if isinstance(expression, str) else None
    except IllegalFilter:
        return None
