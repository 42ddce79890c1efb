"""Handlers of a service's methods, of any kind, for grpc.aio.

grpcio only moves bytes: `serving.py` admits, reads, writes and refuses calls.

A refused call's request is not read. Requests of a stream are read one by one, when the handler
requests the next. They hold no slot of receiving.py, as a peer may be silent between two.
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
"""Whether grpcio reads the one request before it calls, and whether one answer is returned or many
are written."""
_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}


class GrpcioCall:
    """A call on grpc.aio; its properties are looked up when they are asked for, not before."""

    __slots__ = ("_context", "_gate", "_undo", "holder", "may", "user")

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate
        self.user = ""
        self.holder = Holder(context.peer(), self.peer_host)
        self.may: May = anything
        self._undo: Callable[[], None] | None = None

    def metadata(self, name: str, /) -> str | None:
        """Returns a metadata value, None when the client sent none; of several the first."""
        for key, value in self._context.invocation_metadata() or ():
            if key == name:
                return value if isinstance(value, str) else value.decode("utf-8", "replace")
        return None

    def identify(self, user: str, /, *, is_admin: bool) -> None:
        """Notes the caller of a call that was counted without a name.

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
        """Returns the rest of the client's deadline, None when it has none."""
        left_s: float | None = self._context.time_remaining()
        return None if left_s is None else int(left_s * 1000)

    def room(self, wanted: int, /) -> int:
        """Returns the wanted size: gRPC's library keeps answers without reporting it."""
        return wanted

    def check_room(self, size: int, /) -> None:
        """Finds room for any answer."""

    def if_lost(self, undo: Callable[[], None], /) -> None:
        """Registers a function to call, once, when the answer is known not to have left."""
        assert not self._undo, "a call has one answer"
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
        """The client's address, packed as records keep it."""
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
        """Yields the requests of a call, for its length."""
        requests = GrpcioRequests(context, read)
        self._streams.add(requests)
        if self.is_draining:
            requests.end()
        try:
            yield requests
        finally:
            assert requests in self._streams, "a stream ends once"
            self._streams.remove(requests)

    def drain(self) -> None:
        """Ends the requests of all streams: their handlers see no more of them."""
        self.is_draining = True
        for requests in self._streams:
            requests.end()


class GrpcioRequests:
    """Incoming requests of one call, until the client has no more or the server drains."""

    __slots__ = ("_context", "_end", "_read")

    def __init__(self, context: Context, read: Callable[[bytes], Any]) -> None:
        self._context = context
        self._read = read
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Returns the next request.

        Errors   MalformedRequest
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
        """Returns the handler of a call whose headers are here, made for this call alone."""
        kind, receiving = self._served.method.kind, self._edge.receiving
        if not kind.has_requests and not receiving.is_busy and self._served.is_free:
            make = _QUICK_ANSWERS if kind.has_answers else _QUICK_ANSWER
            return make(self.serve, Arrival(receiving))
        serve = self.serve if kind.has_requests else self.read_and_serve
        return _ANSWERS(serve) if kind.has_answers else _ANSWER(serve)

    async def read_and_serve(self, _: object, context: Context) -> bytes | None:
        """Serves a call whose one request is read here, when it is its turn, or refused unread."""
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
        refusal = refusal or MalformedRequest(why="the call ended without one")
        return await self._refuse(refusal, context, 0.0)

    async def serve(self, raw: Any, context: Context) -> bytes | None:
        """Serves a call; `raw` is its request, or nothing of use where it has many.

        Cost     about 2 µs beside parsing, the handler and encoding
        """
        begun = perf_counter()
        served = self._served
        call = GrpcioCall(context, served.gate)
        begin_request(call.metadata)
        refusal = served.refusal(call.holder)
        if refusal is not None:
            return await self._refuse(refusal, context, perf_counter() - begun)
        kind, stats = served.method.kind, served.stats
        ended = stats.success
        served.gate.enter(call.holder.weights)
        stats.begin()
        try:
            if kind is MethodKind.UNARY:
                answer = served.answer(raw, call)
                if not isinstance(answer, bytes):
                    answer = await answer
                    ended = stats.waited
                reply: bytes | None = answer
            elif kind.has_requests:
                with self._edge.requests(context, served.read) as requests:
                    reply = await self._reply(requests, call, context)
            else:
                reply = await self._reply(served.read(raw), call, context)
            if context.cancelled():
                call.lose()
            seconds = perf_counter() - begun
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
        """Returns the answer of a handler of streams, or sends its answers as they come."""
        served = self._served
        answer = served.method.handler(request, call)
        if not served.method.kind.has_answers:
            return served.write(await answer)
        if served.method.kind.has_requests:
            await context.send_initial_metadata(())  # Some clients wait for it before they send.
        async with aclosing(answer) as answers:
            async for one in answers:
                for reply in served.method.encoded(one):
                    await context.write(reply)
        return None

    async def _refuse(self, error: Exception, context: Context, seconds: float) -> bytes | None:
        """Ends a call as the face shows an error: by a status, which raises, or by an answer."""
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
