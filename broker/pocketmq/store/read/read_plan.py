"""Which records a pull takes: the status of its offset, its units' rows, runs of them.

condition                         status                  next begin
queue empty, offset 0             NO_NEW_MESSAGE          0
offset < min                      OFFSET_TOO_SMALL        min
offset == max                     OFFSET_OVERFLOW_ONE     offset
offset > max                      OFFSET_OVERFLOW_BADLY   max
otherwise                         FOUND, so far           offset
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from operator import add
from struct import Struct
from typing import Final, NamedTuple

from pocketmq.format.consume_unit import (
    PRE_BLANK_SIZE,
    UNIT,
    UNIT_SIZE,
    is_extension_address,
)
from pocketmq.format.layout import Buffer
from pocketmq.format.record import RECORD_SIZE_MIN
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.reading import PullResult, PullStatus, ReadRange

SCAN_COUNT_MIN: Final = 800
"""Units a filtered pull looks at before it answers, at least (maxFilterMessageSize 16000 bytes)."""
BYTES_MAX: Final = 256 * 1024
"""Records of one pull of old messages, whatever it asks for: a large reply is copied several times
on the event loop, and readers of old messages are in less of a hurry than senders.
RocketMQ's maxTransferBytesOnMessageInDisk is 64 KiB."""

Accept = Callable[[int], bool]
"""Judges a tags code."""
Row = tuple[int, int, int]
"""(physical offset, size, queue offset) of a record, as its unit states them."""


class QueuedRecords(NamedTuple):
    """Records in the order of their queue.

    is_straight   each begins where the one before it ends
    """

    rows: list[Row]
    is_straight: bool


def status_at(queue: ConsumeQueue | None, queue_offset: int) -> PullResult:
    """Returns the status of an offset before anything is read; FOUND means: read on."""
    lower, upper = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
    if upper == 0 and queue_offset == 0:
        return PullResult(PullStatus.NO_NEW_MESSAGE, 0, 0, 0, [], 0)
    if queue_offset < lower:
        return PullResult(PullStatus.OFFSET_TOO_SMALL, lower, lower, upper, [], 0)
    if queue_offset == upper:
        return PullResult(PullStatus.OFFSET_OVERFLOW_ONE, upper, lower, upper, [], 0)
    if queue_offset > upper:
        return PullResult(PullStatus.OFFSET_OVERFLOW_BADLY, upper, lower, upper, [], 0)
    return PullResult(PullStatus.FOUND, queue_offset, lower, upper, [], 0)


def scan_count_of(max_messages: int, accept: Accept | None) -> int:
    """Returns how many units a pull looks at."""
    return max_messages if accept is None else max(max_messages, SCAN_COUNT_MIN)


def first_place(units: bytes) -> int:
    """Returns the first record's physical offset: offsets rise with the queue."""
    for place, size, _ in UNIT.iter_unpack(units):
        if size != PRE_BLANK_SIZE:
            return int(place)
    return 2**63


def plain_accept(queue: ConsumeQueue, accept: Accept) -> Accept:
    """Returns a judge that sees tags codes where units hold addresses into the extension.

    An address that leads nowhere counts as a match: the extension may be gone, the message is not.
    """
    if queue.extension is None:
        return lambda code: is_extension_address(code) or accept(code)

    def accept_plain(code: int) -> bool:
        code = queue.plain_code(code)
        return is_extension_address(code) or accept(code)

    return accept_plain


