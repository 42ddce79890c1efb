"""Encodes records that the broker itself creates, from bodies and property blocks."""

from pocketmq.format.layout import crc32
from pocketmq.format.put_records import HEAD_SIZE, PlainRecords, write_block, write_head
from pocketmq.format.topic_frame import TopicFrame
from pocketmq.native.machine import i32, i64, write_i32_be, write_i64_be


class SystemRecords(PlainRecords):
    """Encodes messages of the broker itself.

    frame   frame of the messages' topic, whose only queue is 0
    """

    __slots__ = ("_around", "_flags", "_frame")

    def __init__(self, frame: TopicFrame) -> None:
        super().__init__()
        self._frame = frame
        self._flags: i64 = frame.store_flags | frame.store_flags >> 1
        self._around: i64 = HEAD_SIZE + 2 * len(frame.store_host) + len(frame.field)

    def _own_size(self, body: bytes, block: bytes) -> i64:
        return self._around + len(body) + len(block)

    def _write_own(
        self, body: bytes, block: bytes, queue_offset: i64, place: i64, now_ms: i64, time_ms: i64
    ) -> i64:
        out, frame, crc = self._records, self._frame, i64(crc32(body))
        size, host = self._own_size(body, block), frame.store_host
        write_head(
            out, size, crc, 0, 0, queue_offset, place, self._flags, now_ms, host, time_ms, host
        )
        write_i32_be(out, 0)  # reconsume times
        write_i64_be(out, 0)  # prepared offset
        write_i32_be(out, i32(len(body)))
        out.write(body)
        write_block(out, frame, block)
        return size
