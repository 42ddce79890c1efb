"""Pops of classic consumers, with long polling.

    200050  POP_MESSAGE      200054  NOTIFICATION      200055  POLLING_INFO

A pop leases messages from all queues of the topic and from the group's retry topics, whichever
queue the client names. Source: PopMessageProcessor, NotificationProcessor, PollingInfoProcessor.
"""

from functools import partial

from pocketmq.model.consuming import Received
from pocketmq.rpc.call import turn_user
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.pop_answer import nothing_found, popped
from pocketmq.rpc.classic.pop_request import expected, is_sql, request_of
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import check_client_reads, find_readable
from pocketmq.services.admin.members import RECEIVE, REMOTING, Dialect
from pocketmq.services.consume.long_poll import handed_over
from pocketmq.wire.remoting import Command


class ClassicPop:
    """The requests that pop messages."""

    __slots__ = ("_clients", "_consume", "_delivered", "_members", "_sessions", "_store")

    def __init__(self, backing: Services, clients: ClassicClients) -> None:
        self._store = backing.store
        self._consume = backing.consume
        self._members = backing.members
        self._sessions = backing.sessions.classic
        self._delivered = backing.pull.delivered
        self._clients = clients

    async def pop(self, request: Command, call: ClassicCall) -> Command:
        """Returns messages under leases; if none exist, waits until one arrives or time is up.

        Errors   MalformedRequest, IllegalNumber, IllegalFilter, IllegalInvisibleTime, GroupInUse,
                 GroupDisabled, TooManyRequests, those of `find_readable` and
                 `ClassicClients.ensure`; errors of a put
        """
        group, topic = text_field(request, "consumerGroup"), text_field(request, "topic")
        if self._store.tables.groups.find(group) is None:
            await self._clients.ensure(group)
        find_readable(self._store.tables.topics, topic, group, check_client_reads)
        if is_sql(request):
            await self._store.turns.turn(turn_user(call))
        asked = request_of(request, call)
        self._sessions.check_leasable(group)
        self._saw(group, topic, request, call)
        found = self._consume.receive(asked)
        release = partial(self._consume.release, group, topic)
        received = found if isinstance(found, Received) else await handed_over(found, release)
        if not received.handles:
            return nothing_found(asked, self._store.clock.wall_ms())
        call.if_lost(partial(release, received.handles))
        for word, is_retry in (("false", False), ("true", True)):
            count = sum((times > 1) is is_retry for times in received.attempts)
            share = sum(map(len, received.records)) * count // len(received.attempts)
            if count:
                self._delivered.count(topic, group, count, share, word)
        return popped(asked, received, self._consume.ready_count(group, topic))

    def _saw(self, group: str, topic: str, request: Command, call: ClassicCall) -> None:
        member = self._sessions.groups.consumers(group).get(call.channel)
        client_id = "" if member is None else member.client_id
        dialect = Dialect(request.language, str(request.version), REMOTING)
        self._members.saw(group, topic, client_id, call.channel.peer, RECEIVE, dialect)

    async def notification(self, request: Command, call: ClassicCall) -> Command:
        """Returns whether a topic has messages for a group; waits for them if there are none.

        In FIFO order, messages behind a leased message do not count. Messages leased to the same
        attempt do, as its next pop gets them again.

        Errors   MalformedRequest, IllegalNumber, GroupNotFound, those of `find_readable`
        """
        group, topic = self._target(request)
        has_some = await self._consume.expect(expected(request, group, topic))
        self._target(request)  # The topic or the group may have been deleted meanwhile.
        return Command(0, {"hasMsg": "true" if has_some else "false", "pollingFull": "false"})

    def polling(self, request: Command, call: ClassicCall) -> Command:
        """Returns the number of a group's requests that wait for messages of a topic.

        Errors   MalformedRequest, GroupNotFound, those of `find_readable`
        """
        return Command(0, {"pollingNum": str(self._consume.parked_count(*self._target(request)))})

    def _target(self, request: Command) -> tuple[str, str]:
        group, topic = text_field(request, "consumerGroup"), text_field(request, "topic")
        self._store.tables.groups.existing(group)
        find_readable(self._store.tables.topics, topic, group, check_client_reads)
        return group, topic
