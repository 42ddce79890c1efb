"""A method of a service as grpc.aio calls it, whatever its kind.

    bytes ─► read ─► handler(request, call) ─► answer, awaited if need be ─► bytes
                        │ BrokerError               ─► as the service's face shows it
                        └ any other exception       ─► Internal with a number; the log has the rest

grpcio only moves bytes: requests are parsed and answers encoded here, so that a request that
cannot be parsed is the client's mistake, and a handler may work on bytes. Nothing is logged per
call; every refusal carries the call's request id.

A refused call's request is not read. Requests of a stream are read one by one when the handler asks
for the next; they hold no slot of receiving.py, for a peer may rightly be silent between two.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from secrets import token_hex
from time import perf_counter
from typing import Any, Final, Self

import grpc

from broker.model.errors import BrokerError, Corruption, StorageError, TooManyRequests
from broker.rpc.admission import Gate
from broker.rpc.call import REQUEST_ID_KEY, begin_request, current_request_id, host_from_peer
from broker.rpc.call_stats import CallStats
from broker.rpc.grpcio.receiving import Arrival, Receiving
from broker.rpc.service import (
    DETAILS_KEY,
    Internal,
    Kind,
    MalformedRequest,
    Method,
    Service,
    WireStatus,
)

Context = grpc.aio.ServicerContext[bytes, bytes]

_QUICK_ANSWER: Final = grpc.unary_unary_rpc_method_handler
_QUICK_ANSWERS: Final = grpc.unary_stream_rpc_method_handler
_ANSWER: Final = grpc.stream_unary_rpc_method_handler
_ANSWERS: Final = grpc.stream_stream_rpc_method_handler
"""Whether grpcio reads the one request before it calls, and whether one answer is returned or many
are written."""
_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}

logger = logging.getLogger(__name__)


class GrpcioCall:
    """A call on grpc.aio; what it is asked for is looked up then, not before."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def metadata(self, name: str, /) -> str | None:
        """Return a metadata value, None when the client sent none; of several the first."""
        for key, value in self._context.invocation_metadata() or ():
            if key == name:
                return value if isinstance(value, str) else value.decode("utf-8", "replace")
        return None

    def time_left_ms(self) -> int | None:
        """Return what is left of the client's deadline, None when it has none."""
        left_s: float | None = self._context.time_remaining()
        return None if left_s is None else int(left_s * 1000)

    @property
    def peer(self) -> str:
        """The client's address as gRPC writes it."""
        return self._context.peer()

    @property
    def peer_host(self) -> bytes:
        """The client's address, packed as records keep it."""
        return host_from_peer(self._context.peer())


class Edge:
    """What all methods of a server share."""

    __slots__ = ("_streams", "is_draining", "receiving", "refusal", "stats")

    def __init__(self, stats: CallStats) -> None:
        self.stats = stats
        self.receiving = Receiving()
        self.refusal: BrokerError | None = None
        """What answers every call, None while calls are served."""
        self.is_draining = False
        self._streams: set[Requests] = set()

    @contextmanager
    def requests(self, context: Context, read: Callable[[bytes], Any]) -> Iterator["Requests"]:
        """Yield the requests of a call, for its length."""
        requests = Requests(context, read)
        self._streams.add(requests)
        if self.is_draining:
            requests.end()
        try:
            yield requests
        finally:
            assert requests in self._streams, "a stream ends once"
            self._streams.remove(requests)

    def drain(self) -> None:
        """End the requests of all streams: their handlers see no more of them."""
        self.is_draining = True
        for requests in self._streams:
            requests.end()


class Requests:
    """The requests of one call as they come, until the client has no more or the server drains."""

    __slots__ = ("_context", "_end", "_read")

    def __init__(self, context: Context, read: Callable[[bytes], Any]) -> None:
        self._context = context
        self._read = read
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next request.

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
        """Let no request come any more."""
        if not self._end.done():
            self._end.set_result(None)


async def _read(context: Context) -> Any:
    return await context.read()


