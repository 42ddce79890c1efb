"""Topics and consumer groups: RocketMQ's `config/topics.json` and `subscriptionGroup.json`.

What the files hold beyond the fields used here is kept and written back.
Source: TopicConfigManager, SubscriptionGroupManager.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import CONFIG_DIRECTORY, GROUPS_FILE, TOPICS_FILE
from broker.format.table_json import decode_table, encode_table
from broker.model.clock import Clock
from broker.model.errors import IllegalNumber, TopicExists
from broker.model.system_topics import is_group_topic, is_system_topic
from broker.model.topic_names import check_group, check_topic
from broker.store.durable_table import DurableTable

PERMISSION_READ: Final = 4
PERMISSION_WRITE: Final = 2
PERMISSION_INHERIT: Final = 1
QUEUE_COUNT_MAX: Final = 1_024
"""More queues than this in one topic serve nobody and cost a file each."""

TYPE_ATTRIBUTE: Final = "message.type"

_TOPICS: Final = "topicConfigTable"
_GROUPS: Final = "subscriptionGroupTable"
_GROUP_DEFAULTS: Final[dict[str, Any]] = {
    "attributes": {},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupName": "",
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}


class TopicConfig:
    """One topic as its table has it; `fields` is the row of the file, not changed afterwards."""

    __slots__ = (
        "fields", "is_internal", "is_readable", "is_writable", "name", "order", "permission",
        "read_queue_count", "write_queue_count",
    )  # fmt: skip

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.name = name
        self.read_queue_count = int(fields.get("readQueueNums", 0))
        """Queues a consumer may pull from."""
        self.write_queue_count = int(fields.get("writeQueueNums", 0))
        """Queues a producer may send to."""
        self.permission = int(fields.get("perm", 0))
        """Sum of 4 read, 2 write, 1 inherit."""
        self.order = bool(fields.get("order", False))
        self.is_internal = is_system_topic(name) or is_group_topic(name)
        """Whether clients may not send to it."""
        self.is_readable = bool(self.permission & PERMISSION_READ)
        self.is_writable = bool(self.permission & PERMISSION_WRITE)

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes without the leading plus: message.type and others."""
        return dict(self.fields.get("attributes") or {})


class _ConfigTable:
    """A JSON table with a data version, rows under one member."""

    __slots__ = ("_clock", "_durable", "_file", "_member", "_table")

    def __init__(
        self, disk: Disk, path: Path, member: str, clock: Clock, pool: ThreadPoolExecutor
    ) -> None:
        self._file = TableFile(disk, path)
        self._durable = DurableTable(self._file, pool, self._encode)
        self._member = member
        self._clock = clock
        self._table: dict[str, Any] = {}

    def load(self) -> dict[str, dict[str, Any]]:
        self._table = self._file.read(decode_table) or {}
        rows: dict[str, dict[str, Any]] = self._table.setdefault(self._member, {})
        return rows

    def _encode(self) -> bytes:
        return encode_table(self._table)

    def note(self, name: str, row: dict[str, Any]) -> None:
        self._table[self._member][name] = row

    async def put(self, name: str, row: dict[str, Any]) -> None:
        version = self._table.get("dataVersion") or {}
        self._table["dataVersion"] = {
            "counter": int(version.get("counter", 0)) + 1,
            "stateVersion": int(version.get("stateVersion", 0)),
            "timestamp": self._clock.wall_ms(),
        }
        self.note(name, row)
        self._table = dict(sorted(self._table.items()))
        self._durable.touch()
        await self.saved()

    async def saved(self) -> None:
        await self._durable.saved()


class TopicTable:
    """All topics of a store."""

    __slots__ = ("_table", "_topics")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        path = directory / CONFIG_DIRECTORY / TOPICS_FILE
        self._table = _ConfigTable(disk, path, _TOPICS, clock, pool)
        self._topics: dict[str, TopicConfig] = {}

    def load(self) -> None:
        """Read the table.

        Errors   ValueError when neither the file nor its `.bak` can be read
        """
        self._topics = {name: TopicConfig(name, row) for name, row in self._table.load().items()}

    def find(self, topic: str) -> TopicConfig | None:
        """Return a topic, None when nobody created it."""
        return self._topics.get(topic)

    def names(self) -> list[str]:
        """Return all topic names, sorted."""
        return sorted(self._topics)

    async def create(
        self,
        topic: str,
        *,
        queue_count: int,
        permission: int = PERMISSION_READ | PERMISSION_WRITE,
        attributes: dict[str, str] | None = None,
    ) -> TopicConfig:
        """Make a topic; durable when it returns. The same topic once more changes nothing.

        Errors   IllegalTopic, IllegalNumber, TopicExists (with other settings), DiskFull
        """
        check_topic(topic)
        if not 1 <= queue_count <= QUEUE_COUNT_MAX:
            raise IllegalNumber(
                field="queue count", value=queue_count, lower=1, upper=QUEUE_COUNT_MAX
            )
        wanted = attributes or {}
        existing = self._topics.get(topic)
        if existing is not None:
            is_same = _with_type(existing.attributes) == _with_type(wanted)
            if not is_same or existing.write_queue_count != queue_count:
                raise TopicExists(topic=topic, queue_count=existing.write_queue_count)
            await self._table.saved()  # Another call may still be writing it, or have failed to.
            return existing
        config = TopicConfig(topic, topic_row(topic, queue_count, permission, wanted))
        self._topics[topic] = config
        await self._table.put(topic, config.fields)
        return config

    def adopt(self, topic: str, queue_count: int) -> None:
        """Know a topic whose row is missing while it has queues; written with the next change."""
        if topic not in self._topics:
            row = topic_row(topic, queue_count, PERMISSION_READ | PERMISSION_WRITE, {})
            self._topics[topic] = TopicConfig(topic, row)
            self._table.note(topic, row)


def _with_type(attributes: dict[str, str]) -> dict[str, str]:
    """Return attributes with the type a topic has when nothing is said."""
    return {TYPE_ATTRIBUTE: "NORMAL", **attributes}


def topic_row(
    topic: str, queue_count: int, permission: int, attributes: dict[str, str]
) -> dict[str, Any]:
    """Return a topic as topics.json has it (TopicConfig)."""
    return {
        "attributes": attributes,
        "order": False,
        "perm": permission,
        "readQueueNums": queue_count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": queue_count,
    }


class GroupTable:
    """All consumer groups of a store."""

    __slots__ = ("_groups", "_table")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        path = directory / CONFIG_DIRECTORY / GROUPS_FILE
        self._table = _ConfigTable(disk, path, _GROUPS, clock, pool)
        self._groups: dict[str, dict[str, Any]] = {}

    def load(self) -> None:
        """Read the table.

        Errors   ValueError when neither the file nor its `.bak` can be read
        """
        self._groups = self._table.load()

    def names(self) -> list[str]:
        """Return all group names, sorted."""
        return sorted(self._groups)

    async def ensure(self, group: str) -> None:
        """Make a group with RocketMQ's defaults unless it exists; durable when it returns.

        Errors   IllegalGroup, DiskFull
        """
        if group not in self._groups:
            check_group(group)
            await self._table.put(group, {**_GROUP_DEFAULTS, "groupName": group})
        await self._table.saved()
