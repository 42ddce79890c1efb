"""The journal of changes to FIFO queues, row by row: `pocketmq/order.journal`.

    size    u32   bytes of the text
    crc     u32   CRC-32 of the rest
    follows u64   version of the table that the row follows
    number  u32   number of the row after that version, 1 for the first
    text          JSON, for each queue [name, queue id, is whole, next, settled, delivered]

Spans of queue offsets are [begin, end) pairs. The rows end before a row that is invalid, of another
version, or out of sequence: later bytes are older, or were not written completely.
"""

import json
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from pocketmq.format.json_text import COUNT_MAX, is_integer, read_json
from pocketmq.format.order_row import OrderedDelivery, QueueOrder, order_from, read_spans, spans_of
from pocketmq.model.message import INT32_MAX, OFFSET_MAX

VERSION_MEMBER: Final = "pocketmqVersion"
"""Member of the table with the version that journal rows follow. RocketMQ drops the member."""
_HEAD: Final = Struct(">IIQI")
_CHECKED: Final = Struct(">QI")
_CHECKED_FROM: Final = 8
_TEXT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)


def version_of(table: dict[str, Any]) -> int:
    """Returns the version of the table that journal rows follow; 0 if no row can follow."""
    version: Any = table.get(VERSION_MEMBER)
    return version if is_integer(version, 1, COUNT_MAX) else 0


class OrderChange(NamedTuple):
    """A change of one queue.

    is_whole      whether the change is the whole order and replaces the older one
    next_offset   all lower offsets are settled
    settled       settled queue offsets after next_offset, ascending
    delivered     (queue offset, delivery) of messages delivered or changed, ascending
    """

    is_whole: bool
    next_offset: int
    settled: list[int]
    delivered: list[tuple[int, OrderedDelivery]]


QueueChange = tuple[str, int, OrderChange]
"""(topic@group, queue id, change)."""


def whole_change(order: QueueOrder) -> OrderChange:
    """Returns the change that sets a whole order."""
    return OrderChange(
        True, order.next_offset, sorted(order.settled), sorted(order.delivered.items())
    )


def encode_changes(changes: Iterable[QueueChange], follows: int, number: int) -> bytes:
    """Returns a row of the journal."""
    rows = [
        [name, queue_id, int(c.is_whole), c.next_offset, spans_of(c.settled), _shared(c.delivered)]
        for name, queue_id, c in changes
    ]
    text = _TEXT.encode(rows).encode()
    crc = crc32(text, crc32(_CHECKED.pack(follows, number)))
    return _HEAD.pack(len(text), crc, follows, number) + text


def _shared(delivered: list[tuple[int, OrderedDelivery]]) -> list[list[Any]]:
    """Groups equal deliveries: [number, popped at, visible at, claim, spans]."""
    alike: dict[OrderedDelivery, list[int]] = {}
    for queue_offset, delivery in delivered:
        alike.setdefault(delivery, []).append(queue_offset)
    return [[*delivery, spans_of(offsets)] for delivery, offsets in alike.items()]


def decode_changes(content: bytes, follows: int) -> Iterator[QueueChange]:
    """Yields the changes that follow a version of the table, oldest first."""
    for _, text in _rows(content, follows):
        try:
            changes = [_change(row) for row in read_json(text)]
        except (TypeError, ValueError, IndexError):  # Valid, but written by another version.
            return
        yield from changes


def lost_rows_at(content: bytes, follows: int) -> int | None:
    """Returns the position of an invalid row that valid rows of this version follow, else None.

    The row was damaged, or a power cut lost it and kept a later row that was never acknowledged.
    """
    if follows >> 64:  # No row has a number that large.
        return None
    ends = [0, *(end for end, _ in _rows(content, follows))]
    at = ends[-1] + _CHECKED_FROM
    while (at := content.find(follows.to_bytes(8, "big"), at)) >= 0:
        row = _sound_row(content, at - _CHECKED_FROM)
        if row is not None and row[0] > len(ends):
            return ends[-1]
        at += 1
    return None


def _rows(content: bytes, follows: int) -> Iterator[tuple[int, bytes]]:
    position, number = 0, 1
    while (row := _sound_row(content, position)) is not None:
        its_number, its_follows, text = row
        if (its_follows, its_number) != (follows, number):
            return
        position += _HEAD.size + len(text)
        number += 1
        yield position, text


def _sound_row(content: bytes, position: int) -> tuple[int, int, bytes] | None:
    if position + _HEAD.size > len(content):
        return None
    size, crc, follows, number = _HEAD.unpack_from(content, position)
    begin = position + _HEAD.size
    text = content[begin : begin + size]
    is_sound = len(text) == size and crc == crc32(text, crc32(_CHECKED.pack(follows, number)))
    return (number, follows, text) if is_sound else None


def _change(row: list[Any]) -> QueueChange:
    name, queue_id, is_whole, next_offset, settled, shared = row
    if not isinstance(name, str) or not is_integer(queue_id, 0, INT32_MAX):
        raise ValueError("it does not name a queue")
    numbers = [next_offset, *(number for alike in shared for number in alike[:3])]
    if not all(is_integer(number, 0, OFFSET_MAX) for number in numbers):
        raise ValueError("a number is out of range")
    delivered = [
        (queue_offset, OrderedDelivery(*alike[:-1]))
        for alike in shared
        for queue_offset in read_spans(alike[-1])
    ]
    return name, queue_id, OrderChange(is_whole == 1, next_offset, read_spans(settled), delivered)


class ReplayedOrder:
    """A queue's order, to which later changes are applied.

    order   the order to begin with
    """

    __slots__ = ("_delivered", "_next_offset", "_settled")

    def __init__(self, order: QueueOrder) -> None:
        self._next_offset = order.next_offset
        self._settled = set(order.settled)
        self._delivered = dict(order.delivered)

    def change(self, change: OrderChange) -> None:
        """Applies one change."""
        if change.is_whole:
            self._next_offset = 0
            self._settled.clear()
            self._delivered.clear()
        self._next_offset = max(self._next_offset, change.next_offset)
        assert self._next_offset <= OFFSET_MAX
        self._settled.update(change.settled)
        self._delivered.update(change.delivered)

    def order(self) -> QueueOrder:
        """Returns the current order.

        A message counts as not delivered if its only delivery was released, as the client never
        got it: its delivery number is then 0.
        """
        given_out = {offset: d for offset, d in self._delivered.items() if d.number}
        return order_from(QueueOrder(self._next_offset, frozenset(self._settled), given_out), 0)
