"""Topics: RocketMQ's `config/topics.json`.

Unknown members of the file are preserved.
Source: TopicConfigManager.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import TOPICS_FILE
from pocketmq.format.table_json import TOPICS_MEMBER, read_number, read_texts, topic_row
from pocketmq.model.errors import IllegalNumber, LimitReached, TopicExists, TopicNotFound
from pocketmq.model.names import check_topic
from pocketmq.model.step import Clock
from pocketmq.model.topic import (
    BATCH_QUEUES,
    DEFAULT_TYPE,
    LMQ_PREFIX,
    PERMISSION_MAX,
    PERMISSION_READ,
    PERMISSION_WRITE,
    QUEUE_COUNT_MAX,
    TYPE_ATTRIBUTE,
    TopicConfig,
    is_system_topic,
)
from pocketmq.store.tables.durable_table import COUNT_MAX, NamedTable, Rows, RowTable, TableKind

LOST: Final = "types, attributes, permissions, queue counts, and topics without messages"
RESTORE: Final = "stop the broker and restore the file, or set types: pocketmq topic edit --type"

logger = logging.getLogger(__name__)

QUEUE_COUNT_READ_MAX: Final = 65_536
"""Largest queue count read from a file: a wrong digit must not cause a loop over 2**31 queues."""


UsedQueues = Callable[[Set[str]], dict[str, int]]
"""Names of topics -> queue counts of those that have messages, by their queues."""


class TopicTable(NamedTable[TopicConfig]):
    """All topics of a store."""

    __slots__ = ("_leaving", "queue_count_max", "used_queues")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        super().__init__(RowTable(disk, directory, TOPICS_FILE, TOPICS_MEMBER, clock, pool), _KIND)
        self._leaving: dict[str, asyncio.Future[None]] = {}
        self.queue_count_max = COUNT_MAX
        """Upper limit of queues of all topics together for `create` and `update`."""
        self.used_queues: UsedQueues = lambda _: {}

    @asynccontextmanager
    async def leaving(self, topic: str) -> AsyncIterator[None]:
        """Delays `create` of a topic until the context's block, which removes the topic, has ended.

        Without the delay, new messages of the topic would be removed with its old queues.
        """
        await self._gone(topic)
        gone = self._leaving[topic] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._leaving[topic]
            gone.set_result(None)

    async def _gone(self, topic: str) -> None:
        while (gone := self._leaving.get(topic)) is not None:
            await asyncio.wait([gone])

    async def create(
        self,
        topic: str,
        *,
        queue_count: int,
        permission: int = PERMISSION_READ | PERMISSION_WRITE,
        attributes: dict[str, str] | None = None,
    ) -> TopicConfig:
        """Creates a topic, unless it exists with this queue count and these attributes.

        An existing topic keeps its permission. The topic is durable when this returns.
        Errors   IllegalTopic, IllegalNumber, TopicExists (with another queue count or other
                 attributes), LimitReached, DiskFull, NotReplicated, StoreFailed
        """
        check_topic(topic)
        _check_queue_count("queue count", queue_count)
        wanted = attributes or {}
        await self._gone(topic)
        existing = self._configs.get(topic)
        if existing is not None:
            stands, queues = _with_type(existing.attributes), existing.write_queue_count
            if stands != _with_type(wanted) or queues != queue_count:
                type_name = stands[TYPE_ATTRIBUTE]
                raise TopicExists(topic=topic, queue_count=queues, type_name=type_name)
            await self._table.saved()  # Another call may still be writing it, or may have failed.
            return existing
        self._check_count()
        self._check_queues(queue_count)
        return await self._put(topic, topic_row(topic, queue_count, permission, wanted))

    def _check_queues(self, more: int) -> None:
        count, limit = sum(one.queue_count for one in self._configs.values()), self.queue_count_max
        if count + more > limit:
            raise LimitReached(
                count=count, limit=limit, field="queues", setting="limits.queues_max"
            )

    async def ensure(self, topic: str, queue_count: int) -> TopicConfig:
        """Creates one of the broker's own topics unless it exists; durable when it returns.

        An existing topic keeps its queue count.
        Errors   IllegalTopic, DiskFull, NotReplicated, StoreFailed
        Source   TopicConfigManager.createTopicInSendMessageBackMethod
        """
        check_topic(topic)
        await self._gone(topic)
        if topic in self._configs:
            config = await self.keep(topic)
            await self._table.saved()  # Another call may still be writing it.
            return config
        permission = PERMISSION_READ | PERMISSION_WRITE
        return await self._put(topic, topic_row(topic, queue_count, permission, {}))

    async def update(
        self,
        topic: str,
        *,
        read_queue_count: int | None = None,
        write_queue_count: int | None = None,
        permission: int | None = None,
        order: bool | None = None,
        attributes: dict[str, str] | None = None,
    ) -> TopicConfig:
        """Changes the settings of a topic that are not None; durable when it returns.

        attributes   replaces all attributes of the topic
        Errors       TopicNotFound, IllegalNumber, LimitReached, DiskFull, NotReplicated,
                     StoreFailed
        Source       TopicConfigManager.updateTopicConfig
        """
        existing = self._configs.get(topic)
        if existing is None or topic not in self._table.rows:
            raise TopicNotFound(topic=topic)
        for field, count in (
            ("read queue count", read_queue_count),
            ("write queue count", write_queue_count),
        ):
            if count is not None:
                _check_queue_count(field, count)
        if permission is not None and not 0 <= permission <= PERMISSION_MAX:
            raise IllegalNumber(field="permission", value=permission, lower=0, upper=PERMISSION_MAX)
        more = max(read_queue_count or 0, write_queue_count or 0) - existing.queue_count
        if more > 0:
            self._check_queues(more)
        given = {
            "readQueueNums": read_queue_count,
            "writeQueueNums": write_queue_count,
            "perm": permission,
            "order": order,
            "attributes": attributes,
        }
        before = self._table.rows[topic]
        row = {**before, **{k: v for k, v in given.items() if v is not None}}
        if row != before:
            return await self._put(topic, row)
        await self._table.saved()
        return existing

    def adopt(self, topic: str, queue_count: int) -> None:
        """Adds a topic that has queues but no row; `keep` persists it.

        Light message queues are read-only, and never have a row.
        """
        if topic not in self._configs:
            count = min(queue_count, QUEUE_COUNT_READ_MAX)
            is_light = topic.startswith(LMQ_PREFIX)
            permission = PERMISSION_READ if is_light else PERMISSION_READ | PERMISSION_WRITE
            row = topic_row(topic, count, permission, {})
            config = replace(_topic_from_row(topic, row), is_kept=is_light)

            self._adopt(config, None if is_light else row)

    def _adopt(self, config: TopicConfig, row: dict[str, Any] | None) -> None:
        def add(rows: Rows, configs: dict[str, TopicConfig]) -> None:
            configs[config.name] = config
            if row is not None:
                rows[config.name] = row

        add(self._table.rows, self._configs)
        self._table.adopt(add)

    def _restore(self, configs: dict[str, TopicConfig]) -> None:
        gone = self._configs.keys() - configs.keys()
        super()._restore(configs)
        for topic, count in self.used_queues(gone).items():
            self.adopt(topic, count)  # Messages were sent to it before its creation was refused.
            self._notify(topic)

    def row(self, topic: str) -> dict[str, Any] | None:
        """Returns the row of a topic, for `put_back`; None without a row."""
        return self._table.rows.get(topic)

    def put_back(self, topic: str, row: dict[str, Any] | None) -> None:
        """Adds a topic again whose removal failed after that of its row; `keep` persists it."""
        if topic not in self._configs and row is not None:
            self._adopt(replace(_topic_from_row(topic, row), is_kept=False), row)
            self._notify(topic)

    def read_queue(self, topic: str, queue_id: int) -> int:
        """Returns the queue for a delayed message that is due: `queue_id`, if it is still read.

        If the topic has fewer read queues now, it is one of these.
        """
        config = self._configs.get(topic)
        count = 0 if config is None else config.read_queue_count
        return queue_id % count if 0 < count <= queue_id else queue_id

    async def keep(self, topic: str) -> TopicConfig:
        """Persists an adopted topic; durable when it returns.

        Errors   TopicNotFound, DiskFull, NotReplicated, StoreFailed
        """
        config = self.existing(topic)
        if not config.is_kept and not config.unsupported:
            await self._table.put(topic, self._table.rows[topic])
            config = self.existing(topic)  # It may have been changed or removed meanwhile.
            self._configs[topic] = config = replace(config, is_kept=True)
        return config

    def report_found(self) -> None:
        """Logs a warning if the store has no topic table, but topics that were adopted."""
        count = sum(not is_system_topic(topic) for topic in self._configs)
        if self._table.is_absent and count:
            path = str(self._table.path)
            logger.warning(
                "topics.found",
                extra={"path": path, "count": count, "lost": LOST, "next_step": RESTORE},
            )

    def know_batch_queues(self, topics: Iterable[str]) -> None:
        """Marks topics as having batch queues, even if their rows have no such attribute."""
        for topic in filter(self._is_name, topics):
            found = self._configs.get(topic) or TopicConfig(topic, 0, 0, is_kept=False)
            attributes = {**found.attributes, **BATCH_QUEUES}
            self._configs[topic] = replace(found, attributes=attributes)
        self._table.loaded()


def _topic_from_row(name: str, row: dict[str, Any]) -> TopicConfig:
    return TopicConfig(
        name,
        read_number(row.get("readQueueNums"), QUEUE_COUNT_READ_MAX),
        read_number(row.get("writeQueueNums"), QUEUE_COUNT_READ_MAX),
        read_number(row.get("perm"), PERMISSION_MAX),
        bool(row.get("order", False)),
        read_texts(row.get("attributes")),
    )


_KIND: Final = TableKind(
    check_topic, lambda topic: TopicNotFound(topic=topic), _topic_from_row, "topics"
)


def _check_queue_count(field: str, count: int) -> None:
    if not 1 <= count <= QUEUE_COUNT_MAX:
        raise IllegalNumber(field=field, value=count, lower=1, upper=QUEUE_COUNT_MAX)


def _with_type(attributes: dict[str, str]) -> dict[str, str]:
    return {TYPE_ATTRIBUTE: DEFAULT_TYPE, **attributes}
