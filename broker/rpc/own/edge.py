"""What all connections of a server share: methods, deadlines, and how much memory is left."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from broker.rpc.own.deadlines import Deadlines
from broker.rpc.own.memory import Keeping, Memory
from broker.rpc.serving import ServedMethod, Serving
from broker.wire.connection import Connection
from broker.wire.stream import Stream


class Waiting(ABC):
    """A call that is waited for, as its connection sees it."""

    __slots__ = ()

    @abstractmethod
    def cancel(self) -> None:
        """Let the handler know that nobody waits for it any more."""

    @abstractmethod
    def end_requests(self) -> None:
        """Let no request of a stream of them come any more."""


class Client(Keeping):
    """A connection, as its calls and the edge see it.

    host    its address, packed as records keep it
    calls   those that are waited for
    """

    __slots__ = ()

    edge: "Edge"
    wire: Connection
    host: bytes
    calls: set[Waiting]

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


class Edge:
    """The side of a server that all its connections see."""

    __slots__ = (
        "_dirty", "changed", "connections", "deadlines", "is_draining", "loop", "memory", "methods",
        "serving", "sizes",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        serving: Serving,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Begin with no connection.

        clock   seconds that only grow, the loop's where there is none
        """
        self.loop = loop
        self.serving = serving
        self.deadlines = Deadlines(loop)
        self.methods: dict[bytes, ServedMethod] = {}
        self.sizes: dict[bytes, int] = {}
        """Bytes of the largest request of each method; changed in place."""
        self.connections: set[Client] = set()
        self.memory = Memory(self.connections, self.deadlines, clock or loop.time)
        self.is_draining = False
        self.changed = asyncio.Event()
        """Set when a connection that drains has written something, or is gone."""
        self._dirty: list[Client] = []
        self.take_methods()

    def take_methods(self) -> None:
        """Serve what `serving` has now."""
        self.methods = {path.encode(): served for path, served in self.serving.methods.items()}
        self.sizes.update({p: one.method.request_size_max for p, one in self.methods.items()})
        assert self.sizes.keys() == self.methods.keys(), "what was served once is served"

    def write_soon(self, connection: "Client") -> None:
        """Write what a connection has for its client in the next turn of the loop, once."""
        if not self._dirty:
            self.loop.call_soon(self._write_all)
        self._dirty.append(connection)

    def _write_all(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.write()

    def drain(self) -> None:
        """End the requests of all streams: their handlers see no more of them."""
        self.is_draining = True
        for connection in self.connections:
            for call in connection.calls:
                call.end_requests()
