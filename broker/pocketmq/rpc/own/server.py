"""PocketMQ's own server: the services of serving.py, over wire/ and asyncio.

One port serves gRPC, remoting and pages, with TLS or without (listener.py).
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final

from pocketmq.model.errors import BrokerError
from pocketmq.rpc.admission import DEFAULT_LIMITS, CallClass
from pocketmq.rpc.health import State
from pocketmq.rpc.own.connection import Http2Connection
from pocketmq.rpc.own.listener import Listener, Speakers, Transport, listen_on
from pocketmq.rpc.own.remoting_connection import RemotingConnection
from pocketmq.rpc.own.server_state import ServerConnection, ServerState
from pocketmq.rpc.service import Service
from pocketmq.rpc.serving import Serving, Turns

# -- lifetime of a connection ------------------------------------------------------------------
FIRST_LOOK_S: Final = 5.0
"""Timeout of a client's HTTP/2 preface and settings."""
KEEPALIVE_S: Final = 60.0
KEEPALIVE_TIMEOUT_S: Final = 20.0
"""A client silent for KEEPALIVE_S is pinged, and cut off unless it answers within
KEEPALIVE_TIMEOUT_S."""
AGE_GRACE_S: Final = 60.0
"""Time until the calls of an old or idle connection are ended: twice the longest poll."""


class Lifetime:
    """Enforces the keepalive, idle and age limits of one connection from accept to close.

    idle_ms, age_ms   limits of the time without calls and of the age; 0: no limit
    """

    __slots__ = (
        "_age_s", "_begun_s", "_connection", "_idle_s", "_is_asked", "_is_over", "_over_s",
        "_used_s",
    )  # fmt: skip

    def __init__(self, connection: Http2Connection, *, idle_ms: int, age_ms: int) -> None:
        assert min(idle_ms, age_ms) >= 0, "negative limit"
        self._connection = connection
        self._idle_s = idle_ms / 1000
        self._age_s = age_ms / 1000
        self._begun_s = self._used_s = connection.edge.loop.time()
        self._is_asked = self._is_over = False
        self._over_s = inf
        """Loop time at which the remaining calls are ended, and later the connection itself."""
        self._look_at(self._begun_s + FIRST_LOOK_S)

    def _look_at(self, at_s: float) -> None:
        ends = [at_s, self._over_s]
        if not self._connection.is_draining:
            ends += [self._begun_s + self._age_s] if self._age_s else []
            ends += [self._used_s + self._idle_s] if self._idle_s else []
        self._connection.edge.deadlines.add(min(ends), self._look)

    def _look(self) -> None:
        connection = self._connection
        if not connection.is_open:
            return
        if not connection.wire.begun:
            connection.cut_off()
            return
        now = connection.edge.loop.time()
        if connection.is_used or connection.wire.open_count:
            self._used_s = now
        is_new = now - self._begun_s < KEEPALIVE_S and not self._is_asked
        is_silent = not connection.is_heard or (is_new and not connection.is_used)
        connection.is_used = connection.is_heard = False
        if not is_silent:
            self._is_asked = False
        elif self._is_asked:
            connection.cut_off()
            return
        else:
            self._is_asked = True
            connection.ping()
        self._drain_if_over(now)
        if now >= self._over_s and not self._end(now):
            return
        self._look_at(now + (KEEPALIVE_TIMEOUT_S if self._is_asked else KEEPALIVE_S))

    def _drain_if_over(self, now: float) -> None:
        connection = self._connection
        is_old = 0 < self._age_s <= now - self._begun_s
        is_idle = 0 < self._idle_s <= now - self._used_s
        # A second `drain` sends the last GOAWAY, even if the client did not answer the ping.
        if is_old or is_idle:
            connection.drain()
            self._over_s = min(self._over_s, now + AGE_GRACE_S)

    def _end(self, now: float) -> bool:
        connection = self._connection
        if self._is_over or not connection.is_open:
            connection.cut_off()
            return False
        self._is_over = True
        self._over_s = now + KEEPALIVE_TIMEOUT_S
        for call in [*connection.calls]:
            call.give_up()
        return True


# -- the server --------------------------------------------------------------------------------
ENDING: Final = (CallClass.SEND, CallClass.SETTLE, CallClass.POLL)
"""Classes of calls that `quiet` waits for."""
CONNECTIONS_WEIGHT: Final = 7
"""Upper limit of one address's connections, as a multiple of the free ones: 7/8 of all."""
READ_GRACE_S: Final = 2.5
"""Time in which a stop lets calls that store nothing end, and clients read their answers."""
FLUSH_S: Final = 1.0
"""Time for clients to read the last answers once all calls have ended."""


