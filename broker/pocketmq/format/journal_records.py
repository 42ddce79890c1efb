"""Encodes entries of the lease journal (pop_records.py): records, units, index entries.

The bytes equal those that encode_records and index_entries make of the same messages.
"""

from typing import Final, final

from pocketmq.format.index_layout import STYLE_5_5
from pocketmq.format.pop_records import Entry
from pocketmq.format.put_records import hash_on, write_entry
from pocketmq.format.system_records import SystemRecords
from pocketmq.format.topic_frame import TopicFrame
from pocketmq.model.message import QueueKey
from pocketmq.native.machine import i64

_BLOCK_SIZE_MAX: Final = 0x7FFF


@final
class JournalRecords(SystemRecords):
    """Encodes journal entries."""

    __slots__ = ("_taken",)

    def __init__(self, topic: str, store_host: bytes, index_style: str) -> None:
        is_tagged = index_style == STYLE_5_5
        super().__init__(TopicFrame(topic, 1, store_host=store_host, tail=b"", is_tagged=is_tagged))
        self._taken: list[Entry] = []

    def take(self, entries: list[Entry]) -> bool:
        """Sets the entries to encode; returns whether all of them are plain.

        An entry is not plain if its key is not ASCII, or if its property block is too large.
        """
        assert len(entries)
        self._taken = entries
        self.written = []
        size_sum: i64 = 0
        for body, block, key, _ in entries:
            if not key.isascii() or len(block) > _BLOCK_SIZE_MAX:
                return False
            size_sum += self._own_size(body, block)
        self.size_sum = size_sum
        return True

    def _write_all(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> None:
        frame, index = self._frame, self._entries
        first_offset: i64 = next_offsets.get(frame.queues[0], 0)
        queue_offset = first_offset
        self._begin_run([])
        for body, block, key, tag in self._taken:
            size = self._write_own(body, block, queue_offset, place, now_ms, time_ms)
            tag_bytes = tag.encode()
            code: i64 = hash_on(0, tag_bytes)
            self._sizes.append(size)
            self._join_run(place, size, code)
            write_entry(index, hash_on(frame.key_prefix, key.encode()), place, time_ms)
            if frame.is_tagged:
                write_entry(index, hash_on(frame.tag_prefix, tag_bytes), place, time_ms)
            place += size
            queue_offset += 1
        self._end_run(frame, 0, first_offset, time_ms)
        self.taken[frame.queues[0]] = queue_offset
