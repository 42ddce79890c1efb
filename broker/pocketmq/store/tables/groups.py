"""Consumer groups: RocketMQ's `config/subscriptionGroup.json`.

Unknown members of the file are preserved.
Source: SubscriptionGroupManager.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import GROUPS_FILE
from pocketmq.format.table_json import GROUP_DEFAULTS, GROUPS_MEMBER, read_texts
from pocketmq.model.administration import GroupConfig, GroupSettings
from pocketmq.model.errors import GroupExists, GroupNotFound
from pocketmq.model.names import check_group
from pocketmq.model.step import Clock
from pocketmq.store.tables.durable_table import NamedTable, RowTable, TableKind

NUMBER_MAX: Final = 2**31 - 2
"""Largest group setting: a signed 32-bit number, minus one as attempts are retries plus one."""


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
"""Group settings by their names in the file (SubscriptionGroupConfig), which counts retries
instead of attempts."""


class GroupTable(NamedTable[GroupConfig]):
    """All consumer groups of a store."""

    __slots__ = ()

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        super().__init__(RowTable(disk, directory, GROUPS_FILE, GROUPS_MEMBER, clock, pool), _KIND)

    async def ensure(self, group: str) -> None:
        """Creates a group with RocketMQ's defaults unless it exists; durable when it returns.

        Errors   IllegalGroup, LimitReached, DiskFull
        """
        if group not in self._configs:
            check_group(group)
            self._check_count()
            await self._put(group, {**GROUP_DEFAULTS, "groupName": group})
        await self._table.saved()

    async def create(self, group: str, settings: GroupSettings) -> GroupConfig:
        """Creates a group, unless it exists with these settings; durable when it returns.

        Errors   IllegalGroup, GroupExists (with other settings), LimitReached, DiskFull
        """
        check_group(group)
        row = {**GROUP_DEFAULTS, "groupName": group, **_members(settings)}
        existing = self._configs.get(group)
        if existing is None:
            self._check_count()
            return await self._put(group, row)
        if existing.settings != _group_from_row(group, row).settings:
            raise GroupExists(group=group)
        await self._table.saved()
        return existing

    async def update(self, group: str, settings: GroupSettings) -> GroupConfig:
        """Changes the given settings of a group; durable when it returns.

        Errors   GroupNotFound, DiskFull
        """
        if group not in self._configs:
            raise GroupNotFound(group=group)
        return await self._put(group, {**self._table.rows[group], **_members(settings)})


def _group_from_row(name: str, row: dict[str, Any]) -> GroupConfig:
    """Decodes a group; members of a wrong type or size get their defaults."""
    fit = {**GROUP_DEFAULTS, **{k: v for k, v in row.items() if _is_fit(k, v)}}
    fit[_RETRIES] += 1
    settings = GroupSettings(**{ours: fit[its] for ours, its in _GROUP_MEMBERS.items()})
    return GroupConfig(name, settings, read_texts(row.get("attributes")))


_KIND: Final = TableKind(
    check_group, lambda group: GroupNotFound(group=group), _group_from_row, "groups"
)


def _members(settings: GroupSettings) -> dict[str, Any]:
    """Returns the settings by their names in the file."""
    pairs = settings._asdict().items()
    members = {_GROUP_MEMBERS[name]: value for name, value in pairs if value is not None}
    if settings.max_attempts is not None:
        members[_RETRIES] = settings.max_attempts - 1
    return members


def _is_fit(name: str, value: Any) -> bool:
    """Returns whether a member of a row has the type of its default, and a legal size."""
    default = GROUP_DEFAULTS.get(name)
    is_small = not isinstance(value, int) or -1 <= value <= NUMBER_MAX
    return isinstance(value, type(default)) and is_small
