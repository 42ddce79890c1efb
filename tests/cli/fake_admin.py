"""The half of the fake broker that those who run brokers talk to: groups, offsets, the store."""

from __future__ import annotations

from collections.abc import Mapping

from broker.client.values import ClientError, GroupState, TopicState
from broker.model.administration import (
    MovedOffset,
    Page,
    QueueLag,
    QueueState,
    ResetTarget,
    SettingRow,
    StoreStatus,
    TopicChange,
    TopicCounts,
    TopicLag,
)
from broker.model.group import GroupSettings
from broker.model.message import StoredMessage

STORED_MS = 1_795_221_315_627
DEFAULTS = GroupSettings(True, False, 17, 1, True, True, 15)


class FakeAdmin:
    """Groups by name, and where they stand: (group, topic) -> queue id -> offset."""

    def __init__(self) -> None:
        self.queues: dict[str, list[list[StoredMessage]]] = {"orders": [[], []]}
        self.error: ClientError | None = None
        self.groups: dict[str, GroupSettings] = {}
        self.stands: dict[tuple[str, str], dict[int, int]] = {}
        self.changes: list[TopicChange] = []
        self.resets: list[tuple[ResetTarget, tuple[int, ...], bool]] = []
        self.status = StoreStatus(
            "running", "/store", 0, 3_000, 3_000, 2_000, "sync", "0.1.0", 1, 2, "DefaultCluster",
            "broker-a", "on", 30_000_000, 100_000_000, 1, 2, STORED_MS, 0,
        )  # fmt: skip

    def refuse(self) -> None:
        """Raise the error the test wants."""
        if self.error is not None:
            raise self.error

    def find(self, topic: str) -> list[list[StoredMessage]]:
        """Return a topic's queues."""
        if topic not in self.queues:
            fields = {"topic": topic}
            raise ClientError("TopicNotFound", f"no {topic}", code="NOT_FOUND", fields=fields)
        return self.queues[topic]

    def find_group(self, group: str) -> GroupSettings:
        """Return a group's settings."""
        if group not in self.groups:
            fields = {"group": group}
            raise ClientError("GroupNotFound", f"no {group}", code="NOT_FOUND", fields=fields)
        return self.groups[group]

    def topic_state(self, name: str, *, with_queues: bool = False) -> TopicState:
        """Return a topic as the client gives it."""
        queues = self._queue_states(name) if with_queues else []
        count = len(self.find(name))
        return TopicState(name, count, count, 6, "NORMAL", False, False, {}, queues)

    def _queue_states(self, name: str) -> list[QueueState]:
        return [
            QueueState(number, 0, len(queue), STORED_MS if queue else 0, STORED_MS if queue else 0)
            for number, queue in enumerate(self.find(name))
        ]

    # --- topics ---

    async def update_topic(self, name: str, change: TopicChange) -> TopicState:
        """Note the change; the counts take effect."""
        self.refuse()
        state = self.topic_state(name)
        self.changes.append(change)
        given = {
            "read_queue_count": change.read_queue_count,
            "write_queue_count": change.write_queue_count,
            "permission": change.permission,
        }
        return state._replace(**{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]

    async def delete_topic(self, name: str) -> list[str]:
        """Forget a topic."""
        self.find(name)
        del self.queues[name]
        return [name]

    async def topic_counts(self, name: str) -> TopicCounts:
        """Count a topic."""
        self.refuse()
        queues = self._queue_states(name)
        count = sum(queue.max_offset for queue in queues)
        stored_ms = STORED_MS if count else 0
        return TopicCounts(name, len(queues), count, count, stored_ms, stored_ms, queues)

    async def all_topic_counts(
        self, *, page_token: str = "", include_system: bool = False, totals_only: bool = True
    ) -> Page[TopicCounts]:
        """Count one topic a page."""
        self.refuse()
        names = [name for name in sorted(self.queues) if name > page_token]
        shown = [(await self.topic_counts(name))._replace(queues=[]) for name in names[:1]]
        return Page(shown, names[0] if len(names) > 1 else "")

    # --- groups ---

    async def create_group(self, name: str, settings: GroupSettings) -> GroupState:
        """Make a group."""
        self.refuse()
        self.groups[name] = _over(DEFAULTS, settings)
        return self._group(name)

    async def update_group(self, name: str, settings: GroupSettings) -> GroupState:
        """Change a group."""
        self.groups[name] = _over(self.find_group(name), settings)
        return self._group(name)

    async def delete_group(self, name: str, *, with_topics: bool = False) -> list[str]:
        """Forget a group."""
        self.find_group(name)
        del self.groups[name]
        return [f"%RETRY%{name}"] if with_topics else []

    async def list_groups(
        self, *, page_token: str = "", include_system: bool = False
    ) -> Page[GroupState]:
        """Answer with one group a page."""
        self.refuse()
        names = [name for name in sorted(self.groups) if name > page_token]
        shown = [self._group(name)._replace(topics=[]) for name in names[:1]]
        return Page(shown, names[0] if len(names) > 1 else "")

    async def describe_group(self, name: str) -> GroupState:
        """Answer with a group and its topics."""
        return self._group(name)

    def _group(self, name: str) -> GroupState:
        topics = sorted(topic for group, topic in self.stands if group == name)
        return GroupState(name, self.find_group(name), False, {}, topics)

    # --- where groups stand ---

    def stand(self, group: str, topic: str, **offsets: int) -> None:
        """Let a group stand there; q0 is queue 0."""
        self.groups.setdefault(group, DEFAULTS)
        self.stands[group, topic] = {int(name[1:]): place for name, place in offsets.items()}

    async def group_lag(self, group: str, topic: str = "") -> list[TopicLag]:
        """Answer with a group's lag; a message waits for 90 seconds."""
        self.find_group(group)
        wanted = [pair for pair in sorted(self.stands) if pair[0] == group]
        return [self._lag(*pair) for pair in wanted if topic in ("", pair[1])]

    async def all_lags(self, *, topic: str = "", page_token: str = "") -> Page[TopicLag]:
        """Answer with one lag a page."""
        self.refuse()
        pairs = [f"{g}@{t}" for g, t in sorted(self.stands) if topic in ("", t)]
        names = [pair for pair in pairs if pair > page_token]
        lags = [self._lag(*pair.split("@")) for pair in names[:1]]
        shown = [lag._replace(queues=[], lag_ms=0) for lag in lags]
        return Page(shown, names[0] if len(names) > 1 else "")

    def _lag(self, group: str, topic: str) -> TopicLag:
        stands = self.stands[group, topic]
        queues = []
        for number, queue in enumerate(self.find(topic)):
            left = len(queue) - stands.get(number, len(queue))
            age_ms = 90_000 if left else 0
            queues.append(QueueLag(number, stands.get(number), 0, len(queue), left, age_ms))
        left = sum(queue.lag_messages for queue in queues)
        return TopicLag(group, topic, sum(stands.values()), left, 90_000 if left else 0, queues)

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        target: ResetTarget,
        *,
        queue_ids: tuple[int, ...] = (),
        dry_run: bool = False,
    ) -> list[MovedOffset]:
        """Note where to; every queue goes to its beginning."""
        self.find_group(group)
        self.resets.append((target, queue_ids, dry_run))
        wanted = dict.fromkeys(queue_ids or range(len(self.find(topic))), 0)
        return self._moved(group, topic, wanted, dry_run=dry_run)

    async def clone_offsets(
        self, source: str, target: str, topic: str = "", *, dry_run: bool = False
    ) -> list[MovedOffset]:
        """Let a group stand where another one stands."""
        self.find_group(source)
        rows = {t: o for (g, t), o in self.stands.items() if g == source and topic in ("", t)}
        pairs = sorted(rows.items())
        return [r for t, o in pairs for r in self._moved(target, t, o, dry_run=dry_run)]

    def _moved(
        self, group: str, topic: str, wanted: Mapping[int, int], *, dry_run: bool
    ) -> list[MovedOffset]:
        old = self.stands.get((group, topic), {})
        rows = [MovedOffset(topic, q, old.get(q), place) for q, place in wanted.items()]
        if not dry_run:
            self.stands[group, topic] = {**old, **wanted}
        return rows

    # --- the store ---

    async def store_status(self) -> StoreStatus:
        """Answer with the status the test made."""
        self.refuse()
        return self.status

    async def effective_config(self) -> list[SettingRow]:
        """Answer with one setting."""
        return [SettingRow("store.flush", "sync", "default")]


def _over(before: GroupSettings, given: GroupSettings) -> GroupSettings:
    return before._replace(**{k: v for k, v in given._asdict().items() if v is not None})
