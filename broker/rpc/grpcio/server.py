"""Carries services on grpc.aio.

    bytes ─► read ─► handler(request, call) ─► answer, awaited if need be ─► bytes
                        │ BrokerError               ─► its status (status.py)
                        └ any other exception       ─► INTERNAL with a number; the log has the rest

grpcio only moves bytes: requests are parsed and answers encoded here, so that a request that
cannot be parsed is the client's mistake, and a handler may work on bytes. Nothing is logged per
call; every answer carries the call's request id.

While the store recovers, and nothing can be served, calls are refused with an error that invites to
come again; health and reflection are served all the time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from secrets import token_hex
from time import perf_counter
from typing import Any, Final, NoReturn

import grpc
from grpc_reflection.v1alpha import reflection

from broker.model.errors import (
    BrokerError,
    Corruption,
    IllegalConfig,
    StorageError,
    TooManyRequests,
)
from broker.rpc.call import REQUEST_ID_KEY, begin_request, current_request_id, host_from_peer
from broker.rpc.call_stats import CallStats
from broker.rpc.grpcio.health import NAME as HEALTH_NAME
from broker.rpc.grpcio.health import Health
from broker.rpc.grpcio.receiving import Arrival, Receiving
from broker.rpc.service import (
    DEFAULT_LIMITS,
    Admission,
    CallClass,
    Gate,
    MalformedRequest,
    Method,
    Service,
)
from broker.rpc.v1.status import DETAILS_KEY, WireStatus, incident_status, wire_status

MESSAGE_SIZE_MAX: Final = 16 * 1024 * 1024
OTHER_CALLS_MAX: Final = 256
"""Calls beyond all classes: health, reflection, and those about to be refused."""
IDLE_S: Final = 1.0
"""How long a stop waits for the replies on their way when no handler is at work."""
LOOK_S: Final = 0.1
OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # else a second broker binds the same port without an error
    ("grpc.max_receive_message_length", MESSAGE_SIZE_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_MAX),
    ("grpc.max_concurrent_streams", 1_024),
    # What a peer may send of a message nobody asked for yet; it would grow to 4 MiB by itself.
    ("grpc.http2.lookahead_bytes", 65_536),
    ("grpc.http2.bdp_probe", 0),
    # Calls the core keeps until Python asks for them; beyond 1,000 it cancels some, of anybody.
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 30_000),
    # C++ and Go clients ping idle connections; strikes would end those with too_many_pings.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.server_handshake_timeout_ms", 5_000),  # silent connections cost 10 KiB each
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024),
)

Context = grpc.aio.ServicerContext[bytes, bytes]
Behavior = Callable[[bytes, Context], Awaitable[bytes]]
Handler = grpc.RpcMethodHandler

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


class GrpcioServer:
    """One gRPC server: services, health, reflection. Made and used on the event loop.

    Life     add_port, start, show_ready, drain, stop; each at most once, add_port any number
    """

    __slots__ = (
        "_admission",
        "_call_stats",
        "_health",
        "_receiving",
        "_refusal",
        "_server",
        "stats",
    )

    def __init__(
        self,
        services: Sequence[Service],
        *,
        limits: Mapping[CallClass, int] = DEFAULT_LIMITS,
    ) -> None:
        self._admission = Admission(limits)
        self._call_stats = CallStats(self._admission)
        self.stats = self._call_stats.stats
        self._refusal: BrokerError | None = None
        self._receiving = Receiving()
        self._health = Health(service.name for service in services)
        self._server = grpc.aio.server(
            options=OPTIONS, maximum_concurrent_rpcs=sum(limits.values()) + OTHER_CALLS_MAX
        )
        handlers = [self._generic_handler(service) for service in services]
        self._server.add_generic_rpc_handlers([*handlers, self._health.handler()])
        names = [*(service.name for service in services), HEALTH_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, self._server)

    def add_port(self, address: str) -> int:
        """Listen on "host:port" and return the port; port 0 takes any that is free.

        Errors   IllegalConfig when the address is in use or none of this machine
        """
        try:
            return self._server.add_insecure_port(address)
        except RuntimeError as error:
            why = f"{address} cannot be listened on; is it in use, or not this machine's?"
            raise IllegalConfig(field="listen", why=why) from error

    async def start(self, refusal: BrokerError | None = None) -> None:
        """Take calls; health says NOT_SERVING until `show_ready`.

        refusal   answers every call until then
        """
        self._refusal = refusal
        await self._server.start()

    def show_ready(self, *, writable: bool | Callable[[], bool]) -> None:
        """Serve, and let health say so; `writable` is asked again and again if it can be."""
        self._refusal = None
        self._health.show(serving=True, writable=writable)

    def drain(self) -> None:
        """Show NOT_SERVING and refuse sends; the rest is served until `stop`."""
        self._health.end()
        self._admission.close_sends()

    async def stop(self, grace_s: float) -> None:
        """Take no more calls and return when those under way have ended, or the grace has.

        A call that is in no handler any more, or not yet, is waited for IDLE_S at most: once in
        some hundred stops under load gRPC keeps one that it gives to nobody.
        """
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(self._server.stop(grace_s))
            idle_s = 0.0
            while not stopping.done() and idle_s < IDLE_S:
                await asyncio.wait((stopping,), timeout=LOOK_S)
                idle_s = 0.0 if self._admission.inflight_count() else idle_s + LOOK_S
            if not stopping.done():
                await self._server.stop(None)

    def _generic_handler(self, service: Service) -> grpc.GenericRpcHandler:
        rows = {}
        for method in service.methods:
            name = f"{service.name}/{method.name}"
            behavior = self._behavior(method, name)
            rows[f"/{name}"] = (behavior, self._careful_handler(method, name, behavior))
        is_refusing = {f"/{service.name}/{m.name}": self._gate_of(m) for m in service.methods}
        return _Handlers(
            rows, self._receiving, lambda path: is_refusing[path].refusal() is not None
        )

    def _gate_of(self, method: Method) -> Gate:
        return self._admission.gate(method.call_class)

    def _careful_handler(self, method: Method, path: str, serve: Behavior) -> Handler:
        """Return the handler of a method that reads the request by itself, or refuses it unread."""
        gate, receiving = self._gate_of(method), self._receiving
        stats = self._call_stats.method(method)

        async def read_and_serve(_: Any, context: Context) -> bytes:
            begin_request(GrpcioCall(context))
            refusal = self._refusal or gate.refusal()
            raw: object = b""
            try:
                if refusal is None:
                    raw = await receiving.read(context.peer(), context.read)
            except TooManyRequests as error:
                refusal = error
            if refusal is None and not isinstance(raw, bytes):
                refusal = MalformedRequest(why="the call ended without one")
            if refusal is not None or not isinstance(raw, bytes):
                assert refusal is not None
                stats.count_failed(refusal, 0.0)
                await self._abort(context, refusal, path)
            return await serve(raw, context)

        return grpc.stream_unary_rpc_method_handler(read_and_serve)

    def _behavior(self, method: Method, path: str) -> Behavior:
        """Return the function that grpc.aio calls for a method.

        Cost     about 2 µs beside parsing, the handler and encoding
        """
        gate = self._admission.gate(method.call_class)
        flight = self._admission.flight(path)
        stats = self._call_stats.method(method)
        handler, answer_type = method.handler, method.answer_type
        read, write = method.reader(), method.writer()

        async def serve(raw: bytes, context: Context) -> bytes:
            begun = perf_counter()
            call = GrpcioCall(context)
            begin_request(call)
            refusal = self._refusal or gate.refusal()
            if refusal is not None:
                stats.count_failed(refusal, perf_counter() - begun)
                await self._abort(context, refusal, path)
            gate.count += 1
            flight.count += 1
            ended = stats.success
            try:
                answer = handler(read(raw), call)
                if type(answer) is not answer_type:
                    answer = await answer
                    ended = stats.waited
                reply = write(answer)
                ended.observe((perf_counter() - begun) * 1000)
                if stats.creates:
                    stats.count_created(perf_counter() - begun)
                return reply
            except asyncio.CancelledError:
                stats.count_cancelled(perf_counter() - begun)
                raise
            except Exception as error:
                stats.count_failed(error, perf_counter() - begun)
                await self._abort(context, error, path)
            finally:
                gate.count -= 1
                flight.count -= 1

        return serve

    async def _abort(self, context: Context, error: Exception, path: str) -> NoReturn:
        """End a call with the status of an error."""
        status = self._status_of(error, path)
        self._admission.rejected.add((_reason(error),))
        trailer = ((REQUEST_ID_KEY, current_request_id()), (DETAILS_KEY, status.details))
        await context.abort(_CODES[status.code], status.message, trailer)

    def _status_of(self, error: Exception, path: str) -> WireStatus:
        """Return the status of an error; what an operator has to see goes to the log."""
        if isinstance(error, BrokerError):
            is_known = isinstance(error, Corruption) and not self._call_stats.count_damage(error)
            if isinstance(error, StorageError) and not is_known:
                logger.error("rpc.refused", extra={"method": path, "error": str(error)})
            return wire_status(error)
        incident = token_hex(8)
        logger.error("rpc.failed", exc_info=error, extra={"method": path, "incident": incident})
        return incident_status(incident)


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, BrokerError) else "Internal"


class _Handlers(grpc.GenericRpcHandler):
    """Finds the handler of a call when its headers are here; its message is not yet asked for."""

    def __init__(
        self,
        rows: Mapping[str, tuple[Behavior, Handler]],
        receiving: Receiving,
        is_refusing: Callable[[str], bool],
    ) -> None:
        self._rows = rows
        self._receiving = receiving
        self._is_refusing = is_refusing

    def service(self, details: grpc.HandlerCallDetails) -> Handler | None:
        path = details.method
        row = self._rows.get(path)
        if row is None:
            return None
        behavior, careful = row
        if self._receiving.is_busy or self._is_refusing(path):
            return careful
        # The handler is made for this call alone, and goes when the call does.
        return grpc.unary_unary_rpc_method_handler(behavior, Arrival(self._receiving))
