"""Serves all protocols on one port; a connection's first bytes determine its protocol.

    0x16        TLS, if a certificate is configured; ALPN selects h2 or http/1.1
    "PRI "      HTTP/2 by prior knowledge
    0x00        RocketMQ's remoting, if the first 9 bytes begin a frame
    "GET ", …   HTTP/1.1: the web console, metrics and health
    "PMQ1"      a PocketMQ follower
    PROXY …     before any of these, if the setting for load balancers is on

The bytes are only peeked at (MSG_PEEK), so the protocol reads the connection from its start. Before
its protocol is known, a connection consists of a socket and a deadline: about 2 KiB.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from pocketmq.model.errors import AddressUnavailable
from pocketmq.model.page import ReadPage
from pocketmq.model.strangers import START_SIZE as STRANGER_SIZE
from pocketmq.model.strangers import Sparingly, protocol_of
from pocketmq.rpc.own.handshakes import Handshakes, address_of
from pocketmq.rpc.own.proxy_protocol import SIZE_MAX, ProxyError, read_proxy_header
from pocketmq.rpc.own.tls import Tls
from pocketmq.rpc.own.tls_connection import H2, Choose, TlsConnection
from pocketmq.store.deadlines import Deadlines
from pocketmq.wire.remoting import starts_frame

BACKLOG: Final = 1_024
ACCEPTED_AT_ONCE: Final = 16
HANDSHAKE_S: Final = 5.0
"""Timeout of a client's first bytes, and of its TLS handshake."""
HANDSHAKES_MAX: Final = 256
"""Upper limit of concurrent TLS handshakes, each of some 100 KiB; further ones are queued."""
HANDSHAKE_TIGHT_S: Final = 1.0
"""Timeout of a TLS handshake while more than half of HANDSHAKES_MAX are in progress."""
OUT_OF_FILES_S: Final = 0.5
READ_SIZE: Final = 65_536
_TLS: Final = b"\x16"
_HTTP2: Final = b"PRI "
_REMOTING: Final = b"\0"
_FOLLOWER: Final = b"PMQ1"
_HTTP1: Final = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ")
_TEXTS: Final = (_HTTP2, _FOLLOWER, *_HTTP1)

Factory = Callable[[str], asyncio.Protocol]
"""Creates the protocol of a connection from the client's address."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Transport:
    """Settings of connections.

    classic          whether connections of remoting are served
    http1            creates the HTTP/1.1 protocol of a connection; None: HTTP/1.1 is not served
    followers        creates the protocol of a follower's connection; None: they are refused
    pages            answers GET and HEAD over HTTP/2; None: they are refused
    tls              the certificate; without a certificate, TLS connections are closed
    tls_only         whether connections without TLS are closed
    proxy_protocol   whether each connection begins with a PROXY header
    connections_max  upper limit of open connections; further ones are closed at once
    idle_ms, age_ms  limits of a connection's time without calls and of its age; 0: no limit
    """

    classic: bool = False
    http1: Factory | None = None
    followers: Factory | None = None
    pages: ReadPage | None = None
    tls: Tls = field(default_factory=Tls)
    tls_only: bool = False
    proxy_protocol: bool = False
    connections_max: int = 16_384
    idle_ms: int = 0
    age_ms: int = 0


class Speakers(NamedTuple):
    """Factories of the protocols; None: connections of that protocol are closed."""

    http2: Factory
    tls: Tls
    http1: Factory | None = None
    remoting: Callable[[str, str], asyncio.Protocol] | None = None
    """Creates the protocol from the client's address and the address that the client reached; ""
    stands for the socket's own address."""
    tls_only: bool = False
    """Whether connections without TLS are closed."""
    proxy_protocol: bool = False
    """Whether each connection begins with a PROXY header."""
    followers: Factory | None = None


