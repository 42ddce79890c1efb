"""Topics and consumer groups: RocketMQ's `config/topics.json` and `subscriptionGroup.json`.

What the files hold beyond the fields used here is kept and written back.
Source: TopicConfigManager, SubscriptionGroupManager.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import CONFIG_DIRECTORY, GROUPS_FILE, TOPICS_FILE
from broker.format.table_json import (
    GROUP_DEFAULTS,
    decode_rows,
    encode_table,
    read_number,
    read_texts,
    topic_row,
)
from broker.model.clock import Clock
from broker.model.errors import (
    GroupExists,
    GroupNotFound,
    IllegalNumber,
    RequestError,
    TopicExists,
    TopicNotFound,
)
from broker.model.group import GroupConfig, GroupSettings
from broker.model.topic import (
    DEFAULT_TYPE,
    PERMISSION_MAX,
    PERMISSION_READ,
    PERMISSION_WRITE,
    QUEUE_COUNT_MAX,
    TYPE_ATTRIBUTE,
    TopicConfig,
)
from broker.model.topic_names import check_group, check_topic
from broker.store.tables.durable_table import DurableTable

QUEUE_COUNT_READ_MAX: Final = 65_536
"""What a file may say: a wrong digit in it must not make a loop over 2**31 queues."""
NUMBER_MAX: Final = 2**31 - 2
"""Group settings are signed 32-bit numbers, and deliveries one more than retries."""

_TOPICS: Final = "topicConfigTable"
_GROUPS: Final = "subscriptionGroupTable"
_RETRIES: Final = "retryMaxTimes"
_GROUP_MEMBERS: Final = {
    "enabled": "consumeEnable",
    "fifo": "consumeMessageOrderly",
    "broadcast_enabled": "consumeBroadcastEnable",
    "begins_at_min": "consumeFromMinEnable",
    "max_attempts": _RETRIES,
    "retry_queue_count": "retryQueueNums",
    "consume_timeout_minutes": "consumeTimeoutMinute",
}
"""What the file calls each of a group's settings (SubscriptionGroupConfig); attempts are counted
there without the first one."""


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
        self._table = self._file.read(self._decode) or {}
        rows: dict[str, dict[str, Any]] = self._table.setdefault(self._member, {})
        return rows

    def _decode(self, content: bytes) -> dict[str, Any]:
        return decode_rows(content, self._member)

    def _encode(self) -> bytes:
        return encode_table(self._table)

    def row(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._table[self._member][name]
        return found

    def note(self, name: str, row: dict[str, Any]) -> None:
        self._table[self._member][name] = row

    async def put(self, name: str, row: dict[str, Any]) -> None:
        self.note(name, row)
        await self._changed()

    async def drop(self, name: str) -> None:
        self._table[self._member].pop(name, None)
        await self._changed()

    async def _changed(self) -> None:
        version = self._table.get("dataVersion") or {}
        self._table["dataVersion"] = {
            "counter": int(version.get("counter", 0)) + 1,
            "stateVersion": int(version.get("stateVersion", 0)),
            "timestamp": self._clock.wall_ms(),
        }
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
        """Read the table; names that cannot be topics are kept in the file and not known.

        Errors   ValueError when neither the file nor its `.bak` can be read
        """
        rows = self._table.load().items()
        self._topics = {n: _topic_from_row(n, row) for n, row in rows if _passes(check_topic, n)}

    def find(self, topic: str) -> TopicConfig | None:
        """Return a topic, None when nobody created it."""
        return self._topics.get(topic)

    def existing(self, topic: str) -> TopicConfig:
        """Return a topic that exists.

        Errors   IllegalTopic, TopicNotFound
        """
        config = self._topics.get(topic)
        if config is None:
            check_topic(topic)
            raise TopicNotFound(topic=topic)
        return config

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
        _check_queue_count("queue count", queue_count)
        wanted = attributes or {}
        existing = self._topics.get(topic)
        if existing is not None:
            is_same = _with_type(existing.attributes) == _with_type(wanted)
            if not is_same or existing.write_queue_count != queue_count:
                raise TopicExists(topic=topic, queue_count=existing.write_queue_count)
            await self._table.saved()  # Another call may still be writing it, or have failed to.
            return existing
        return await self._put(topic, topic_row(topic, queue_count, permission, wanted))

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
        """Change what is given of a topic, None keeps the rest; durable when it returns.

        attributes   take the place of all it has
        Errors   TopicNotFound, IllegalNumber, DiskFull
        Source   TopicConfigManager.updateTopicConfig
        """
        existing = self._topics.get(topic)
        if existing is None:
            raise TopicNotFound(topic=topic)
        for field, count in (
            ("read queue count", read_queue_count),
            ("write queue count", write_queue_count),
        ):
            if count is not None:
                _check_queue_count(field, count)
        if permission is not None and not 0 <= permission <= PERMISSION_MAX:
            raise IllegalNumber(field="permission", value=permission, lower=0, upper=PERMISSION_MAX)
        given = {
            "readQueueNums": read_queue_count,
            "writeQueueNums": write_queue_count,
            "perm": permission,
            "order": order,
            "attributes": attributes,
        }
        before = self._table.row(topic)
        row = {**before, **{k: v for k, v in given.items() if v is not None}}
        if row != before:
            return await self._put(topic, row)
        await self._table.saved()
        return existing

    async def remove(self, topic: str) -> None:
        """Forget a topic, if it is there; durable when it returns.

        Errors   DiskFull
        Source   TopicConfigManager.deleteTopicConfig
        """
        if self._topics.pop(topic, None) is not None:
            await self._table.drop(topic)
        await self._table.saved()

    def adopt(self, topic: str, queue_count: int) -> None:
        """Know a topic whose row is missing while it has queues; written with the next change."""
        if topic not in self._topics:
            count = min(queue_count, QUEUE_COUNT_READ_MAX)
            row = topic_row(topic, count, PERMISSION_READ | PERMISSION_WRITE, {})
            self._topics[topic] = _topic_from_row(topic, row)
            self._table.note(topic, row)

    async def _put(self, topic: str, row: dict[str, Any]) -> TopicConfig:
        config = self._topics[topic] = _topic_from_row(topic, row)
        await self._table.put(topic, row)
        return config


def _topic_from_row(name: str, row: dict[str, Any]) -> TopicConfig:
    return TopicConfig(
        name,
        read_number(row.get("readQueueNums"), QUEUE_COUNT_READ_MAX),
        read_number(row.get("writeQueueNums"), QUEUE_COUNT_READ_MAX),
        read_number(row.get("perm"), PERMISSION_MAX),
        bool(row.get("order", False)),
        read_texts(row.get("attributes")),
    )


def _passes(check: Callable[[str], None], name: Any) -> bool:
    try:
        check(str(name))
    except RequestError:
        return False
    return isinstance(name, str)


def _check_queue_count(field: str, count: int) -> None:
    if not 1 <= count <= QUEUE_COUNT_MAX:
        raise IllegalNumber(field=field, value=count, lower=1, upper=QUEUE_COUNT_MAX)


def _with_type(attributes: dict[str, str]) -> dict[str, str]:
    """Return attributes with the type a topic has when nothing is said."""
    return {TYPE_ATTRIBUTE: DEFAULT_TYPE, **attributes}


def _group_from_row(name: str, row: dict[str, Any]) -> GroupConfig:
    """Return a group as its row has it; members of a wrong type or size are the defaults."""
    fit = {**GROUP_DEFAULTS, **{k: v for k, v in row.items() if _is_fit(k, v)}}
    fit[_RETRIES] += 1
    settings = GroupSettings(**{ours: fit[its] for ours, its in _GROUP_MEMBERS.items()})
    return GroupConfig(name, settings, read_texts(row.get("attributes")))


def _members(settings: GroupSettings) -> dict[str, Any]:
    """Return what is set, as the file calls it."""
    pairs = settings._asdict().items()
    members = {_GROUP_MEMBERS[name]: value for name, value in pairs if value is not None}
    if settings.max_attempts is not None:
        members[_RETRIES] = settings.max_attempts - 1
    return members


def _is_fit(name: str, value: Any) -> bool:
    """Return whether a member of a file's row has the type and size its default has."""
    default = GROUP_DEFAULTS.get(name)
    is_small = not isinstance(value, int) or -1 <= value <= NUMBER_MAX
    return isinstance(value, type(default)) and is_small