class ServedMethod:
    """One method, served: admitted, read, handled, written, counted, refused."""

    __slots__ = ("_edge", "_gate", "_method", "_path", "_read", "_service", "_stats", "_write")

    def __init__(self, service: Service, method: Method, gate: Gate, edge: Edge) -> None:
        self._service = service
        self._method = method
        self._path = service.path(method)
        self._gate = gate
        self._edge = edge
        self._stats = edge.stats.method(self._path, method)
        self._read, self._write = method.reader(), method.writer()

    def handler(self) -> grpc.RpcMethodHandler:
        """Return the handler of a call whose headers are here, made for this call alone."""
        kind, receiving = self._method.kind, self._edge.receiving
        if not kind.has_requests and not receiving.is_busy and self._gate.refusal() is None:
            make = _QUICK_ANSWERS if kind.has_answers else _QUICK_ANSWER
            return make(self.serve, Arrival(receiving))
        serve = self.serve if kind.has_requests else self.read_and_serve
        return _ANSWERS(serve) if kind.has_answers else _ANSWER(serve)

    async def read_and_serve(self, _: object, context: Context) -> bytes | None:
        """Serve a call whose one request is read here, when it is its turn, or refused unread."""
        begin_request(GrpcioCall(context))
        refusal, raw = self._refusal(), None
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
        """Serve a call; `raw` is its request, or nothing of use where it has many.

        Cost     about 2 µs beside parsing, the handler and encoding
        """
        begun = perf_counter()
        call = GrpcioCall(context)
        begin_request(call)
        refusal = self._refusal()
        if refusal is not None:
            return await self._refuse(refusal, context, perf_counter() - begun)
        method, stats = self._method, self._stats
        ended = stats.success
        self._gate.enter()
        stats.begin()
        try:
            if method.kind is Kind.UNARY:
                answer = method.handler(self._read(raw), call)
                if type(answer) is not method.answer_type:
                    answer = await answer
                    ended = stats.waited
                reply: bytes | None = self._write(answer)
            elif method.kind.has_requests:
                with self._edge.requests(context, self._read) as requests:
                    reply = await self._reply(requests, call, context)
            else:
                reply = await self._reply(self._read(raw), call, context)
            seconds = perf_counter() - begun
            ended.observe(seconds * 1000)
            stats.count_created(seconds)
            return reply
        except asyncio.CancelledError:
            stats.count_cancelled(perf_counter() - begun)
            raise
        except Exception as error:
            return await self._refuse(error, context, perf_counter() - begun)
        finally:
            stats.end()
            self._gate.leave()

    async def _reply(self, request: Any, call: GrpcioCall, context: Context) -> bytes | None:
        """Return the answer of a handler of streams, or send its answers as they come."""
        answer = self._method.handler(request, call)
        if not self._method.kind.has_answers:
            return self._write(await answer)
        async with aclosing(answer) as answers:
            async for one in answers:
                await context.write(self._write(one))
        return None

    def _refusal(self) -> BrokerError | None:
        return self._edge.refusal or self._gate.refusal()

    async def _refuse(self, error: Exception, context: Context, seconds: float) -> bytes | None:
        """End a call as the face shows an error: by a status, which raises, or by an answer."""
        known = self._known(error)
        self._stats.count_failed(known, seconds)
        shown = self._service.refuse(known, self._method)
        request_id = (REQUEST_ID_KEY, current_request_id())
        if isinstance(shown, WireStatus):
            trailer = (request_id, (DETAILS_KEY, shown.details))
            await context.abort(_CODES[shown.code], shown.message, trailer)
        context.set_trailing_metadata((request_id,))
        reply = self._write(shown)
        if not self._method.kind.has_answers:
            return reply
        await context.write(reply)
        return None

    def _known(self, error: Exception) -> BrokerError:
        """Return an error of ours; what an operator has to see goes to the log."""
        if not isinstance(error, BrokerError):
            incident = token_hex(8)
            logger.error(
                "rpc.failed", exc_info=error, extra={"method": self._path, "incident": incident}
            )
            return Internal(incident=incident)
        is_new = not isinstance(error, Corruption) or self._edge.stats.count_damage(error)
        if isinstance(error, StorageError) and is_new:
            logger.error("rpc.refused", extra={"method": self._path, "error": str(error)})
        return error
