# The part of grpcio that is used here; grpcio itself ships no types.
import abc
import enum
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from grpc import aio as aio

_Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
_Options: TypeAlias = Sequence[tuple[str, Any]]
_Serializer: TypeAlias = Callable[[Any], bytes]
_Deserializer: TypeAlias = Callable[[bytes], Any]

class StatusCode(enum.Enum):
    OK = (0, "ok")
    CANCELLED = (1, "cancelled")
    UNKNOWN = (2, "unknown")
    INVALID_ARGUMENT = (3, "invalid argument")
    DEADLINE_EXCEEDED = (4, "deadline exceeded")
    NOT_FOUND = (5, "not found")
    ALREADY_EXISTS = (6, "already exists")
    PERMISSION_DENIED = (7, "permission denied")
    RESOURCE_EXHAUSTED = (8, "resource exhausted")
    FAILED_PRECONDITION = (9, "failed precondition")
    ABORTED = (10, "aborted")
    OUT_OF_RANGE = (11, "out of range")
    UNIMPLEMENTED = (12, "unimplemented")
    INTERNAL = (13, "internal")
    UNAVAILABLE = (14, "unavailable")
    DATA_LOSS = (15, "data loss")
    UNAUTHENTICATED = (16, "unauthenticated")

class ChannelConnectivity(enum.Enum):
    IDLE = (0, "idle")
    CONNECTING = (1, "connecting")
    READY = (2, "ready")
    TRANSIENT_FAILURE = (3, "transient failure")
    SHUTDOWN = (4, "shutdown")

class Compression(enum.IntEnum):
    NoCompression = 0
    Deflate = 1
    Gzip = 2

class RpcError(Exception): ...
class FutureTimeoutError(Exception): ...

# What abort_with_status takes.
class Status(abc.ABC):
    code: StatusCode
    details: str
    trailing_metadata: _Metadata | None

class ChannelCredentials: ...
class CallCredentials: ...
class ServerCredentials: ...

def ssl_channel_credentials(
    root_certificates: bytes | None = None,
    private_key: bytes | None = None,
    certificate_chain: bytes | None = None,
) -> ChannelCredentials: ...
def ssl_server_credentials(
    private_key_certificate_chain_pairs: Sequence[tuple[bytes, bytes]],
    root_certificates: bytes | None = None,
    require_client_auth: bool = False,
) -> ServerCredentials: ...

class RpcMethodHandler(abc.ABC):
    request_streaming: bool
    response_streaming: bool
    request_deserializer: _Deserializer | None
    response_serializer: _Serializer | None
    unary_unary: Callable[[Any, Any], Any] | None
    unary_stream: Callable[[Any, Any], Any] | None
    stream_unary: Callable[[Any, Any], Any] | None
    stream_stream: Callable[[Any, Any], Any] | None

class HandlerCallDetails(abc.ABC):
    method: str
    invocation_metadata: _Metadata

class GenericRpcHandler(abc.ABC):
    @abc.abstractmethod
    def service(self, handler_call_details: HandlerCallDetails) -> RpcMethodHandler | None: ...

class ServiceRpcHandler(GenericRpcHandler, metaclass=abc.ABCMeta):
    @abc.abstractmethod
    def service_name(self) -> str: ...

def unary_unary_rpc_method_handler(
    behavior: Callable[[Any, Any], Any],
    request_deserializer: _Deserializer | None = None,
    response_serializer: _Serializer | None = None,
) -> RpcMethodHandler: ...
def unary_stream_rpc_method_handler(
    behavior: Callable[[Any, Any], Any],
    request_deserializer: _Deserializer | None = None,
    response_serializer: _Serializer | None = None,
) -> RpcMethodHandler: ...
def stream_unary_rpc_method_handler(
    behavior: Callable[[Any, Any], Any],
    request_deserializer: _Deserializer | None = None,
    response_serializer: _Serializer | None = None,
) -> RpcMethodHandler: ...
def stream_stream_rpc_method_handler(
    behavior: Callable[[Any, Any], Any],
    request_deserializer: _Deserializer | None = None,
    response_serializer: _Serializer | None = None,
) -> RpcMethodHandler: ...
def method_handlers_generic_handler(
    service: str, method_handlers: Mapping[str, RpcMethodHandler]
) -> GenericRpcHandler: ...

# The blocking client.

class Call(abc.ABC):
    def code(self) -> StatusCode: ...
    def details(self) -> str: ...
    def initial_metadata(self) -> _Metadata: ...
    def trailing_metadata(self) -> _Metadata: ...
    def cancel(self) -> bool: ...
    def time_remaining(self) -> float | None: ...
    def is_active(self) -> bool: ...

class _MultiCallable(Protocol):
    def __call__(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: _Metadata | None = None,
        credentials: CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: Compression | None = None,
    ) -> Any: ...

class Channel(abc.ABC):
    def unary_unary(
        self,
        method: str,
        request_serializer: _Serializer | None = None,
        response_deserializer: _Deserializer | None = None,
        _registered_method: bool | None = False,
    ) -> _MultiCallable: ...
    def unary_stream(
        self,
        method: str,
        request_serializer: _Serializer | None = None,
        response_deserializer: _Deserializer | None = None,
        _registered_method: bool | None = False,
    ) -> _MultiCallable: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...

class _ReadyFuture(Protocol):
    def result(self, timeout: float | None = None) -> None: ...
    def cancel(self) -> bool: ...

def channel_ready_future(channel: Channel) -> _ReadyFuture: ...
def insecure_channel(
    target: str, options: _Options | None = None, compression: Compression | None = None
) -> Channel: ...
def secure_channel(
    target: str,
    credentials: ChannelCredentials,
    options: _Options | None = None,
    compression: Compression | None = None,
) -> Channel: ...
