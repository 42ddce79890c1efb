"""Verifies fields of records that soundness (size, magic, CRC, own offset) does not cover.

It reports impossible times, negative ids, illegal topic names, and records without a property CRC
in a log whose writer appended one.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.body_codec import plain_body
from pocketmq.format.columns.heads import Heads, is_marked
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.records import Decoded
from pocketmq.format.record import PROPERTY_CRC_SIZE
from pocketmq.model.errors import IllegalTopic
from pocketmq.model.message import FLAG_COMPRESSED, OFFSET_MAX
from pocketmq.model.names import check_queue_topic
from pocketmq.tools.verify.collector import Collector
from pocketmq.walk.reader import Chunk

TIME_MIN_MS: Final = 1_262_304_000_000
"""2010: no RocketMQ is older."""
FUTURE_MS: Final = 24 * 3_600_000
"""A store time may be this much ahead of this machine's clock."""
BORN_FUTURE_MS: Final = 10 * 365 * FUTURE_MS
"""A born time is a client's own number, so only impossible ones are reported."""
MARKED_SHARE: Final = 0.9
"""Share of the first records that carry a property CRC from which on all of them must."""


class RecordCheck:
    """Looks at every chunk of sound records."""

    __slots__ = (
        "_checked_topics", "_collector", "_deep", "_marked_from", "_now_ms", "_queues", "count",
    )  # fmt: skip

    def __init__(
        self, collector: Collector, queues: QueueTable, *,
        marked_from: int | None, now_ms: int, deep: bool = False,
    ) -> None:  # fmt: skip
        self._collector = collector
        self._queues = queues
        self._marked_from = marked_from
        self._now_ms = now_ms
        self._deep = deep
        self._checked_topics = 0
        self.count = 0

    def look(self, chunk: Chunk, decoded: Decoded) -> None:
        """Takes a chunk."""
        heads = decoded.heads
        self.count += len(heads)
        store_ms, born_ms = heads.store_timestamp_ms, heads.born_timestamp_ms
        is_odd = (store_ms < TIME_MIN_MS) | (store_ms > self._now_ms + FUTURE_MS)
        self._report(heads, "store_time", is_odd, store_ms)
        is_odd = (born_ms < 0) | (born_ms > self._now_ms + BORN_FUTURE_MS)
        self._report(heads, "born_time", is_odd, born_ms)
        self._report(heads, "queue_id", heads.queue_id < 0, heads.queue_id)
        self._report(heads, "queue_offset", heads.queue_offset < 0, heads.queue_offset)
        self._look_at_marks(chunk, heads)
        self._look_at_topics(decoded)
        if self._deep:
            self._unfold(chunk, heads)

    def _unfold(self, chunk: Chunk, heads: Heads) -> None:
        """Checks that bodies flagged as compressed can be decompressed."""
        folded = (heads.system_flag & FLAG_COMPRESSED != 0) & (heads.body_size > 0)
        for record in np.flatnonzero(folded).tolist():
            begin = int(heads.body_begin[record])
            body = bytes(chunk.buffer[begin : begin + int(heads.body_size[record])])
            if plain_body(body, int(heads.system_flag[record])) is body:
                place = int(heads.physical_offset[record])
                self._add("compressed_body", place, "a body that unfolds", "one that does not")

    def _look_at_marks(self, chunk: Chunk, heads: Heads) -> None:
        begins = heads.block_begin + heads.block_size - PROPERTY_CRC_SIZE
        marked = is_marked(chunk.buffer, begins) & (heads.block_size >= PROPERTY_CRC_SIZE)
        if self._marked_from is None:
            self._marked_from = 0 if np.mean(marked) >= MARKED_SHARE else OFFSET_MAX
        lacks = ~marked & (heads.physical_offset >= self._marked_from)
        self._report(heads, "property_crc", lacks, heads.block_size, "a record with its CRC")

    def _look_at_topics(self, decoded: Decoded) -> None:
        assert self._checked_topics <= len(self._queues.keys)
        for number in range(self._checked_topics, len(self._queues.keys)):
            topic = self._queues.keys[number][0]
            try:
                check_queue_topic(topic)
            except IllegalTopic as error:
                # A queue that further records are dispatched to may be no record's own.
                own = np.flatnonzero(decoded.queue == number)
                first = int(own[0]) if len(own) else 0
                self._add("topic", int(decoded.heads.physical_offset[first]), "a topic", str(error))
        self._checked_topics = len(self._queues.keys)

    def _report(
        self, heads: Heads, kind: str, is_bad: NDArray[np.bool_], values: NDArray[np.int64],
        expected: str = "a value that can be",
    ) -> None:  # fmt: skip
        if is_bad.any():
            for record in np.flatnonzero(is_bad).tolist():
                place = int(heads.physical_offset[record])
                self._add(kind, place, expected, f"{int(values[record])}")

    def _add(self, kind: str, place: int, expected: str, found: str) -> None:
        self._collector.add_record(kind, place, expected=expected, found=found)
