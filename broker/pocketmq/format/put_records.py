"""Base classes that encode the records of one put.

Each subclass returns the bytes that the general functions encode_records and index_entries return
for the same messages.
"""

from abc import ABC, abstractmethod
from typing import Final

from pocketmq.format.addresses import IPV4_HOST_SIZE
from pocketmq.format.layout import CRC_MASK
from pocketmq.format.record import MAGIC_V1, RECORD_HEAD
from pocketmq.format.topic_frame import TopicFrame
from pocketmq.model.batch import NO_TEXTS, Written
from pocketmq.model.message import QueueKey
from pocketmq.native.machine import BytesWriter, i32, i64, u8, write_i32_be, write_i64_be

HEAD_SIZE: Final = RECORD_HEAD.size - 2 * IPV4_HOST_SIZE
_MAGIC: Final = MAGIC_V1 - (1 << 32)
_WORD: Final = 0xFFFF_FFFF
_HALF: Final = 0x8000_0000


class PutRecords(ABC):
    """Records that one put stores contiguously.

    property_crc   whether each record ends with a property CRC
    size_sum       bytes of all records
    written        set by `encode`: a `Written` for each sequence of adjacent records of one queue
    taken          queue -> queue offset of the next message after these records
    """

    __slots__ = ("property_crc", "size_sum", "taken", "written")

    def __init__(self) -> None:
        self.property_crc = False
        self.size_sum: i64 = 0
        self.taken: dict[QueueKey, int] = {}
        self.written: list[Written] = []

    @abstractmethod
    def encode(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> bytes:
        """Returns all records; the first one has physical offset `place`.

        Effects        sets `written` and `taken`
        next_offsets   queue -> queue offset of its next message
        now_ms         born time
        time_ms        store time
        """

    def advance(self, next_offsets: dict[QueueKey, int]) -> None:
        """Sets the queues' next offsets to those after these records, which are in the log."""
        next_offsets.update(self.taken)


class PlainRecords(PutRecords):
    """Encodes records without property CRCs; `encode` must be called once for each put."""

    __slots__ = ("_codes", "_entries", "_places", "_records", "_sizes", "_units")

    def __init__(self) -> None:
        super().__init__()
        self._records = BytesWriter()
        self._units = BytesWriter()
        self._entries = BytesWriter()
        self._places: list[int] = []
        self._sizes: list[int] = []
        self._codes: list[int] = []

    def encode(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> bytes:
        """Returns all records, see `PutRecords.encode`."""
        assert not len(self.written), "encoded twice"
        self._records.truncate(0)
        if len(self.taken):
            self.taken = {}
        self._write_all(next_offsets, place, now_ms, time_ms)
        assert len(self._records) == self.size_sum
        return self._records.getvalue()

    @abstractmethod
    def _write_all(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> None:
        """Writes all records, and describes them run by run."""

    # -- runs ----------------------------------------------------------------------------------
    def _begin_run(self, sizes: list[int]) -> None:
        """Begins a run; `sizes` has the size of each record, or the caller adds it."""
        self._units.truncate(0)
        self._entries.truncate(0)
        self._places, self._sizes, self._codes = [], sizes, []

    def _join_run(self, place: i64, size: i64, code: i64) -> None:
        if code & _HALF:
            code -= _WORD + 1
        units = self._units
        write_i64_be(units, place)
        write_i32_be(units, i32(size))
        write_i64_be(units, code)
        self._places.append(place)
        self._codes.append(code)

    def _end_run(self, frame: TopicFrame, queue_id: i64, queue_offset: i64, time_ms: i64) -> None:
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
        self.written.append(run)


# -- parts of a record -------------------------------------------------------------------------
def write_head(
    out: BytesWriter, size: i64, crc: i64, queue_id: i64, flag: i64, queue_offset: i64, place: i64,
    system_flag: i64, born_ms: i64, born_host: bytes, time_ms: i64, store_host: bytes,
) -> None:  # fmt: skip
    """Writes a record up to its store host."""
    write_i32_be(out, i32(size))
    write_i32_be(out, _MAGIC)
    write_i32_be(out, i32(crc & CRC_MASK))
    write_i32_be(out, i32(queue_id))
    write_i32_be(out, i32(flag))
    write_i64_be(out, queue_offset)
    write_i64_be(out, place)
    write_i32_be(out, i32(system_flag))
    write_i64_be(out, born_ms)
    out.write(born_host)
    write_i64_be(out, time_ms)
    out.write(store_host)


def write_block_size(out: BytesWriter, field_end: i64) -> None:
    """Writes the size of the property block that follows a topic field."""
    size: i64 = len(out) - field_end
    out[field_end - 2] = u8(size >> 8)
    out[field_end - 1] = u8(size & 0xFF)


def write_block(out: BytesWriter, frame: TopicFrame, block: bytes) -> None:
    """Writes the bytes after a body: topic, size of the property block, and the block."""
    out.write(frame.field)
    field_end: i64 = len(out)
    out.write(block)
    write_block_size(out, field_end)


def write_entry(entries: BytesWriter, hashed: i64, place: i64, time_ms: i64) -> None:
    """Writes an index entry; only the low 32 bits of the hash count."""
    hashed &= _WORD
    if hashed > _HALF:
        hashed = _WORD + 1 - hashed
    elif hashed == _HALF:
        hashed = 0
    write_i32_be(entries, i32(hashed))
    write_i64_be(entries, place)
    write_i64_be(entries, time_ms)


def hash_on(value: i64, text: bytes) -> i64:
    """Continues an unsigned Java hash with a text."""
    place: i64 = 0
    while place < len(text):
        byte: i64 = text[place]
        value = (31 * value + byte) & _WORD
        place += 1
    return value
