"""From half messages that are decided to bytes: committed messages, and that halves are done.

    half_record ─► committed message …  ┐
                   "12,13," of all      ┴─► one put: records, units, entries

All bytes are those that `half_message.py` and `op_message.py` with encode_records make of the same.
"""

from typing import Final, final

from broker.format.half_record import HalfRecord
from broker.format.layout import CRC_MASK, crc32
from broker.format.op_message import OP_BLOCK, OP_BODY_SIZE_MAX, OP_TAG
from broker.format.record import MAGIC_V1
from broker.format.send_records import TopicFrame, write_entry
from broker.model.batch import Written
from broker.model.message import (
    FLAG_STORE_HOST_V6,
    FLAG_TRANSACTION_MASK,
    TRANSACTION_COMMIT,
    QueueKey,
)
from broker.native.machine import (
    BytesWriter,
    append,
    i32,
    i64,
    read_i64_be,
    u8,
    vec,
    write_i32_be,
    write_i64_be,
)

NO_TEXTS: Final[list[str]] = []
"""Never changed: views look at no texts where entries are given."""
_MAGIC: Final = MAGIC_V1 - (1 << 32)
_OP_CODE: Final = ord(OP_TAG)
"""String.hashCode of one letter."""
_OP_HEAD: Final = 48 + 8 + 4 + 8 + 4
"""Bytes of a record's head without both hosts."""
_WORD: Final = 0xFFFF_FFFF
_HALF: Final = 0x8000_0000


@final
class _Committed:
    """One message that is committed."""

    __slots__ = (
        "block", "body_begin", "body_end", "code", "frame", "hash_begin", "hash_end", "place",
        "queue_id", "raw", "size", "store_host_at", "system_flag",
    )  # fmt: skip

    def __init__(self, half: HalfRecord, frame: TopicFrame, size: i64) -> None:
        assert size > 0
        self.raw = half.raw
        self.block = half.block
        self.body_begin: i64 = half.body_begin
        self.body_end: i64 = half.body_end
        self.store_host_at: i64 = half.store_host_at
        self.system_flag: i64 = half.system_flag & ~FLAG_TRANSACTION_MASK | TRANSACTION_COMMIT
        self.place: i64 = read_i64_be(half.raw, 28)
        self.queue_id: i64 = half.real_queue_id
        self.frame = frame
        self.size: i64 = size
        self.code: i64 = half.tag_hash
        if self.code & _HALF:
            self.code -= _WORD + 1
        self.hash_begin: i64 = 0
        self.hash_end: i64 = 0


