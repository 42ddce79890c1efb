"""Finds the next valid record after damage.

A valid record has a correct CRC, contains its own physical offset, and is not older than the last
record before the damage. A RocketMQ broker that truncated its log leaves older records after the
end, which are no longer part of the log.
"""

from collections.abc import Iterator
from typing import Final

from pocketmq.format.record import (
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    STORE_TIMESTAMP_FIELD,
    BadRecord,
    check_record,
    split_record,
)
from pocketmq.walk.source import LogSource

_MAGIC_BEGIN: Final = MAGIC_V1.to_bytes(4)[:3]
_MAGIC_ENDS: Final = (MAGIC_V1 & 0xFF, MAGIC_V2 & 0xFF)
_MAGIC_AT: Final = 4
_PIECE_SIZE: Final = 1024 * 1024


def store_time_at(source: LogSource, physical_offset: int) -> int | None:
    """Returns the store time (ms) of the valid record that starts at an offset, or None."""
    buffer, position = source.view, physical_offset - source.base
    if position + BLANK_SIZE > source.size or buffer[position + _MAGIC_AT + 3] not in _MAGIC_ENDS:
        return None
    try:
        if not check_record(buffer, position, physical_offset):
            return None
        head = split_record(buffer, position)[0]
    except BadRecord:
        return None
    return int(head[STORE_TIMESTAMP_FIELD])


def first_times(source: LogSource) -> tuple[int, ...]:
    """Returns the store times (ms) of a file's first two records; fewer if they are invalid.

    Two records are read because the CRC of the body does not cover the store time. If the two times
    are close, neither was changed by a flipped bit.
    """
    first = store_time_at(source, source.base)
    if first is None:
        return ()
    size: int = SIZE_AND_MAGIC.unpack_from(source.view, 0)[0]
    second = store_time_at(source, source.base + size)
    return (first,) if second is None else (first, second)


def is_sound_at(source: LogSource, physical_offset: int, last_time_ms: int) -> bool:
    """Returns whether a valid record, not older than a time, starts at an offset."""
    time_ms = store_time_at(source, physical_offset)
    return time_ms is not None and time_ms >= last_time_ms


def next_sound_record(source: LogSource, physical_offset: int, last_time_ms: int) -> int | None:
    """Returns the offset of the next valid record after damage in the same file, or None.

    While a damaged record's lengths add up to its size, the search continues at the record's end.
    After that, it searches byte by byte for a magic.

    physical_offset   begin of the damage
    last_time_ms      records with an older store time are not valid
    Cost              a search of the rest of the file, about 0.2 s per GiB
    """
    if source.base + source.data_end - physical_offset < BLANK_SIZE:
        return None
    place = physical_offset
    while (end := _end_by_lengths(source, place)) is not None:
        place = end
        if is_sound_at(source, place, last_time_ms):
            return place
    begin = place + _MAGIC_AT + (place == physical_offset)
    for at in _magic_places(source, begin - source.base):
        place = source.base + at - _MAGIC_AT
        if is_sound_at(source, place, last_time_ms):
            return place
    return None


def _magic_places(source: LogSource, begin: int) -> Iterator[int]:
    while len(piece := source.read(begin, _PIECE_SIZE)) >= len(_MAGIC_BEGIN):
        at = piece.find(_MAGIC_BEGIN)
        while at >= 0:
            yield begin + at
            at = piece.find(_MAGIC_BEGIN, at + 1)
        begin += len(piece) - len(_MAGIC_BEGIN) + 1


def _end_by_lengths(source: LogSource, physical_offset: int) -> int | None:
    """Returns the end of a record whose lengths agree with its size, even if its CRC is wrong.

    Bytes of the record's body are not records of the log, even if they look like records.
    """
    position = physical_offset - source.base
    if position + RECORD_SIZE_MIN > source.size:
        return None
    try:
        split_record(source.view, position)
    except BadRecord:
        return None
    size: int = SIZE_AND_MAGIC.unpack_from(source.view, position)[0]
    return physical_offset + size if size >= RECORD_SIZE_MIN else None
