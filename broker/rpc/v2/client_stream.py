"""The stream of one client: answers to what it says, and what the broker says between them.

What a client does not read is bounded: it is read no further itself meanwhile, and questions go to
another producer.
Source: GrpcClientChannel.
"""

import asyncio
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Final

from broker.model.transaction import Check
from broker.rpc.pb import messaging_pb2 as pb
from broker.rpc.v2.transactions import question_of
from broker.services.sessions.sessions import Reconnect
from broker.services.transaction.transactions import Transactions

UNREAD_MAX: Final = 16
"""Commands and answers that wait to be read by a client."""
UNREAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of questions that wait to be read by all clients, but for those asked at the same time."""


class Unread:
    """What all clients together did not read yet."""

    __slots__ = ("size_bytes",)

    def __init__(self) -> None:
        self.size_bytes = 0


class ClientStream:
    """What is on its way to a client, and what it can be asked about."""

    __slots__ = ("_leave", "_outbox", "_transactions", "_unread")

    def __init__(self, transactions: Transactions, unread: Unread) -> None:
        self._transactions = transactions
        self._unread = unread
        self._outbox: asyncio.Queue[pb.TelemetryCommand | None] = asyncio.Queue(UNREAD_MAX)
        self._leave: dict[str, Callable[[], None]] = {}
        """By topic, for each that it publishes to."""

    async def following(self) -> pb.TelemetryCommand | None:
        """Return what goes to the client next, None where its stream ends."""
        command = await self._outbox.get()
        self._forget(command)
        return command

    async def answer(self, command: pb.TelemetryCommand | None) -> None:
        """Send an answer, None for the end, once there is room for it."""
        await self._outbox.put(command)

    def say(self, command: Reconnect) -> None:
        """Tell the client something, unless it does not listen."""
        assert command == Reconnect()
        reconnect = pb.ReconnectEndpointsCommand(nonce=token_hex(8))
        self._offer(pb.TelemetryCommand(reconnect_endpoints_command=reconnect))

    def publish(self, topics: Mapping[str, pb.Resource]) -> None:
        """Have the client asked about transactions of the topics it publishes to, and no others.

        Shape    names -> what the client calls them
        """
        for name in self._leave.keys() - topics.keys():
            self._leave.pop(name)()
        for name in topics.keys() - self._leave.keys():
            self._leave[name] = self._join(name, topics[name])
        assert self._leave.keys() == topics.keys()

    def _join(self, name: str, topic: pb.Resource) -> Callable[[], None]:
        def offer(check: Check) -> bool:
            return self._offer(question_of(check, topic))

        return self._transactions.join(name, offer, self._room)

    def _room(self) -> int:
        is_full = self._unread.size_bytes >= UNREAD_BYTES_MAX
        return 0 if is_full else UNREAD_MAX - self._outbox.qsize()

    def _offer(self, command: pb.TelemetryCommand) -> bool:
        if self._outbox.full():
            return False
        self._outbox.put_nowait(command)
        self._unread.size_bytes += _question_size(command)
        return True

    def _forget(self, command: pb.TelemetryCommand | None) -> None:
        self._unread.size_bytes -= _question_size(command)
        assert self._unread.size_bytes >= 0

    def end(self) -> None:
        """Be asked nothing any more; who waits for room goes on, what is unread is dropped."""
        self.publish({})
        while not self._outbox.empty():
            self._forget(self._outbox.get_nowait())


def _question_size(command: pb.TelemetryCommand | None) -> int:
    """Return the bytes of a question, 0 for anything else: that is small."""
    if command is None or not command.HasField("recover_orphaned_transaction_command"):
        return 0
    return command.ByteSize()
