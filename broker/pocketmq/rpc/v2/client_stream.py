"""Telemetry stream of one client: answers to its commands, and commands of the broker.

While a client does not read the broker's commands, the broker does not read the client's commands,
and sends transaction checks to other producers.
Source: GrpcClientChannel.
"""

import asyncio
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Final, NamedTuple

from pocketmq.model.access import Need
from pocketmq.model.errors import TooManyRequests
from pocketmq.model.names import check_number
from pocketmq.model.transaction import Check
from pocketmq.rpc.call import May
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.permissions import PUB, SUB, consumed_needs, group_need, topic_need
from pocketmq.rpc.v2.delivered import message_of
from pocketmq.rpc.v2.resources import resource_of
from pocketmq.rpc.v2.transactions import question_of
from pocketmq.services.sessions.questions import Command, PrintStack, Reconnect, Verify
from pocketmq.services.transaction.transactions import Transactions

UNREAD_MAX: Final = 16
"""Upper limit of a client's unread commands and answers."""
UNREAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of unread commands of all clients at which no further large command is sent."""
LARGE: Final = ("recover_orphaned_transaction_command", "verify_message_command")
"""Commands that contain a message."""
TOPICS_MAX: Final = 1_024
"""Upper limit of topics that one client publishes to."""
Make = Callable[[], pb.TelemetryCommand]
"""Creates a command at the time when it is sent."""
ALL_TOPICS_MAX: Final = 100_000
"""Upper limit of topics that clients publish to, summed over all clients; each takes 1 KiB."""


class Together:
    """Counts that all clients share.

    unread_bytes   bytes of unread large commands
    topic_count    topics that clients publish to, summed over all clients
    """

    __slots__ = ("topic_count", "unread_bytes")

    def __init__(self) -> None:
        self.topic_count = 0
        self.unread_bytes = 0


class Question(NamedTuple):
    """A command, and the permissions that the client's user needs to receive it."""

    command: pb.TelemetryCommand
    needs: tuple[Need, ...]


_Unread = pb.TelemetryCommand | Make | Question | None


