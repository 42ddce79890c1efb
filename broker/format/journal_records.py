"""From entries of the journal of leases (pop_records.py) to bytes: records, units, index entries.

All bytes are those that encode_records and index_entries make of the same messages.
"""

from typing import Final, final

from broker.format.index_layout import STYLE_5_5
from broker.format.layout import CRC_MASK, crc32
from broker.format.pop_records import Entry
from broker.format.record import MAGIC_V1, RECORD_HEAD
from broker.format.send_records import TopicFrame, hash_on, write_entry
from broker.model.batch import Written
from broker.model.message import QueueKey
from broker.native.machine import BytesWriter, i32, i64, u8, write_i32_be, write_i64_be

NO_TEXTS: Final[list[str]] = []
"""Never changed: views look at no texts where entries are given."""
_MAGIC: Final = MAGIC_V1 - (1 << 32)
_HEAD_SIZE: Final = RECORD_HEAD.size
_IPV4_HOST_SIZE: Final = 8
_BLOCK_SIZE_MAX: Final = 0x7FFF
_WORD: Final = 0xFFFF_FFFF
_HALF: Final = 0x8000_0000


@final
class JournalRecords:
    """Makes the bytes of some entries, after others; those before are gone then.

    size_sum   bytes of all records
    """

    __slots__ = ("_entries", "_frame", "_index", "_records", "_units", "size_sum")

    def __init__(self, topic: str, store_host: bytes, index_style: str) -> None:
        is_tagged = index_style == STYLE_5_5
        self._frame = TopicFrame(topic, 1, store_host=store_host, tail=b"", is_tagged=is_tagged)
        self._entries: list[Entry] = []
        self._records = BytesWriter()
        self._units = BytesWriter()
        self._index = BytesWriter()
        self.size_sum: i64 = 0

    @property
    def queue(self) -> QueueKey:
        """The queue they go to, as tables name it."""
        return self._frame.queues[0]

    @property
    def count(self) -> int:
        """Entries that were taken."""
        return len(self._entries)

    def take(self, entries: list[Entry]) -> bool:
        """Take entries in place of those before; returns whether all are plain.

        They are not where a key is not of ASCII, or a property block has no room.
        """
        self._entries = entries
        fixed: i64 = self._fixed_size()
        size_sum: i64 = 0
        for body, block, key, _ in entries:
            if not key.isascii() or len(block) > _BLOCK_SIZE_MAX:
                return False
            size_sum += fixed + len(body) + len(block)
        self.size_sum = size_sum
        return True

    def _fixed_size(self) -> i64:
        frame = self._frame
        hosts: i64 = 2 * (len(frame.store_host) - _IPV4_HOST_SIZE)
        return hosts + _HEAD_SIZE + len(frame.field)

    def encode(self, place: i64, now_ms: i64, time_ms: i64, queue_offset: i64) -> bytes:
        """Return the records, the first of which goes to `place`; `written` tells of them.

        now_ms   when they came about; time_ms: when they are stored
        """
        out, frame, begin = self._records, self._frame, place
        out.truncate(0)
        both: i64 = frame.store_flags | frame.store_flags >> 1
        fixed: i64 = self._fixed_size()
        for body, block, _, _ in self._entries:
            size: i64 = fixed + len(body) + len(block)
            crc: i64 = crc32(body)
            write_i32_be(out, i32(size))
            write_i32_be(out, _MAGIC)
            write_i32_be(out, i32(crc & CRC_MASK))
            write_i64_be(out, 0)  # queue id, flag
            write_i64_be(out, queue_offset)
            write_i64_be(out, place)
            write_i32_be(out, i32(both))
            write_i64_be(out, now_ms)
            out.write(frame.store_host)
            write_i64_be(out, time_ms)
            out.write(frame.store_host)
            write_i32_be(out, 0)
            write_i64_be(out, 0)
            write_i32_be(out, i32(len(body)))
            out.write(body)
            out.write(frame.field)
            end: i64 = len(out)
            block_size: i64 = len(block)
            out[end - 2] = u8(block_size >> 8)
            out[end - 1] = u8(block_size & 0xFF)
            out.write(block)
            place += size
            queue_offset += 1
        assert len(out) == place - begin
        return out.getvalue()

    def written(self, place: i64, time_ms: i64, queue_offset: i64) -> Written:
        """Return what views are told of the records, which `encode` put to `place`."""
        units, index, frame = self._units, self._index, self._frame
        units.truncate(0)
        index.truncate(0)
        fixed: i64 = self._fixed_size()
        places: list[int] = []
        sizes: list[int] = []
        codes: list[int] = []
        for body, block, key, tag in self._entries:
            size: i64 = fixed + len(body) + len(block)
            tag_bytes = tag.encode()
            code: i64 = hash_on(0, tag_bytes)
            write_entry(index, hash_on(frame.key_prefix, key.encode()), place, time_ms)
            if frame.is_tagged:
                write_entry(index, hash_on(frame.tag_prefix, tag_bytes), place, time_ms)
            if code & _HALF:
                code -= _WORD + 1
            write_i64_be(units, place)
            write_i32_be(units, i32(size))
            write_i64_be(units, code)
            places.append(place)
            sizes.append(size)
            codes.append(code)
            place += size
        return Written(
            frame.destinations[0],
            queue_offset,
            physical_offsets=places,
            sizes=sizes,
            tags_codes=codes,
            store_time_ms=time_ms,
            unique_keys=NO_TEXTS,
            keys=NO_TEXTS,
            tags=NO_TEXTS,
            units=units.getvalue(),
            entries=index.getvalue(),
        )
