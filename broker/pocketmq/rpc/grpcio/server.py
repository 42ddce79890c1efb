"""A gRPC server on grpc.aio for the services of serving.py.

methods.py adapts their methods to grpc.aio.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import grpc

from pocketmq.model.errors import AddressUnavailable, BrokerError
from pocketmq.rpc.admission import DEFAULT_LIMITS, CallClass
from pocketmq.rpc.grpcio.methods import Edge, GrpcioMethod
from pocketmq.rpc.health import State
from pocketmq.rpc.service import Service
from pocketmq.rpc.serving import Serving

MESSAGE_SIZE_MAX: Final = 16 * 1024 * 1024
OTHER_CALLS_MAX: Final = 256
"""Calls that gRPC accepts beyond the limits of all classes, so that the broker can refuse them."""
IDLE_S: Final = 1.0
"""Time that a stop waits for replies to be sent while no handler runs."""
LOOK_S: Final = 0.1
OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # else a second broker binds the same port without an error
    ("grpc.max_receive_message_length", MESSAGE_SIZE_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_MAX),
    ("grpc.max_concurrent_streams", 1_024),
    # Upper limit of a message's bytes that gRPC accepts before they are read. With bdp_probe, gRPC
    # would raise the limit up to 4 MiB.
    ("grpc.http2.lookahead_bytes", 65_536),
    ("grpc.http2.bdp_probe", 0),
    # Calls that gRPC's core queues for Python; beyond 1,000 (default) it cancels some at random.
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 30_000),
    # C++ and Go clients ping idle connections. With a limit of ping strikes, gRPC would close these
    # connections with too_many_pings.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.server_handshake_timeout_ms", 5_000),  # silent connections cost 10 KiB each
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024),
)


class GrpcioServer:
    """A gRPC server with health and reflection; created and used on the event loop.

    Life     add_port (any number of times), start, show_ready, drain, stop
    """

    __slots__ = ("_edge", "_methods", "_server", "_serving", "stats")

    def __init__(
        self,
        services: Sequence[Service],
        *,
        limits: Mapping[CallClass, int] = DEFAULT_LIMITS,
    ) -> None:
        self._serving = Serving(services, limits)
        self.stats = self._serving.stats
        self._edge = Edge()
        self._server = grpc.aio.server(
            options=OPTIONS, maximum_concurrent_rpcs=sum(limits.values()) + OTHER_CALLS_MAX
        )
        self._methods: dict[str, GrpcioMethod] = {}
        self._server.add_generic_rpc_handlers([_Handlers(self._methods)])
        self._take_methods()

    def serve(self, services: Sequence[Service], turns: object = None) -> None:
        """Serves these services from now on; they replace services with the same names.

        turns   unused: grpcio reads the requests of streams
        """
        self._serving.serve(services)
        self._take_methods()

    def _take_methods(self) -> None:
        for path, served in self._serving.methods.items():
            self._methods[path] = GrpcioMethod(served, self._edge)

    def add_port(self, address: str) -> int:
        """Listens on "host:port" and returns the port; port 0 chooses a free one.

        Errors   AddressUnavailable: the address is in use, is unknown, or does not belong to this
                 machine
        """
        try:
            return self._server.add_insecure_port(address)
        except RuntimeError as error:
            why = "it is in use, or does not belong to this machine"
            raise AddressUnavailable(field="rpc.listen", address=address, why=why) from error

    async def start(self, refusal: BrokerError | None = None, hold_s: float = 0.0) -> None:
        """Accepts connections; health reports NOT_SERVING until `show_ready`.

        refusal   error of every call until `show_ready`, except calls of CallClass.PROBE
        hold_s    unused by this transport
        """
        self._serving.refusal = refusal
        await self._server.start()

    def show_ready(self, *, writable: State, replica: State = True) -> None:
        """Serves calls and reports SERVING; a callable state is called by each health check."""
        self._serving.show_ready(writable, replica)

    def turn_away(self) -> None:
        """Does nothing: grpcio sends GOAWAY only in `stop`."""

    async def quiet(self, limit_s: float) -> None:
        """Does nothing: this transport sends no GOAWAY before `stop`."""

    def drain(self) -> None:
        """Reports NOT_SERVING, refuses sends, ends streams of requests; serves other calls."""
        self._serving.drain()
        self._edge.drain()

    async def stop(self, grace_s: float) -> None:
        """Refuses new calls; returns when all calls have ended or the grace period is over.

        The wait ends early when no handler has run for IDLE_S: under load, gRPC sometimes keeps a
        call that it never passes to a handler.
        """
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(self._server.stop(grace_s))
            idle_s = 0.0
            while not stopping.done() and idle_s < IDLE_S:
                await asyncio.wait((stopping,), timeout=LOOK_S)
                idle_s = 0.0 if self._serving.admission.inflight_count() else idle_s + LOOK_S
            if not stopping.done():
                await self._server.stop(None)


class _Handlers(grpc.GenericRpcHandler):
    """Finds the handler of a call once its headers have arrived, before its message is read."""

    def __init__(self, methods: Mapping[str, GrpcioMethod]) -> None:
        self._methods = methods

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method = self._methods.get(details.method)
        return None if method is None else method.handler()
