"""Telemetry, Heartbeat and NotifyClientTermination: sessions of clients.

    client's settings arrive          ─► stored, and answered with the broker's settings
    broker's settings change          ─► new settings are sent to the consumer
    operator or transaction service   ─► commands are sent to the client

Commands use the client's one stream, which lasts as long as the client. Invalid settings are
answered with an error, and the stream stays open.
Source: ClientActivity, GrpcClientChannel.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

from pocketmq.model.administration import ClientAnswer
from pocketmq.model.errors import BrokerError, IllegalSettings, UnsupportedFeature
from pocketmq.model.names import check_number
from pocketmq.rpc.call import Call, turn_user
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.caller import Caller, caller_of, client_id_of, session_id_of
from pocketmq.rpc.v2.client_stream import TOPICS_MAX, ClientStream, Make, Together
from pocketmq.rpc.v2.consumers import Consumer, Consumers, Subscribed
from pocketmq.rpc.v2.resources import group_of, topic_of
from pocketmq.rpc.v2.routes import EnsureGroup
from pocketmq.rpc.v2.settings import settings_of_producer
from pocketmq.rpc.v2.status import OK, status_of
from pocketmq.services.sessions.questions import Say
from pocketmq.services.sessions.sessions import KINDS, ClientKind, Described, Sessions
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.store.message_store import MessageStore

# -- terminations ------------------------------------------------------------------------------
REMEMBERED_MAX: Final = 1_000
"""Upper limit of terminations that are kept."""
WITH_A_PORT: Final = ("ipv4:", "ipv6:")
"""Prefixes of peer addresses with a port, which differ for each connection."""


class Terminations:
    """Recent terminations, by client and connection: a restarted program may use its old id."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], None] = OrderedDict()

    def note(self, call: Call) -> None:
        """Records that the client of a call terminates.

        Errors   ClientIdRequired
        """
        if call.peer.startswith(WITH_A_PORT):
            self._said[client_id_of(call), call.peer] = None
        if len(self._said) > REMEMBERED_MAX:
            self._said.popitem(last=False)
        assert len(self._said) <= REMEMBERED_MAX

    def came_before(self, call: Call) -> bool:
        """Returns whether the client of a call has terminated on the same connection.

        Errors   ClientIdRequired
        """
        return (client_id_of(call), call.peer) in self._said


# -- Telemetry ---------------------------------------------------------------------------------
LITE: Final = frozenset({pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER})


