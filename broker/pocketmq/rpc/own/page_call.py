"""Pages over HTTP/2: a GET or HEAD gets the same answer as over HTTP/1.1 on the same port.

Clients that read pages over TLS, such as Prometheus, select HTTP/2 by ALPN. Pages of the console
are served over HTTP/1.1 only: browsers repeat a request that gets HTTP_1_1_REQUIRED.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from pocketmq.model.page import Answer, ReadPage
from pocketmq.rpc.own.server_state import LARGE_REPLY, ClientConnection
from pocketmq.wire.frames import CANCEL, HTTP_1_1_REQUIRED
from pocketmq.wire.stream import Stream

BUSY: Final = Answer(503, "text/plain; charset=utf-8", b"Service Unavailable\n")
"""Answer to a client while there is no memory for the page."""


class PageCall:
    """A page request in progress; cancelled if its client disconnects or resets the stream."""

    __slots__ = ("_connection", "_stream", "_task")

    def __init__(
        self, connection: ClientConnection, stream: Stream, read: ReadPage, *, is_private: bool
    ) -> None:
        assert stream.call is None, "the stream already has a call"
        self._connection = connection
        self._stream = stream
        headers = stream.headers
        fields = {field.name: field.value for field in headers.fields}
        target = headers.path.decode("latin-1")
        stream.call = self
        connection.calls.add(self)
        self._task = asyncio.Task(self._answer(read, target, fields, is_private))
        self._task.add_done_callback(self._finish)

    async def _answer(
        self, read: ReadPage, target: str, fields: Mapping[bytes, bytes], is_private: bool
    ) -> Answer:
        return await read(target, fields, self._connection.peer, is_private)

    def _finish(self, task: "asyncio.Task[Answer]") -> None:
        connection, stream = self._connection, self._stream
        connection.calls.discard(self)
        if stream.closed or not connection.is_open:
            return
        if task.cancelled():
            connection.wire.reset(stream, CANCEL)
        elif task.result().needs_http1:
            connection.wire.reset(stream, HTTP_1_1_REQUIRED)
        else:
            page = task.result()
            if not connection.edge.memory.has_room_for(len(page.body), connection.wire.pending):
                page = BUSY
            fields = [(name.encode(), value.encode("latin-1")) for name, value in page.fields()]
            connection.wire.send_page(stream, page.status, fields, page.body)
            if len(page.body) > LARGE_REPLY:
                connection.count_kept()
        connection.write_soon()

    # -- events of a call

    def take_news(self, stream: Stream) -> None:
        """Cancels the call if the client has reset the stream."""
        assert stream is self._stream, "stream of another call"
        if stream.reset_code >= 0:
            self.cancel()

    def cancel(self) -> None:
        """Cancels the task that makes the page."""
        self._task.cancel()

    give_up = cancel

    def end_requests(self) -> None:
        """Does nothing: the request is complete."""
