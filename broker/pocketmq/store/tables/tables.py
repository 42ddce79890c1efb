"""The small tables of a store, which share one writing thread."""

from collections.abc import Iterable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.model.message import QueueKey
from pocketmq.model.step import Clock
from pocketmq.model.system_topics import lease_retry_topic, lease_retry_topic_v2
from pocketmq.model.topic import RETRY_PREFIX, is_group_topic, retry_topic
from pocketmq.store.tables.archive_mark import ArchiveMark
from pocketmq.store.tables.believed_time import BelievedTime
from pocketmq.store.tables.copied_files import (
    FLOORS,
    GROUPS,
    LMQ_OFFSETS,
    MODES,
    NAME_SETTINGS,
    OFFSETS,
    REMOVED,
    TIMER_COUNTS_FILE,
    TOPICS,
    CopiedFiles,
)
from pocketmq.store.tables.delay_offsets import DelayOffsets
from pocketmq.store.tables.durable_table import RowTable
from pocketmq.store.tables.groups import GroupTable
from pocketmq.store.tables.name_settings import NameSettings
from pocketmq.store.tables.offsets import ConsumerOffsets
from pocketmq.store.tables.order_files import ORDER_JOURNAL_BYTES, OrderFiles
from pocketmq.store.tables.order_info import OrderInfo
from pocketmq.store.tables.queue_floors import QueueFloors
from pocketmq.store.tables.removed_queues import RemovedQueues
from pocketmq.store.tables.request_modes import RequestModes
from pocketmq.store.tables.timer_check import TimerCheck
from pocketmq.store.tables.topics import TopicTable

RETRY_SEPARATORS: Final = "_+"
"""Separators of group and topic in names of retry topics: one of each of RocketMQ's two formats."""
TIMER_COUNTS: Final = "timingCount"


