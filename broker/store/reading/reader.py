"""Reading messages of one queue: the status first, then the records.

condition                         status                  next begin
queue empty, offset 0             NO_NEW_MESSAGE          0
offset < min                      OFFSET_TOO_SMALL        min
offset == max                     OFFSET_OVERFLOW_ONE     offset
offset > max                      OFFSET_OVERFLOW_BADLY   max
scanned, nothing accepted         NO_MATCHED_MESSAGE      behind the last unit scanned
record gone since                 EXPIRED                 first unit the log still holds
otherwise                         FOUND                   behind the last unit returned

A record is handed out only when it is the one asked for and sound (store/reading/record_check.py);
one that is not ends the pull before it. Where it is the first of the range, and wherever something
is not in memory, ColdRead is raised: what may wait for the disk, a search for the record included,
happens off the loop (store/reading/cold_pull.py for pulls, rpc/service.py for the rest).
Source: DefaultMessageStore.getMessage, ConsumeQueue.getOffsetInQueueByTime.
"""

from collections.abc import Callable
from typing import Final

from broker.files.mapped_file import ColdRead
from broker.format.buffers import Buffer
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT
from broker.format.extension_unit import is_address
from broker.format.record import (
    HEADS,
    HOSTS_V6_MASK,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
    BadRecord,
    check_record,
)
from broker.log.commit_log import CommitLog
from broker.log.consume_queue import ConsumeQueue
from broker.model.errors import Corruption
from broker.model.results import Bound, PullResult, PullStatus
from broker.store.reading.record_check import asked_of, check_copy, is_sound

NO_FILE: Final[tuple[Buffer, int, int]] = (b"", 0, 0)
PROBES_MAX: Final = 256
"""Units a search by time looks at where some do not lead to their record."""
SCAN_COUNT_MIN: Final = 800
"""Units a filtered pull looks at before it answers, at least (maxFilterMessageSize 16000 bytes)."""


def status_at(queue: ConsumeQueue | None, queue_offset: int) -> PullResult:
    """Return what is true of an offset before anything is read; FOUND means: read on."""
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


def pull(
    log: CommitLog,
    queue: ConsumeQueue | None,
    queue_offset: int,
    *,
    max_messages: int,
    max_bytes: int,
    accept: Callable[[int], bool] | None = None,
) -> PullResult:
    """Return records from a queue offset on, each as its own bytes.

    The first record is returned whatever its size. `accept` judges tags codes.

    Errors   ColdRead, also where only some of it is not fresh, or the first record is damaged
    """
    status = status_at(queue, queue_offset)
    if status.status is not PullStatus.FOUND or queue is None:
        return status
    scan_count = scan_count_of(max_messages, accept)
    units = hot_units(log, queue, queue_offset, scan_count)
    if accept is not None:
        accept = plain_accept(queue, accept)
    asked = asked_of(log, queue)
    records: list[bytes] = []
    size_sum = 0
    position = queue_offset
    view, base, end = NO_FILE
    for place, size, tags_code in UNIT.iter_unpack(units):
        is_wanted = accept is None or size < RECORD_SIZE_MIN or accept(tags_code)
        if size == PRE_BLANK_SIZE or not is_wanted:
            position += 1
            continue
        if records and (size_sum + size > max_bytes or len(records) == max_messages):
            break
        if not base <= place < end:
            view, base, end = _file_range(log, place)
        if not is_sound(view, place - base, place, size, asked, position):
            break
        records.append(bytes(view[place - base : place - base + size]))
        size_sum += size
        position += 1
    if position == queue_offset:
        return _nothing_sound(log, queue, status, queue_offset)
    found = PullStatus.FOUND if records else PullStatus.NO_MATCHED_MESSAGE
    return status._replace(
        status=found, next_begin_offset=position, records=records, record_count=len(records)
    )


