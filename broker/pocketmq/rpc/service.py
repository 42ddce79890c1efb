"""A service as a table of methods, and the form of its errors.

    kind             handler
    unary            (request, call) -> answer, or an awaitable of it
    server_stream    (request, call) -> answers, an async generator
    client_stream    (requests, call) -> an awaitable of the answer
    bidi             (requests, call) -> answers, an async generator

An answer is of type `Method.answer`: the response message, or bytes if the method encodes its
response itself. A generator may yield a list of answers, which are sent together. `requests` is an
async iterator that ends when the client's does, or when the server drains. Transports (own/,
grpcio/) depend on these tables only.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from pocketmq.model.errors import BrokerError, Recovering, RequestError, ShareTaken, TooManyRequests
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.elements import ELEMENTS_MAX, Elements, Malformed

Handler = Callable[[Any, Call], Any]
"""(request or requests, call) -> as the method's kind demands."""

Metadata = Callable[[str], str | None]
"""Returns a metadata value of a call by its name, as `Call.metadata` does."""

Shortcut = Callable[[bytes, bytes, Metadata], bytes | Awaitable[bytes] | None]
"""Serves a call straight from its request's bytes, the client's packed address and the call's
metadata; None: go the usual way, nothing has changed."""

DETAILS_KEY: Final = "grpc-status-details-bin"
"""The trailer that carries a status's details."""
SMALL_REQUEST_MAX: Final = 64 * 1024
"""Bytes of a request without bodies: names, numbers and a filter need far less."""
SEND_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of a request with bodies."""


class MalformedRequest(RequestError):
    """Bytes that are no message of the method's type, or more of them than it takes."""

    message = "the request cannot be read: {why}"
    why: str


class UnknownService(RequestError):
    """Health of a service that is not served here."""

    message = "unknown service {service}"
    service: str


class Internal(BrokerError):
    """An error that is none of ours; the log has the rest under the number."""

    message = "internal error; the broker's log tells more under incident {incident}"
    plain = BrokerError.plain | {"incident"}
    incident: str


_PLAIN_CODES: Final = {MalformedRequest: 3, UnknownService: 5, TooManyRequests: 8, ShareTaken: 8}
_INTERNAL: Final = 13


class WireStatus(NamedTuple):
    """A gRPC status as a transport sends it; `details` goes into the trailer DETAILS_KEY."""

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
        """Whether requests come as a stream."""
        return self.value[0]

    @property
    def has_answers(self) -> bool:
        """Whether answers go as a stream."""
        return self.value[1]


@dataclass(frozen=True)
class Method:
    """One method: its name, its messages, its handler and its class.

    `parse` and `serialize` replace the messages' own, for methods whose cost is there;
    `answer` is the type that `serialize` takes and the handler returns. `request_code` is
    RocketMQ's word for the method, in lower case; without one it goes by its own name.

    Of each repeated field a request has `elements_max` elements at most; a `parse` of its own
    counts itself.

    A unary method may have a `shortcut` that is asked first, with a request no longer than
    `request_size_max`; it raises the same errors as handlers.

    Calls of a method that `parks` mostly wait for long, ten thousands of them: the memory of each
    counts for more than the cost of its begin.

    A method that `identifies` its callers calls `Call.identify` before its handler does anything.
    """

    name: str
    request: type[Message]
    response: type[Message]
    handler: Handler
    call_class: CallClass
    request_size_max: int = SMALL_REQUEST_MAX
    parse: Callable[[bytes], Any] | None = None
    serialize: Callable[[Any], bytes] | None = None
    answer: type[Any] | None = None
    kind: MethodKind = MethodKind.UNARY
    request_code: str = ""
    shortcut: Shortcut | None = None
    elements_max: int = ELEMENTS_MAX
    parks: bool = False
    identifies: bool = False

    @cached_property
    def answer_type(self) -> type[Any]:
        """The type of an answer that needs no awaiting."""
        return self.answer or self.response

    def reader(self) -> Callable[[bytes], Any]:
        """Returns the function that reads a request.

        Errors   of that function: MalformedRequest, TooManyElements
        """
        parse = self.parse or self.request.FromString
        elements = None if self.parse else Elements(self.request, self.elements_max)
        limit, name = self.request_size_max, self.request.DESCRIPTOR.name

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
        """Returns the items of a generator as bytes: one answer, or those of a list."""
        write = self.writer()
        return [write(one) for one in given] if isinstance(given, list) else [write(given)]

    def writer(self) -> Callable[[Any], bytes]:
        """Returns the function that turns an answer into bytes."""
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
    """A handler while nothing can be served.

    Errors   Recovering
    """
    raise Recovering()


Refuse = Callable[[BrokerError, Method], Any]
"""How an API reports that a call failed: by a WireStatus, or in band, by an answer of the method,
or by a list of answers where it has many."""


def refuse_plainly(error: BrokerError, method: Method) -> WireStatus:
    """Returns the status of an error where the protocol is not ours: a code and a text."""
    return WireStatus(_PLAIN_CODES.get(type(error), _INTERNAL), str(error), b"")


@dataclass(frozen=True)
class Service:
    """A service by its full name, "pocketmq.v1.Broker"; `refuse` makes all its errors."""

    name: str
    methods: tuple[Method, ...]
    refuse: Refuse

    def __post_init__(self) -> None:
        names = {method.name for method in self.methods}
        assert len(names) == len(self.methods), "a service has one method of a name"

    def path(self, method: Method) -> str:
        """Returns the full name of a method, "pocketmq.v1.Broker/SendMessage"."""
        return f"{self.name}/{method.name}"
