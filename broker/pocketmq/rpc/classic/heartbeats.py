"""Heartbeats and members of classic clients.

    34  HEART_BEAT                     38  GET_CONSUMER_LIST_BY_GROUP
    35  UNREGISTER_CLIENT              40  NOTIFY_CONSUMER_IDS_CHANGED, from the broker

A heartbeat creates its consumer groups, if groups are created on demand. It also creates their
retry topics, because clients query the routes of these next.
Source: ClientManageProcessor, ConsumerManageProcessor, Broker2Client.
"""

from collections.abc import Callable, Hashable
from typing import Final

from pocketmq.model.errors import BrokerError, GroupInUse
from pocketmq.model.topic import retry_topic
from pocketmq.rpc.channel import ClassicCall, RemotingChannel
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.heartbeat_body import heartbeat_of
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.status import OK, SYSTEM_ERROR
from pocketmq.rpc.classic.transactions import ClassicTransactions
from pocketmq.rpc.services import Services, ensure_group
from pocketmq.services.admin.members import PULL, PUSH, REMOTING, Dialect, Members
from pocketmq.services.sessions.classic_groups import ClassicConsumer, Heartbeat
from pocketmq.wire.remoting import Command

CHANGED: Final = 40
"""Code of the request that notifies a consumer of changed members."""
POP: Final = "pop"


class ClassicClients:
    """The requests by which clients join and leave groups.

    creates_groups   returns whether groups are created on demand
    """

    __slots__ = (
        "_clock", "_consume", "_creates_groups", "_members", "_producers", "_sessions", "_tables",
        "_users",
    )  # fmt: skip

    def __init__(
        self,
        backing: Services,
        creates_groups: Callable[[], bool],
        producers: ClassicTransactions,
    ) -> None:
        self._producers = producers
        self._tables = backing.store.tables
        self._clock = backing.store.clock
        self._consume = backing.consume
        self._members = backing.members
        self._sessions = backing.sessions.classic
        self._sessions.notify = notify
        self._sessions.pops = self._tables.modes.pops
        self._creates_groups = creates_groups
        self._users: dict[RemotingChannel, set[str]] = {}
        """Connection with heartbeats -> users who signed these."""

    async def heartbeat(self, request: Command, call: ClassicCall) -> Command:
        """Adds or refreshes a client in its groups.

        The client joins all groups that are not refused, even if the request then fails.

        Errors   MalformedRequest, CapacityReached, TooManyElements; for the last refused group:
                 IllegalGroup, GroupNotFound, GroupInUse, LimitReached, DiskFull
        """
        beat = heartbeat_of(request)
        accepted: list[ClassicConsumer] = []
        refusal: BrokerError | None = None
        for consumer in beat.consumers:
            try:
                self._check_pulls(consumer.group)
                await self.ensure(consumer.group)
                accepted.append(consumer)
            except BrokerError as error:
                refusal = error
        for consumer in [*accepted]:
            try:
                self._check_pulls(consumer.group)
            except GroupInUse as error:
                accepted.remove(consumer)
                refusal = error
        channel = call.channel
        if channel.is_open:
            self._join(call, beat._replace(consumers=tuple(accepted)))
            self._producers.join(channel, beat.producer_groups, call.user, call.may)
        if refusal is not None:
            raise refusal
        return OK

    def _join(self, call: ClassicCall, beat: Heartbeat) -> None:
        sessions, channel = self._sessions, call.channel

        def end() -> None:
            """Ends a client one of whose users is gone: it gets no replies and questions."""
            sessions.gone(channel)
            channel.drain()

        def forget() -> None:
            del self._users[channel]

        if sessions.beat(channel, beat, self._clock.monotonic_ms()):
            channel.when_gone(lambda: sessions.gone(channel))
        users = self._users.get(channel)
        if users is None:
            users = self._users[channel] = set()
            channel.when_gone(forget)
        if call.user not in users:  # Several users may share a connection.
            users.add(call.user)
            channel.when_gone(call.when_user_gone(end))
        dialect = Dialect(beat.language, str(beat.version), REMOTING)
        saw, peer = self._members.saw, channel.peer
        for consumer in beat.consumers:
            mode = PUSH if consumer.is_push else PULL
            for one in consumer.subscriptions:
                saw(consumer.group, one.topic, beat.client_id, peer, mode, dialect)

    async def ensure(self, group: str) -> None:
        """Creates a missing group, if groups are created on demand, and its missing retry topic.

        Errors   IllegalGroup, GroupNotFound, LimitReached, DiskFull
        """
        tables = self._tables
        await ensure_group(tables.groups, group, self._creates_groups)
        name = retry_topic(group)
        if tables.topics.find(name) is None:
            count = tables.groups.existing(group).settings.retry_queue_count or 0
            await tables.topics.ensure(name, max(count, 1))

    def _check_pulls(self, group: str) -> None:
        """Raises GroupInUse if a group's mode is PULL and `check_free` refuses the group."""
        if not self._tables.modes.pops(group):
            self.check_free(group)

    def check_free(self, group: str) -> None:
        """Raises GroupInUse if a group may not pull: its mode is POP, or it has leases.

        A group with classic members that pull has no leases, since its receives and pops are
        refused. Orderly Java consumers also pull in mode POP; a group has some if queues are
        locked for it.

        Cost   linear in the number of clients and leased queues, unless the group has members that
               pull
        """
        if self._tables.modes.pops(group):
            if not self._sessions.locks.has_locked(group, self._clock.monotonic_ms()):
                raise GroupInUse(group=group, kind=POP)
            self.check_settled(group)
        elif self._sessions.groups.group(group) is None:
            self.check_settled(group)

    def check_settled(self, group: str) -> None:
        """Raises GroupInUse if a group has leased messages, or clients that receive under leases.

        Cost   linear in the number of clients and leased queues
        """
        if self._has_leases(group):
            raise GroupInUse(group=group, kind=POP)

    def _has_leases(self, group: str) -> bool:
        if is_receiving(self._members, group):
            return True
        leased = self._consume.leased().items()
        return any(
            name == group and any(held.total for held in queues.values())
            for (name, _), queues in leased
        )

    def unregister(self, request: Command, call: ClassicCall) -> Command:
        """Removes a client from a producer group, a consumer group, or both.

        Errors   MalformedRequest
        """
        fields = request.fields
        self._producers.leave(call.channel, fields.get("producerGroup", ""))
        self._sessions.leave(
            call.channel,
            text_field(request, "clientID"),
            producer_group=fields.get("producerGroup", ""),
            consumer_group=fields.get("consumerGroup", ""),
        )
        return OK

    def consumer_ids(self, request: Command, call: ClassicCall) -> Command:
        """Returns the client ids of a group's consumers.

        Errors   MalformedRequest
        """
        group = text_field(request, "consumerGroup")
        found = self._sessions.groups.consumer_ids(group)
        if not found:
            return Command(SYSTEM_ERROR, remark=f"no consumer for this group, {group}")
        return json_answer({"consumerIdList": found})


def is_receiving(members: Members, group: str) -> bool:
    """Returns whether a client received messages of a group under leases within two minutes."""
    return any(name == group for name, _ in members.receiving())


def notify(connection: Hashable, group: str) -> None:
    """Notifies a consumer that the members of its group changed.

    The notification is dropped if the consumer does not read its connection. RocketMQ's consumers
    also query the members every 20 s.
    """
    assert isinstance(connection, RemotingChannel), "a member without a connection"
    connection.tell(Command(CHANGED, {"consumerGroup": group}))
