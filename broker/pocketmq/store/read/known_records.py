"""Copies the records of a pull that this process wrote, or checked before, in one piece.

units ─► count of rows in one file ─► one copy of their records ─► fields of each record

The copy may begin with the head of an answer, so that an answer needs no further copy.

The copy is checked, not the memory map: what is served is what was checked. Anything unusual is
left to the usual way (store/read/pulling.py).
"""

from typing import Final

from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT_SIZE
from pocketmq.format.layout import Buffer
from pocketmq.format.record import HOSTS_V6_MASK, MAGIC_V1, RECORD_HEAD, RECORD_SIZE_MIN
from pocketmq.native.machine import i64, read_i16_be, read_i32_be, read_i64_be

_MAGIC_AT: Final = RECORD_HEAD.positions["magic"]
_QUEUE_ID_AT: Final = RECORD_HEAD.positions["queue_id"]
_QUEUE_OFFSET_AT: Final = RECORD_HEAD.positions["queue_offset"]
_PHYSICAL_OFFSET_AT: Final = RECORD_HEAD.positions["physical_offset"]
_SYSTEM_FLAG_AT: Final = RECORD_HEAD.positions["system_flag"]
_HEAD_SIZE: Final = RECORD_HEAD.size
_BODY_SIZE_AT: Final = RECORD_HEAD.size - 4
_SIZE_AT: Final = 8
"""Position of the record's size in a unit."""
_MAGIC: Final = MAGIC_V1 - (1 << 32) if MAGIC_V1 >> 31 else MAGIC_V1
_V6_MASK: Final = HOSTS_V6_MASK
_PRE_BLANK_SIZE: Final = PRE_BLANK_SIZE
_UNIT_SIZE: Final = UNIT_SIZE
_SIZE_MIN: Final = RECORD_SIZE_MIN


def count_in_file(units: bytes, max_bytes: i64, upper: i64) -> i64:
    """Returns the number of units, from the first on, whose records one pull can copy from a file.

    max_bytes   upper limit of the sum of sizes, which the first record may exceed
    upper       physical offset of the file's end
    Returns     0: a unit is pre-blank or impossible, or refers to a record before the previous one
                or in another file
    Cost        0.02 µs a unit when compiled
    """
    count: i64 = 0
    total: i64 = 0
    end: i64 = 0
    position: i64 = 0
    while position < len(units):
        place = read_i64_be(units, position)
        size = i64(read_i32_be(units, position + _SIZE_AT))
        if size < _SIZE_MIN or size == _PRE_BLANK_SIZE or place < end:
            return 0
        total += size
        if count and total > max_bytes:
            break
        end = place + size
        if end > upper:
            return 0
        count += 1
        position += _UNIT_SIZE
    return count


def end_of(units: bytes, count: i64) -> i64:
    """Returns the physical offset after the record of the last of `count` units."""
    assert count > 0, "no unit"
    position = (count - 1) * _UNIT_SIZE
    return read_i64_be(units, position) + i64(read_i32_be(units, position + _SIZE_AT))


def size_of(units: bytes, count: i64) -> i64:
    """Returns the sum of the sizes of the first `count` units."""
    total: i64 = 0
    number: i64 = 0
    while number < count:
        total += i64(read_i32_be(units, number * _UNIT_SIZE + _SIZE_AT))
        number += 1
    return total


def gathered(buffer: Buffer, origin: i64, units: bytes, count: i64, head: bytes = b"") -> bytes:
    """Returns the records of the first `count` units, joined.

    origin   physical offset of the first byte of `buffer`
    head     bytes that precede the first record
    Cost     one copy, and 0.2 µs a record that does not begin at the end of the previous one
    """
    pieces: list[Buffer] = [head]
    begin = end = read_i64_be(units, 0)
    position: i64 = 0
    while position < count * _UNIT_SIZE:
        place = read_i64_be(units, position)
        if place != end:
            pieces.append(buffer[begin - origin : end - origin])
            begin = place
        end = place + i64(read_i32_be(units, position + _SIZE_AT))
        position += _UNIT_SIZE
    pieces.append(buffer[begin - origin : end - origin])
    return b"".join(pieces)


def are_of_queue(
    records: bytes, units: bytes, count: i64, topic_part: bytes, queue_id: i64, queue_offset: i64,
    begin: i64 = 0,
) -> bool:  # fmt: skip
    """Returns whether joined records are those of the first `count` units, in the usual form.

    The usual form has RocketMQ's first magic and IPv4 hosts.

    topic_part     length and topic, as a record contains them
    queue_offset   of the first record
    begin          position of the first record
    Cost           0.05 µs a record when compiled
    """
    assert begin >= 0, "the records begin before their buffer"
    number: i64 = 0
    topic_size: i64 = len(topic_part)
    while number < count:
        at = number * _UNIT_SIZE
        size = i64(read_i32_be(units, at + _SIZE_AT))
        end = begin + size
        if end > len(records) or size < _SIZE_MIN:
            return False
        if i64(read_i32_be(records, begin)) != size:
            return False
        if i64(read_i32_be(records, begin + _MAGIC_AT)) != _MAGIC:
            return False
        if i64(read_i32_be(records, begin + _QUEUE_ID_AT)) != queue_id:
            return False
        if read_i64_be(records, begin + _QUEUE_OFFSET_AT) != queue_offset + number:
            return False
        if read_i64_be(records, begin + _PHYSICAL_OFFSET_AT) != read_i64_be(units, at):
            return False
        if i64(read_i32_be(records, begin + _SYSTEM_FLAG_AT)) & _V6_MASK:
            return False
        topic_begin = begin + _HEAD_SIZE + i64(read_i32_be(records, begin + _BODY_SIZE_AT))
        block_begin = topic_begin + topic_size + 2
        if topic_begin < begin + _HEAD_SIZE or block_begin > end:
            return False
        if not _has_part(records, topic_begin, topic_part):
            return False
        if i64(read_i16_be(records, block_begin - 2)) != end - block_begin:
            return False
        begin = end
        number += 1
    return begin == len(records)


def _has_part(records: bytes, begin: i64, part: bytes) -> bool:
    """Returns whether a part of a record, which ends within it, has these bytes."""
    size: i64 = len(part)
    at: i64 = 0
    while size - at >= 8:
        if read_i64_be(records, begin + at) != read_i64_be(part, at):
            return False
        at += 8
    while at < size:
        if records[begin + at] != part[at]:
            return False
        at += 1
    return True