def pull_joined(
    log: CommitLog,
    queue: ConsumeQueue | None,
    queue_offset: int,
    *,
    max_messages: int,
    max_bytes: int,
) -> PullResult:
    """Hot: return the same records as `pull`, those next to each other in the log as one element.

    Cost     about 1 µs a record and the CRC of its body
    """
    status = status_at(queue, queue_offset)
    if status.status is not PullStatus.FOUND or queue is None:
        return status
    asked = asked_of(log, queue)
    runs: list[tuple[int, int]] = []
    size_sum = count = 0
    number = queue_offset
    view, base, end = NO_FILE
    run_end = -1
    for place, size, _ in UNIT.iter_unpack(hot_units(log, queue, queue_offset, max_messages)):
        if size == PRE_BLANK_SIZE:
            number += 1
            continue
        if count and size_sum + size > max_bytes:
            break
        if not base <= place < end:
            view, base, end = _file_range(log, place)
            run_end = -1
        if not is_sound(view, place - base, place, size, asked, number):
            break
        if place == run_end:
            runs[-1] = (runs[-1][0], place + size)
        else:
            runs.append((place, place + size))
        run_end = place + size
        size_sum += size
        count += 1
        number += 1
    if number == queue_offset:
        return _nothing_sound(log, queue, status, queue_offset)
    return status._replace(
        status=PullStatus.FOUND if count else PullStatus.NO_MATCHED_MESSAGE,
        next_begin_offset=number,
        records=[log.read(begin, run_end - begin) for begin, run_end in runs],
        record_count=count,
    )


def scan_count_of(max_messages: int, accept: Callable[[int], bool] | None) -> int:
    """Return how many units a pull looks at."""
    return max_messages if accept is None else max(max_messages, SCAN_COUNT_MIN)


def hot_units(log: CommitLog, queue: ConsumeQueue, queue_offset: int, count: int) -> bytes:
    """Return units, all of whose records are fresh.

    Errors   ColdRead: some are not, or the units themselves are not in memory
    """
    units = queue.resident_units(queue_offset, count)
    hot_begin = log.hot_begin
    if hot_begin > 0 and _first_place(units) < hot_begin:
        raise ColdRead(_nothing)
    return units


def _first_place(units: bytes) -> int:
    """Return where the first record lies that units lead to: places rise with the queue."""
    for place, size, _ in UNIT.iter_unpack(units):
        if size != PRE_BLANK_SIZE:
            return int(place)
    return 2**63


def _nothing() -> None:
    """What a pull of old or damaged records does by itself (store/reading/cold_pull.py)."""


def plain_accept(queue: ConsumeQueue, accept: Callable[[int], bool]) -> Callable[[int], bool]:
    """Return a judge that sees tags codes where units hold addresses into the extension.

    What leads nowhere counts as a match: the extension may be gone, the message is not.
    """
    if queue.extension is None:
        return lambda code: is_address(code) or accept(code)

    def accept_plain(code: int) -> bool:
        code = queue.plain_code(code)
        return is_address(code) or accept(code)

    return accept_plain


