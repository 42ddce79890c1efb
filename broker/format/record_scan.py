"""Walking the records of one commit-log file, and reading off them what views need.

A scan hops from record to record and stops at the first byte that is none. Why it stopped is told
once, at the end:
    END_OF_DATA   zeros to the end of the page, a BLANK, or the end of the file
    TORN          part of a record: zeros in front or at its end, with other bytes near
    BAD           anything else

Behind damage sound records may go on. One is believed there when its CRC holds, when it says that
it lies there, and when it is not older than the last record before the damage: a real broker that
cut its log leaves older records behind the end, which are no part of the log any more.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from broker.format.buffers import Buffer, is_zero
from broker.format.java_hash import tags_code
from broker.format.properties import decode_properties
from broker.format.record import (
    BLANK_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    BadRecord,
    check_record,
    split_record,
)
from broker.model.delay_levels import DelayLevels
from broker.model.message import (
    DELAY,
    FLAG_TRANSACTION_MASK,
    KEYS,
    TAGS,
    UNIQUE_KEY,
    DispatchEntry,
)
from broker.model.results import ScanEnd
from broker.model.system_topics import SCHEDULE_TOPIC

PAGE_SIZE: Final = 4096
_LEVEL: Final = re.compile(r"[+-]?[0-9]{1,10}")
_MAGIC_BEGIN: Final = MAGIC_V1.to_bytes(4)[:3]
_MAGIC_ENDS: Final = (MAGIC_V1 & 0xFF, MAGIC_V2 & 0xFF)
_MAGIC_AT: Final = 4
_PIECE_SIZE: Final = 1024 * 1024
"""Bytes searched at once: read, not mapped, so that a file cut short meanwhile is no crash."""
_STORE_TIMESTAMP_FIELD: Final = 10

ReadPiece = Callable[[int, int], bytes]
"""(position, size) -> that many bytes of a file, fewer where it ends."""


class RecordScan:
    """One walk over one file's bytes, from a record start to where sound records end.

    Iterating yields (position, size). Afterwards `end`, `position` (first byte not accepted),
    `reason` and `blank` (the file was closed by a BLANK) tell how it ended.
    """

    __slots__ = ("_base", "_buffer", "_crc", "_property_crc", "blank", "end", "position", "reason")

    def __init__(
        self,
        buffer: Buffer,
        base: int,
        position: int = 0,
        *,
        crc: bool = False,
        property_crc: bool = False,
    ) -> None:
        self._buffer = buffer
        self._base = base
        self._crc = crc
        self._property_crc = property_crc
        self.position = position
        self.end = ScanEnd.END_OF_DATA
        self.reason = ""
        self.blank = False

    def __iter__(self) -> Iterator[tuple[int, int]]:
        buffer, base, crc = self._buffer, self._base, self._crc
        position, length = self.position, len(buffer)
        while position + BLANK_SIZE <= length:
            size, magic = SIZE_AND_MAGIC.unpack_from(buffer, position)
            if magic == MAGIC_BLANK and size == length - position:
                self.blank = True
                break
            if size == 0 and magic == 0:
                self._judge_zeros(position)
                break
            try:
                size = check_record(
                    buffer, position, base + position, crc=crc, property_crc=self._property_crc
                )
            except BadRecord as error:
                self._judge_bad(position, size, str(error))
                break
            if not size:
                self._judge_bad(position, BLANK_SIZE, "a BLANK of the wrong size")
                break
            yield position, size
            position += size
            self.position = position

    def _judge_zeros(self, position: int) -> None:
        page_end = min(position - position % PAGE_SIZE + PAGE_SIZE, len(self._buffer))
        if not is_zero(self._buffer, position, page_end):
            self.end = ScanEnd.TORN
            self.reason = "zeros with other bytes behind them"

    def _judge_bad(self, position: int, size: int, reason: str) -> None:
        self.reason = reason
        self.end = ScanEnd.BAD
        record_end = position + size
        if size >= 2 * BLANK_SIZE and record_end <= len(self._buffer):
            if is_zero(self._buffer, record_end - BLANK_SIZE, record_end):
                self.end = ScanEnd.TORN


def next_sound_position(
    buffer: Buffer, base: int, begin: int, last_time_ms: int, read_piece: ReadPiece
) -> int | None:
    """Return where the next sound record at or behind a position starts, None without one.

    First where the damaged records' lengths lead, when they agree, then anywhere behind.

    begin        position of damage in a file whose first byte has the physical offset `base`
    last_time_ms records older than this do not count
    Cost     a search of the rest, some 0.2 s a GiB
    """
    place = begin
    while (end := _end_by_lengths(buffer, place)) is not None:
        place = end
        if is_sound_at(buffer, base, place, last_time_ms):
            return place
    for at in _magic_places(read_piece, place + _MAGIC_AT + (place == begin)):
        if is_sound_at(buffer, base, at - _MAGIC_AT, last_time_ms):
            return at - _MAGIC_AT
    return None


def is_sound_at(buffer: Buffer, base: int, position: int, last_time_ms: int) -> bool:
    """Return whether a sound record of this place, not older than a time, lies at a position."""
    if position + BLANK_SIZE > len(buffer) or buffer[position + _MAGIC_AT + 3] not in _MAGIC_ENDS:
        return False
    try:
        size = check_record(buffer, position, base + position)
        head = split_record(buffer, position)[0] if size else ()
    except BadRecord:
        return False
    return size > 0 and head[_STORE_TIMESTAMP_FIELD] >= last_time_ms


def _magic_places(read_piece: ReadPiece, begin: int) -> Iterator[int]:
    """Yield where a file holds the begin of a magic, from a byte on."""
    while len(piece := read_piece(begin, _PIECE_SIZE)) >= len(_MAGIC_BEGIN):
        at = piece.find(_MAGIC_BEGIN)
        while at >= 0:
            yield begin + at
            at = piece.find(_MAGIC_BEGIN, at + 1)
        begin += len(piece) - len(_MAGIC_BEGIN) + 1


def _end_by_lengths(buffer: Buffer, position: int) -> int | None:
    """Return where a record ends whose lengths agree with its size, whatever else is wrong of it.

    What lies in its body is no record of the log, however much it looks like one.
    """
    if position + RECORD_SIZE_MIN > len(buffer):
        return None
    try:
        split_record(buffer, position)
    except BadRecord:
        return None
    size: int = SIZE_AND_MAGIC.unpack_from(buffer, position)[0]
    return position + size if size >= RECORD_SIZE_MIN else None


def dispatch_entry(buffer: Buffer, position: int, levels: DelayLevels) -> DispatchEntry:
    """Return what the views need of the record at a position.

    Errors   BadRecord
    Cost     about 3 µs
    Source   CommitLog.checkMessageAndReturnSize, DispatchRequest
    """
    head, _, topic_begin, topic_end, block_begin, block_end = split_record(buffer, position)
    topic = bytes(buffer[topic_begin:topic_end]).decode("utf-8", "replace")
    properties = decode_properties(buffer[block_begin:block_end])
    tag = properties.get(TAGS, "")
    code = tags_code(tag)
    if topic == SCHEDULE_TOPIC and DELAY in properties:
        code = scheduled_code(properties[DELAY], code, head[10], levels)
    return (
        head[6], head[0], code, head[10], topic, head[3], head[5],
        properties.get(UNIQUE_KEY, ""), properties.get(KEYS, ""), tag,
        head[7] & FLAG_TRANSACTION_MASK,
    )  # fmt: skip


def tags_code_of(
    topic: str, tag: str, block: bytes, store_timestamp_ms: int, levels: DelayLevels
) -> int:
    """Return the tags code of a record that is about to be stored with this property block."""
    code = tags_code(tag)
    if topic != SCHEDULE_TOPIC:
        return code
    level_text = decode_properties(block).get(DELAY)
    return scheduled_code(level_text, code, store_timestamp_ms, levels) if level_text else code


def scheduled_code(level_text: str, code: int, store_timestamp_ms: int, levels: DelayLevels) -> int:
    """Return the tags code of a record in the schedule topic: when it is due.

    A level that is no number or not above 0 leaves the hash of the tag.
    Source   CommitLog.checkMessageAndReturnSize
    """
    if _LEVEL.fullmatch(level_text) is None:
        return code
    level = levels.clamp(int(level_text))
    return levels.deliver_at_ms(level, store_timestamp_ms) if level > 0 else code
