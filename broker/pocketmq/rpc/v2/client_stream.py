"""Telemetry stream of one client: answers to its commands, and commands of the broker.

Unread commands are bounded: while a client does not read, its commands are not read, and checks go
to another producer. The topics that all clients together publish to are bounded as well.
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
"""Commands and answers that wait to be read by a client."""
UNREAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of questions that wait to be read by all clients, but for those asked at the same time."""
LARGE: Final = ("recover_orphaned_transaction_command", "verify_message_command")
"""Commands that carry a message."""
TOPICS_MAX: Final = 1_024
"""That one client publishes to."""
Make = Callable[[], pb.TelemetryCommand]
"""Makes a command when the client comes to read it, with the values of that time."""
ALL_TOPICS_MAX: Final = 100_000
"""The same of all clients, each counted by itself: 1 KiB of memory each."""


class Together:
    """Resources that all clients use together.

    unread_bytes   of questions that are not read yet
    topic_count    topics that each publishes to
    """

    __slots__ = ("topic_count", "unread_bytes")

    def __init__(self) -> None:
        self.topic_count = 0
        self.unread_bytes = 0


class Question(NamedTuple):
    """A command about messages or threads, and the permission that its client needs."""

    command: pb.TelemetryCommand
    needs: tuple[Need, ...]


_Unread = pb.TelemetryCommand | Make | Question | None


class ClientStream:
    """Outgoing commands of a client, and the topics it is checked about.

    namespace   that the client is in, "" for none
    may         returns whether its user may do something by now: called when a question is made for
                the client, and once more when the client comes to read it
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
        """The answer to the client's last settings, until it is on its way."""
        self._taken = asyncio.Event()
        self._owed: Make | None = None
        """The newest of the client's commands, while there is no room for it."""
        self._leave: dict[str, Callable[[], None]] = {}
        """By topic, for each that it publishes to."""

    async def following(self) -> pb.TelemetryCommand | None:
        """Returns the next command to the client, None where its stream ends."""
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
        """Sends a command that is made once there is room; it replaces one that waits for that."""
        self._owed = make
        if not self._outbox.full():
            self._outbox.put_nowait(make)
            self._owed = None

    async def answer(self, command: pb.TelemetryCommand | Make | None) -> None:
        """Sends an answer, None for the end; returns when it is on its way.

        Until then the client's bytes count as held: answers are the only ones kept.
        """
        self._answer = command
        self._taken.clear()
        await self._outbox.put(command)
        if command is not None:
            await self._taken.wait()

    def say(self, command: Command) -> bool:
        """Sends the client a command, unless it does not listen; returns whether it was sent."""
        if isinstance(command, Verify) and not self._room():
            return False
        return self._offer(_question_of(command, self._namespace))

    def publish(self, topics: Mapping[str, pb.Resource]) -> None:
        """Registers the client for checks of exactly the topics it publishes to.

        Shape    names -> the client's names of them
        Errors   IllegalNumber, TooManyRequests: it publishes to the same topics as before
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
        # Of the settings nothing is kept but this.
        called = topic.resource_namespace, topic.name

        def offer(check: Check) -> bool:
            resource = pb.Resource(resource_namespace=called[0], name=called[1])
            needs = {topic_need(topic, PUB) for topic in (name, check.topic or name)}
            if not all(map(self._may, needs)):  # Before its message is read.
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
        """Ends checks; wakes tasks that wait for room, and drops unread commands."""
        self.publish({})
        self._answer = self._owed = None
        self._taken.set()
        while not self._outbox.empty():
            self._forget(self._outbox.get_nowait())


def _question_of(command: Command, namespace: str) -> Question:
    """Returns a command as it goes to a client in a namespace."""
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
    """Returns the bytes of a question, 0 for anything else: that is small."""
    if not isinstance(command, Question):
        return 0
    if not any(map(command.command.HasField, LARGE)):
        return 0
    return command.command.ByteSize()
