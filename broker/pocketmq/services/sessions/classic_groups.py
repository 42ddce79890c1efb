"""Groups of classic clients: members and subscriptions, as their heartbeats report them.

A member is a client on one connection. Members are kept only in memory: as in RocketMQ, a group is
unknown after a restart until the next heartbeat, at most 30 s later.
Source: ConsumerManager, ConsumerGroupInfo, ProducerManager, ClientHousekeepingService.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pocketmq.model.errors import CapacityReached, TooManyElements

SILENCE_MS: Final = 120_000
"""Time without a heartbeat after which a member is removed (channelExpiredTimeout)."""
MEMBERS_MAX: Final = 20_000
"""Upper limit of members of all groups together."""
SUBSCRIPTIONS_MAX: Final = 256
"""Upper limit of topics that one consumer of a group may subscribe to."""


class ClassicSubscription(NamedTuple):
    """A group's subscription to one topic.

    expression_type   TAG or SQL92
    version           time of the subscription in ms since 1970; an older version is ignored
    """

    topic: str
    expression: str
    expression_type: str
    version: int


class ClassicConsumer(NamedTuple):
    """One consumer group in a heartbeat.

    is_push        whether the client library pulls for the program (CONSUME_PASSIVELY)
    is_broadcast   whether every member receives every message
    begins_at      consumeFromWhere, as the client wrote it
    """

    group: str
    is_push: bool
    is_broadcast: bool
    begins_at: str
    subscriptions: tuple[ClassicSubscription, ...]


class Heartbeat(NamedTuple):
    """Content of a heartbeat; `language` and `version` are fields of its frame."""

    client_id: str
    producer_groups: tuple[str, ...]
    consumers: tuple[ClassicConsumer, ...]
    language: str
    version: int


@dataclass(slots=True)
class ClassicMember:
    """A client of a group on one connection; `seen_ms`: monotonic time of its last heartbeat."""

    client_id: str
    language: str
    version: int
    seen_ms: int


@dataclass(slots=True)
class ClassicGroup:
    """A consumer group with members; `consumer` is from the last heartbeat of a member."""

    consumer: ClassicConsumer
    members: dict[Hashable, ClassicMember] = field(default_factory=dict)
    subscriptions: dict[str, ClassicSubscription] = field(default_factory=dict)

    def subscribe(self, wanted: Iterable[ClassicSubscription]) -> bool:
        """Applies the subscriptions of a heartbeat; returns whether topics were added or removed.

        An older version of a subscription is ignored: members that were started earlier may still
        report it.

        Source   ConsumerGroupInfo.updateSubscription
        """
        found = {one.topic: one for one in wanted}
        has_changed = found.keys() != self.subscriptions.keys()
        for topic in self.subscriptions.keys() - found.keys():
            del self.subscriptions[topic]
        for topic, one in found.items():
            known = self.subscriptions.get(topic)
            if known is None or one.version > known.version:
                self.subscriptions[topic] = one
        return has_changed


class ClassicGroups:
    """Producer and consumer groups of all classic clients.

    A connection is any hashable object that identifies a client's connection.
    """

    __slots__ = ("_by_id", "_consumers", "_count", "_ids", "_producers")

    def __init__(self) -> None:
        self._consumers: dict[str, ClassicGroup] = {}
        self._producers: dict[str, dict[Hashable, ClassicMember]] = {}
        self._ids: dict[Hashable, str] = {}
        self._by_id: dict[str, Hashable] = {}
        self._count = 0

    def beat(self, connection: Hashable, beat: Heartbeat, now_ms: int) -> list[str]:
        """Adds or refreshes a client; returns consumer groups whose members or topics changed.

        Errors   CapacityReached, TooManyElements: nothing was added
        """
        self._check_room(connection, beat)
        for group in beat.producer_groups:
            self._see(self._producers.setdefault(group, {}), connection, beat, now_ms)
        if beat.producer_groups:
            self._name(connection, beat.client_id)
        changed = []
        for consumer in beat.consumers:
            found = self._consumers.get(consumer.group)
            if found is None:
                found = self._consumers[consumer.group] = ClassicGroup(consumer)
            found.consumer = consumer
            is_new = self._see(found.members, connection, beat, now_ms)
            if found.subscribe(consumer.subscriptions) or is_new:
                changed.append(consumer.group)
        return changed

    def _name(self, connection: Hashable, client_id: str) -> None:
        """Notes a producer's client id, in place of an earlier one of its connection."""
        known = self._ids.get(connection)
        if known != client_id:
            self._unname(connection)
            self._ids[connection] = client_id
        self._by_id[client_id] = connection

    def _unname(self, connection: Hashable) -> None:
        known = self._ids.pop(connection, "")
        if self._by_id.get(known) == connection:
            del self._by_id[known]

    def _check_room(self, connection: Hashable, beat: Heartbeat) -> None:
        groups = [self._producers.get(name, {}) for name in beat.producer_groups]
        for consumer in beat.consumers:
            known = self._consumers.get(consumer.group)
            groups.append({} if known is None else known.members)
            count = len(consumer.subscriptions)
            if count > SUBSCRIPTIONS_MAX:
                raise TooManyElements(field="subscriptionDataSet", limit=SUBSCRIPTIONS_MAX)
        count = self._count + sum(connection not in members for members in groups)
        if count > MEMBERS_MAX:
            raise CapacityReached(limit=MEMBERS_MAX, field="members of groups")

    def _see(
        self,
        members: dict[Hashable, ClassicMember],
        connection: Hashable,
        beat: Heartbeat,
        now_ms: int,
    ) -> bool:
        """Adds or refreshes a member; returns whether the client is new on this connection."""
        known = members.get(connection)
        if known is not None and known.client_id == beat.client_id:
            known.seen_ms = now_ms
            return False
        self._count += known is None
        members[connection] = ClassicMember(beat.client_id, beat.language, beat.version, now_ms)
        return True

    def leave(
        self, connection: Hashable, client_id: str, *, producer_group: str, consumer_group: str
    ) -> list[str]:
        """Removes a client from two groups ("": from none); returns changed consumer groups."""
        producers = self._producers.get(producer_group, {})
        if self._drop(producers, connection, client_id) and not producers:
            del self._producers[producer_group]
        return self._leave_consumers(consumer_group, connection, client_id)

    def gone(self, connection: Hashable) -> list[str]:
        """Removes a closed connection; returns changed consumer groups.

        Cost   linear in the number of groups
        """
        self._unname(connection)
        for group, members in [*self._producers.items()]:
            if self._drop(members, connection) and not members:
                del self._producers[group]
        return [
            group
            for name in [*self._consumers]
            for group in self._leave_consumers(name, connection)
        ]

    def expire(self, now_ms: int) -> tuple[list[str], list[Hashable]]:
        """Removes silent connections; returns (changed consumer groups, silent connections)."""
        silent = {
            connection
            for members in self._all_members()
            for connection, member in members.items()
            if now_ms - member.seen_ms > SILENCE_MS
        }
        changed = {group for connection in silent for group in self.gone(connection)}
        return sorted(changed), [*silent]

    def _all_members(self) -> list[dict[Hashable, ClassicMember]]:
        return [*self._producers.values(), *(one.members for one in self._consumers.values())]

    def _leave_consumers(
        self, group: str, connection: Hashable, client_id: str | None = None
    ) -> list[str]:
        found = self._consumers.get(group)
        if found is None or not self._drop(found.members, connection, client_id):
            return []
        if not found.members:
            del self._consumers[group]
        return [group]

    def _drop(
        self,
        members: dict[Hashable, ClassicMember],
        connection: Hashable,
        client_id: str | None = None,
    ) -> bool:
        known = members.get(connection)
        if known is None or client_id not in (None, known.client_id):
            return False
        del members[connection]
        self._count -= 1
        assert self._count >= 0, "more members left than came"
        return True

    def group(self, name: str) -> ClassicGroup | None:
        """Returns a consumer group; None if the group has no members."""
        return self._consumers.get(name)

    def consumer_ids(self, group: str) -> list[str]:
        """Returns the client ids of a consumer group's members, in the order of joining."""
        found = self._consumers.get(group)
        return [] if found is None else [one.client_id for one in found.members.values()]

    def consumers(self, group: str) -> dict[Hashable, ClassicMember]:
        """Returns the members of a consumer group by connection."""
        found = self._consumers.get(group)
        return {} if found is None else found.members

    def producers(self, group: str) -> dict[Hashable, ClassicMember]:
        """Returns the members of a producer group by connection."""
        return self._producers.get(group, {})

    def producer_connection(self, client_id: str) -> Hashable | None:
        """Returns the connection of the producer that last used a client id; None: it is gone."""
        return self._by_id.get(client_id)

    def connection_of(self, group: str, client_id: str) -> Hashable | None:
        """Returns the connection of a consumer group's member, None for an unknown client."""
        members = self.consumers(group).items()
        return next((one for one, member in members if member.client_id == client_id), None)

    @property
    def consumer_groups(self) -> list[str]:
        """Names of the consumer groups that have members, sorted."""
        return sorted(self._consumers)

    @property
    def producer_groups(self) -> list[str]:
        """Names of the producer groups that have members, sorted."""
        return sorted(self._producers)
