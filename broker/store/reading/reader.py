"""Reading messages of one queue: the status first, then the records.

condition                         status                  next begin
queue empty, offset 0             NO_NEW_MESSAGE          0
offset < min                      OFFSET_TOO_SMALL        min
offset == max                     OFFSET_OVERFLOW_ONE     offset
offset > max                      OFFSET_OVERFLOW_BADLY   max
scanned, nothing accepted         NO_MATCHED_MESSAGE      behind the last unit scanned
record gone since                 EXPIRED                 first unit the log still holds
otherwise                         FOUND                   behind the last unit returned

A record is handed out only when it says itself that it lies there and its CRC is right.
Nothing here waits for the disk: what is not in memory raises ColdRead, and is read off the loop
(store/reading/cold_pull.py for pulls, rpc/service.py for the rest).
Source: DefaultMessageStore.getMessage, ConsumeQueue.getOffsetInQueueByTime.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from broker.files.mapped_file import MappedFile
from broker.format.buffers import Buffer
from broker.format.checksum import CRC_MASK, crc32
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT
from broker.format.extension_unit import is_address
from broker.format.record import (
    HEADS,
    HOSTS_V6_MASK,
    PROPERTY_CRC_SIZE,
    RECORD_HEAD,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
    BadRecord,
    check_record,
)
from broker.log.commit_log import CommitLog
from broker.log.consume_queue import ConsumeQueue
from broker.model.cold_read import ColdRead
from broker.model.errors import Corruption
from broker.model.results import Bound, PullResult, PullStatus

NO_FILE: Final[tuple[Buffer, int, int]] = (b"", 0, 0)
_QUICK_HEAD: Final = Struct(">i4xi16xqi44xi").unpack_from
"""Of a record with IPv4 hosts: size, body CRC, own offset, system flag, body length."""
CRC_MARK: Final = ord("_")
"""What a property CRC begins with; a record that has it there is looked at in full."""
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

    Errors   Corruption; ColdRead, also where only some of it is not fresh
    """
    status = status_at(queue, queue_offset)
    if status.status is not PullStatus.FOUND or queue is None:
        return status
    scan_count = scan_count_of(max_messages, accept)
    units = hot_units(log, queue, queue_offset, scan_count)
    if accept is not None:
        accept = plain_accept(queue, accept)
    records: list[bytes] = []
    size_sum = 0
    position = queue_offset
    view, base, end = NO_FILE
    for place, size, tags_code in UNIT.iter_unpack(units):
        if size == PRE_BLANK_SIZE or (accept is not None and not accept(tags_code)):
            position += 1
            continue
        if records and (size_sum + size > max_bytes or len(records) == max_messages):
            break
        if not base <= place < end:
            if place < log.min_offset:
                return expired(log, queue, status)
            view, base, end = _file_range(log, place)
        _check(log, view, place - base, place, size)
        records.append(bytes(view[place - base : place - base + size]))
        size_sum += size
        position += 1
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
    runs: list[tuple[int, int]] = []
    size_sum = blank_count = count = 0
    view, base, end = NO_FILE
    run_end = -1
    for place, size, _ in UNIT.iter_unpack(hot_units(log, queue, queue_offset, max_messages)):
        if size == PRE_BLANK_SIZE:
            blank_count += 1
            continue
        if count and size_sum + size > max_bytes:
            break
        if not base <= place < end:
            if place < log.min_offset:
                return expired(log, queue, status)
            view, base, end = _file_range(log, place)
            run_end = -1
        _check(log, view, place - base, place, size)
        if place == run_end:
            runs[-1] = (runs[-1][0], place + size)
        else:
            runs.append((place, place + size))
        run_end = place + size
        size_sum += size
        count += 1
    return status._replace(
        status=PullStatus.FOUND if count else PullStatus.NO_MATCHED_MESSAGE,
        next_begin_offset=queue_offset + blank_count + count,
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
    """What a pull of old records has to fetch by itself (store/reading/cold_pull.py)."""


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


def expired(log: CommitLog, queue: ConsumeQueue, status: PullResult) -> PullResult:
    """Return what a reader of a range is told that the log does not hold any more."""
    queue.correct_min(log.min_offset)
    lower = queue.min_offset
    return status._replace(
        status=PullStatus.EXPIRED, next_begin_offset=lower, min_offset=lower, records=[]
    )


def file_holding(log: CommitLog, place: int) -> MappedFile:
    """Return the file that holds a place.

    Errors   Corruption: none does
    """
    file = log.files.file_at(place)
    if file is None:
        raise _damaged(log, place, "no file holds it")
    return file


def _file_range(log: CommitLog, place: int) -> tuple[Buffer, int, int]:
    """Return the bytes, begin and end (both physical offsets) of the file that holds a place."""
    file = file_holding(log, place)
    return file.view, file.base, file.base + file.size


def _check(log: CommitLog, view: Buffer, position: int, place: int, size: int) -> None:
    """Raise Corruption unless a sound record of this size lies there."""
    end = position + size
    if size >= RECORD_SIZE_MIN and end <= len(view) and view[end - PROPERTY_CRC_SIZE] != CRC_MARK:
        found, crc, own_place, system_flag, body_size = _QUICK_HEAD(view, position)
        is_plain = found == size and own_place == place and not system_flag & HOSTS_V6_MASK
        begin = position + RECORD_HEAD.size
        # No name for the body: a traceback would keep its map from closing.
        if is_plain and 0 <= body_size < end - begin:
            if crc32(view[begin : begin + body_size]) & CRC_MASK == crc:
                return
    read_record(log, place, size)  # Rarer forms, or the reason why the record is unsound.


def read_record(log: CommitLog, physical_offset: int, size: int) -> bytes:
    """Return a copy of a record after comparing size, own offset, lengths and CRC.

    Errors   Corruption, ColdRead
    """
    record = log.read_resident(physical_offset, size)
    try:
        check_copy(record, physical_offset, size)
    except BadRecord as error:
        raise _damaged(log, physical_offset, str(error)) from error
    return record


def find_record(log: CommitLog, physical_offset: int) -> bytes | None:
    """Return a copy of the record that starts at an offset, None when none starts there.

    Errors   Corruption: one does, but its body is not what was stored; ColdRead
    """
    if physical_offset >= log.appended:
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


def check_copy(record: bytes, physical_offset: int, size: int) -> None:
    """Raise BadRecord unless the bytes are a sound record of this place and size."""
    if len(record) < RECORD_SIZE_MIN:
        raise BadRecord("its unit names too small a size, or one that leaves its file")
    if check_record(record, 0, physical_offset) != size:
        raise BadRecord("no record of its unit's size starts there")


def _damaged(log: CommitLog, physical_offset: int, why: str) -> Corruption:
    file = log.files.file_at(physical_offset)
    path = str(file.path if file is not None else log.files.directory)
    position = physical_offset - file.base if file is not None else 0
    return Corruption(path=path, file_position=position, physical_offset=physical_offset, why=why)


def store_time_at(log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> int | None:
    """Return the store time of a message in ms, None when queue or log do not hold it.

    Errors   ColdRead
    """
    unit = queue.resident_unit(queue_offset)
    if unit is None or unit[1] == PRE_BLANK_SIZE or unit[0] < log.min_offset:
        return None
    head_size = HEADS[HOSTS_V6_MASK].size
    record = log.read_resident(unit[0], min(unit[1], head_size))
    (system_flag,) = SYSTEM_FLAG.unpack_from(record, SYSTEM_FLAG_POSITION)
    return int(HEADS[system_flag & HOSTS_V6_MASK].unpack_from(record)[10])


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
        time = store_time_at(log, queue, middle)
        is_before = time is None or (time < time_ms if bound is Bound.LOWER else time <= time_ms)
        if is_before:
            lower = middle + 1
        else:
            upper = middle
    if bound is Bound.LOWER:
        return lower
    return max(lower - 1, first)
