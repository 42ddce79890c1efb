"""Both sides of a classic client's connection, without a socket.

client = RemotingPair(service)
reply = await client.ask(105, topic="orders")
client.send(310, fields, b"body")        without a wait for its reply
client.replies[opaque]
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from pocketmq.rpc.own.remoting_connection import RemotingConnection
from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.service import Service
from pocketmq.rpc.serving import Serving
from pocketmq.wire.remoting import Command, CommandReader, Oversized, encode
from tests.kit.store_language import turns, until
from tests.sim.wire import Wire

LOCAL = "10.0.0.9:9876"


@contextmanager
def outside_of_tasks() -> Iterator[None]:
    """Runs the block as the loop runs callbacks: without a current task."""
    tasks: Any = asyncio.tasks
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    tasks._leave_task(loop, task)
    try:
        yield
    finally:
        tasks._enter_task(loop, task)


class RemotingPair:
    """A client and its connection to a server of these services."""

    def __init__(self, *services: Service, edge: ServerState | None = None, **own: int) -> None:
        self.edge = edge or ServerState(asyncio.get_running_loop(), Serving(services))
        self.edge.turn_s = 60.0  # Two reads may be within one iteration.
        self.wire = Wire()
        self.server = RemotingConnection(self.edge, "ipv4:192.0.2.1:7", LOCAL, **own)
        self.numbers = count(100)
        self.replies: dict[int, Command] = {}
        self.all_replies: list[Command] = []
        """All replies, in order, also several with one number."""
        self.asked: list[Command] = []
        """Requests that the broker sent."""
        self._reader = CommandReader(lambda code: 1 << 24)
        transport: Any = self.wire
        self.server.connection_made(transport)

    def send(self, code: int, fields: Mapping[str, str] = {}, body: bytes = b"", **own: Any) -> int:
        """Sends a request; returns its number."""
        opaque = next(self.numbers)
        self.put(Command(code, fields, body, opaque, **own))
        return opaque

    def put(self, *commands: Command) -> None:
        """Sends commands in one write."""
        self.feed(b"".join(map(encode, commands)))

    def feed(self, *pieces: bytes) -> None:
        """Sends bytes; each piece is one read of the server."""
        with outside_of_tasks():
            for piece in pieces:
                if self.server.is_open:
                    self.server.data_received(piece)
        self.take()

    def take(self) -> None:
        """Reads what the server has written."""
        written, self.wire.written = b"".join(self.wire.written), []
        for one in self._reader.receive(written):
            assert not isinstance(one, Oversized)
            if one.is_reply:
                self.replies[one.opaque] = one
                self.all_replies.append(one)
            else:
                self.asked.append(one)

    async def ask(
        self, code: int, fields: Mapping[str, str] = {}, body: bytes = b"", **own: Any
    ) -> Command:
        """Sends a request, and returns its reply."""
        opaque = self.send(code, fields, body, **own)
        await until(lambda: self.has_reply(opaque))
        return self.replies.pop(opaque)

    def has_reply(self, opaque: int) -> bool:
        """Returns whether a request was answered."""
        self.take()
        return opaque in self.replies

    async def settled(self) -> None:
        """Runs the server's tasks, and reads their answers."""
        for _ in range(3):
            await turns()
            self.take()

    async def idle(self) -> None:
        """Waits until no request is in progress, one-way ones included."""
        await until(lambda: not self.server.calls)
        self.take()

    def lose(self) -> None:
        """Ends the connection."""
        self.server.connection_lost(None)
