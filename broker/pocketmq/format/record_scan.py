"""Walks the records of one commit-log file, and parses the fields that views need.

A scan follows the chain of records and stops at the first bytes that are not a record. It reports
the reason at its end:
    END_OF_DATA   zeros to the end of the page, a BLANK, or the end of the file
    TORN          part of a record: zeros at its begin or end, with other bytes near
    BAD           anything else
"""

from collections.abc import Iterator
from typing import Final

from pocketmq.format.java_hash import tags_code
from pocketmq.format.layout import Buffer, is_zero
from pocketmq.format.properties import decode_properties
from pocketmq.format.record import (
    BLANK_SIZE,
    MAGIC_BLANK,
    SIZE_AND_MAGIC,
    BadRecord,
    check_record,
    split_record,
)
from pocketmq.model.batch import Batch, Destination, Written
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import DELAY, KEYS, TAGS, UNIQUE_KEY
from pocketmq.model.store_shape import DelayLevels

PAGE_SIZE: Final = 4096


class RecordScan:
    """One walk over one file's bytes, from a record's start to the end of the valid records.

    Iterating yields (position, size). Afterwards `end`, `position` (first byte not accepted),
    `reason` and `blank` (whether a BLANK ends the file) describe its end.
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
        assert self.position <= length

    def _judge_zeros(self, position: int) -> None:
        page_end = min(position - position % PAGE_SIZE + PAGE_SIZE, len(self._buffer))
        if not is_zero(self._buffer, position, page_end):
            self.end = ScanEnd.TORN
            self.reason = "zeros followed by other bytes"

    def _judge_bad(self, position: int, size: int, reason: str) -> None:
        self.reason = reason
        self.end = ScanEnd.BAD
        record_end = position + size
        if size >= 2 * BLANK_SIZE and record_end <= len(self._buffer):
            if is_zero(self._buffer, record_end - BLANK_SIZE, record_end):
                self.end = ScanEnd.TORN


def written_at(buffer: Buffer, position: int, levels: DelayLevels) -> Written:
    """Parses the record at a position to a run of one record, as views receive it.

    Errors   BadRecord
    Cost     about 4 µs
    Source   CommitLog.checkMessageAndReturnSize, DispatchRequest
    """
    head, _, topic_begin, topic_end, block_begin, block_end = split_record(buffer, position)
    topic = bytes(buffer[topic_begin:topic_end]).decode("utf-8", "replace")
    properties = decode_properties(buffer[block_begin:block_end])
    tag = properties.get(TAGS, "")
    code = tags_code(tag)
    if DELAY in properties and levels.apply_to(topic):
        due_ms = levels.due_ms(properties[DELAY], head[10])
        code = code if due_ms is None else due_ms
    return Written(
        Destination(topic, head[3], head[11], head[7], head[13]),
        head[5],
        physical_offsets=[head[6]],
        sizes=[head[0]],
        tags_codes=[code],
        store_time_ms=head[10],
        unique_keys=[properties.get(UNIQUE_KEY, "")],
        keys=[properties.get(KEYS, "")],
        tags=[tag],
    )


def tags_codes_of(
    destination: Destination, batch: Batch, store_time_ms: int, levels: DelayLevels
) -> list[int]:
    """Returns the tags codes of messages to be stored."""
    codes = list(map(tags_code, batch.tags))
    if not levels.apply_to(destination.topic):
        return codes
    for number, block in enumerate(batch.property_blocks):
        due_ms = levels.due_ms(decode_properties(block).get(DELAY, ""), store_time_ms)
        if due_ms is not None:
            codes[number] = due_ms
    return codes
