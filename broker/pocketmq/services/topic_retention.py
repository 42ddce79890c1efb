"""Retention of single topics: expired messages cannot be read any more.

    topic attribute             messages expire when
    pocketmq.retention.ms       they were stored this many ms ago
    pocketmq.retention.bytes    all newer records of the topic together have this size

Expired records stay on the disk until retention deletes their commit-log file, which also contains
records of other topics. Each round reads only the units that were added or expired since the last
round.
Source: none; RocketMQ has one retention for all topics.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Final

from pocketmq.model.message import QueueKey
from pocketmq.model.reading import Bound
from pocketmq.model.topic import TopicConfig
from pocketmq.store.message_store import MessageStore
from pocketmq.store.pieces import in_pieces
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.read.reading import Place, Reading

UNITS_READ: Final = 1_024
"""Upper limit of units of one read: about 0.2 ms of work."""


class UnitsGone(Exception):
    """Units of counted messages were removed: the queue must be counted again."""


class QueueSize:
    """The size of the records of one queue from `begin` to `end`."""

    __slots__ = ("_heads", "_key", "_reading", "begin", "end", "size_bytes")

    def __init__(self, reading: Reading, key: QueueKey, begin: int) -> None:
        self._reading = reading
        self._key = key
        self._heads: deque[Place] = deque()
        """Places of the oldest records that were already read."""
        self.begin = self.end = begin
        self.size_bytes = 0

    def follows(self, lower: int, upper: int) -> bool:
        """Returns whether `follow` can update the size for a queue with these offsets."""
        return self.begin <= lower <= self.end <= upper

    async def follow(self, lower: int, upper: int) -> None:
        """Adds the sizes of records up to `upper`; subtracts the sizes of records below `lower`.

        Errors   UnitsGone, StorageError, DiskSlow
        """
        while self.end < upper:
            places = await self._places(self.end, upper)
            self.size_bytes += sum(size for _, size in places)
            self.end += len(places)
        while self.begin < lower:
            if await self.first() == (0, 0):  # The unit is blank now: its old size is unknown.
                raise UnitsGone
            self.drop_first()
        assert self.size_bytes >= 0, "more bytes were dropped than added"

    async def first(self) -> Place:
        """Returns the place of the oldest counted record; there must be one.

        Errors   UnitsGone, StorageError, DiskSlow
        """
        assert self.begin < self.end, "the queue has no record"
        if not self._heads:
            self._heads.extend(await self._places(self.begin, self.end))
        return self._heads[0]

    def drop_first(self) -> None:
        """Subtracts the record that `first` returned."""
        self.size_bytes -= self._heads.popleft()[1]
        self.begin += 1

    async def _places(self, begin: int, end: int) -> list[Place]:
        count = min(end - begin, UNITS_READ)
        places = await value_of(self._reading.unit_places(*self._key, begin, count))
        if not places:
            raise UnitsGone
        await asyncio.sleep(0)
        return places


class TopicRetention:
    """Expires messages of topics with attributes for retention."""

    __slots__ = ("_sizes", "_store")

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._sizes: dict[QueueKey, QueueSize] = {}

    async def expire(self, now_ms: int) -> None:
        """Expires messages by the retention of their topics.

        now_ms   wall time
        Errors   StorageError, DiskSlow
        Cost     by age: one read of the log for each queue if no message expires; by size: about
                 0.2 µs for each new message
        """
        if self._store.damage is not None:
            return
        topics = self._store.tables.topics
        counted: set[QueueKey] = set()
        async for piece in in_pieces(topics.names()):
            for topic in [topics.find(name) for name in piece]:
                if topic is not None and (topic.retention_ms or topic.retention_bytes):
                    counted.update(await self._expire(topic, now_ms))
        self._sizes = {key: size for key, size in self._sizes.items() if key in counted}

    async def _expire(self, topic: TopicConfig, now_ms: int) -> Iterable[QueueKey]:
        """Returns the queues whose sizes were counted."""
        keys = [(topic.name, queue_id) for queue_id in self._store.reading.queue_ids(topic.name)]
        if topic.retention_ms:
            await self._expire_old(keys, now_ms - topic.retention_ms)
        if not topic.retention_bytes:
            return ()
        try:
            await self._expire_large(keys, topic.retention_bytes)
        except UnitsGone:  # A queue was trimmed during the reads. The next round counts again.
            return ()
        return keys

    async def _expire_old(self, keys: Iterable[QueueKey], before_ms: int) -> None:
        reading, floors = self._store.reading, dict[QueueKey, int]()
        for key in keys:
            lower, upper = reading.queue_range(*key)
            if lower == upper:
                continue
            first_ms = await value_of(reading.store_timestamp_at(*key, lower))
            if first_ms is None or first_ms < before_ms:
                found = reading.queue_offset_by_time(*key, max(before_ms, 0), Bound.LOWER)
                floors[key] = await value_of(found)
        self._store.expire(floors)

    async def _expire_large(self, keys: Iterable[QueueKey], bytes_max: int) -> None:
        sizes = {key: await self._followed(key) for key in keys}
        total = sum(size.size_bytes for size in sizes.values())
        if total <= bytes_max:
            return
        oldest = [(await size.first(), key) for key, size in sizes.items() if size.begin < size.end]
        heapify(oldest)
        while total > bytes_max and oldest:
            (_, size_bytes), key = heappop(oldest)
            total -= size_bytes
            size = sizes[key]
            size.drop_first()
            if size.begin < size.end:
                heappush(oldest, (await size.first(), key))
        assert total == sum(size.size_bytes for size in sizes.values()), "sizes do not add up"
        self._store.expire({key: size.begin for key, size in sizes.items()})

    async def _followed(self, key: QueueKey) -> QueueSize:
        lower, upper = self._store.reading.queue_range(*key)
        size = self._sizes.get(key)
        if size is not None and size.follows(lower, upper):
            with suppress(UnitsGone):
                await size.follow(lower, upper)
                return size
        size = self._sizes[key] = QueueSize(self._store.reading, key, lower)
        await size.follow(lower, upper)
        return size
