"""Records that the broker makes itself, as bytes: what all kinds of them share.

    end_records       half messages that are decided  ┐
    journal_records   entries of the journal          ┴─► OwnRecords ─► one put

All bytes are those that encode_records and index_entries make of the same messages.
"""

from abc import ABC, abstractmethod
from typing import Final

from pocketmq.format.addresses import IPV4_HOST_SIZE
from pocketmq.format.layout import CRC_MASK, crc32
from pocketmq.format.record import MAGIC_V1, RECORD_HEAD
from pocketmq.format.record_encoder import TopicFrame
from pocketmq.model.batch import NO_TEXTS, Written
from pocketmq.model.message import QueueKey
from pocketmq.native.machine import BytesWriter, i32, i64, u8, write_i32_be, write_i64_be

MAGIC: Final = MAGIC_V1 - (1 << 32)
"""As a signed number."""
_HEAD_SIZE: Final = RECORD_HEAD.size - 2 * IPV4_HOST_SIZE
"""Bytes of a record's head without both hosts."""
_WORD: Final = 0xFFFF_FFFF
_HALF: Final = 0x8000_0000


class SystemRecords(ABC):
    """Makes the bytes of some records, after others; those before are gone then.

    frame      of the topic that messages of the broker's own go to, whose queue is 0
    size_sum   bytes of all records
    written    as views get them, once they are encoded; messages of one queue in a
               row one for all
    taken      the queue offset that the next message of each of their queues gets then
    """

    __slots__ = (
        "_around", "_codes", "_entries", "_flags", "_frame", "_places", "_records", "_sizes",
        "_units", "size_sum", "taken", "written",
    )  # fmt: skip

    def __init__(self, frame: TopicFrame) -> None:
        self._frame = frame
        self._flags: i64 = frame.store_flags | frame.store_flags >> 1
        self._around: i64 = _HEAD_SIZE + 2 * len(frame.store_host) + len(frame.field)
        self._records = BytesWriter()
        self._units = BytesWriter()
        self._entries = BytesWriter()
        self._places: list[int] = []
        self._sizes: list[int] = []
        self._codes: list[int] = []
        self.size_sum: i64 = 0
        self.taken: dict[QueueKey, int] = {}
        self.written: list[Written] = []

    def encode(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> bytes:
        """Returns all records, the first of which goes to `place`.

        Effects        `written` and `taken` are theirs from now on
        next_offsets   the queue offset that the next message of each queue gets
        now_ms         when they came about; time_ms: when they are stored
        """
        assert not len(self.written), "each is encoded once"
        self._records.truncate(0)
        self.taken = {}
        self._write_all(next_offsets, place, now_ms, time_ms)
        assert len(self._records) == self.size_sum
        return self._records.getvalue()

    @abstractmethod
    def _write_all(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> None:
        """Writes all records, and describes them run by run."""

    def _begin_run(self) -> None:
        """Begins the description of messages that are adjacent in one queue."""
        self._units.truncate(0)
        self._entries.truncate(0)
        self._places, self._sizes, self._codes = [], [], []

    def _join_run(self, place: i64, size: i64, code: i64) -> None:
        """Tells of the next record of it.

        code   its tags code: of a hash the low 32 bits
        """
        if code & _HALF:
            code -= _WORD + 1
        units = self._units
        write_i64_be(units, place)
        write_i32_be(units, i32(size))
        write_i64_be(units, code)
        self._places.append(place)
        self._sizes.append(size)
        self._codes.append(code)

    def _end_run(self, frame: TopicFrame, queue_id: i64, queue_offset: i64, time_ms: i64) -> None:
        """Adds the run to `written` for the views; its first message has the queue offset."""
        run = Written(
            frame.destinations[queue_id],
            queue_offset,
            physical_offsets=self._places,
            sizes=self._sizes,
            tags_codes=self._codes,
            store_time_ms=time_ms,
            unique_keys=NO_TEXTS,
            keys=NO_TEXTS,
            tags=NO_TEXTS,
            units=self._units.getvalue(),
            entries=self._entries.getvalue(),
        )
        self.taken[frame.queues[queue_id]] = queue_offset + len(self._places)
        self.written.append(run)

    def _own_size(self, body: bytes, block: bytes) -> i64:
        """Returns the bytes of a record of the broker's own."""
        return self._around + len(body) + len(block)

    def _write_own(
        self, body: bytes, block: bytes, queue_offset: i64, place: i64, now_ms: i64, time_ms: i64
    ) -> i64:
        """Writes a message of the broker's own; returns its size."""
        out, frame, crc = self._records, self._frame, i64(crc32(body))
        size = self._own_size(body, block)
        write_i32_be(out, i32(size))
        write_i32_be(out, MAGIC)
        write_i32_be(out, i32(crc & CRC_MASK))
        write_i64_be(out, 0)  # queue id, flag
        write_i64_be(out, queue_offset)
        write_i64_be(out, place)
        write_i32_be(out, i32(self._flags))
        write_i64_be(out, now_ms)
        out.write(frame.store_host)
        write_i64_be(out, time_ms)
        out.write(frame.store_host)
        write_i32_be(out, 0)  # reconsume times
        write_i64_be(out, 0)  # prepared offset
        write_i32_be(out, i32(len(body)))
        out.write(body)
        write_block(out, frame, block)
        return size


def write_block(out: BytesWriter, frame: TopicFrame, block: bytes) -> None:
    """Writes the bytes behind a body: topic, size of the property block, and that."""
    out.write(frame.field)
    end: i64 = len(out)
    size: i64 = len(block)
    out[end - 2] = u8(size >> 8)
    out[end - 1] = u8(size & 0xFF)
    out.write(block)