class ClientStream:
    """Commands to one client, and the topics for which the client receives transaction checks.

    namespace   the client's namespace, "" for none
    may         returns whether the client's user has a permission now; called when a command is
                queued, and again when it is sent
    """

    __slots__ = (
        "_answer", "_leave", "_may", "_namespace", "_outbox", "_owed", "_taken", "_together",
        "_transactions",
    )  # fmt: skip

    def __init__(
        self, transactions: Transactions, together: Together, namespace: str, may: May
    ) -> None:
        self._namespace = namespace
        self._may = may
        self._transactions = transactions
        self._together = together
        self._outbox: asyncio.Queue[_Unread] = asyncio.Queue(UNREAD_MAX)
        self._answer: pb.TelemetryCommand | Make | None = None
        """The answer to the client's last settings, until it is sent."""
        self._taken = asyncio.Event()
        self._owed: Make | None = None
        """The newest settings for the client, to be queued once its outbox has space."""
        self._leave: dict[str, Callable[[], None]] = {}
        """Topic that the client publishes to -> function that ends the checks for this topic."""

    async def following(self) -> pb.TelemetryCommand | None:
        """Returns the next command to the client, None at the end of its stream."""
        while True:
            command = await self._outbox.get()
            if command is self._answer:
                self._answer = None
                self._taken.set()
            self._forget(command)
            if self._owed is not None:
                self.tell(self._owed)
            if not isinstance(command, Question):
                return command() if callable(command) else command
            if all(map(self._may, command.needs)):
                return command.command

    def tell(self, make: Make) -> None:
        """Queues new settings. While the outbox is full, only the newest settings are kept."""
        self._owed = make
        if not self._outbox.full():
            self._outbox.put_nowait(make)
            self._owed = None

    async def answer(self, command: pb.TelemetryCommand | Make | None) -> None:
        """Queues an answer and returns when it is sent, or queues None to end the stream.

        The caller reads the client's next command only afterwards.
        """
        self._answer = command
        self._taken.clear()
        await self._outbox.put(command)
        if command is not None:
            await self._taken.wait()

    def say(self, command: Command) -> bool:
        """Queues a command if the outbox has space and the user has the permissions for it.

        Returns  whether the command was queued
        """
        if isinstance(command, Verify) and not self._room():
            return False
        return self._offer(_question_of(command, self._namespace))

    def publish(self, topics: Mapping[str, pb.Resource]) -> None:
        """Registers the client for transaction checks of exactly these topics.

        topics   topic name -> the client's name of the topic
        Errors   IllegalNumber, TooManyRequests: the registered topics are unchanged
        """
        check_number("topics", len(topics), upper=TOPICS_MAX)
        together, more = self._together, len(topics) - len(self._leave)
        if together.topic_count + more > ALL_TOPICS_MAX:
            raise TooManyRequests(field="topics", limit=ALL_TOPICS_MAX)
        together.topic_count += more
        for name in self._leave.keys() - topics.keys():
            self._leave.pop(name)()
        for name in topics.keys() - self._leave.keys():
            self._leave[name] = self._join(name, topics[name])
        assert self._leave.keys() == topics.keys()
        assert together.topic_count >= 0

    def _join(self, name: str, topic: pb.Resource) -> Callable[[], None]:
        # The closure keeps these two texts, not the settings.
        called = topic.resource_namespace, topic.name

        def offer(check: Check) -> bool:
            resource = pb.Resource(resource_namespace=called[0], name=called[1])
            needs = {topic_need(topic, PUB) for topic in (name, check.topic or name)}
            if not all(map(self._may, needs)):  # Checked before the message is decoded.
                return False
            return self._offer(Question(question_of(check, resource), tuple(needs)))

        return self._transactions.join(name, offer, self._room)

    def _room(self) -> int:
        is_full = self._together.unread_bytes >= UNREAD_BYTES_MAX
        return 0 if is_full else UNREAD_MAX - self._outbox.qsize()

    def _offer(self, command: Question) -> bool:
        if self._outbox.full() or not all(map(self._may, command.needs)):
            return False
        self._outbox.put_nowait(command)
        self._together.unread_bytes += _question_size(command)
        return True

    def _forget(self, command: _Unread) -> None:
        self._together.unread_bytes -= _question_size(command)
        assert self._together.unread_bytes >= 0

    def end(self) -> None:
        """Unregisters from checks, wakes the task that waits in `answer`, drops unread commands."""
        self.publish({})
        self._answer = self._owed = None
        self._taken.set()
        while not self._outbox.empty():
            self._forget(self._outbox.get_nowait())


def _question_of(command: Command, namespace: str) -> Question:
    match command:
        case Reconnect():
            reconnect = pb.ReconnectEndpointsCommand(nonce=token_hex(8))
            return Question(pb.TelemetryCommand(reconnect_endpoints_command=reconnect), ())
        case PrintStack(nonce, group):
            stack = pb.PrintThreadStackTraceCommand(nonce=nonce)
            asked = pb.TelemetryCommand(print_thread_stack_trace_command=stack)
            return Question(asked, (group_need(group, SUB),))
        case Verify(nonce, record, topic, group):
            message = message_of(record, resource_of(topic, namespace))
            verify = pb.VerifyMessageCommand(nonce=nonce, message=message)
            asked = pb.TelemetryCommand(verify_message_command=verify)
            return Question(asked, tuple(consumed_needs(group, topic)))


def _question_size(command: _Unread) -> int:
    """Returns the bytes of a large command, 0 for any other."""
    if not isinstance(command, Question):
        return 0
    if not any(map(command.command.HasField, LARGE)):
        return 0
    return command.command.ByteSize()