class OwnServer:
    """A gRPC and remoting server with health and reflection; created and used on the event loop.

    Life     add_port (any number of times), start, show_ready, drain, stop
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
        """Serves these services from now on; they replace services with the same names.

        turns   shares the event loop between streamed requests and other heavy work, by user
        """
        self._serving.serve(services)
        self._serving.turns = turns or self._serving.turns
        self._edge.take_methods()

    def add_port(self, address: str) -> int:
        """Listens on "host:port" and returns the port; port 0 chooses a free one.

        Errors   AddressUnavailable: the address is in use, is unknown, or does not belong to this
                 machine
        """
        found = listen_on(address)
        self._sockets += found
        port: int = found[0].getsockname()[1]
        return port

    def add_socket(self, listening: socket.socket) -> None:
        """Adds a listening socket, which the server closes when it stops."""
        listening.setblocking(False)
        self._sockets.append(listening)

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """Listening sockets."""
        return self._sockets

    async def start(self, refusal: BrokerError | None = None, hold_s: float = 0.0) -> None:
        """Accepts connections; health reports NOT_SERVING until `show_ready`.

        refusal   error of every call until `show_ready`
        hold_s    time for which the first connections wait for `show_ready` without being refused
        """
        assert not self._listeners, "the server was started before"
        self._serving.refusal = refusal
        transport = self._transport
        speakers = Speakers(
            partial(self._connection),
            transport.tls,
            transport.http1,
            self._remoting if transport.classic else None,
            transport.tls_only,
            transport.proxy_protocol,
            transport.followers,
        )
        for one in self._sockets:
            listener = Listener(one, speakers, self._edge.deadlines, self._is_full)
            self._listeners.append(listener)
            listener.start(hold_s)

    def _connection(self, peer: str) -> Http2Connection:
        connection = Http2Connection(self._edge, peer)
        Lifetime(connection, idle_ms=self._transport.idle_ms, age_ms=self._transport.age_ms)
        return connection

    def _remoting(self, peer: str, local: str) -> RemotingConnection:
        transport = self._transport
        return RemotingConnection(
            self._edge, peer, local, idle_ms=transport.idle_ms, age_ms=transport.age_ms
        )

    @property
    def count(self) -> int:
        """The number of connections, including those whose protocol is not known yet."""
        return len(self._edge.connections) + sum(one.count for one in self._listeners)

    def _is_full(self, address: str) -> bool:
        free = self._transport.connections_max - self.count
        held = self._edge.addresses.get(address, 0)
        held += sum(listener.count_of(address) for listener in self._listeners)
        return free <= 0 or held >= CONNECTIONS_WEIGHT * free

    def show_ready(self, *, writable: State, replica: State = True) -> None:
        """Serves calls and reports SERVING; a callable state is called by each health check."""
        self._serving.show_ready(writable, replica)
        for listener in self._listeners:
            listener.release()

    def turn_away(self) -> None:
        """Stops accepting connections and sends GOAWAY.

        Calls that clients begin before they receive GOAWAY are served, so clients see no error.
        """
        for listener in self._listeners:
            listener.pause()
        self._edge.turn_away()

    async def quiet(self, limit_s: float) -> None:
        """Waits, up to `limit_s`, until the last GOAWAY is sent and no call of ENDING runs."""
        await self._until(self._is_quiet, limit_s)

    def _is_quiet(self) -> bool:
        gates = map(self._serving.admission.gate, ENDING)
        return (
            not any(listener.is_busy for listener in self._listeners)
            and all(connection.is_told for connection in self._edge.connections)
            and not any(gate.count for gate in gates)
        )

    def drain(self) -> None:
        """Reports NOT_SERVING, refuses sends and ends request streams; `stop` ends other calls."""
        self._serving.drain()
        self._edge.drain()

    def cut_off(self) -> None:
        """Closes every connection at once, with all its calls."""
        self._each(lambda one: one.cut_off())

    async def stop(self, grace_s: float) -> None:
        """Refuses new calls, and closes all connections when the calls have ended.

        Calls that store nothing are cancelled after READ_GRACE_S, all others after `grace_s`.
        Clients then have FLUSH_S to read the last answers.
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
        await asyncio.sleep(0)  # Sockets are closed in the next loop iteration.

    def _each(self, act: Callable[[ServerConnection], None]) -> None:
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