def choose(units: bytes, wanted: ReadRange, accept: Accept | None) -> tuple[QueuedRecords, int]:
    """Returns the records that a pull takes, and the queue offset behind the last unit looked at.

    No filter passes over a unit that cannot be right.
    """
    _, _, position, max_messages, max_bytes = wanted
    rows: list[Row] = []
    if accept is None and 0 < len(units) <= max_messages * UNIT_SIZE:
        rows = straight_rows(units, position, max_bytes)
        if rows:
            return QueuedRecords(rows, True), position + len(rows)
    size_sum, end, is_straight = 0, -1, True
    for place, size, tags_code in UNIT.iter_unpack(units):
        if size != PRE_BLANK_SIZE and (
            accept is None or size < RECORD_SIZE_MIN or accept(tags_code)
        ):
            if rows and (size_sum + size > max_bytes or len(rows) == max_messages):
                break
            is_straight &= size >= RECORD_SIZE_MIN and (place == end or not rows)
            end = place + size
            rows.append((place, size, position))
            size_sum += size
        position += 1
    assert len(rows) <= max_messages
    return QueuedRecords(rows, is_straight), position


def straight_rows(units: bytes, queue_offset: int, max_bytes: int) -> list[Row]:
    """Returns the rows of units whose records are adjacent, none where they are not.

    Shape    some units; the rows are those that `max_bytes` leaves, one at least
    Cost     about 0.1 µs a unit
    """
    count = len(units) // UNIT_SIZE
    columns = _places_and_sizes(count).unpack(units)
    places, sizes = columns[::2], columns[1::2]
    ends = tuple(map(add, places, sizes))
    is_odd = min(sizes) < RECORD_SIZE_MIN or PRE_BLANK_SIZE in sizes
    if is_odd or ends[:-1] != places[1:]:
        return []
    if ends[-1] - places[0] > max_bytes:
        count = max(bisect_right(ends, places[0] + max_bytes), 1)
    return list(zip(places, sizes, range(queue_offset, queue_offset + count), strict=False))


@lru_cache(maxsize=16)
def _places_and_sizes(count: int) -> Struct:
    return Struct(">" + "qi8x" * count)


def runs_of(chosen: QueuedRecords, file_size_bytes: int, gap_max: int) -> list[QueuedRecords]:
    """Returns rows grouped into runs that one read each brings: near each other, in one file."""
    rows = chosen.rows
    if chosen.is_straight and rows:
        (first, _, _), (last, size, _) = rows[0], rows[-1]
        if first // file_size_bytes == (last + size - 1) // file_size_bytes:
            return [chosen]
    runs: list[list[Row]] = []
    end = file_end = -1
    for row in rows:
        begin, size, _ = row
        if begin < file_end and 0 <= begin - end <= gap_max:
            runs[-1].append(row)
        else:
            runs.append([row])
            file_end = begin - begin % file_size_bytes + file_size_bytes
        end = begin + max(size, 0)
    assert sum(map(len, runs)) == len(rows)
    return [QueuedRecords(run, False) for run in runs]


def is_gone(queue: ConsumeQueue, queue_offset: int, log_begin: int) -> bool:
    """Returns whether the log lost its head since: a unit leads before it, and so does the last."""
    if queue_offset < queue.min_offset:
        return True
    unit, before = queue.units.at(queue_offset), queue.units.at(queue_offset - 1)
    if unit is None or not 0 <= unit[0] < log_begin:
        return False
    return before is None or before[1] == PRE_BLANK_SIZE or 0 <= before[0] < unit[0]


def apart(buffer: Buffer, origin: int, rows: list[Row]) -> list[bytes]:
    """Returns the bytes of records, one by one, out of a buffer that begins at `origin`."""
    return [bytes(buffer[place - origin : place - origin + size]) for place, size, _ in rows]


def join(buffer: Buffer, origin: int, run: QueuedRecords) -> list[bytes]:
    """Returns the same bytes, those of records next to each other as one element."""
    rows = run.rows
    if not rows:
        return []
    begin = end = rows[0][0]
    if run.is_straight:
        last, size, _ = rows[-1]
        return [bytes(buffer[begin - origin : last + size - origin])]
    pieces: list[bytes] = []
    for place, size, _ in rows:
        if place != end:
            pieces.append(bytes(buffer[begin - origin : end - origin]))
            begin = place
        end = place + size
    return [*pieces, bytes(buffer[begin - origin : end - origin])]
