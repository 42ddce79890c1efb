"""Lookups in a log: records at an offset, store times, and queue offsets at a time.

If a page is not in memory, functions raise ColdRead instead of waiting for the disk (see
cold_read.py). Only `records_with` may wait.
Source: DefaultMessageStore.lookMessageByOffset, ConsumeQueue.getOffsetInQueueByTime.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT_SIZE
from pocketmq.format.deleted_topics import DRIFT_MAX
from pocketmq.format.record import (
    HEADS,
    HOSTS_V6_MASK,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
    BadRecord,
    check_record,
    decode_record,
)
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.log.consume_queue_table import ConsumeQueueTable
from pocketmq.model.errors import Corruption
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import Bound
from pocketmq.store.read.record_check import beside, check_copy

PROBES_MAX: Final = 256
"""Upper limit of units that one step of a search by time examines to find a valid record."""


def find_message(log: CommitLog, physical_offset: int) -> StoredMessage | None:
    """Returns the message whose record starts at a physical offset; None if no record starts there.

    Shape    the body is as stored, not decompressed
    Errors   Corruption: a record starts at the offset, but is damaged; ColdRead, ReadFailed
    """
    if not log.min_offset <= physical_offset < log.appended:
        return None
    head = log.read_resident(physical_offset, SIZE_AND_MAGIC.size)
    size = int.from_bytes(head[:4], signed=True)
    if len(head) < SIZE_AND_MAGIC.size or not RECORD_SIZE_MIN <= size <= log.record_size_max:
        return None
    record = log.read_resident(physical_offset, size)
    if len(record) < size:
        return None
    crc_from = log.property_crc_from
    must_have_crc = crc_from is not None and physical_offset >= crc_from
    try:
        check_copy(record, physical_offset, size, must_have_crc=must_have_crc)
    except BadRecord as error:
        if not _starts_record(record, physical_offset):
            return None
        file = log.files.file_at(physical_offset)
        if file is not None:
            file.doubt()
        path, position = log.place_of(physical_offset)
        raise Corruption(
            path=path, file_position=position, physical_offset=physical_offset, why=str(error)
        ) from error
    return decode_record(record, decompress=False)


def records_with(
    log: CommitLog, texts: Sequence[bytes], begin: int, end: int, count_max: int
) -> tuple[list[bytes], int]:
    """Returns copies of the records in [begin, end) that contain any of `texts`.

    count_max   upper limit of examined records
    Returns     the records in log order, and the physical offset at which to continue: `end` if the
                walk reached `end` or an unreadable record
    Cost        6 µs a record, if the records are in memory
    """
    scan = log.scan(begin, end)
    found: list[bytes] = []
    for examined, (physical_offset, file, position, size) in enumerate(scan, 1):
        content = bytes(file.view[position : position + size])
        if any(text in content for text in texts):
            found.append(content)
        if examined == count_max:
            return found, physical_offset + size
    return found, end


def _starts_record(content: bytes, physical_offset: int) -> bool:
    """Returns whether bytes are a record of this physical offset; ignores the body's CRC."""
    try:
        return check_record(content, 0, physical_offset, crc=False) > 0
    except BadRecord:
        return False


def shown_message(
    log: CommitLog, queues: ConsumeQueueTable | None, physical_offset: int
) -> StoredMessage | None:
    """Returns the message at a physical offset, with the queue offset of its unit.

    RocketMQ 5.0.0 increases a queue's next offset even for a send that it then refuses, so that the
    queue offset in a later record is too high.

    queues   None: PocketMQ wrote all records, so that the queue offsets in them are correct
    Errors   Corruption, ColdRead, ReadFailed
    """
    message = find_message(log, physical_offset)
    if message is None or queues is None:
        return message
    queue = queues.find(message.topic, message.queue_id)
    if queue is None:
        return message
    number = _unit_before(queue, message.queue_offset, physical_offset)
    return message if number is None else replace(message, queue_offset=number)


def _unit_before(queue: ConsumeQueue, carried: int, place: int) -> int | None:
    """Returns the queue offset of a record's unit if it is lower than `carried`, else None.

    carried  the queue offset that the record contains
    Cost     one unit is read if `carried` is correct (nearly always), else 16 units
    """
    unit = queue.units.resident_at(carried)
    if unit is not None and (unit[0] == place or unit[1] == PRE_BLANK_SIZE):
        return None
    lower, upper = max(carried - DRIFT_MAX, queue.unit_min), min(carried, queue.max_offset)
    while lower < upper:
        middle = (lower + upper) // 2
        unit = queue.units.resident_at(middle)
        if unit is not None and (unit[1] == PRE_BLANK_SIZE or unit[0] < place):
            lower = middle + 1
        else:
            upper = middle
    unit = queue.units.resident_at(lower)
    return lower if unit is not None and unit[0] == place else None


def store_time_at(log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> int | None:
    """Returns the store time of a message in ms; None if queue or log do not contain it.

    Errors   ColdRead, ReadFailed
    """
    unit = queue.units.resident_at(queue_offset)
    if unit is None or _is_before_all(log, unit):
        return None
    return _time_of(log, queue, unit[0], queue_offset)


def _is_before_all(log: CommitLog, unit: tuple[int, int, int]) -> bool:
    return unit[1] == PRE_BLANK_SIZE or (unit[1] > 0 and 0 <= unit[0] < log.min_offset)


def _time_of(log: CommitLog, queue: ConsumeQueue, place: int, queue_offset: int) -> int | None:
    head = log.read_resident(place, HEADS[HOSTS_V6_MASK].size) if place < log.appended else b""
    if len(head) < RECORD_SIZE_MIN:
        return None
    (system_flag,) = SYSTEM_FLAG.unpack_from(head, SYSTEM_FLAG_POSITION)
    layout = HEADS[system_flag & HOSTS_V6_MASK]
    if len(head) < layout.size:
        return None
    fields = layout.unpack_from(head)
    if (fields[3], fields[6]) != (queue.queue_id, place):
        return None
    if fields[5] != queue_offset:
        first = max(queue_offset - 1, queue.files.min_offset // UNIT_SIZE)
        if not beside(first, queue.units.read_resident(first, 3)).holds(queue_offset, place):
            return None
    return int(fields[10])


def queue_offset_by_time(log: CommitLog, queue: ConsumeQueue, time_ms: int, bound: Bound) -> int:
    """Returns the queue offset at a store time.

    LOWER    first message stored at or after the time; max offset if all are earlier
    UPPER    last message stored at or before the time; min offset if all are later
    Cost     20 reads of the log
    Errors   ColdRead, ReadFailed
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
    """Returns (queue offset, store time) of the first message in [queue_offset, upper) with a time.

    The time is -1 for an expired message, and None if none of PROBES_MAX units refers to a record.
    """
    for number in range(queue_offset, min(upper, queue_offset + PROBES_MAX)):
        unit = queue.units.resident_at(number)
        if unit is not None and _is_before_all(log, unit):
            return number, -1
        time = None if unit is None else _time_of(log, queue, unit[0], number)
        if time is not None:
            return number, time
    return queue_offset, None