def is_gone(log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Return whether the log lost its head since: a unit leads before it, and so does the last."""
    if queue_offset < queue.min_offset:
        return True
    unit, before = queue.unit(queue_offset), queue.unit(queue_offset - 1)
    if unit is None or not 0 <= unit[0] < log.min_offset:
        return False
    return before is None or before[1] == PRE_BLANK_SIZE or 0 <= before[0] < unit[0]


def _nothing_sound(
    log: CommitLog, queue: ConsumeQueue, status: PullResult, queue_offset: int
) -> PullResult:
    """Return that a range is expired.

    Errors   ColdRead: it is damaged
    """
    if is_gone(log, queue, queue_offset):
        return expired(log, queue, status)
    raise ColdRead(_nothing)


def expired(log: CommitLog, queue: ConsumeQueue, status: PullResult) -> PullResult:
    """Return what a reader of a range is told that the log does not hold any more."""
    queue.correct_min(log.min_offset)
    lower = queue.min_offset
    return status._replace(
        status=PullStatus.EXPIRED, next_begin_offset=lower, min_offset=lower, records=[]
    )


def _file_range(log: CommitLog, place: int) -> tuple[Buffer, int, int]:
    """Return the bytes, begin and end (both physical offsets) of the file that holds a place."""
    file = log.files.file_at(place)
    return NO_FILE if file is None else (file.view, file.base, file.base + file.size)


def read_record(log: CommitLog, physical_offset: int, size: int) -> bytes:
    """Return a copy of a record after comparing size, own offset, lengths and CRC.

    Errors   Corruption, ColdRead
    """
    record = log.read_resident(physical_offset, size)
    try:
        crc_from = log.property_crc_from
        must_have_crc = crc_from is not None and physical_offset >= crc_from
        check_copy(record, physical_offset, size, must_have_crc=must_have_crc)
    except BadRecord as error:
        raise _damaged(log, physical_offset, str(error)) from error
    return record


def find_record(log: CommitLog, physical_offset: int) -> bytes | None:
    """Return a copy of the record that starts at an offset, None when none starts there.

    Errors   Corruption: one does, but its body is not what was stored; ColdRead
    """
    if not log.min_offset <= physical_offset < log.appended:
        return None
    head = log.read_resident(physical_offset, SIZE_AND_MAGIC.size)
    size = int.from_bytes(head[:4], signed=True)
    if len(head) < SIZE_AND_MAGIC.size or not RECORD_SIZE_MIN <= size <= log.record_size_max:
        return None
    record = log.read_resident(physical_offset, size)
    try:
        if len(record) < size or not check_record(record, 0, physical_offset, crc=False):
            return None
    except BadRecord:
        return None
    return read_record(log, physical_offset, size)


def _damaged(log: CommitLog, physical_offset: int, why: str) -> Corruption:
    path, position = log.place_of(physical_offset)
    return Corruption(path=path, file_position=position, physical_offset=physical_offset, why=why)


def store_time_at(log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> int | None:
    """Return the store time of a message in ms, None when queue or log do not hold it.

    Errors   ColdRead
    """
    unit = queue.resident_unit(queue_offset)
    if unit is None or _is_before_all(log, unit):
        return None
    return _time_of(log, queue, unit[0], queue_offset)


def _is_before_all(log: CommitLog, unit: tuple[int, int, int]) -> bool:
    return unit[1] == PRE_BLANK_SIZE or (unit[1] > 0 and 0 <= unit[0] < log.min_offset)


def _time_of(log: CommitLog, queue: ConsumeQueue, place: int, queue_offset: int) -> int | None:
    """Return the store time of a record, None where another one lies, or none."""
    head = log.read_resident(place, HEADS[HOSTS_V6_MASK].size) if place < log.appended else b""
    if len(head) < RECORD_SIZE_MIN:
        return None
    (system_flag,) = SYSTEM_FLAG.unpack_from(head, SYSTEM_FLAG_POSITION)
    layout = HEADS[system_flag & HOSTS_V6_MASK]
    if len(head) < layout.size:
        return None
    fields = layout.unpack_from(head)
    is_asked = (fields[3], fields[5], fields[6]) == (queue.queue_id, queue_offset, place)
    return int(fields[10]) if is_asked else None


def queue_offset_by_time(log: CommitLog, queue: ConsumeQueue, time_ms: int, bound: Bound) -> int:
    """Return where a queue stands at a time.

    LOWER    the first message stored at or after the time, max when all are earlier
    UPPER    the last message stored at or before the time, min when all are later
    Cost     about 20 looks into the log
    Errors   ColdRead
    """
    lower, upper = queue.min_offset, queue.max_offset
    first = lower
    while lower < upper:
        middle = (lower + upper) // 2
        number, time = _time_near(log, queue, middle, upper)
        if time is not None and (time < time_ms if bound is Bound.LOWER else time <= time_ms):
            lower = number + 1
        else:
            upper = middle
    if bound is Bound.LOWER:
        return lower
    return max(lower - 1, first)


def _time_near(
    log: CommitLog, queue: ConsumeQueue, queue_offset: int, upper: int
) -> tuple[int, int | None]:
    """Return the first message in [queue_offset, upper) whose store time is known, and that time.

    Messages that are gone are older than all; None where units lead to no record.
    """
    for number in range(queue_offset, min(upper, queue_offset + PROBES_MAX)):
        unit = queue.resident_unit(number)
        if unit is not None and _is_before_all(log, unit):
            return number, -1
        time = None if unit is None else _time_of(log, queue, unit[0], number)
        if time is not None:
            return number, time
    return queue_offset, None
