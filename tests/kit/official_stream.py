"""An open Telemetry stream: a client sends settings and reads the broker's commands.

async with OfficialStream(desk) as stream:
    stream.say(subscribing("g", "orders"))
    answer = await stream.read()
"""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from pocketmq.rpc.pb import messaging_pb2 as pb
from tests.kit.call import FakeCall
from tests.kit.official import OfficialDesk, name


def publishing(*topics: str, **fields: Any) -> pb.TelemetryCommand:
    """Returns the settings of a producer of these topics."""
    settings = pb.Settings(
        client_type=pb.PRODUCER, publishing=pb.Publishing(topics=map(name, topics)), **fields
    )
    settings.metric.endpoints.scheme = pb.IPv4
    return pb.TelemetryCommand(settings=settings)


def subscribing(
    group: str, *topics: str, client_type: pb.ClientType = pb.PUSH_CONSUMER, **fields: Any
) -> pb.TelemetryCommand:
    """Returns the settings of a consumer."""
    entries = [pb.SubscriptionEntry(topic=name(topic)) for topic in topics]
    subscription = pb.Subscription(group=name(group), subscriptions=entries, **fields)
    settings = pb.Settings(client_type=client_type, subscription=subscription)
    return pb.TelemetryCommand(settings=settings)


class OfficialStream:
    """One stream of a client."""

    def __init__(self, desk: OfficialDesk, user: str = "", call: FakeCall | None = None) -> None:
        self._said: asyncio.Queue[pb.TelemetryCommand | None] = asyncio.Queue()
        call = call or desk.call()
        call.user = user
        self._answers = desk.methods["Telemetry"].handler(self._commands(), call)
        self._next: asyncio.Future[pb.TelemetryCommand] | None = None

    async def _commands(self) -> AsyncIterator[pb.TelemetryCommand]:
        while (command := await self._said.get()) is not None:
            yield command

    def say(self, command: pb.TelemetryCommand | None) -> None:
        """Sends a command; None ends the stream."""
        self._said.put_nowait(command)

    async def read(self) -> pb.TelemetryCommand:
        """Returns the broker's next command."""
        following, self._next = self._next, None
        return await (following or asyncio.ensure_future(anext(self._answers)))

    async def is_quiet(self) -> bool:
        """Returns whether no command of the broker is pending."""
        self._next = self._next or asyncio.ensure_future(anext(self._answers))
        for _ in range(20):
            await asyncio.sleep(0)
        return not self._next.done()

    async def asked(self, command: pb.TelemetryCommand) -> pb.TelemetryCommand:
        """Sends a command, and returns the broker's next one."""
        self.say(command)
        return await self.read()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._answers.aclose()