class Telemetry:
    """The methods of sessions.

    body_size_max   returns the largest body accepted now
    """

    __slots__ = (
        "_body_size_max", "_consumers", "_ensure_group", "_goodbyes", "_sessions", "_together",
        "_transactions", "_turns",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        sessions: Sessions,
        body_size_max: Callable[[], int],
        ensure_group: EnsureGroup,
        transactions: Transactions,
    ) -> None:
        self._consumers = Consumers(store.tables)
        self._sessions = sessions
        self._body_size_max = body_size_max
        self._ensure_group = ensure_group
        self._transactions = transactions
        self._turns = store.turns
        self._together = Together()
        self._goodbyes = Terminations()

    async def heartbeat(self, request: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        """Records that a client is alive, and that it belongs to the group, if it names one.

        Errors   ClientIdRequired, IllegalGroup, GroupNotFound, LimitReached, DiskFull
        """
        session_id, group = session_id_of(call), ""
        if request.HasField("group"):
            group = group_of(request.group, call)
            await self._ensure_group(group)
        self._sessions.heard(session_id, request.client_type, group)
        return pb.HeartbeatResponse(status=OK)

    def notify_client_termination(
        self, request: pb.NotifyClientTerminationRequest, call: Call
    ) -> pb.NotifyClientTerminationResponse:
        """Removes a client, and releases the leases that it holds for its group.

        Producers send no group, or one with an empty name.

        Errors   ClientIdRequired, IllegalGroup
        """
        session_id, group = session_id_of(call), request.group
        self._sessions.leave(session_id, group_of(group, call) if group.name else "")
        self._goodbyes.note(call)
        return pb.NotifyClientTerminationResponse(status=OK)

    async def telemetry(
        self, commands: AsyncIterator[pb.TelemetryCommand], call: Call
    ) -> AsyncIterator[pb.TelemetryCommand]:
        """Yields answers to settings, and commands of the broker, until the client ends the stream.

        The stream of a client that has terminated on the same connection ends at once.

        Errors   ClientIdRequired, MalformedRequest
        """
        if self._goodbyes.came_before(call):
            return
        caller = caller_of(call)
        stream = ClientStream(self._transactions, self._together, caller.namespace, call.may)
        say = stream.say
        self._sessions.open_stream(caller.session_id, say)
        consumer = Consumer(self._consumers, stream)
        reading = asyncio.Task(self._read(commands, caller, call, stream, consumer, say))
        try:
            while (command := await stream.following()) is not None:
                if command.HasField("settings"):
                    await self._turns.came(turn_user(call))
                yield command
            await reading
        finally:
            reading.cancel()
            consumer.end()
            stream.end()
            self._sessions.close_stream(caller.session_id, say)

    async def _read(
        self,
        commands: AsyncIterator[pb.TelemetryCommand],
        caller: Caller,
        call: Call,
        stream: ClientStream,
        consumer: Consumer,
        say: Say,
    ) -> None:
        try:
            async for command in commands:
                given = command.settings
                if command.HasField("settings"):
                    await stream.answer(await self._answer(given, caller, call, stream, consumer))
                else:
                    self._note_answer(command, say)
                del command, given  # Not kept in memory while the client is silent.
        finally:
            await stream.answer(None)

    def _note_answer(self, command: pb.TelemetryCommand, say: Say) -> None:
        """Passes on a client's answer to a command; some clients send only an error status."""
        trace, status = command.thread_stack_trace, command.status
        code = status.code or pb.OK
        name = pb.Code.Name(code) if code in pb.Code.values() else str(code)
        if command.WhichOneof("command") is not None or code != pb.OK:
            nonce = trace.nonce or command.verify_message_result.nonce
            answer = ClientAnswer(name, status.message, trace.thread_stack_trace)
            self._sessions.questions.answered(say, nonce, answer)

    async def _answer(
        self,
        given: pb.Settings,
        caller: Caller,
        call: Call,
        stream: ClientStream,
        consumer: Consumer,
    ) -> pb.TelemetryCommand | Make:
        try:
            if not given.HasField("publishing"):
                return consumer.take(await self._of_consumer(given, caller, call))
            settings = self._of_producer(given, caller, call, stream)
            consumer.end()
        except BrokerError as error:
            return pb.TelemetryCommand(status=status_of(error))
        return pb.TelemetryCommand(status=OK, settings=settings)

    def _of_producer(
        self, given: pb.Settings, caller: Caller, call: Call, stream: ClientStream
    ) -> pb.Settings:
        """Stores a producer's settings; returns the answer.

        Errors   IllegalTopic, SystemTopic, IllegalNumber, TooManyRequests
        """
        topics = {topic_of(topic, call): topic for topic in given.publishing.topics}
        stream.publish(topics)
        self._describe(given, caller, call.peer, ClientKind.PRODUCER, topics=frozenset(topics))
        return settings_of_producer(given, self._body_size_max())

    async def _of_consumer(self, given: pb.Settings, caller: Caller, call: Call) -> Subscribed:
        """Checks and returns a consumer's settings.

        Errors   IllegalSettings, IllegalNumber, IllegalTopic, SystemTopic, IllegalGroup,
                 GroupNotFound, LimitReached, DiskFull; UnsupportedFeature: the consumer is for
                 lite topics
        """
        if given.client_type in LITE:
            raise UnsupportedFeature(feature="lite topics")
        if not given.HasField("subscription"):
            raise IllegalSettings(client_id=caller.client_id)
        name = group_of(given.subscription.group, call)
        entries = given.subscription.subscriptions
        check_number("subscriptions", len(entries), upper=TOPICS_MAX)
        topics = frozenset(topic_of(entry.topic, call) for entry in entries)
        await self._ensure_group(name)
        self._describe(given, caller, call.peer, ClientKind.SIMPLE_CONSUMER, group=name)
        return Subscribed(given.SerializeToString(), caller, name, topics)

    def _describe(
        self,
        given: pb.Settings,
        caller: Caller,
        peer: str,
        usual: ClientKind,
        *,
        group: str = "",
        topics: Collection[str] = (),
    ) -> None:
        kind = KINDS.get(given.client_type, usual)
        described = Described(kind, group, caller.language, caller.version, peer, topics)
        self._sessions.describe(caller.session_id, described)
