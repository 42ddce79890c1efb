"""A service as a table of methods, and the form of its errors.

    kind             handler
    unary            (request, call) -> answer, or an awaitable of it
    server_stream    (request, call) -> answers, an async generator
    client_stream    (requests, call) -> an awaitable of the answer
    bidi             (requests, call) -> answers, an async generator

An answer is of type `Method.answer`: the response message, or bytes if the method encodes its
response itself. A generator may yield a list of answers, which are sent together. `requests` is an
async iterator that ends when the client has sent its last request, or when the server drains.
Transports (own/, grpcio/) serve any API by these tables.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from pocketmq.model.errors import BrokerError, Recovering, RequestError, ShareTaken, TooManyRequests
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.elements import ELEMENTS_MAX, Elements, Malformed

Handler = Callable[[Any, Call], Any]
"""(request or requests, call) -> the result that the table above lists for the method's kind."""

Metadata = Callable[[str], str | None]
"""Returns a metadata value of a call by its name, as `Call.metadata` does."""

Shortcut = Callable[[bytes, bytes, Metadata], bytes | Awaitable[bytes] | None]
"""Serves a call from its request's bytes, the client's packed address and the call's metadata.
If the handler has to serve the call, the shortcut changes nothing and returns None."""

DETAILS_KEY: Final = "grpc-status-details-bin"
"""The trailer with a status's details."""
SMALL_REQUEST_MAX: Final = 64 * 1024
"""Upper limit of the bytes of a request without message bodies. Real requests are far smaller."""
SEND_SIZE_MAX: Final = 16 * 1024 * 1024
"""Upper limit of the bytes of a request with message bodies."""


class MalformedRequest(RequestError):
    """A request that cannot be parsed, is too large, or has a field that is missing or invalid."""

    message = "the request cannot be read: {why}"
    why: str


class UnknownService(RequestError):
    """A health check of a service that this server does not have."""

    message = "unknown service {service}"
    service: str


class Internal(BrokerError):
    """An unexpected exception; the broker's log has the traceback with the incident number."""

    message = "internal error; the broker's log has details under incident {incident}"
    plain = BrokerError.plain | {"incident"}
    incident: str


_PLAIN_CODES: Final = {MalformedRequest: 3, UnknownService: 5, TooManyRequests: 8, ShareTaken: 8}
_INTERNAL: Final = 13


class WireStatus(NamedTuple):
    """A gRPC status as a transport sends it; `details` is the value of the trailer DETAILS_KEY."""

    code: int
    message: str
    details: bytes


class MethodKind(Enum):
    """Whether a call has one request or a stream of them, and one answer or a stream."""

    UNARY = (False, False)
    SERVER_STREAM = (False, True)
    CLIENT_STREAM = (True, False)
    BIDI = (True, True)

    @property
    def has_requests(self) -> bool:
        """Whether the client sends a stream of requests."""
        return self.value[0]

    @property
    def has_answers(self) -> bool:
        """Whether the server sends a stream of answers."""
        return self.value[1]


@dataclass(frozen=True, eq=False)
class Method:
    """One method: its name, its messages, its handler and its class; equal to itself only.

    request_code  RocketMQ's request code in lower case, for metrics; "": the method's name
    parse         replaces protobuf's parser, and enforces `elements_max` itself
    serialize     replaces protobuf's encoder
    answer        the type that the handler returns and `serialize` encodes
    elements_max  upper limit of elements in each repeated field of a request
    shortcut      for unary methods: tried before the handler if the request has at most
                  `request_size_max` bytes; raises the same errors as handlers
    parks         whether tens of thousands of calls may wait at once: then the memory of a waiting
                  call matters more than the cost of starting it
    identifies    the handler calls `Call.identify` before anything else
    number        RocketMQ's request code, by which remoting clients call it; 0: a method of gRPC
    """

    name: str
    request: type[Any]
    response: type[Any]
    handler: Handler
    call_class: CallClass
    request_size_max: int = SMALL_REQUEST_MAX
    parse: Callable[[Any], Any] | None = None
    serialize: Callable[[Any], bytes] | None = None
    answer: type[Any] | None = None
    kind: MethodKind = MethodKind.UNARY
    request_code: str = ""
    shortcut: Shortcut | None = None
    elements_max: int = ELEMENTS_MAX
    parks: bool = False
    identifies: bool = False
    number: int = 0

    @cached_property
    def answer_type(self) -> type[Any]:
        """The type of the handler's answers; a result of any other type is awaited."""
        return self.answer or self.response

    def reader(self) -> Callable[[bytes], Any]:
        """Returns the function that parses a request.

        Errors   raised by that function: MalformedRequest, TooManyElements
        """
        parse = self.parse or self.request.FromString
        elements = None if self.parse else Elements(self.request, self.elements_max)
        limit, name = self.request_size_max, self.request.__name__

        def read(raw: bytes) -> Any:
            if len(raw) > limit:
                why = f"it has {len(raw)} bytes, the method takes {limit}"
                raise MalformedRequest(why=why)
            try:
                if elements is not None:
                    elements.check(raw)
                return parse(raw)
            except (DecodeError, Malformed) as error:
                raise MalformedRequest(why=f"it is not a {name} message") from error

        return read

    def encoded(self, given: Any) -> list[bytes]:
        """Encodes an item of a generator: one answer, or a list of answers."""
        write = self.writer()
        return [write(one) for one in given] if isinstance(given, list) else [write(given)]

    def writer(self) -> Callable[[Any], bytes]:
        """Returns the function that encodes an answer."""
        return self.serialize or self.response.SerializeToString


def method(
    descriptor: ServiceDescriptor,
    name: str,
    handler: Handler,
    call_class: CallClass,
    **own: Any,
) -> Method:
    """Returns a method of a proto's service, with the proto's messages and kind.

    own   further fields of the Method
    """
    found = descriptor.methods_by_name[name]
    kind = MethodKind((found.client_streaming, found.server_streaming))
    return Method(
        name,
        GetMessageClass(found.input_type),
        GetMessageClass(found.output_type),
        handler,
        call_class,
        **{"kind": kind, **own},
    )


def closed(request: Any, call: Call) -> Any:
    """Handles every call while the store recovers.

    Errors   Recovering
    """
    raise Recovering()


Refuse = Callable[[BrokerError, Method], Any]
"""Returns an error in the form of an API: a WireStatus, an answer with an error code, or a list of
answers for a method that streams answers."""

GRPC: Final = "grpc"
REMOTING: Final = "remoting"
"""Protocols by which clients call services, as metrics name them."""
ANY_CODE: Final = -1
"""Number of the method that serves all request codes without a method."""


def refuse_plainly(error: BrokerError, method: Method) -> WireStatus:
    """Returns an error as a gRPC code and a text, for protocols without error details."""
    return WireStatus(_PLAIN_CODES.get(type(error), _INTERNAL), str(error), b"")


@dataclass(frozen=True)
class Service:
    """A service by its full name, "pocketmq.v1.Broker"; `refuse` encodes its calls' errors."""

    name: str
    methods: tuple[Method, ...]
    refuse: Refuse
    protocol: str = GRPC

    def __post_init__(self) -> None:
        names = {method.name for method in self.methods}
        assert len(names) == len(self.methods), "two methods of a service have the same name"

    def path(self, method: Method) -> str:
        """Returns the full name of a method, "pocketmq.v1.Broker/SendMessage"."""
        return f"{self.name}/{method.name}"
