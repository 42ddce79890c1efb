"""GRPC's interop test service on a transport of this broker, in a separate process.

    python -m torture.interop_service own|grpcio [CERT KEY]      prints the port it listens on

It is a Service, like the broker's services: four kinds of method, errors as statuses. Services here
cannot echo metadata, so `EchoingWire` does that below them, around the connection.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import uvloop
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import Default
from google.protobuf.message_factory import GetMessageClass

from pocketmq.model.errors import BrokerError, RequestError
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.grpcio.server import GrpcioServer
from pocketmq.rpc.service import Method, Service, WireStatus, method

PROTO: Final = Path(__file__).with_name("interop.proto")
NAME: Final = "grpc.testing.TestService"
REQUEST_MAX: Final = 4 * 1024 * 1024
INITIAL: Final = "x-grpc-test-echo-initial"
TRAILING: Final = "x-grpc-test-echo-trailing-bin"
UNKNOWN: Final = 2


class Wanted(RequestError):
    """The error status that a request asks for."""

    message = "{why}"
    why: str
    number: int


def described() -> ServiceDescriptor:
    """Returns the service of interop.proto, parsed by grpcio-tools."""
    protoc: Any = import_module("grpc_tools.protoc")
    with tempfile.NamedTemporaryFile() as file:
        arguments = ["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={file.name}"]
        if protoc.main([*arguments, PROTO.name]) != 0:
            raise SystemExit(f"{PROTO} cannot be read")
        files = FileDescriptorSet.FromString(Path(file.name).read_bytes())
    pool: Any = Default()
    for one in files.file:
        pool.Add(one)
    found: ServiceDescriptor = pool.FindServiceByName(NAME)
    return found


class Interop:
    """The handlers of the test service."""

    def __init__(self, descriptor: ServiceDescriptor) -> None:
        self._descriptor = descriptor
        messages = descriptor.file.message_types_by_name
        self._types: dict[str, Any] = {n: GetMessageClass(found) for n, found in messages.items()}

    def service(self) -> Service:
        """Returns the service for a transport."""
        handlers = {
            "EmptyCall": self.empty,
            "UnaryCall": self.unary,
            "StreamingOutputCall": self.output,
            "StreamingInputCall": self.input,
            "FullDuplexCall": self.full_duplex,
            "HalfDuplexCall": self.half_duplex,
        }
        methods = tuple(
            method(self._descriptor, name, handler, CallClass.QUERY, request_size_max=REQUEST_MAX)
            for name, handler in handlers.items()
        )
        return Service(NAME, methods, refused)

    def empty(self, request: Any, call: Call) -> Any:
        """Returns an empty message."""
        return self._types["Empty"]()

    async def unary(self, request: Any, call: Call) -> Any:
        """Returns the requested number of bytes, or fails with the requested status."""
        await _echo_on_grpcio(call)
        _raise_wanted(request.response_status)
        return self._types["SimpleResponse"](payload=self._payload(request.response_size))

    async def output(self, request: Any, call: Call) -> AsyncIterator[Any]:
        """Yields the requested messages."""
        for asked in request.response_parameters:
            yield await self._streamed(asked)

    async def input(self, requests: AsyncIterator[Any], call: Call) -> Any:
        """Returns the total bytes of all requests."""
        size = 0
        async for request in requests:
            size += len(request.payload.body)
        return self._types["StreamingInputCallResponse"](aggregated_payload_size=size)

    async def full_duplex(self, requests: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
        """Answers each request as it arrives."""
        await _echo_on_grpcio(call)
        async for request in requests:
            _raise_wanted(request.response_status)
            for asked in request.response_parameters:
                yield await self._streamed(asked)

    async def half_duplex(self, requests: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
        """Answers all requests after the last one has arrived."""
        for request in [one async for one in requests]:
            for asked in request.response_parameters:
                yield await self._streamed(asked)

    async def _streamed(self, asked: Any) -> Any:
        if asked.interval_us:
            await asyncio.sleep(asked.interval_us / 1e6)
        return self._types["StreamingOutputCallResponse"](payload=self._payload(asked.size))

    def _payload(self, size: int) -> Any:
        return self._types["Payload"](body=bytes(size))


def _raise_wanted(status: Any) -> None:
    if status.code:
        raise Wanted(why=status.message, number=status.code)


def refused(error: BrokerError, method: Method) -> WireStatus:
    """Returns the status of an error."""
    number = error.number if isinstance(error, Wanted) else UNKNOWN
    return WireStatus(number, str(error), b"")


async def _echo_on_grpcio(call: Call) -> None:
    """Echoes the requested metadata on grpcio; on PocketMQ's transport `EchoingWire` does."""
    context = getattr(call, "_context", None)
    if context is None:
        return
    given = dict(context.invocation_metadata())
    if INITIAL in given:
        await context.send_initial_metadata(((INITIAL, given[INITIAL]),))
    if TRAILING in given:
        context.set_trailing_metadata(((TRAILING, given[TRAILING]),))


class EchoingWire:
    """A connection of wire/ that echoes the metadata that a call asks for."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def respond(self, stream: Any, message: bytes) -> None:
        """Sends a reply of one message, and OK."""
        if not stream.is_head_sent:
            self.send_headers(stream, [])
        self._connection.send_message(stream, message)
        self.finish(stream, 0, "", [])

    def send_headers(self, stream: Any, metadata: list[tuple[bytes, bytes]]) -> None:
        """Begins a reply."""
        self._connection.send_headers(stream, [*metadata, *_asked(stream, INITIAL)])

    def finish(
        self, stream: Any, status: int, text: str, metadata: list[tuple[bytes, bytes]]
    ) -> None:
        """Ends a reply."""
        self._connection.finish(stream, status, text, [*metadata, *_asked(stream, TRAILING)])


def _asked(stream: Any, name: str) -> list[tuple[bytes, bytes]]:
    return [pair for pair in stream.headers.metadata if pair[0] == name.encode()]


class Server(Protocol):
    """The interface that the servers of both transports share."""

    def add_port(self, address: str) -> int:
        """Listens on an address; returns the port."""

    async def start(self) -> None:
        """Accepts calls."""


def server_of(transport: str, service: Service, tls: list[str]) -> Server:
    """Returns a server of one service; `tls` are the files of a certificate and its key."""
    if transport == "grpcio":
        return GrpcioServer([service])
    own: Any = import_module("pocketmq.rpc.own.connection")
    make = own.Connection
    own.Connection = lambda **how: EchoingWire(make(**how))
    module: Any = import_module("pocketmq.rpc.own.server")
    context = import_module("pocketmq.rpc.own.tls").tls_context(*tls) if tls else None
    server: Server = module.OwnServer([service], transport=module.Transport(tls=context))
    return server


async def main(transport: str, *tls: str) -> None:
    """Serves until killed."""
    server = server_of(transport, Interop(described()).service(), [*tls])
    port = server.add_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