def listen_on(address: str, field: str = "rpc.listen") -> list[socket.socket]:
    """Returns a list of one socket, which listens on the first address of "host:port".

    field    setting that the address is from
    Errors   AddressUnavailable: the address is in use, is unknown, or does not belong to this
             machine
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    found: list[socket.socket] = []
    try:
        places = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        for family, kind, number, _, place in places[:1]:
            listener = socket.socket(family, kind, number)
            found.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and place[0] == "::":
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(place)
            listener.listen(BACKLOG)
    except OSError as error:
        for listener in found:
            listener.close()
        why = str(error.strerror)
        raise AddressUnavailable(field=field, address=address, why=why) from error
    return found


class Listener:
    """A listening socket, and its connections whose protocol is not known yet.

    is_full   returns whether the connection limit of an address is reached; the address "" stands
              for all connections
    """

    __slots__ = (
        "_addresses", "_deadlines", "_handshakes", "_is_full", "_is_paused", "_line", "_loop",
        "_socket", "_starting",
        "_strangers", "_tasks", "_unbegun", "is_held", "speakers",
    )  # fmt: skip

    def __init__(
        self,
        listener: socket.socket,
        speakers: Speakers,
        deadlines: Deadlines,
        is_full: Callable[[str], bool],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listener
        self._deadlines = deadlines
        self._is_full = is_full
        self.speakers = speakers
        self._starting: set[NewConnection] = set()
        self._addresses: Counter[str] = Counter()
        """Number of connections without a protocol, by address."""
        self._handshakes = Handshakes()
        self._strangers = Sparingly()
        self._line: dict[NewConnection, None] = {}
        """Connections that wait for a TLS handshake, or for `release`, in order of arrival."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._unbegun: dict[socket.socket, None] = {}
        """Sockets of tasks that have not begun."""
        self._is_paused = self.is_held = False
        """`_is_paused`: accepting is paused; `is_held`: all but HTTP/1.1 connections wait for
        `release`."""

    @property
    def is_busy(self) -> bool:
        """Whether connections are being handed to their protocols."""
        return bool(self._tasks)

    @property
    def count(self) -> int:
        """The number of connections not yet handed to their protocols."""
        return len(self._starting) + len(self._tasks)

    def start(self, hold_s: float = 0.0) -> None:
        """Accepts connections; all but HTTP/1.1 wait for `release`, at most for `hold_s`."""
        if hold_s > 0:
            self.is_held = True
            self._loop.call_later(hold_s, self.release)
        self._loop.add_reader(self._socket, self._accept)

    def release(self) -> None:
        """Continues the connections that waited since `start`."""
        self.is_held = False
        line, self._line = self._line, {}
        for start in line:
            start.look()

    def pause(self) -> None:
        """Stops accepting; new connections wait in the socket until another listener accepts."""
        self._is_paused = True
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)

    def close(self) -> None:
        """Stops listening, and closes connections not yet handed to a protocol."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for start in [*self._starting]:
            start.close()
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, place = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning("rpc.accept_failed", extra={"error": str(error)})
                self._loop.remove_reader(self._socket)
                self._loop.call_later(OUT_OF_FILES_S, self._resume)
                return
            peer = peer_text(accepted.family, place)
            address = address_of(peer)
            if self.is_full(address):
                accepted.close()
                continue
            accepted.setblocking(False)
            start = NewConnection(self, accepted, peer, address)
            self._starting.add(start)
            self._addresses[address] += 1
            start.look()

    def _resume(self) -> None:
        if self._socket.fileno() >= 0 and not self._is_paused:
            self._loop.add_reader(self._socket, self._accept)

    # -- for starting connections -------------------------------------------------------------

    @property
    def is_shaking_enough_hands(self) -> bool:
        """Whether the next TLS handshake has to wait; cancels a slow one to free a slot."""
        handshakes = self._handshakes
        if handshakes.count < HANDSHAKES_MAX:
            return False
        return not handshakes.give_up_one(self._loop.time())

    def is_full(self, address: str) -> bool:
        """Returns whether the connection limit of an address is reached.

        With the PROXY protocol all connections come from the load balancer, so only the total
        limit counts.
        """
        return self._is_full("" if self.speakers.proxy_protocol else address)

    def count_of(self, address: str) -> int:
        """Returns the number of connections of an address not yet handed to their protocols."""
        return self._addresses.get(address, 0)

    def expire_at(self, call_back: Callable[[], None]) -> int:
        """Schedules `call_back` in HANDSHAKE_S seconds; returns the number that `forget` needs."""
        return self._deadlines.add(self._loop.time() + HANDSHAKE_S, call_back)

    def forget(self, start: "NewConnection", tick: int) -> None:
        """Removes a new connection that was closed or handed to its protocol."""
        assert start in self._starting, "unknown new connection"
        self._starting.remove(start)
        self._addresses[start.address] -= 1
        if not self._addresses[start.address]:
            del self._addresses[start.address]
        self._line.pop(start, None)
        self._deadlines.remove(tick, start.close)

    def line_up(self, start: "NewConnection") -> None:
        """Queues a connection until a handshake slot is free, or until `release`."""
        self._line[start] = None

    def tell_stranger(self, protocol: str, peer: str) -> None:
        """Logs, at a limited rate, a client whose connection is closed because of its protocol."""
        if self._strangers.may_tell(self._loop.time()):
            left_out = self._strangers.told()
            logger.warning(
                "rpc.stranger", extra={"protocol": protocol, "peer": peer, "left_out": left_out}
            )

    def take_over(
        self, connection: socket.socket, factory: Factory | None, peer: str, local: str = ""
    ) -> None:
        """Hands a connection to its protocol.

        factory   creates the protocol; None: a TLS handshake is done first
        local     the address that the client reached; "": the address of the socket
        """
        task = asyncio.Task(self._connect(connection, factory, peer, local), loop=self._loop)
        self._tasks.add(task)
        self._unbegun[connection] = None
        address = ""
        if factory is None:
            address = address_of(peer)
            self._handshakes.begin(address, task, self._loop.time())
        task.add_done_callback(partial(self._end, connection, address))

    def _end(self, connection: socket.socket, address: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if connection in self._unbegun:  # Cancelled before its task ran.
            del self._unbegun[connection]
            connection.close()
        self._handshakes.end(address, task)
        if self._line and not self.is_shaking_enough_hands and self._socket.fileno() >= 0:
            first = next(iter(self._line))
            del self._line[first]
            first.look()

    async def _connect(
        self, connection: socket.socket, factory: Factory | None, peer: str, local: str
    ) -> None:
        del self._unbegun[connection]
        is_tight = self._handshakes.count > HANDSHAKES_MAX >> 1
        try:
            if factory is not None:
                await self._loop.connect_accepted_socket(partial(factory, peer), connection)
                return
            choose = partial(self._speaker, peer, local)
            await self._shake_hands(
                connection, choose, HANDSHAKE_TIGHT_S if is_tight else HANDSHAKE_S
            )
        except OSError as error:  # Includes ssl's errors and timeouts.
            logger.debug("rpc.handshake_failed", extra={"peer": peer, "error": str(error)})
            connection.close()

    async def _shake_hands(self, connection: socket.socket, choose: Choose, limit_s: float) -> None:
        context = self.speakers.tls.context
        assert context is not None, "no certificate"
        secured = TlsConnection(context, choose)
        try:
            async with asyncio.timeout(limit_s):
                await self._loop.connect_accepted_socket(lambda: secured, connection)
                await secured.shaken
        finally:
            if not secured.is_spoken_with:
                secured.end()

    def _speaker(
        self, peer: str, local: str, alpn: str | None, first: bytes
    ) -> asyncio.Protocol | None:
        """Returns the protocol of a client over TLS, None if it is not served."""
        remoting = self.speakers.remoting
        if alpn is None and remoting is not None and first.startswith(_REMOTING):
            return remoting(peer, local)
        followers = self.speakers.followers
        if alpn is None and followers is not None and first.startswith(_FOLLOWER):
            return followers(peer)
        is_http2 = alpn == H2 or (alpn is None and first.startswith(_HTTP2))
        factory = self.speakers.http2 if is_http2 else self.speakers.http1
        return None if factory is None else factory(peer)


class NewConnection:
    """A connection whose protocol is not known yet."""

    __slots__ = (
        "_listener", "_local", "_peer", "_seen", "_socket", "_tick", "_wants_header", "address"
    )  # fmt: skip

    def __init__(
        self, listener: Listener, connection: socket.socket, peer: str, address: str
    ) -> None:
        self.address = address
        self._listener = listener
        self._socket = connection
        self._peer = peer
        self._local = ""
        self._wants_header = listener.speakers.proxy_protocol
        self._seen = 0  # Number of received bytes that did not determine the protocol.
        self._tick = listener.expire_at(self.close)
        assert connection.gettimeout() == 0, "the socket is blocking"

    def look(self) -> None:
        """Peeks at the received bytes; called again when more arrive."""
        loop = asyncio.get_running_loop()
        if self._socket.fileno() < 0:
            return
        loop.remove_reader(self._socket)
        try:
            data = self._socket.recv(SIZE_MAX, socket.MSG_PEEK)
            is_more = len(data) > self._seen
            if is_more and not (self._pass_header(data) and self._choose()):
                loop.add_reader(self._socket, self.look)
                return
        except (BlockingIOError, InterruptedError):
            loop.add_reader(self._socket, self.look)
            return
        except ProxyError as error:
            self._listener.tell_stranger(f"{protocol_of(data)}: {error}", self._peer)
            self.close()
            return
        except OSError:
            self.close()
            return
        if not is_more:  # The client closed its side before its protocol was known.
            self.close()

    def _expect(self, seen: int) -> None:
        # `seen` lacks bytes that arrived after the peek: they must wake `look`.
        self._seen = seen
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, seen + 1)

    def _pass_header(self, data: bytes) -> bool:
        """Reads a complete PROXY header; returns whether no header is expected any more."""
        if not self._wants_header:
            return True
        header = read_proxy_header(data)
        if header is None:
            self._expect(len(data))
            return False
        self._socket.recv(header.size)
        self._expect(0)
        self._peer, self._local = header.peer or self._peer, header.local
        self._wants_header = False
        return True

    def _choose(self) -> bool:
        """Returns False if too few bytes have arrived; else hands over or closes the connection."""
        data = self._socket.recv(STRANGER_SIZE, socket.MSG_PEEK)
        speakers = self._listener.speakers
        is_remoting = speakers.remoting is not None and starts_frame(data)
        if not data:
            self.close()
        elif self._listener.is_held and (is_remoting or data.startswith((_TLS, _HTTP2, _FOLLOWER))):
            self._listener.line_up(self)
        elif data.startswith(_TLS) and speakers.tls.context is not None:
            if self._listener.is_shaking_enough_hands:
                self._listener.line_up(self)
            else:
                self._take_over(None)
        elif speakers.tls_only:
            self._refuse(f"{protocol_of(data)}, which came without TLS (rpc.tls_only is on)")
        elif data.startswith(_HTTP2):
            self._take_over(speakers.http2)
        elif speakers.http1 is not None and data.startswith(_HTTP1):
            self._take_over(speakers.http1)
        elif speakers.followers is not None and data.startswith(_FOLLOWER):
            self._take_over(speakers.followers)
        elif is_remoting and speakers.remoting is not None:
            create, local = speakers.remoting, self._local
            self._take_over(lambda peer: create(peer, local))
        elif is_remoting is None or any(one.startswith(data) for one in _TEXTS):
            self._expect(len(data))
            return False
        else:
            self._refuse(protocol_of(data))
        return True

    def _refuse(self, protocol: str) -> None:
        self._listener.tell_stranger(protocol, self._peer)
        self.close()

    def _take_over(self, factory: Factory | None) -> None:
        self._listener.forget(self, self._tick)
        if self._seen:
            self._expect(0)
        self._listener.take_over(self._socket, factory, self._peer, self._local)

    def close(self) -> None:
        """Closes the connection."""
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._listener.forget(self, self._tick)
            with suppress(OSError):
                self._socket.recv(READ_SIZE)  # With unread bytes close() would send a reset.
            self._socket.close()


def peer_text(family: int, place: object) -> str:
    """Returns a client's address as gRPC writes it."""
    assert isinstance(place, tuple), "not a TCP address"
    host, port = place[:2]
    if family == socket.AF_INET6:
        if host.startswith("::ffff:"):
            return f"ipv4:{host[7:]}:{port}"
        return f"ipv6:%5B{host.partition('%')[0]}%5D:{port}"
    return f"ipv4:{host}:{port}"
