"""HTTP/1.1 connections of a site, parsed by h11; for scrapers, probes and browsers.

A connection handles GET and HEAD requests, one at a time. Only the first connection imports this
module (metrics/http_port.py).
"""

import asyncio
import logging
from http import HTTPStatus
from typing import Final, cast

import h11

from pocketmq.metrics.site import Site, SiteConnection, plain
from pocketmq.metrics.tunnel import OtherProcess, Tunnel, with_field
from pocketmq.model.page import Answer, is_loopback_peer
from pocketmq.model.strangers import START_SIZE, protocol_of

CONNECTIONS_MAX: Final = 256
"""Upper limit of connections; a further connection replaces the connection idle for longest."""
IDLE_S: Final = 60.0
"""Upper limit of the time from the connection's start, or from a response, to the end of the next
request."""
HEAD_SIZE_MAX: Final = 16_384
CONSOLE_FAILED: Final = "the console did not start; the broker's log has the reason"

logger = logging.getLogger(__name__)


class HttpConnection(SiteConnection):
    """Connection of one client."""

    __slots__ = (
        "_is_paused", "_is_private", "_machine", "_peer", "_raw", "_site", "_start", "_task",
        "_timer", "_transport", "_tunnel",
    )  # fmt: skip

    def __init__(self, site: Site, peer: str) -> None:
        self._site = site
        self._peer = peer
        self._is_private = False
        self._start = b""
        self._raw = b""
        """Bytes of the request that is not answered yet."""
        self._tunnel: Tunnel | None = None
        self._machine = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_SIZE_MAX)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection."""
        transport = cast(asyncio.Transport, transport)  # uvloop has its own class
        self._peer = self._peer or _peer_of(transport)
        self._is_private = transport.get_extra_info("sslcontext") is not None
        self._transport = transport
        if len(self._site.connections) >= CONNECTIONS_MAX:
            next(iter(self._site.connections)).cut_off()
        self._wait()
        assert len(self._site.connections) <= CONNECTIONS_MAX, "too many connections"

    def data_received(self, data: bytes) -> None:
        """Processes the client's bytes."""
        if self._tunnel is not None:
            self._tunnel.send(data)
            return
        if len(self._start) < START_SIZE:
            self._start += data[: START_SIZE - len(self._start)]
        self._raw += data
        self._machine.receive_data(data)
        self._advance()

    def eof_received(self) -> bool:
        """Handles the end of the client's requests; pending responses are sent."""
        if self._tunnel is not None:
            return False
        self._machine.receive_data(b"")
        self._advance()
        return self._task is not None or self._is_paused

    def pause_writing(self) -> None:
        """Stops responses until the client has read."""
        self._is_paused = True
        if self._tunnel is not None:
            self._tunnel.pause()

    def resume_writing(self) -> None:
        """Continues after the client has read."""
        self._is_paused = False
        if self._tunnel is not None:
            self._tunnel.resume()
            return
        if self._transport is not None and self._task is None:
            self._transport.resume_reading()
        self._advance()

    def connection_lost(self, error: Exception | None) -> None:
        """Unregisters the connection and cancels its response."""
        self._site.connections.pop(self, None)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._tunnel is not None:
            self._tunnel.close()

    def close(self) -> None:
        """Closes the connection."""
        if self._transport is not None:
            self._transport.close()

    @property
    def unread(self) -> int:
        """Bytes of responses that the client has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def cut_off(self) -> None:
        """Aborts the connection, even if the client has not read its response."""
        transport = self._transport
        self.connection_lost(None)
        if transport is not None:
            transport.abort()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.cut_off)
        self._site.connections.pop(self, None)
        self._site.connections[self] = None

    def _advance(self) -> None:
        if self._task is not None or self._is_paused:
            return
        request: h11.Request | None = None
        while True:
            try:
                event = self._machine.next_event()
            except h11.RemoteProtocolError as error:
                self._site.tell_stranger(protocol_of(self._start), self._peer)
                self._refuse(error.error_status_hint)
                return
            if isinstance(event, h11.Request):
                request = event
                if self._site.is_elsewhere(event.target.decode("latin-1").partition("?")[0]):
                    self._pass_on()
                    return
                if event.method not in (b"GET", b"HEAD"):
                    self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)
                    return
            elif isinstance(event, h11.Data):
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                return
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None, "the message has no request"
                if self._transport is not None:
                    self._transport.pause_reading()
                self._task = asyncio.Task(self._answer(request))
                return
            elif event is h11.NEED_DATA:
                return
            else:  # The client or the server has ended the connection.
                self.close()
                return

    def _pass_on(self) -> None:
        """Passes the connection on to the process of the console, from this request on."""
        transport, console = self._transport, self._site.console
        if transport is None or console is None:
            return
        is_private = self._is_private or is_loopback_peer(self._peer)
        begin = with_field(self._raw, console.token, is_private=is_private, is_tls=self._is_private)
        self._raw = b""
        if self._timer is not None:
            self._timer.cancel()
        self._tunnel = Tunnel(transport, begin)
        self._task = asyncio.Task(self._connect(self._tunnel, console))

    async def _connect(self, tunnel: Tunnel, console: OtherProcess) -> None:
        try:
            path = await console.path()
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: tunnel, path)
        except (OSError, TimeoutError) as error:
            logger.error("http.failed", exc_info=error, extra={"path": "console"})
            self._tunnel = None
            self._send(plain(HTTPStatus.BAD_GATEWAY, CONSOLE_FAILED), is_last=True)
            self.close()
        finally:
            self._task = None

    async def _answer(self, request: h11.Request) -> None:
        answer = await self._site.answer(
            request.target.decode("latin-1"), dict(request.headers), self._peer, self._is_private
        )
        self._task = None
        if not self._site.has_room_for(len(answer.body)):
            answer = plain(HTTPStatus.SERVICE_UNAVAILABLE)
        self._send(answer, is_head=request.method == b"HEAD")
        if self._transport is None:
            return
        if self._machine.our_state is h11.MUST_CLOSE or self._machine.our_state is h11.ERROR:
            self.close()
            return
        self._machine.start_next_cycle()
        self._raw = self._machine.trailing_data[0]
        self._wait()
        if not self._is_paused:
            self._transport.resume_reading()
        self._advance()

    def _refuse(self, status: int) -> None:
        if self._machine.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send(plain(HTTPStatus(status)), is_last=True)
        self.close()

    def _send(self, answer: Answer, *, is_head: bool = False, is_last: bool = False) -> None:
        if self._transport is None:
            return
        headers = [
            *answer.fields(),
            *([("connection", "close")] if is_last else []),
        ]
        machine = self._machine
        reason = HTTPStatus(answer.status).phrase
        response = h11.Response(status_code=answer.status, headers=headers, reason=reason)
        head = machine.send(response) or b""
        body = b"" if is_head else machine.send(h11.Data(data=answer.body)) or b""
        end = machine.send(h11.EndOfMessage()) or b""
        self._transport.write(head + body + end)


def _peer_of(transport: asyncio.Transport) -> str:
    place = transport.get_extra_info("peername")
    if not isinstance(place, tuple):
        return ""
    host, port = place[:2]
    return f"ipv6:[{host.partition('%')[0]}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
