"""What all connections of a server share: its methods, its deadlines, and how much memory is left.

Memory is counted where strangers decide about it: `held`, bytes of requests that are not whole or
not yet taken, and `unread`, bytes of answers that their clients do not read. Each connection has
limits of its own; where all together go beyond HELD_MAX, the one that holds most is cut off.
Beyond UNREAD_MAX who keeps something is given nothing large more, nobody anything very large, and
who reads too little is cut off; beyond UNREAD_FACTOR times as much the one that keeps most is.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from broker.rpc.own.deadlines import Deadlines
from broker.rpc.serving import ServedMethod, Serving
from broker.wire.connection import Connection
from broker.wire.stream import Stream

HELD_MAX: Final = 24 * 1024 * 1024
"""Bytes of unfinished requests of all connections: one of the largest, and many small ones."""
UNREAD_MAX: Final = 16 * 1024 * 1024
"""Bytes of answers kept for all clients before those that keep much of it wait."""
UNREAD_TIGHT_MAX: Final = 65_536
"""Bytes kept for one client from which on it is one of these."""
STALLED_S: Final = 10.0
"""What such a client may take to read an eighth of what is kept for it."""
UNREAD_FACTOR: Final = 3
"""Leaves room for the largest answers of two clients that read them, and for others' small ones."""
REPLY_MAX: Final = 1024 * 1024
"""Bytes of an answer that is kept for a client who reads what it is given, whatever others do."""
SMALL_REPLY_MAX: Final = 4_096
"""Bytes of an answer that is kept in any case: to refuse it would cost as much."""

logger = logging.getLogger(__name__)


class Waiting(ABC):
    """A call that is waited for, as its connection sees it."""

    __slots__ = ()

    @abstractmethod
    def cancel(self) -> None:
        """Let the handler know that nobody waits for it any more."""

    @abstractmethod
    def end_requests(self) -> None:
        """Let no request of a stream of them come any more."""


class Client(ABC):
    """A connection, as its calls and the edge see it.

    peer    who it is, as gRPC writes it
    host    its address, packed as records keep it
    calls   those that are waited for
    held    bytes of requests here, as last counted
    unread  bytes of answers that wait here, as last counted
    sent    bytes given to the socket so far
    """

    __slots__ = ()

    edge: "Edge"
    wire: Connection
    peer: str
    host: bytes
    calls: set[Waiting]
    held: int
    unread: int
    sent: int

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether anything can still come or go."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a call is under way, or its answer."""

    @abstractmethod
    def drain(self) -> None:
        """Tell the client to begin no more calls here; the second time, that none are taken."""

    @abstractmethod
    def close(self) -> None:
        """End the connection once what was answered is sent."""

    @abstractmethod
    def write(self) -> None:
        """Write all that may be written."""

    @abstractmethod
    def write_soon(self) -> None:
        """Write in the next turn of the loop what all calls of this one give."""

    @abstractmethod
    async def room(self, stream: Stream) -> None:
        """Return when a stream of answers may go on."""

    @abstractmethod
    def cut_off(self) -> None:
        """End the connection now, whatever is under way."""


class Edge:
    """The side of a server that all its connections see."""

    __slots__ = (
        "_dirty", "_is_watching", "changed", "connections", "deadlines", "held", "is_draining",
        "loop", "methods", "serving", "unread", "unread_max",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, serving: Serving) -> None:
        self.loop = loop
        self.serving = serving
        self.deadlines = Deadlines(loop)
        self.methods: dict[bytes, ServedMethod] = {}
        self.connections: set[Client] = set()
        self.is_draining = False
        self.held = 0
        """Bytes of requests that no handler has taken."""
        self.unread = 0
        """Bytes of answers that wait for their clients."""
        self.unread_max = UNREAD_MAX
        self.changed = asyncio.Event()
        """Set when a connection that drains has written something, or is gone."""
        self._is_watching = False
        self._dirty: list[Client] = []
        self.take_methods()

    def take_methods(self) -> None:
        """Serve what `serving` has now."""
        self.methods = {path.encode(): served for path, served in self.serving.methods.items()}

    def write_soon(self, connection: "Client") -> None:
        """Write what a connection has for its client in the next turn of the loop, once."""
        if not self._dirty:
            self.loop.call_soon(self._write_all)
        self._dirty.append(connection)

    def _write_all(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.write()

    def count(self, held_more: int, unread_more: int) -> None:
        """Note that connections keep more, or less."""
        self.held += held_more
        self.unread += unread_more
        assert self.held >= 0, "what was not held is let go"
        assert self.unread >= 0, "what was not kept is read"
        while self.held > HELD_MAX:
            largest = max(self.connections, key=lambda one: one.held)
            assert largest.held > 0, "what is held is some connection's"
            _tell_cut_off(largest)
            largest.cut_off()
        while self.unread > UNREAD_FACTOR * self.unread_max:
            largest = max(self.connections, key=lambda one: one.unread)
            assert largest.unread > 0, "what is unread is some connection's"
            _tell_cut_off(largest)
            largest.cut_off()
        if self.unread > self.unread_max and not self._is_watching:
            self._is_watching = True
            slow = {
                one: one.sent + (one.unread >> 3)
                for one in self.connections
                if one.unread > UNREAD_TIGHT_MAX
            }
            at_s = self.loop.time() + STALLED_S
            self.deadlines.add(at_s, lambda: self._cut_off_stalled(slow))

    def _cut_off_stalled(self, slow: Mapping["Client", int]) -> None:
        """Cut off those that have read too little since."""
        self._is_watching = False
        for one, wanted in slow.items():
            if one.is_open and one.sent < wanted and one.unread > UNREAD_TIGHT_MAX:
                _tell_cut_off(one)
                one.cut_off()
        self.count(0, 0)

    def has_room_for(self, one: Client, reply_size: int) -> bool:
        """Return whether an answer may be kept until its client reads it."""
        if reply_size <= SMALL_REPLY_MAX or self.unread <= self.unread_max:
            return True
        return reply_size <= REPLY_MAX and one.wire.pending <= UNREAD_TIGHT_MAX

    def drain(self) -> None:
        """End the requests of all streams: their handlers see no more of them."""
        self.is_draining = True
        for connection in self.connections:
            for call in connection.calls:
                call.end_requests()


def _tell_cut_off(one: Client) -> None:
    logger.warning(
        "rpc.cut_off",
        extra={"peer": one.peer, "unfinished_bytes": one.held, "unread_bytes": one.unread},
    )
