"""Services as tables of methods, and how many calls of each class run at once.

A handler is a plain function (request message, call) that returns its answer or an awaitable of
it. The answer is of type `Method.answer`: the response message, or bytes where a method encodes
its response itself. Transports (grpcio/server.py) read these tables and know nothing else.

Classes of calls keep each other's calls from starving: parked polls never keep a send out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from inspect import isawaitable
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from broker.model.cold_read import ColdRead
from broker.model.errors import BrokerError, DiskSlow, Draining, RequestError, TooManyRequests
from broker.model.stats import Counter, Gauge
from broker.rpc.call import Call

Handler = Callable[[Any, Call], Any]
"""(request message, call) -> answer, or an awaitable of it."""

COLD_READS_MAX: Final = 1_000
"""Reads of old bytes one call may cost; memory that drops them as fast as they come ends it."""
SMALL_REQUEST_MAX: Final = 64 * 1024
"""Bytes of a request without bodies: names, numbers and a filter need far less."""


class CallClass(Enum):
    """What kind of work a method is, for limits."""

    SEND = "send"
    POLL = "poll"
    QUERY = "query"
    ADMIN = "admin"


DEFAULT_LIMITS: Final[Mapping[CallClass, int]] = {
    CallClass.SEND: 2_048,  # a client with more in flight gains nothing: the log is one
    CallClass.POLL: 10_000,  # a parked poll costs about 20 KiB
    CallClass.QUERY: 256,  # each may hold a reply of 16 MiB
    CallClass.ADMIN: 64,
}
"""Calls under way at once, by class."""


PATIENT_CLASSES: Final = frozenset({CallClass.QUERY, CallClass.ADMIN})
"""Calls that look at old messages one by one; pulls read theirs in one go (pull_message.py)."""


@dataclass(eq=False)
class MalformedRequest(RequestError):
    """Bytes that are no message of the method's type, or more of them than it takes."""

    message = "the request cannot be read: {why}"
    why: str


@dataclass(frozen=True)
class Method:
    """One method: its name, its messages, who serves it and in which class.

    `parse` and `serialize` stand in for the messages' own, for methods whose cost is there;
    `answer` is what `serialize` takes and the handler returns.
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

    @property
    def answer_type(self) -> type[Any]:
        """The type of an answer that needs no awaiting."""
        return self.answer or self.response

    def reader(self) -> Callable[[bytes], Any]:
        """Return the function that reads a request.

        Errors   of that function: MalformedRequest
        """
        parse = self.parse or self.request.FromString
        limit, name = self.request_size_max, self.request.DESCRIPTOR.name

        def read(raw: bytes) -> Any:
            if len(raw) > limit:
                why = f"it has {len(raw)} bytes, the method takes {limit}"
                raise MalformedRequest(why=why)
            try:
                return parse(raw)
            except DecodeError as error:
                raise MalformedRequest(why=f"it is not a {name} message") from error

        return read

    def writer(self) -> Callable[[Any], bytes]:
        """Return the function that turns an answer into bytes."""
        return self.serialize or self.response.SerializeToString


def method(
    descriptor: ServiceDescriptor,
    name: str,
    handler: Handler,
    call_class: CallClass,
    *,
    request_size_max: int = SMALL_REQUEST_MAX,
) -> Method:
    """Return a method of a proto's service, with the messages the proto says."""
    found = descriptor.methods_by_name[name]
    request, response = GetMessageClass(found.input_type), GetMessageClass(found.output_type)
    if call_class in PATIENT_CLASSES:
        handler = patient_handler(handler)
    return Method(name, request, response, handler, call_class, request_size_max)


def patient_handler(handler: Handler) -> Handler:
    """Return a handler that lets old bytes be read off the event loop, then asks again.

    Shape    the handler changes nothing before it raises ColdRead
    """

    def call_once(request: Any, call: Call) -> Any:
        try:
            answer = handler(request, call)
        except ColdRead as cold:
            return _call_again(handler, request, call, cold)
        return _awaited(answer, handler, request, call) if isawaitable(answer) else answer

    return call_once


async def _awaited(answer: Awaitable[Any], handler: Handler, request: Any, call: Call) -> Any:
    try:
        return await answer
    except ColdRead as cold:
        return await _call_again(handler, request, call, cold)


async def _call_again(handler: Handler, request: Any, call: Call, cold: ColdRead) -> Any:
    for _ in range(COLD_READS_MAX):
        await asyncio.to_thread(cold.fetch)
        try:
            answer = handler(request, call)
            return await answer if isawaitable(answer) else answer
        except ColdRead as another:
            cold = another
    raise DiskSlow(tries=COLD_READS_MAX)


@dataclass(frozen=True)
class Service:
    """A service by its full name, "pocketmq.v1.Broker"."""

    name: str
    methods: tuple[Method, ...]


class Gate:
    """Counts the calls of one class; `refusal` is None while another one may begin."""

    __slots__ = ("_call_class", "count", "is_closed", "limit")

    def __init__(self, call_class: CallClass, limit: int) -> None:
        self._call_class = call_class
        self.limit = limit
        self.count = 0
        self.is_closed = False

    def refusal(self) -> BrokerError | None:
        """Return why no call may begin now, None when one may."""
        if self.count >= self.limit:
            return TooManyRequests(field=self._call_class.value, limit=self.limit)
        return Draining() if self.is_closed else None


class Flight:
    """Counts the calls of one method."""

    __slots__ = ("count", "label")

    def __init__(self, label: str) -> None:
        self.label = label
        self.count = 0


class Admission:
    """The gates of all classes and the counts of all methods of a server."""

    __slots__ = ("_flights", "_gates", "rejected", "stats")

    def __init__(self, limits: Mapping[CallClass, int] = DEFAULT_LIMITS) -> None:
        self._gates = {call_class: Gate(call_class, limits[call_class]) for call_class in CallClass}
        self._flights: dict[str, Flight] = {}
        self.rejected = Counter(
            "pocketmq_rejected_total", "Calls answered with an error of ours.", ("reason",)
        )
        inflight = Gauge(
            "pocketmq_inflight_requests", "Calls under way.", self._inflight, ("method",)
        )
        self.stats: list[Counter | Gauge] = [inflight, self.rejected]

    def gate(self, call_class: CallClass) -> Gate:
        """Return the gate of a class."""
        return self._gates[call_class]

    def flight(self, path: str) -> Flight:
        """Return the count of a method, "pocketmq.v1.Broker/SendMessage"."""
        return self._flights.setdefault(path, Flight(path))

    def inflight_count(self) -> int:
        """Return the number of calls under way."""
        return sum(gate.count for gate in self._gates.values())

    def close_sends(self) -> None:
        """Refuse sends from now on; who has something to fetch still may."""
        self._gates[CallClass.SEND].is_closed = True

    def _inflight(self) -> dict[tuple[str, ...], float]:
        return {(flight.label,): flight.count for flight in self._flights.values()}
