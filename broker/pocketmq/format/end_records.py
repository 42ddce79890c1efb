"""Encodes decisions about half messages: committed messages, and the op message.

The bytes equal those that `half_message.py` and `op_message.py` make with encode_records.
"""

from typing import Final, final

from pocketmq.format.half_record import HalfRecord
from pocketmq.format.op_message import OP_BLOCK, OP_BODY_SIZE_MAX, OP_TAG
from pocketmq.format.put_records import write_block, write_entry, write_head
from pocketmq.format.system_records import SystemRecords
from pocketmq.format.topic_frame import TopicFrame
from pocketmq.model.message import (
    FLAG_STORE_HOST_V6,
    FLAG_TRANSACTION_MASK,
    TRANSACTION_COMMIT,
    QueueKey,
)
from pocketmq.native.machine import append, i64, read_i32_be, read_i64_be, vec, write_i64_be

_OP_CODE: Final = ord(OP_TAG)
"""String.hashCode of OP_TAG, one letter."""
_WORD: Final = 0xFFFF_FFFF


@final
class _Committed:
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
        self.hash_begin: i64 = 0
        self.hash_end: i64 = 0


@final
class EndRecords(SystemRecords):
    """Encodes the records that end half messages.

    frame   frame of the op topic, whose messages list ended half messages
    """

    __slots__ = ("_body", "_committed", "_hashes")

    def __init__(self, frame: TopicFrame) -> None:
        super().__init__(frame)
        self.begin()

    def begin(self) -> None:
        """Removes all half messages, so that the next put can be prepared."""
        self._committed: list[_Committed] = []
        self._hashes: vec[i64] = vec[i64]()
        self._body = b""
        self.size_sum = 0
        self.written = []

    def commit(self, half: HalfRecord, frame: TopicFrame) -> None:
        """Adds a committed half message.

        frame   frame of the message's target topic, which must have its queue
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
        """Sets the queue offsets of ended half messages; returns whether one record lists all."""
        body = b""
        for queue_offset in queue_offsets:
            body += b"%d," % queue_offset
        self._body = body
        self.size_sum += self._own_size(body, OP_BLOCK)
        return len(body) <= OP_BODY_SIZE_MAX

    def _write_all(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> None:
        """Writes the committed messages, then one op message for all half messages.

        Source   EndTransactionProcessor.endMessageTransaction, TransactionalMessageBridge
        """
        taken, number = self.taken, i64(0)
        count: i64 = len(self._committed)
        while number < count:
            first = self._committed[number]
            key = first.frame.queues[first.queue_id]
            queue_offset: i64 = taken[key] if key in taken else next_offsets.get(key, 0)
            end = number + 1
            while end < count and self._follows(first, self._committed[end]):
                end += 1
            place = self._write_run(number, end, queue_offset, place, time_ms)
            number = end
        frame = self._frame
        queue_offset = next_offsets.get(frame.queues[0], 0)
        self._begin_run([])
        size = self._write_own(self._body, OP_BLOCK, queue_offset, place, now_ms, time_ms)
        self._sizes.append(size)
        self._join_run(place, size, _OP_CODE)
        if frame.is_tagged:
            hashed = _OP_CODE + frame.tag_prefix * frame.powers[1]
            write_entry(self._entries, hashed, place, time_ms)
        self._end_run(frame, 0, queue_offset, time_ms)
        self.taken[frame.queues[0]] = queue_offset + 1

    def _follows(self, first: _Committed, other: _Committed) -> bool:
        return other.frame is first.frame and other.queue_id == first.queue_id

    def _write_run(self, number: i64, end: i64, queue_offset: i64, place: i64, time_ms: i64) -> i64:
        self._begin_run([])
        entries, first, first_offset = self._entries, self._committed[number], queue_offset
        while number < end:
            one = self._committed[number]
            self._write_committed(one, queue_offset, place, time_ms)
            self._sizes.append(one.size)
            self._join_run(place, one.size, one.code)
            hashed = one.hash_begin
            while hashed < one.hash_end:
                write_entry(entries, self._hashes[hashed], place, time_ms)
                hashed += 1
            place += one.size
            queue_offset += 1
            number += 1
        self._end_run(first.frame, first.queue_id, first_offset, time_ms)
        self.taken[first.frame.queues[first.queue_id]] = queue_offset
        return place

    def _write_committed(
        self, one: _Committed, queue_offset: i64, place: i64, time_ms: i64
    ) -> None:
        out, raw, host = self._records, one.raw, one.store_host_at
        host_end: i64 = host + (20 if one.system_flag & FLAG_STORE_HOST_V6 else 8)
        crc, flag = i64(read_i32_be(raw, 8)), i64(read_i32_be(raw, 16))
        write_head(
            out, one.size, crc, one.queue_id, flag, queue_offset, place, one.system_flag,
            read_i64_be(raw, 40), raw[48 : host - 8], time_ms, raw[host:host_end],
        )  # fmt: skip
        out.write(raw[host_end : host_end + 4])
        write_i64_be(out, one.place)
        out.write(raw[one.body_begin - 4 : one.body_end])
        write_block(out, one.frame, one.block)
