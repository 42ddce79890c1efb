"""Handlers of a service's methods, of any kind, for grpc.aio.

grpcio only transfers bytes: `serving.py` admits, parses, encodes and refuses calls. If a call is
refused when its headers arrive, its request is not read. Streamed requests are read one by one,
when the handler awaits the next; they occupy no slot of receiving.py.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from time import perf_counter
from typing import Any, Final, Self

import grpc

from pocketmq.model.errors import TooManyRequests
from pocketmq.rpc.admission import Gate, Holder
from pocketmq.rpc.call import May, anything, begin_request, host_from_peer
from pocketmq.rpc.grpcio.receiving import Arrival, Receiving
from pocketmq.rpc.service import MalformedRequest, MethodKind
from pocketmq.rpc.serving import ServedMethod

Context = grpc.aio.ServicerContext[bytes, bytes]

_QUICK_ANSWER: Final = grpc.unary_unary_rpc_method_handler
_QUICK_ANSWERS: Final = grpc.unary_stream_rpc_method_handler
_ANSWER: Final = grpc.stream_unary_rpc_method_handler
_ANSWERS: Final = grpc.stream_stream_rpc_method_handler
"""The handler of an ANSWER returns one answer, that of ANSWERS writes a stream of answers. For the
QUICK ones, grpcio reads the single request before it calls the handler."""
_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}


class GrpcioCall:
    """A call on grpc.aio."""

    __slots__ = ("_context", "_gate", "_undo", "holder", "may", "user")

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate
        self.user = ""
        self.holder = Holder(context.peer(), self.peer_host)
        self.may: May = anything
        self._undo: Callable[[], None] | None = None

    def metadata(self, name: str, /) -> str | None:
        """Returns the first metadata value of a name, None if the client sent no such metadata."""
        for key, value in self._context.invocation_metadata() or ():
            if key == name:
                return value if isinstance(value, str) else value.decode("utf-8", "replace")
        return None

    def identify(self, user: str, /, *, is_admin: bool) -> None:
        """Sets the verified user of a call that has been counted for its connection only.

        Errors   ShareTaken, TooManyRequests
        """
        self.user, gate = user, self._gate
        gate.leave(self.holder.weights)
        self.holder = self.holder.of(user, is_admin=is_admin)
        refusal = gate.refusal(self.holder)
        gate.enter(self.holder.weights)
        if refusal is not None:
            raise refusal

    def time_left_ms(self) -> int | None:
        """Returns the time until the client's deadline, None if the client set no deadline."""
        left_s: float | None = self._context.time_remaining()
        return None if left_s is None else int(left_s * 1000)

    def room(self, wanted: int, /) -> int:
        """Returns `wanted`: grpcio does not report how much it buffers."""
        return wanted

    def check_room(self, size: int, /) -> None:
        """Accepts any size."""

    def if_lost(self, undo: Callable[[], None], /) -> None:
        """Registers a function that is called once if the answer is not sent."""
        assert not self._undo, "an undo function is already registered"
        self._undo = undo

    def lose(self) -> None:
        """Undoes the effects of an answer that is not sent."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    @property
    def peer(self) -> str:
        """The client's address as gRPC writes it."""
        return self._context.peer()

    @property
    def peer_host(self) -> bytes:
        """The client's address, packed as in records."""
        return host_from_peer(self._context.peer())


class Edge:
    """State that all methods of a server share."""

    __slots__ = ("_streams", "is_draining", "receiving")

    def __init__(self) -> None:
        self.receiving = Receiving()
        self.is_draining = False
        self._streams: set[GrpcioRequests] = set()

    @contextmanager
    def requests(
        self, context: Context, read: Callable[[bytes], Any]
    ) -> Iterator["GrpcioRequests"]:
        """Yields the stream of requests of a call, registered until the call ends."""
        requests = GrpcioRequests(context, read)
        self._streams.add(requests)
        if self.is_draining:
            requests.end()
        try:
            yield requests
        finally:
            assert requests in self._streams, "unknown stream"
            self._streams.remove(requests)

    def drain(self) -> None:
        """Ends all streams of requests: their handlers get no more requests."""
        self.is_draining = True
        for requests in self._streams:
            requests.end()


