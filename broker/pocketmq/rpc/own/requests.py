"""The stream of requests of one call."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from pocketmq.rpc.own.server_state import ClientConnection
from pocketmq.rpc.serving import ServedMethod
from pocketmq.wire.stream import Stream


class CallRequests:
    """Iterates over the requests of one call, until the client ends them or the server drains.

    user   returns the user on whose account requests are parsed
    """

    __slots__ = (
        "_connection", "_is_ended", "_is_silent", "_served", "_stream", "_taken", "_user",
        "_waiter",
    )  # fmt: skip

    def __init__(
        self,
        connection: ClientConnection,
        stream: Stream,
        served: ServedMethod,
        user: Callable[[], str],
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._served = served
        self._user = user
        self._waiter: asyncio.Future[None] | None = None
        self._is_ended = connection.edge.is_draining
        self._is_silent = True
        self._taken = 0
        """Size of the handler's current request, held until the handler awaits the next one."""
        connection.count_silent(1)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Returns the next request; in each loop iteration the server parses one streamed request.

        Errors   MalformedRequest, TooManyElements
        """
        stream, connection = self._stream, self._connection
        assert self._waiter is None, "two readers of one stream of requests"
        self._let_go()
        while not self._is_ended:
            if stream.messages:
                await connection.edge.request_turn(self._user())
                raw = self._next()
                if raw is None:
                    continue
                self._taken = len(raw)
                return self._served.read(raw)
            if stream.ended:
                break
            self._waiter = connection.edge.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        assert any((self._is_ended, stream.ended)), "the stream of requests has not ended"
        raise StopAsyncIteration

    def _next(self) -> bytes | None:
        messages = self._stream.messages
        if messages:
            self.hear()
        return messages.pop(0) if messages and not self._is_ended else None

    def _let_go(self) -> None:
        """Lets the client send as many bytes as the previous request had."""
        taken, self._taken = self._taken, 0
        if taken and self._connection.is_open:
            self._connection.wire.consume(self._stream, taken)
            self._connection.write_soon()

    def hear(self) -> None:
        """Counts the call no longer among the streams without a request."""
        if self._is_silent:
            self._is_silent = False
            self._connection.count_silent(-1)

    def wake(self) -> None:
        """Wakes the handler that waits for a request."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self) -> None:
        """Ends the stream of requests."""
        self._is_ended = True
        self.wake()
