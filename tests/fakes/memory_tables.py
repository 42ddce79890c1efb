"""Topics, groups and offsets that forget: the tables of a store in memory."""

from collections.abc import Mapping
from dataclasses import replace

from broker.model.errors import GroupExists, GroupNotFound, TopicExists, TopicNotFound
from broker.model.group import GroupConfig, GroupSettings
from broker.model.topic import TopicConfig

DEFAULTS = GroupSettings(True, False, True, True, 16, 1, 15)


class MemoryTopics:
    """A topic table that forgets."""

    def __init__(self) -> None:
        self.rows: dict[str, TopicConfig] = {}

    def add(
        self,
        topic: str,
        queue_count: int = 1,
        *,
        permission: int = 6,
        read_count: int | None = None,
    ) -> None:
        """Make a topic, system topics included."""
        read_count = queue_count if read_count is None else read_count
        self.rows[topic] = TopicConfig(topic, read_count, queue_count, permission)

    def find(self, topic: str) -> TopicConfig | None:
        """Return a topic."""
        return self.rows.get(topic)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self.rows)

    async def create(
        self,
        topic: str,
        *,
        queue_count: int,
        permission: int = 6,
        attributes: dict[str, str] | None = None,
    ) -> TopicConfig:
        """Make a topic; with other settings than it has, TopicExists."""
        wanted = attributes or {}
        found = self.rows.get(topic)
        if found is not None:
            if (found.write_queue_count, found.attributes) != (queue_count, wanted):
                raise TopicExists(topic=topic, queue_count=found.write_queue_count)
            return found
        config = TopicConfig(topic, queue_count, queue_count, permission, False, wanted)
        self.rows[topic] = config
        return config

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
        """Change what is given."""
        found = self.rows.get(topic)
        if found is None:
            raise TopicNotFound(topic=topic)
        given = {
            "read_queue_count": read_queue_count,
            "write_queue_count": write_queue_count,
            "permission": permission,
            "order": order,
            "attributes": attributes,
        }
        changed = {k: v for k, v in given.items() if v is not None}
        self.rows[topic] = replace(found, **changed)  # type: ignore[arg-type]
        return self.rows[topic]

    async def remove(self, topic: str) -> None:
        """Forget a topic."""
        self.rows.pop(topic, None)


class MemoryGroups:
    """A group table that forgets."""

    def __init__(self) -> None:
        self.rows: dict[str, GroupConfig] = {}

    def add(self, *groups: str) -> None:
        """Make groups with the defaults."""
        for group in groups:
            self.rows[group] = GroupConfig(group, DEFAULTS)

    def find(self, group: str) -> GroupConfig | None:
        """Return a group."""
        return self.rows.get(group)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self.rows)

    async def create(self, group: str, settings: GroupSettings) -> GroupConfig:
        """Make a group; with other settings than it has, GroupExists."""
        made = GroupConfig(group, _over(DEFAULTS, settings))
        found = self.rows.setdefault(group, made)
        if found.settings != made.settings:
            raise GroupExists(group=group)
        return found

    async def update(self, group: str, settings: GroupSettings) -> GroupConfig:
        """Change what is set."""
        found = self.rows.get(group)
        if found is None:
            raise GroupNotFound(group=group)
        self.rows[group] = GroupConfig(group, _over(found.settings, settings))
        return self.rows[group]

    async def remove(self, group: str) -> None:
        """Forget a group."""
        self.rows.pop(group, None)


def _over(before: GroupSettings, given: GroupSettings) -> GroupSettings:
    return before._replace(**{k: v for k, v in given._asdict().items() if v is not None})


class MemoryOffsets:
    """Consumer offsets that forget; a group that moves is made."""

    def __init__(self, groups: MemoryGroups) -> None:
        self.table: dict[tuple[str, str, int], int] = {}
        self._groups = groups

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a group's offset."""
        return self.table.get((group, topic, queue_id))

    def all_of(self, group: str) -> dict[str, dict[int, int]]:
        """Return topic -> queue id -> offset."""
        rows: dict[str, dict[int, int]] = {}
        for (owner, topic, queue_id), queue_offset in self.table.items():
            if owner == group:
                rows.setdefault(topic, {})[queue_id] = queue_offset
        return rows

    def topics_by_group(self) -> dict[str, list[str]]:
        """Return the topics each group has an offset in."""
        groups = sorted({group for group, _, _ in self.table})
        return {group: sorted(self.all_of(group)) for group in groups}

    async def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Set a group's offset."""
        await self.set_many(group, topic, {queue_id: queue_offset})

    async def set_many(self, group: str, topic: str, queue_offsets: Mapping[int, int]) -> None:
        """Set offsets in queues of a topic."""
        if group not in self._groups.rows:
            self._groups.add(group)
        for queue_id, queue_offset in queue_offsets.items():
            self.table[group, topic, queue_id] = queue_offset

    async def clone(self, source: str, target: str, topic: str) -> None:
        """Let a group stand where another one stands."""
        queues = self.all_of(source).get(topic, {})
        if queues:
            self._forget(target, topic)
        await self.set_many(target, topic, queues)

    async def remove_topic(self, topic: str) -> None:
        """Forget a topic."""
        self._forget(None, topic)

    async def remove_group(self, group: str) -> None:
        """Forget a group."""
        self._forget(group, None)

    def _forget(self, group: str | None, topic: str | None) -> None:
        self.table = {
            (owner, name, queue_id): queue_offset
            for (owner, name, queue_id), queue_offset in self.table.items()
            if group not in (None, owner) or topic not in (None, name)
        }
