"""Plans a pull: the status of its queue offset, the rows of its units, and runs of rows.

condition                         status                  next begin
queue empty, offset 0             NO_NEW_MESSAGE          0
offset < min                      OFFSET_TOO_SMALL        min
offset == max                     OFFSET_OVERFLOW_ONE     offset
offset > max                      OFFSET_OVERFLOW_BADLY   max
max <= offset, message is hidden  OFFSET_OVERFLOW_ONE     offset
min <= offset < max               FOUND, before a read    offset
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

BYTES_MAX: Final = 256 * 1024
"""Upper limit of bytes in one pull of old messages, even if the request allows more: copying
large replies would delay senders. RocketMQ's maxTransferBytesOnMessageInDisk is 64 KiB."""

Accept = Callable[[int], bool]
"""Returns whether a filter accepts a tags code."""
Row = tuple[int, int, int]
"""(physical offset, size, queue offset) of a record, from its unit."""


class QueuedRecords(NamedTuple):
    """Rows in queue order; `is_straight`: each record begins at the end of the previous record."""

    rows: list[Row]
    is_straight: bool


def status_at(queue: ConsumeQueue | None, queue_offset: int) -> PullResult:
    """Returns the status of a queue offset before any read; FOUND if there are records to read."""
    lower, upper = (queue.min_offset, queue.shown_max) if queue is not None else (0, 0)
    if upper == 0 and queue_offset == 0:
        return PullResult(PullStatus.NO_NEW_MESSAGE, 0, 0, 0, [], 0)
    if queue_offset < lower:
        return PullResult(PullStatus.OFFSET_TOO_SMALL, lower, lower, upper, [], 0)
    if queue_offset == upper:
        return PullResult(PullStatus.OFFSET_OVERFLOW_ONE, upper, lower, upper, [], 0)
    if queue_offset > upper and queue is not None and queue_offset <= queue.max_offset:
        return PullResult(PullStatus.OFFSET_OVERFLOW_ONE, queue_offset, lower, queue_offset, [], 0)
    if queue_offset > upper:
        return PullResult(PullStatus.OFFSET_OVERFLOW_BADLY, upper, lower, upper, [], 0)
    return PullResult(PullStatus.FOUND, queue_offset, lower, upper, [], 0)


def first_place(units: bytes) -> int:
    """Returns the physical offset of the first record; 2**63 if all units are pre-blank."""
    for place, size, _ in UNIT.iter_unpack(units):
        if size != PRE_BLANK_SIZE:
            return int(place)
    return 2**63


def plain_accept(queue: ConsumeQueue, accept: Accept) -> Accept:
    """Wraps a filter for units that may contain extension addresses instead of tags codes.

    An invalid address counts as a match: a lost extension must not hide the message.
    """
    if queue.extension is None:
        return lambda code: is_extension_address(code) or accept(code)

    def accept_plain(code: int) -> bool:
        code = queue.plain_code(code)
        return is_extension_address(code) or accept(code)

    return accept_plain


def choose(units: bytes, wanted: ReadRange, accept: Accept | None) -> tuple[QueuedRecords, int]:
    """Returns the rows of a pull, and the queue offset after the last unit scanned.

    A unit with an impossible size is never filtered out: the pull has to report it.
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
    """Returns rows if the records of all units are adjacent in the log, else [].

    Shape    at least one unit; as many rows as fit in `max_bytes`, at least one
    Cost     0.1 µs a unit
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


def runs_of(
    chosen: QueuedRecords, file_size_bytes: int, gap_max: int, span_max: int
) -> list[QueuedRecords]:
    """Groups rows that are near each other in one file into runs, each read by one call.

    gap_max    upper limit of the bytes between two records of a run
    span_max   upper limit of the bytes of a run of several records
    """
    rows = chosen.rows
    if chosen.is_straight and rows:
        (first, _, _), (last, size, _) = rows[0], rows[-1]
        if first // file_size_bytes == (last + size - 1) // file_size_bytes:
            return [chosen]
    runs: list[list[Row]] = []
    end = file_end = -1
    for row in rows:
        begin, size, _ = row
        is_near = begin < file_end and 0 <= begin - end <= gap_max
        if is_near and begin + size - runs[-1][0][0] <= span_max:
            runs[-1].append(row)
        else:
            runs.append([row])
            file_end = begin - begin % file_size_bytes + file_size_bytes
        end = begin + max(size, 0)
    assert sum(map(len, runs)) == len(rows)
    return [QueuedRecords(run, False) for run in runs]


def is_gone(queue: ConsumeQueue, queue_offset: int, log_begin: int) -> bool:
    """Returns whether the record of a unit has expired.

    A unit that refers below the log may also be damaged. So the unit before it must be pre-blank or
    refer to a still lower offset.
    """
    if queue_offset < queue.min_offset:
        return True
    unit, before = queue.units.at(queue_offset), queue.units.at(queue_offset - 1)
    if unit is None or not 0 <= unit[0] < log_begin:
        return False
    return before is None or before[1] == PRE_BLANK_SIZE or 0 <= before[0] < unit[0]


def apart(buffer: Buffer, origin: int, rows: list[Row]) -> list[bytes]:
    """Returns the bytes of each record from a buffer that begins at physical offset `origin`."""
    return [bytes(buffer[place - origin : place - origin + size]) for place, size, _ in rows]


def join(buffer: Buffer, origin: int, run: QueuedRecords) -> list[bytes]:
    """Returns the bytes of records like `apart`, with adjacent records as one element."""
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
