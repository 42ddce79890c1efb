"""Serves an ASGI application over HTTP/1.1, which h11 parses.

    bytes ──► h11 ──► scope, parts of the body ──► application
          ◄────────────────── parts of the answer ◄──┘

A connection has one request at a time. Bodies and answers wait while their reader is slow. The
console needs no more of a web server; a general one would take 3 MiB.
"""

import asyncio
import logging
from http import HTTPStatus
from socket import socket
from typing import Any, Final, cast
from urllib.parse import unquote

import h11

from pocketmq.console.asgi import BODY, DISCONNECT, REQUEST, START, Application, Part, Scope

HEAD_SIZE_MAX: Final = 64 * 1024
BODY_UNREAD_MAX: Final = 64 * 1024
"""Bytes of a body that wait for the application; then nothing more is read from the client."""
IDLE_S: Final = 30.0
"""Upper limit of the time from a connection's start, or from an answer, to the next request."""

logger = logging.getLogger(__name__)


class HttpServer:
    """The connections of one listening socket.

    Life   created, `start`, `stop`
    """

    __slots__ = ("_listening", "app", "connections", "is_stopping", "request_count")

    def __init__(self, app: Application) -> None:
        self.app = app
        self.connections: set[AppConnection] = set()
        self.request_count = 0
        self.is_stopping = False
        self._listening: asyncio.Server | None = None

    async def start(self, listener: socket) -> None:
        """Begins to accept connections."""
        assert self._listening is None, "the server has begun already"
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: AppConnection(self), sock=listener)

    async def stop(self, grace_s: float) -> None:
        """Accepts no more connections, and closes all; requests in progress have grace_s."""
        self.is_stopping = True
        if self._listening is not None:
            self._listening.close()
        for connection in [*self.connections]:
            connection.close_if_idle()
        running = [one.task for one in self.connections if one.task is not None]
        if running:
            _, late = await asyncio.wait(running, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.wait(running)
        assert not any(one.task for one in self.connections), "a request is in progress"
        for connection in [*self.connections]:
            connection.close()


class AppConnection(asyncio.Protocol):
    """Connection of one client."""

    __slots__ = (
        "_arrived", "_body", "_head", "_is_gone", "_is_head_only", "_is_whole", "_machine",
        "_server", "_timer", "_transport", "_writable", "task",
    )  # fmt: skip

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._machine = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_SIZE_MAX)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        """The request in progress."""
        self._body = bytearray()
        self._is_whole = False
        """Whether the end of the request has arrived, and the application does not know it yet."""
        self._is_head_only = False
        self._head = b""
        """Head of an answer that is sent with the first part of its body."""
        self._is_gone = False
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # --- the transport ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Processes the client's bytes."""
        if self._machine.their_state is h11.MUST_CLOSE:  # The client announced no further request.
            return
        self._machine.receive_data(data)
        self._advance()

    def pause_writing(self) -> None:
        """Makes the application wait until the client has read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Lets the application send more."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Unregisters the connection; the application learns that the client has left."""
        self._server.connections.discard(self)
        self._is_gone = True
        self._stop_timer()
        self._arrived.set()
        self._writable.set()

    def close(self) -> None:
        """Closes the connection; what was sent arrives before."""
        if self._transport is not None:
            self._transport.close()

    def close_if_idle(self) -> None:
        """Closes the connection unless a request is in progress."""
        if self.task is None:
            self.close()

    def _wait(self) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- the request ------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Processes what h11 has parsed, up to the end of the request."""
        while not self._is_gone:
            try:
                event = self._machine.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint)
                return
            if event is h11.NEED_DATA:
                return
            if event is h11.PAUSED:  # The client has sent its next request already.
                self._read(is_on=False)
                return
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data):
                self._add(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._is_whole = self.task is not None
                self._arrived.set()
                if self.task is None:
                    self._go_on()
                    return
                if self._machine.their_state is h11.MUST_CLOSE:
                    return
            else:  # The connection has ended.
                self.close()
                return

    def _begin(self, request: h11.Request) -> None:
        self._stop_timer()
        self._server.request_count += 1
        target, _, query = request.target.partition(b"?")
        scope: Scope = {
            "type": "http", "asgi": {"version": "3.0"}, "scheme": "http", "root_path": "",
            "http_version": request.http_version.decode("ascii"),
            "method": request.method.decode("ascii"), "query_string": query,
            "path": unquote(target.decode("ascii")), "raw_path": target,
            "headers": list(request.headers),
        }  # fmt: skip
        self._is_head_only = request.method == b"HEAD"
        self._is_whole, self._head = False, b""
        self._body.clear()
        self._arrived.clear()
        assert self.task is None, "the request before is not answered"
        self.task = asyncio.Task(self._answer(scope))

    def _add(self, content: bytes) -> None:
        if self.task is None:  # The rest of a request that is answered already.
            return
        self._body += content
        if len(self._body) > BODY_UNREAD_MAX:
            self._read(is_on=False)
        self._arrived.set()

    def _read(self, *, is_on: bool) -> None:
        if self._transport is None or self._is_gone:
            return
        if is_on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    async def _receive(self) -> Part:
        if self._machine.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        while not (self._body or self._is_whole or self._is_gone):
            self._read(is_on=True)
            self._arrived.clear()
            await self._arrived.wait()
        if self._is_gone:
            return {"type": DISCONNECT}
        body, is_whole = bytes(self._body), self._is_whole
        self._body.clear()
        self._is_whole = False
        return {"type": REQUEST, "body": body, "more_body": not is_whole}

    # --- the answer -------------------------------------------------------------------------------

    async def _answer(self, scope: Scope) -> None:
        try:
            await self._server.app(scope, self._receive, self._send)
        except Exception as error:
            logger.error("console.failed", exc_info=error, extra={"path": scope["path"]})
        finally:
            self.task = None
            self._go_on()

    async def _send(self, part: Part) -> None:
        await self._writable.wait()
        if self._is_gone:
            return
        if part["type"] == START:
            status = part["status"]
            head = h11.Response(
                status_code=status, headers=part["headers"], reason=HTTPStatus(status).phrase
            )
            self._head = self._machine.send(head) or b""
            return
        assert part["type"] == BODY, "no part of an answer"
        content, is_last = part.get("body", b""), not part.get("more_body", False)
        events: list[Any] = [] if self._is_head_only else [h11.Data(data=content)]
        self._write(*events, *([h11.EndOfMessage()] if is_last else []))

    def _write(self, *events: Any) -> None:
        """Sends events together with a head that waits."""
        made = b"".join([self._head, *(self._machine.send(event) or b"" for event in events)])
        self._head = b""
        if self._transport is not None and made:
            self._transport.write(made)

    def _go_on(self) -> None:
        """Prepares for the next request once this one has arrived and is answered."""
        if self._is_gone:
            return
        ours, theirs = self._machine.our_state, self._machine.their_state
        if ours is not h11.DONE or self._server.is_stopping:
            self.close()
            return
        self._wait()
        self._read(is_on=True)
        if theirs is h11.DONE:
            self._machine.start_next_cycle()
            self._advance()

    def _refuse(self, status: int) -> None:
        """Answers what is no request, and closes the connection."""
        if self._machine.our_state is h11.IDLE or self._machine.our_state is h11.SEND_RESPONSE:
            phrase = HTTPStatus(status).phrase
            body = f"{phrase}\n".encode()
            headers = [
                ("content-type", "text/plain; charset=utf-8"), ("connection", "close"),
                ("content-length", str(len(body))),
            ]  # fmt: skip
            head = h11.Response(status_code=status, headers=headers, reason=phrase)
            self._write(head, h11.Data(data=body), h11.EndOfMessage())
        self._is_gone = True
        self._arrived.set()
        self.close()
