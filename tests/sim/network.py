"""Connections between the nodes of one seeded loop, as bytes that a schedule delays, stalls, cuts.

    network = Network(loop)
    network.listen("a", lambda peer: protocol)     what accepts connections of node "a"
    reader, writer = await network.dial("b", "a")
    network.stall("a", "b")                         nothing of `a` arrives at `b` until `heal`
    network.cut()                                   all connections end, what was under way in part
    network.sever("a")                              `a` is dead: its connections end

Bytes arrive in pieces of any size, in order. A connection that ends delivers a part of what was
under way, which may be all or nothing. A stalled node learns of nothing: it waits.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

from tests.sim.loop import SeededLoop

DELAY_S: Final = 0.002
HIGH_BYTES: Final = 64 * 1024

NODE: Final[ContextVar[str]] = ContextVar("NODE", default="")
"""Name of the node that runs the present task or callback."""

Accept = Callable[[str], asyncio.Protocol]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class End(asyncio.Transport):
    """One end of a connection; `peer` is the other one."""

    peer: "End"

    def __init__(self, network: "Network", node: str, context: Context) -> None:
        super().__init__()
        self.node = node
        self.number = network.numbers = network.numbers + 1
        self.is_open = True
        self._network = network
        self._context = context
        self._protocol: Any = None
        self._arriving = bytearray()
        """Bytes of the peer that have not arrived yet."""
        self._is_ending = False
        self._is_reading = True
        self._is_paused = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, protocol: Any) -> None:
        self._protocol = protocol
        self._context.run(protocol.connection_made, self)

    # -- as the program sees it ----------------------------------------------------------------
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return not self.is_open

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.look()

    def write(self, data: Any) -> None:
        if not self.is_open or not self.peer.is_open or self.node in self._network.dead:
            return
        self.peer._arriving += data
        if len(self.peer._arriving) > HIGH_BYTES and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()
        self.peer.look()

    def close(self) -> None:
        self._end(None)
        self.peer.finish()

    def abort(self) -> None:
        self.close()

    # -- as the network does it ----------------------------------------------------------------
    def look(self) -> None:
        """Schedules a delivery of pending bytes, unless one is scheduled."""
        if self._timer is not None or not self.is_open:
            return
        random, network = self._network.loop.random, self._network
        delay_s = network.delay_s * random.random()
        self._timer = self._context.run(network.loop.call_later, delay_s, self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        network = self._network
        is_held = not self._is_reading or (self.peer.node, self.node) in network.stalled
        if not self.is_open or is_held or self.node in network.dead:
            return
        if self._arriving:
            size = network.piece(len(self._arriving))
            content = bytes(self._arriving[:size])
            del self._arriving[:size]
            network.delivered_bytes += size
            self._protocol.data_received(content)
            if self.peer._is_paused and len(self._arriving) < HIGH_BYTES // 2:
                self.peer._is_paused = False
                self.peer._context.run(self.peer._protocol.resume_writing)
        if self._arriving:
            self.look()
        elif self._is_ending:
            self._end(None)

    def finish(self) -> None:
        """Ends after the pending bytes have arrived: the peer has closed."""
        if self.is_open and not self._is_ending:
            self._is_ending = True
            left = self._network.loop.random.randint(0, len(self._arriving))
            if self.peer.node in self._network.dead:
                del self._arriving[left:]
            self.look()

    def break_off(self) -> None:
        """Ends with an error, after a part of the pending bytes."""
        if not self.is_open:
            return
        left = self._network.loop.random.randint(0, len(self._arriving))
        if left and (self.peer.node, self.node) not in self._network.stalled:
            self._context.run(self._protocol.data_received, bytes(self._arriving[:left]))
        self._end(ConnectionResetError("the connection was cut"))

    def _end(self, error: Exception | None) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        self._network.ends.discard(self)
        if self.node not in self._network.dead:
            self._context.run(self._network.loop.call_soon, self._protocol.connection_lost, error)


class Network:
    """All connections of a loop."""

    def __init__(self, loop: SeededLoop) -> None:
        self.loop = loop
        self.ends: set[End] = set()
        self.dead: set[str] = set()
        self.stalled: set[tuple[str, str]] = set()
        """(From, to): pairs of nodes between which no byte arrives."""
        self.delay_s = DELAY_S
        self.delivered_bytes = 0
        self.numbers = 0
        self._accepting: dict[str, tuple[Accept, Context]] = {}

    def listen(self, node: str, accept: Accept) -> None:
        """Accepts connections to a node, in its context, which is the caller's."""
        self._accepting[node] = (accept, copy_context())
        self.dead.discard(node)

    def piece(self, size: int) -> int:
        """Returns the number of pending bytes that arrive together."""
        way = self.loop.random.random()
        if way < 0.6:
            return size
        return self.loop.random.randint(1, size if way < 0.9 else min(size, 20))

    async def dial(self, source: str, target: str) -> Streams:
        """Connects.

        Errors   ConnectionRefusedError
        """
        await self.loop.pause(self.delay_s * self.loop.random.random())
        while {(source, target), (target, source)} & self.stalled:
            await self.loop.pause(1.0)
        if target in self.dead or target not in self._accepting:
            raise ConnectionRefusedError(f"{target} does not listen")
        accept, context = self._accepting[target]
        here, there = End(self, source, copy_context()), End(self, target, context.copy())
        here.peer, there.peer = there, here
        self.ends |= {here, there}
        reader = asyncio.StreamReader(loop=self.loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self.loop)
        here.begin(protocol)
        there.begin(there._context.run(accept, f"sim:{source}:1"))
        return reader, asyncio.StreamWriter(here, protocol, reader, self.loop)

    # -- what a schedule does ------------------------------------------------------------------
    def stall(self, source: str, target: str) -> None:
        """Holds all bytes from one node to another."""
        self.stalled.add((source, target))

    def heal(self) -> None:
        """Ends all stalls and delays."""
        self.stalled.clear()
        self.delay_s = DELAY_S
        for end in self._in_order():
            end.look()

    def cut(self) -> None:
        """Ends all connections, at any byte of the pending ones."""
        for end in self._in_order():
            end.break_off()

    def sever(self, node: str) -> None:
        """Ends the connections of a node that is dead."""
        self.dead.add(node)
        self._accepting.pop(node, None)
        for end in self._in_order():
            if end.node == node:
                end.close()

    def _in_order(self) -> list[End]:
        return sorted(self.ends, key=lambda end: end.number)