@final
class EndRecords:
    """Makes the bytes that end some half messages, after another; those before are gone then.

    op_frame   of the topic that tells which half messages are done
    size_sum   bytes of all records
    written    as the views are told of them; of messages of one queue in a row one for all
    """

    __slots__ = (
        "_body", "_committed", "_entries", "_hashes", "_op_frame", "_op_size", "_records", "_units",
        "_writing", "size_sum", "written",
    )  # fmt: skip

    def __init__(self, op_frame: TopicFrame) -> None:
        self._op_frame = op_frame
        self._records = BytesWriter()
        self._units = BytesWriter()
        self._entries = BytesWriter()
        self.begin()

    def begin(self) -> None:
        """Be without half messages."""
        self._committed: list[_Committed] = []
        self._hashes: vec[i64] = vec[i64]()
        self._body = b""
        self._op_size: i64 = 0
        self.size_sum: i64 = 0
        self.written: list[Written] = []

    def commit(self, half: HalfRecord, frame: TopicFrame) -> None:
        """Take a half message that is committed.

        frame   of its topic, which has its queue
        """
        assert 0 <= half.real_queue_id < len(frame.destinations)
        size = half.body_end + len(frame.field) + len(half.block)
        one = _Committed(half, frame, size)
        one.hash_begin = len(self._hashes)
        found, place = half.key_hashes, i64(0)
        while place < len(found):
            hashed = found[place] + frame.key_prefix * frame.powers[found[place + 1]]
            self._hashes = append(self._hashes, hashed & _WORD)
            place += 2
        if half.tag_size and frame.is_tagged:
            hashed = half.tag_hash + frame.tag_prefix * frame.powers[half.tag_size]
            self._hashes = append(self._hashes, hashed & _WORD)
        one.hash_end = len(self._hashes)
        self._committed.append(one)
        self.size_sum += size

    def tell(self, queue_offsets: list[int]) -> bool:
        """Take which half messages are done; returns whether one record tells of all."""
        body = b""
        for queue_offset in queue_offsets:
            body += b"%d," % queue_offset
        self._body = body
        frame = self._op_frame
        self._op_size = _OP_HEAD + 2 * len(frame.store_host) + len(body) + len(frame.field)
        self._op_size += len(OP_BLOCK)
        self.size_sum += self._op_size
        return len(body) <= OP_BODY_SIZE_MAX

    def encode(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> bytes:
        """Return all records, the first of which goes to `place`; `written` is theirs from now on.

        next_offsets   the queue offset that the next message of each queue gets
        now_ms         when they were decided; time_ms: when they are stored
        Source   EndTransactionProcessor.endMessageTransaction, TransactionalMessageBridge
        """
        out, begin = self._records, place
        out.truncate(0)
        written = self.written
        assert not len(written), "each is encoded once"
        taken: dict[QueueKey, int] = {}
        number: i64 = 0
        count: i64 = len(self._committed)
        while number < count:
            first = self._committed[number]
            key = first.frame.queues[first.queue_id]
            queue_offset: i64 = taken[key] if key in taken else next_offsets.get(key, 0)
            end = number + 1
            while end < count and self._follows(first, self._committed[end]):
                end += 1
            written.append(self._encode_run(number, end, queue_offset, place, time_ms))
            taken[key] = queue_offset + end - number
            place = written[-1].end
            number = end
        frame = self._op_frame
        queue_offset = next_offsets.get(frame.queues[0], 0)
        self._write_op(out, queue_offset, place, now_ms, time_ms)
        units, entries = self._units, self._entries
        units.truncate(0)
        entries.truncate(0)
        _write_unit(units, place, self._op_size, _OP_CODE)
        if frame.is_tagged:
            hashed = _OP_CODE + frame.tag_prefix * frame.powers[1]
            write_entry(entries, hashed, place, time_ms)
        places, sizes, codes = [int(place)], [int(self._op_size)], [_OP_CODE]
        written.append(self._written(frame, 0, queue_offset, places, sizes, codes, time_ms))
        assert len(out) == place + self._op_size - begin
        return out.getvalue()

    def _follows(self, first: _Committed, other: _Committed) -> bool:
        return other.frame is first.frame and other.queue_id == first.queue_id

    def _encode_run(
        self, number: i64, end: i64, queue_offset: i64, place: i64, time_ms: i64
    ) -> Written:
        """Write messages of one queue; returns what views are told of them."""
        out, units, entries = self._records, self._units, self._entries
        units.truncate(0)
        entries.truncate(0)
        frame, queue_id = self._committed[number].frame, self._committed[number].queue_id
        first_offset = queue_offset
        places: list[int] = []
        sizes: list[int] = []
        codes: list[int] = []
        while number < end:
            one = self._committed[number]
            self._write_committed(out, one, queue_offset, place, time_ms)
            _write_unit(units, place, one.size, one.code)
            hashed = one.hash_begin
            while hashed < one.hash_end:
                write_entry(entries, self._hashes[hashed], place, time_ms)
                hashed += 1
            places.append(place)
            sizes.append(one.size)
            codes.append(one.code)
            place += one.size
            queue_offset += 1
            number += 1
        return self._written(frame, queue_id, first_offset, places, sizes, codes, time_ms)

    def _written(
        self, frame: TopicFrame, queue_id: i64, queue_offset: i64, places: list[int],
        sizes: list[int], codes: list[int], time_ms: i64,
    ) -> Written:  # fmt: skip
        return Written(
            frame.destinations[queue_id],
            queue_offset,
            physical_offsets=places,
            sizes=sizes,
            tags_codes=codes,
            store_time_ms=time_ms,
            unique_keys=NO_TEXTS,
            keys=NO_TEXTS,
            tags=NO_TEXTS,
            units=self._units.getvalue(),
            entries=self._entries.getvalue(),
        )

    def _write_committed(
        self, out: BytesWriter, one: _Committed, queue_offset: i64, place: i64, time_ms: i64
    ) -> None:
        raw, host = one.raw, one.store_host_at
        host_size: i64 = 20 if one.system_flag & FLAG_STORE_HOST_V6 else 8
        write_i32_be(out, i32(one.size))
        write_i32_be(out, _MAGIC)
        out.write(raw[8:12])
        write_i32_be(out, i32(one.queue_id))
        out.write(raw[16:20])
        write_i64_be(out, queue_offset)
        write_i64_be(out, place)
        write_i32_be(out, i32(one.system_flag))
        out.write(raw[40 : host - 8])
        write_i64_be(out, time_ms)
        out.write(raw[host : host + host_size + 4])
        write_i64_be(out, one.place)
        out.write(raw[one.body_begin - 4 : one.body_end])
        _write_block(out, one.frame, one.block)

    def _write_op(
        self, out: BytesWriter, queue_offset: i64, place: i64, now_ms: i64, time_ms: i64
    ) -> None:
        frame, body = self._op_frame, self._body
        crc: i64 = crc32(body)
        write_i32_be(out, i32(self._op_size))
        write_i32_be(out, _MAGIC)
        write_i32_be(out, i32(crc & CRC_MASK))
        write_i32_be(out, 0)
        write_i32_be(out, 0)
        write_i64_be(out, queue_offset)
        write_i64_be(out, place)
        both: i64 = frame.store_flags | frame.store_flags >> 1
        write_i32_be(out, i32(both))
        write_i64_be(out, now_ms)
        out.write(frame.store_host)
        write_i64_be(out, time_ms)
        out.write(frame.store_host)
        write_i32_be(out, 0)
        write_i64_be(out, 0)
        write_i32_be(out, i32(len(body)))
        out.write(body)
        _write_block(out, frame, OP_BLOCK)


def _write_block(out: BytesWriter, frame: TopicFrame, block: bytes) -> None:
    """Write what stands behind a body: topic, size of the property block, and that."""
    out.write(frame.field)
    end: i64 = len(out)
    size: i64 = len(block)
    out[end - 2] = u8(size >> 8)
    out[end - 1] = u8(size & 0xFF)
    out.write(block)


def _write_unit(units: BytesWriter, place: i64, size: i64, code: i64) -> None:
    write_i64_be(units, place)
    write_i32_be(units, i32(size))
    write_i64_be(units, code)