class GroupTable:
    """All consumer groups of a store."""

    __slots__ = ("_groups", "_table")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        path = directory / CONFIG_DIRECTORY / GROUPS_FILE
        self._table = _ConfigTable(disk, path, _GROUPS, clock, pool)
        self._groups: dict[str, GroupConfig] = {}

    def load(self) -> None:
        """Read the table; names that cannot be groups are kept in the file and not known.

        Errors   ValueError when neither the file nor its `.bak` can be read
        """
        rows = self._table.load().items()
        self._groups = {n: _group_from_row(n, row) for n, row in rows if _passes(check_group, n)}

    def find(self, group: str) -> GroupConfig | None:
        """Return a group, None when nobody made it."""
        return self._groups.get(group)

    def existing(self, group: str) -> GroupConfig:
        """Return a group that exists.

        Errors   IllegalGroup, GroupNotFound
        """
        config = self._groups.get(group)
        if config is None:
            check_group(group)
            raise GroupNotFound(group=group)
        return config

    def names(self) -> list[str]:
        """Return all group names, sorted."""
        return sorted(self._groups)

    async def ensure(self, group: str) -> None:
        """Make a group with RocketMQ's defaults unless it exists; durable when it returns.

        Errors   IllegalGroup, DiskFull
        """
        if group not in self._groups:
            check_group(group)
            await self._put(group, {**GROUP_DEFAULTS, "groupName": group})
        await self._table.saved()

    async def create(self, group: str, settings: GroupSettings) -> GroupConfig:
        """Make a group; durable when it returns. The same group once more changes nothing.

        Errors   IllegalGroup, GroupExists (with other settings), DiskFull
        """
        check_group(group)
        row = {**GROUP_DEFAULTS, "groupName": group, **_members(settings)}
        existing = self._groups.get(group)
        if existing is None:
            return await self._put(group, row)
        if existing.settings != _group_from_row(group, row).settings:
            raise GroupExists(group=group)
        await self._table.saved()
        return existing

    async def update(self, group: str, settings: GroupSettings) -> GroupConfig:
        """Change what is set of a group; durable when it returns.

        Errors   GroupNotFound, DiskFull
        """
        if group not in self._groups:
            raise GroupNotFound(group=group)
        return await self._put(group, {**self._table.row(group), **_members(settings)})

    async def remove(self, group: str) -> None:
        """Forget a group, if it is there; durable when it returns.

        Errors   DiskFull
        Source   SubscriptionGroupManager.deleteSubscriptionGroupConfig
        """
        if self._groups.pop(group, None) is not None:
            await self._table.drop(group)
        await self._table.saved()

    async def _put(self, group: str, row: dict[str, Any]) -> GroupConfig:
        config = self._groups[group] = _group_from_row(group, row)
        await self._table.put(group, row)
        return config