class Tables:
    """The tables of one store; `read` loads them."""

    __slots__ = (
        "_pool", "archive_mark", "believed_time", "delay_offsets", "files", "floors", "groups",
        "modes", "name_settings", "offsets", "orders", "removed", "timer_check", "timer_counts",
        "topics",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: Path, clock: Clock, *,
        is_sync: bool = True, order_journal_bytes: int = ORDER_JOURNAL_BYTES,
    ) -> None:  # fmt: skip
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tables")
        self.files = CopiedFiles(disk, directory, self._pool)
        self.topics = TopicTable(disk, directory, clock, self._pool)
        self.groups = GroupTable(disk, directory, clock, self._pool)
        self.offsets = ConsumerOffsets(disk, directory, clock, self._pool, self.groups)
        self.modes = RequestModes(disk, directory, clock, self._pool)
        self.name_settings = NameSettings(disk, directory, clock, self._pool)
        self.timer_check = TimerCheck(disk, directory, self._pool)
        self.timer_counts = RowTable(
            disk, directory, TIMER_COUNTS_FILE, TIMER_COUNTS, clock, self._pool, is_counted=True
        )
        files = OrderFiles(disk, directory, order_journal_bytes)
        self.orders = OrderInfo(files, clock, self._pool, is_sync=is_sync)
        self.delay_offsets = DelayOffsets(disk, directory, clock, self._pool)
        self.removed = RemovedQueues(disk, directory, self._pool)
        self.floors = QueueFloors(disk, directory, self._pool)
        self.believed_time = BelievedTime(disk, directory, self._pool)
        self.archive_mark = ArchiveMark(disk, directory, clock, self._pool)

    def read(self) -> None:
        """Reads all tables except the removed queues.

        Errors   TableUnreadable: neither a file nor its `.bak` can be parsed; ReadFailed
        """
        offsets = (
            self.offsets,
            self.orders,
            self.delay_offsets,
            self.floors,
            self.modes,
            self.name_settings,
            self.timer_check,
            self.timer_counts,
            self.believed_time,
        )
        for table in (self.topics, self.groups, *offsets):
            table.load()

    def reload(self, name: str) -> None:
        """Reads a file again that this follower has replaced, if followers use its table.

        A promotion reads the others: orders, delays, and the timer's progress and counts.
        Errors   TableUnreadable, ReadFailed
        """
        reloads = {
            TOPICS: self.topics.reload,
            GROUPS: self.groups.reload,
            OFFSETS: self.offsets.load,
            LMQ_OFFSETS: self.offsets.load,
            MODES: self.modes.load,
            NAME_SETTINGS: self.name_settings.load,
            FLOORS: self.floors.load,
            REMOVED: self.removed.load,
        }
        if name in reloads:
            reloads[name]()

    def adopt(self, queues: Iterable[QueueKey], batch_topics: Iterable[str] = ()) -> None:
        """Adds topics that have queues but no row, and topics of batch queues."""
        self.topics.know_batch_queues(batch_topics)
        counts: dict[str, int] = {}
        for topic, queue_id in queues:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        for topic, count in counts.items():
            self.topics.adopt(topic, count)
        self.topics.report_found()

    def know_ends(self, next_offsets: Mapping[QueueKey, int]) -> None:
        """Lets topics stay whose creation is refused after messages were sent to them.

        next_offsets   queue offset of each queue's next message, as it changes
        """

        def used(topics: Set[str]) -> dict[str, int]:
            counts: dict[str, int] = {}
            for key, end in next_offsets.items():
                if key[0] in topics and end > self.removed.next_offsets.get(key, 0):
                    counts[key[0]] = max(counts.get(key[0], 0), key[1] + 1)
            return counts

        self.topics.used_queues = used

    def begins_at_first(self, group: str, topic: str) -> bool:
        """Returns whether a group begins at the first message of queues where it has no offset.

        It does so in its retry topics, and in queues that were added since it began in others.
        Clients of an unknown group choose their offsets.
        """
        if topic.startswith(RETRY_PREFIX):
            return True
        config = self.groups.find(group)
        return config is not None and (
            bool(config.settings.begins_at_min) or self.offsets.has_some(group, topic)
        )

    def retry_topics(self, group: str, topic: str) -> list[str]:
        """Returns the existing topics with a group's redeliveries of a topic's messages.

        A retry topic has none of its own.
        """
        if topic.startswith(RETRY_PREFIX):
            return []
        names = (lease_retry_topic(group, topic), lease_retry_topic_v2(group, topic))
        return [n for n in (*names, retry_topic(group)) if self.topics.find(n) is not None]

    def with_retries(self, group: str, topics: Iterable[str]) -> list[str]:
        """Returns topics and a group's existing retry topics of them, sorted."""
        found = set(topics)
        return sorted(found.union(*(self.retry_topics(group, topic) for topic in found)))

    def is_removed(self, topic: str) -> bool:
        """Returns whether a topic was removed and does not exist.

        A retry or dead-letter topic of an existing group and topic does not count as removed: it
        would be created again.
        """
        if self.topics.find(topic) is not None or not self.removed.has(topic):
            return False
        return not is_group_topic(topic) or not self._may_come_again(topic)

    def _may_come_again(self, topic: str) -> bool:
        rest = topic.partition("%")[2].partition("%")[2]
        if self.groups.find(rest) is not None:
            return True
        at = [number for number, letter in enumerate(rest) if letter in RETRY_SEPARATORS]
        return any(
            self.groups.find(rest[:number]) is not None
            and self.topics.find(rest[number + 1 :]) is not None
            for number in at
        )

    async def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Sets a group's offset in a queue; durable when it returns.

        Effects  setting an offset back drops the FIFO order of the queue
        Errors   IllegalGroup, LimitReached, DiskFull, NotReplicated, StoreFailed
        """
        before = self.offsets.find(group, topic, queue_id)
        await self.offsets.commit(group, topic, queue_id, queue_offset)
        if before is not None and queue_offset < before:
            await self.orders.forget(group, topic, (queue_id,))

    def close(self) -> None:
        """Ends the thread after the write in progress, and closes open files."""
        self._pool.shutdown()
        self.files.watch.end()
        self.orders.close()
