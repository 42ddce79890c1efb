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
from pocketmq.model.begin import BEGIN_MAX, BEGIN_MIN, begin_from_text, begin_text, is_timed
from pocketmq.model.errors import GroupExists, GroupNotFound, IllegalBegin
from pocketmq.model.names import check_group
from pocketmq.model.step import Clock
from pocketmq.store.tables.durable_table import NamedTable, RowTable, TableKind

NUMBER_MAX: Final = 2**31 - 2
"""Largest group setting: attempts, which are retries plus one, must fit a signed 32-bit number."""


_RETRIES: Final = "retryMaxTimes"
_FROM_MIN: Final = "consumeFromMinEnable"
_ATTRIBUTES: Final = "attributes"
BEGIN_ATTRIBUTE: Final = "pocketmq.begin"
"""Attribute with the time at which a group begins. RocketMQ preserves the attribute, and begins at
the minimum, so that the group skips no message."""
_GROUP_MEMBERS: Final = {
    "enabled": "consumeEnable",
    "fifo": "consumeMessageOrderly",
    "broadcast_enabled": "consumeBroadcastEnable",
    "begins_at_min": _FROM_MIN,
    "max_attempts": _RETRIES,
    "retry_queue_count": "retryQueueNums",
    "consume_timeout_minutes": "consumeTimeoutMinute",
}
"""Group settings by their names in the file (SubscriptionGroupConfig), which counts retries
instead of attempts."""


class GroupTable(NamedTable[GroupConfig]):
    """All consumer groups of a store."""

    __slots__ = ("begin_ms",)

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        super().__init__(RowTable(disk, directory, GROUPS_FILE, GROUPS_MEMBER, clock, pool), _KIND)
        self.begin_ms = BEGIN_MIN
        """Begin of groups that are created without the setting `begin` (model/begin.py)."""

    async def ensure(self, group: str) -> None:
        """Creates a group with the defaults unless it exists; durable when it returns.

        Errors   IllegalGroup, LimitReached, DiskFull, NotReplicated, StoreFailed
        """
        if group not in self._configs:
            check_group(group)
            self._check_count()
            await self._put(group, self._new_row(group, GroupSettings()))
        await self._table.saved()

    async def create(self, group: str, settings: GroupSettings) -> GroupConfig:
        """Creates a group, unless it exists with these settings; durable when it returns.

        Errors   IllegalGroup, IllegalBegin, GroupExists (with other settings), LimitReached,
                 DiskFull, NotReplicated, StoreFailed
        """
        check_group(group)
        row = self._new_row(group, settings)
        existing = self._configs.get(group)
        if existing is None:
            self._check_count()
            return await self._put(group, row)
        wanted = _group_from_row(group, row).settings
        if existing.settings != wanted:
            raise GroupExists(group=group, why=_difference(existing.settings, wanted))
        await self._table.saved()
        return existing

    async def update(self, group: str, settings: GroupSettings) -> GroupConfig:
        """Changes the given settings of a group; durable when it returns.

        Errors   GroupNotFound, IllegalBegin, DiskFull, NotReplicated, StoreFailed
        """
        if group not in self._configs:
            raise GroupNotFound(group=group)
        return await self._put(group, _changed(self._table.rows[group], settings))

    def _new_row(self, group: str, settings: GroupSettings) -> dict[str, Any]:
        if settings.begin is None and settings.begins_at_min is None:
            settings = settings._replace(begin=begin_text(self.begin_ms))
        return _changed({**GROUP_DEFAULTS, "groupName": group}, settings)


def _group_from_row(name: str, row: dict[str, Any]) -> GroupConfig:
    """Decodes a group; members of a wrong type or size get their defaults."""
    fit = {**GROUP_DEFAULTS, **{k: v for k, v in row.items() if _is_fit(k, v)}}
    fit[_RETRIES] += 1
    attributes = read_texts(row.get(_ATTRIBUTES))
    begin_ms = _begin_ms(attributes, begins_at_min=fit[_FROM_MIN])
    settings = GroupSettings(
        **{ours: fit[its] for ours, its in _GROUP_MEMBERS.items()}, begin=begin_text(begin_ms)
    )
    return GroupConfig(name, settings, attributes, begin_ms)


def _difference(existing: GroupSettings, wanted: GroupSettings) -> str:
    """Returns the settings in which a group differs: "max_attempts is 17, not 3"."""
    pairs = zip(existing._fields, existing, wanted, strict=True)
    rows = {name: f"{name} is {old}, not {new}" for name, old, new in pairs if old != new}
    if "begin" in rows:
        rows.pop("begins_at_min", None)  # `begin` determines it.
    assert rows, "the groups are alike"
    return ", ".join(rows.values())


def _begin_ms(attributes: dict[str, str], *, begins_at_min: bool) -> int:
    end = BEGIN_MIN if begins_at_min else BEGIN_MAX
    try:
        begin_ms = begin_from_text(attributes.get(BEGIN_ATTRIBUTE, ""))
    except IllegalBegin:  # Absent, or changed by another program.
        return end
    # RocketMQ may later have set the group to begin at its queues' ends.
    return begin_ms if begins_at_min and is_timed(begin_ms) else end


_KIND: Final = TableKind(
    check_group, lambda group: GroupNotFound(group=group), _group_from_row, "groups"
)


def _changed(row: dict[str, Any], settings: GroupSettings) -> dict[str, Any]:
    given = {ours: value for ours, value in settings._asdict().items() if value is not None}
    begin = given.pop("begin", None)
    members = {_GROUP_MEMBERS[ours]: value for ours, value in given.items()}
    if _RETRIES in members:
        members[_RETRIES] -= 1
    found = row.get(_ATTRIBUTES)
    kept: dict[str, Any] = {**found} if isinstance(found, dict) else {}
    if begin is not None or _FROM_MIN in members:
        kept.pop(BEGIN_ATTRIBUTE, None)
    if begin is not None:
        begin_ms = begin_from_text(begin)
        members[_FROM_MIN] = begin_ms != BEGIN_MAX
        if is_timed(begin_ms):
            kept[BEGIN_ATTRIBUTE] = begin_text(begin_ms)
    if kept or found is not None:
        members[_ATTRIBUTES] = kept
    return {**row, **members}


def _is_fit(name: str, value: Any) -> bool:
    default = GROUP_DEFAULTS.get(name)
    is_small = not isinstance(value, int) or -1 <= value <= NUMBER_MAX
    return isinstance(value, type(default)) and is_small