class GrpcioRequests:
    """Iterates over the requests of one call, until the client ends them or the server drains."""

    __slots__ = ("_context", "_end", "_read")

    def __init__(self, context: Context, read: Callable[[bytes], Any]) -> None:
        self._context = context
        self._read = read
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Returns the next request.

        Errors   MalformedRequest, TooManyElements
        """
        if self._end.done():
            raise StopAsyncIteration
        reading = asyncio.Task(_read(self._context))
        try:
            await asyncio.wait((reading, self._end), return_when=asyncio.FIRST_COMPLETED)
            raw = reading.result() if reading.done() else grpc.aio.EOF
        finally:
            reading.cancel()
        if not isinstance(raw, bytes):
            self.end()
            raise StopAsyncIteration
        return self._read(raw)

    def end(self) -> None:
        """Ends the stream of requests."""
        if not self._end.done():
            self._end.set_result(None)


async def _read(context: Context) -> Any:
    return await context.read()


class GrpcioMethod:
    """A served method, as grpc.aio calls it."""

    __slots__ = ("_edge", "_served")

    def __init__(self, served: ServedMethod, edge: Edge) -> None:
        self._served = served
        self._edge = edge

    def handler(self) -> grpc.RpcMethodHandler:
        """Returns a new handler for a call whose headers have arrived."""
        kind, receiving = self._served.method.kind, self._edge.receiving
        if not kind.has_requests and not receiving.is_busy and self._served.is_free:
            make = _QUICK_ANSWERS if kind.has_answers else _QUICK_ANSWER
            return make(self.serve, Arrival(receiving))
        serve = self.serve if kind.has_requests else self.read_and_serve
        return _ANSWERS(serve) if kind.has_answers else _ANSWER(serve)

    async def read_and_serve(self, _: object, context: Context) -> bytes | None:
        """Reads the single request of a call once a slot is free, and serves it."""
        call = GrpcioCall(context, self._served.gate)
        begin_request(call.metadata)
        refusal, raw = self._served.refusal(call.holder), None
        if refusal is None:
            try:
                raw = await self._edge.receiving.read(context.peer(), context.read)
            except TooManyRequests as error:
                refusal = error
        if isinstance(raw, bytes):
            return await self.serve(raw, context)
        refusal = refusal or MalformedRequest(why="the call ended without a request")
        return await self._refuse(refusal, context, 0.0)

    async def serve(self, raw: Any, context: Context) -> bytes | None:
        """Serves a call; `raw` is its single request, and unused for a stream of requests.

        Cost     about 2 µs besides parsing, the handler and encoding
        """
        begun = perf_counter()
        served = self._served
        call = GrpcioCall(context, served.gate)
        begin_request(call.metadata)
        refusal = served.refusal(call.holder)
        if refusal is not None:
            return await self._refuse(refusal, context, perf_counter() - begun)
        kind, stats = served.method.kind, served.stats
        has_waited = False
        served.gate.enter(call.holder.weights)
        stats.begin()
        try:
            if kind is MethodKind.UNARY:
                answer = served.answer(raw, call)
                if not isinstance(answer, bytes):
                    answer = await answer
                    has_waited = True
                reply: bytes | None = answer
            elif kind.has_requests:
                with self._edge.requests(context, served.read) as requests:
                    reply = await self._reply(requests, call, context)
            else:
                reply = await self._reply(served.read(raw), call, context)
            if context.cancelled():
                call.lose()
            seconds = perf_counter() - begun
            ended = stats.waited if has_waited else stats.success
            ended.observe(seconds * 1000)
            stats.count_created(seconds)
            return reply
        except asyncio.CancelledError:
            call.lose()
            stats.count_cancelled(perf_counter() - begun)
            raise
        except Exception as error:
            call.lose()
            return await self._refuse(error, context, perf_counter() - begun)
        finally:
            stats.end()
            served.gate.leave(call.holder.weights)

    async def _reply(self, request: Any, call: GrpcioCall, context: Context) -> bytes | None:
        """Returns the single answer, or sends a stream of answers and returns None."""
        served = self._served
        answer = served.method.handler(request, call)
        if not served.method.kind.has_answers:
            return served.write(await answer)
        if served.method.kind.has_requests:
            await context.send_initial_metadata(())  # Some clients wait for that before they send.
        async with aclosing(answer) as answers:
            async for one in answers:
                for reply in served.method.encoded(one):
                    await context.write(reply)
        return None

    async def _refuse(self, error: Exception, context: Context, seconds: float) -> bytes | None:
        """Ends a call with an error in the form of its API: a status, which raises, or answers."""
        refused = self._served.refused(error, seconds)
        status, trailers = refused.status, refused.trailers()
        if status is not None:
            await context.abort(_CODES[status.code], status.message, trailers)
        context.set_trailing_metadata(trailers)
        if not self._served.method.kind.has_answers:
            return refused.replies[0]
        for reply in refused.replies:
            await context.write(reply)
        return None
