"""A gRPC server of our own: the services of serving.py, carried by wire/ over asyncio.

One port serves gRPC, and pages over HTTP/1.1, with TLS or without (listener.py).
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from pocketmq.model.errors import BrokerError
from pocketmq.rpc.admission import DEFAULT_LIMITS, CallClass
from pocketmq.rpc.own.connection import Http2Connection
from pocketmq.rpc.own.lifetime import Lifetime
from pocketmq.rpc.own.listener import Listener, Speakers, Transport, listen_on
from pocketmq.rpc.own.server_state import ClientConnection, ServerState
from pocketmq.rpc.service import Service
from pocketmq.rpc.serving import Serving, Turns

ENDING: Final = (CallClass.SEND, CallClass.SETTLE, CallClass.POLL)
"""Calls that a stop lets end as if there were none."""
CONNECTIONS_WEIGHT: Final = 7
"""How many times the connections that are free one address may hold: 7/8 of all there may be."""
READ_GRACE_S: Final = 2.5
"""Time that calls which store nothing, and clients that read answers, may take during a stop."""
FLUSH_S: Final = 1.0
"""Time that clients may take, once a stop is over, to read the last answers."""


class OwnServer:
    """One gRPC server: services, health, reflection. Made and used on the event loop.

    Life     add_port, start, show_ready, drain, stop; each at most once, add_port any number
    """

    __slots__ = ("_edge", "_listeners", "_serving", "_sockets", "_transport", "stats")

    def __init__(
        self,
        services: Sequence[Service],
        *,
        limits: Mapping[CallClass, int] = DEFAULT_LIMITS,
        transport: Transport | None = None,
    ) -> None:
        self._serving = Serving(services, limits)
        self.stats = self._serving.stats
        self._transport = transport or Transport()
        self._edge = ServerState(asyncio.get_running_loop(), self._serving)
        self._edge.pages = self._transport.pages
        self._sockets: list[socket.socket] = []
        self._listeners: list[Listener] = []

    def serve(self, services: Sequence[Service], turns: Turns | None = None) -> None:
        """Serves these methods from now on, in place of those of the same names.

        turns   with whose other heavy work requests of streams share the loop
        """
        self._serving.serve(services)
        self._serving.turns = turns or self._serving.turns
        self._edge.take_methods()

    def add_port(self, address: str) -> int:
        """Listens on "host:port" and returns the port; port 0 takes any that is free.

        Errors   IllegalConfig when the address is in use or none of this machine
        """
        found = listen_on(address)
        self._sockets += found
        port: int = found[0].getsockname()[1]
        return port

    def add_socket(self, listening: socket.socket) -> None:
        """Takes the connections of a socket that listens already; it is closed at the end."""
        listening.setblocking(False)
        self._sockets.append(listening)

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """Listening sockets."""
        return self._sockets

    async def start(self, refusal: BrokerError | None = None, hold_s: float = 0.0) -> None:
        """Takes calls; health reports NOT_SERVING until `show_ready`.

        refusal   answers every call until then
        hold_s    so long the first calls wait for it instead
        """
        assert not self._listeners, "a server starts once"
        self._serving.refusal = refusal
        transport = self._transport
        speakers = Speakers(
            partial(self._connection),
            transport.tls,
            transport.http1,
            transport.tls_only,
            transport.proxy_protocol,
        )
        for one in self._sockets:
            listener = Listener(one, speakers, self._edge.deadlines, self._is_full)
            self._listeners.append(listener)
            listener.start(hold_s)

    def _connection(self, peer: str) -> Http2Connection:
        connection = Http2Connection(self._edge, peer)
        Lifetime(connection, idle_ms=self._transport.idle_ms, age_ms=self._transport.age_ms)
        return connection

    @property
    def count(self) -> int:
        """The number of connections, those of unknown protocol among them."""
        return len(self._edge.connections) + sum(one.count for one in self._listeners)

    def _is_full(self, address: str) -> bool:
        """Returns whether there are connections enough, in all or of an address."""
        free = self._transport.connections_max - self.count
        held = self._edge.addresses.get(address, 0)
        held += sum(listener.count_of(address) for listener in self._listeners)
        return free <= 0 or held >= CONNECTIONS_WEIGHT * free

    def show_ready(self, *, writable: bool | Callable[[], bool]) -> None:
        """Serves, and reports that as health; `writable`, if given, is called again and again."""
        self._serving.show_ready(writable)
        for listener in self._listeners:
            listener.release()

    def turn_away(self) -> None:
        """Accepts no more, and sends clients elsewhere; serves calls they begin before they know.

        So none of them hears of a stop.
        """
        for listener in self._listeners:
            listener.pause()
        self._edge.turn_away()

    async def quiet(self, limit_s: float) -> None:
        """Returns when all clients know, and their sends, settlements and receives are answered."""
        await self._until(self._is_quiet, limit_s)

    def _is_quiet(self) -> bool:
        gates = map(self._serving.admission.gate, ENDING)
        return (
            not any(listener.is_busy for listener in self._listeners)
            and all(connection.wire.refuses for connection in self._edge.connections)
            and not any(gate.count for gate in gates)
        )

    def drain(self) -> None:
        """Reports NOT_SERVING, refuses sends, ends request streams; serves others until `stop`."""
        self._serving.drain()
        self._edge.drain()

    def cut_off(self) -> None:
        """Breaks every connection there is, whatever is under way on it."""
        self._each(lambda one: one.cut_off())

    async def stop(self, grace_s: float) -> None:
        """Takes no more calls and return when those under way have ended, or the grace has.

        Only calls that may store something have all of the grace; none of them waits for clients.
        """
        edge = self._edge
        for listener in self._listeners:
            listener.close()
        for unused in self._sockets[len(self._listeners) :]:
            unused.close()
        self._each(lambda one: one.drain())
        brief_s = min(grace_s, READ_GRACE_S)
        await self._until_calls_end(brief_s)
        self._each(lambda one: one.end_reads())
        await self._until(
            lambda: not any(one.is_storing for one in edge.connections), grace_s - brief_s
        )
        for connection in [*edge.connections]:
            for call in [*connection.calls]:
                call.cancel()
        flushed_s = edge.loop.time() + FLUSH_S
        await self._until_calls_end(FLUSH_S)
        self._each(lambda one: one.close())
        await self._until(lambda: not edge.connections, flushed_s - edge.loop.time())
        self.cut_off()
        edge.deadlines.close()
        await asyncio.sleep(0)  # Sockets are closed in the loop's next turn.

    def _each(self, act: Callable[[ClientConnection], None]) -> None:
        for connection in [*self._edge.connections]:
            act(connection)

    async def _until_calls_end(self, limit_s: float) -> None:
        connections = self._edge.connections
        await self._until(lambda: not any(one.is_busy for one in connections), limit_s)

    async def _until(self, is_over: Callable[[], bool], limit_s: float) -> None:
        changed = self._edge.changed
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not is_over():
                    changed.clear()
                    await changed.wait()
