"""Telemetry, Heartbeat and NotifyClientTermination: clients come, stay, and go.

    settings ─► noted, and answered with the broker's own        each time they come
    commands of the broker ─► down the same stream

A stream stays as long as its client; settings that make no sense are told so, and it goes on.
Source: ClientActivity, GrpcClientChannel.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from secrets import token_hex
from typing import Final

from broker.model.errors import BrokerError, IllegalSettings
from broker.rpc.call import Call
from broker.rpc.pb import messaging_pb2 as pb
from broker.rpc.service import Handler
from broker.rpc.v2.caller import Caller, caller_of, client_id_of
from broker.rpc.v2.resources import group_of, topic_of
from broker.rpc.v2.routes import EnsureGroup
from broker.rpc.v2.settings import settings_of_consumer, settings_of_producer
from broker.rpc.v2.status import OK, status_of
from broker.services.sessions.sessions import KINDS, ClientKind, Described, Reconnect, Sessions
from broker.store.message_store import MessageStore

UNREAD_MAX: Final = 16
"""Commands and answers that wait to be read by a client; settings are read no further meanwhile."""
FIFO_TYPE: Final = "FIFO"


class Telemetry:
    """The methods.

    body_size_max   returns the largest body that is taken now
    """

    __slots__ = ("_body_size_max", "_ensure_group", "_sessions", "_store")

    def __init__(
        self,
        store: MessageStore,
        sessions: Sessions,
        body_size_max: Callable[[], int],
        ensure_group: EnsureGroup,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._body_size_max = body_size_max
        self._ensure_group = ensure_group

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by their names."""
        return {
            "Telemetry": self.telemetry,
            "Heartbeat": self.heartbeat,
            "NotifyClientTermination": self.notify_client_termination,
        }

    async def heartbeat(self, request: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        """Note that a client is alive, known or not.

        Errors   ClientIdRequired, IllegalGroup, GroupNotFound
        """
        client_id = client_id_of(call)
        if request.HasField("group"):
            await self._ensure_group(group_of(request.group, call))
        self._sessions.heard(client_id, request.client_type)
        return pb.HeartbeatResponse(status=OK)

    def notify_client_termination(
        self, request: pb.NotifyClientTerminationRequest, call: Call
    ) -> pb.NotifyClientTerminationResponse:
        """Let others have what a client was given, and forget it.

        Errors   ClientIdRequired
        """
        self._sessions.leave(client_id_of(call))
        return pb.NotifyClientTerminationResponse(status=OK)

    async def telemetry(
        self, commands: AsyncIterator[pb.TelemetryCommand], call: Call
    ) -> AsyncIterator[pb.TelemetryCommand]:
        """Yield answers to settings, and what the broker has to say, until the client ends.

        Errors   ClientIdRequired, MalformedRequest
        """
        caller = caller_of(call)
        outbox: asyncio.Queue[pb.TelemetryCommand | None] = asyncio.Queue(UNREAD_MAX)

        def say(command: Reconnect) -> None:
            if not outbox.full():
                outbox.put_nowait(_command(command))

        self._sessions.open_stream(caller.client_id, say)
        reading = asyncio.Task(self._read(commands, caller, call, outbox))
        try:
            while (command := await outbox.get()) is not None:
                yield command
            await reading
        finally:
            reading.cancel()
            self._sessions.close_stream(caller.client_id, say)

    async def _read(
        self,
        commands: AsyncIterator[pb.TelemetryCommand],
        caller: Caller,
        call: Call,
        outbox: "asyncio.Queue[pb.TelemetryCommand | None]",
    ) -> None:
        try:
            async for command in commands:
                if command.HasField("settings"):
                    await outbox.put(await self._answer(command.settings, caller, call))
        finally:
            await outbox.put(None)

    async def _answer(
        self, settings: pb.Settings, caller: Caller, call: Call
    ) -> pb.TelemetryCommand:
        try:
            return pb.TelemetryCommand(
                status=OK, settings=await self._settled(settings, caller, call)
            )
        except BrokerError as error:
            return pb.TelemetryCommand(status=status_of(error))

    async def _settled(self, given: pb.Settings, caller: Caller, call: Call) -> pb.Settings:
        """Note what a client is and return its settings with the broker's.

        Errors   IllegalSettings, IllegalTopic, SystemTopic, IllegalGroup, GroupNotFound
        """
        if given.HasField("publishing"):
            topics = [topic_of(topic, call) for topic in given.publishing.topics]
            self._describe(given, caller, ClientKind.PRODUCER, "", topics)
            return settings_of_producer(given, self._body_size_max())
        if not given.HasField("subscription"):
            raise IllegalSettings(client_id=caller.client_id)
        name = group_of(given.subscription.group, call)
        topics = [topic_of(entry.topic, call) for entry in given.subscription.subscriptions]
        await self._ensure_group(name)
        self._describe(given, caller, ClientKind.SIMPLE_CONSUMER, name, topics)
        group = self._store.tables.groups.existing(name)
        is_ordered = bool(group.settings.fifo) or any(map(self._is_fifo, topics))
        return settings_of_consumer(given, group, is_ordered=is_ordered, is_node=caller.is_node)

    def _describe(
        self, given: pb.Settings, caller: Caller, usual: ClientKind, group: str, topics: list[str]
    ) -> None:
        kind = KINDS.get(given.client_type, usual)
        described = Described(kind, group, frozenset(topics), caller.language, caller.version)
        self._sessions.describe(caller.client_id, described)

    def _is_fifo(self, topic: str) -> bool:
        config = self._store.tables.topics.find(topic)
        return config is not None and config.type_name == FIFO_TYPE


def _command(command: Reconnect) -> pb.TelemetryCommand:
    """Return what the broker says as the protocol has it."""
    assert command == Reconnect()
    reconnect = pb.ReconnectEndpointsCommand(nonce=token_hex(8))
    return pb.TelemetryCommand(reconnect_endpoints_command=reconnect)
