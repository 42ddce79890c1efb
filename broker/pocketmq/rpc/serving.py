"""Serves calls for any transport: admission, metrics, parsing, and errors.

    bytes ─► read ─► handler(request, call) ─► answer, awaited if need be ─► bytes
                        │ BrokerError               ─► error of the protocol version
                        └ any other exception       ─► Internal with an incident number; logged

While the store recovers, calls are refused with an error that asks clients to retry. Health and
reflection are always served, and not counted.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from pocketmq.model.errors import BrokerError, Corruption, StorageError
from pocketmq.rpc.admission import DEFAULT_LIMITS, Admission, CallClass, Gate, Holder
from pocketmq.rpc.call import REQUEST_ID_KEY, Call, current_request_id
from pocketmq.rpc.call_stats import CallStats
from pocketmq.rpc.health import Health, State
from pocketmq.rpc.reflection import Reflection
from pocketmq.rpc.service import (
    DETAILS_KEY,
    GRPC,
    Internal,
    Method,
    MethodKind,
    Service,
    WireStatus,
)
from pocketmq.store.heavy_turns import HeavyTurns

Turns = HeavyTurns
OK: Final = 0
CANCELLED: Final = 1
DEADLINE_EXCEEDED: Final = 4
UNAVAILABLE: Final = 14
"""Codes of gRPC statuses."""

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Refused:
    """End of a failed call: a status, or answers that contain the error in the API's form."""

    status: WireStatus | None
    replies: Sequence[bytes]
    request_id: str

    def __post_init__(self) -> None:
        assert not (self.status and self.replies), "both a status and answers"

    def trailers(self) -> tuple[tuple[str, str | bytes], ...]:
        """Returns the trailers of the status or of the answers."""
        request_id = (REQUEST_ID_KEY, self.request_id)
        if self.status is None or not self.status.details:
            return (request_id,)
        return (request_id, (DETAILS_KEY, self.status.details))


class ServedMethod:
    """One method, as a transport uses it to admit, parse, encode, count and refuse calls."""

    __slots__ = (
        "_service", "_serving", "begins_at_once", "gate", "is_unary", "method", "path", "read",
        "shortcut", "stats", "write",
    )  # fmt: skip

    def __init__(
        self, service: Service, method: Method, gate: Gate, serving: "Serving", counted: CallStats
    ) -> None:
        assert method in service.methods, "method of another service"
        self._serving = serving
        self._service = service
        self.method = method
        self.is_unary = method.kind is MethodKind.UNARY
        self.begins_at_once = not (method.parks or method.kind.has_requests)
        self.shortcut = method.shortcut
        self.path = service.path(method)
        self.gate = gate
        self.stats = counted.method(self.path, method, service.protocol)
        self.read, self.write = method.reader(), method.writer()

    def refusal(self, holder: Holder) -> BrokerError | None:
        """Returns why a holder may not begin a call now, None if it may.

        For a method that identifies its callers, only the limits for all callers are checked here;
        `Call.identify` checks the others.
        """
        gate, refusal = self.gate, self._serving.refusal
        if refusal is None and gate.count < gate.tight:
            return None
        if refusal is not None and self.method.call_class is not CallClass.PROBE:
            return refusal
        return gate.refusal_of_all() if self.method.identifies else gate.refusal(holder)

    @property
    def is_free(self) -> bool:
        """Whether any caller may begin a call now."""
        return self._serving.refusal is None and self.gate.count < self.gate.tight

    @property
    def is_quick(self) -> bool:
        """Whether the shortcut may be used; not while the shares of callers have to be checked."""
        gate = self.gate
        return gate.count < gate.tight or not self.method.identifies

    def answer(self, raw: bytes, call: Call) -> bytes | Awaitable[bytes]:
        """Returns the reply to a unary call, or an awaitable of it.

        Errors   those of handlers, MalformedRequest
        """
        shortcut = self.shortcut
        if shortcut is not None and len(raw) <= self.method.request_size_max and self.is_quick:
            reply = shortcut(raw, call.peer_host, call.metadata)
            if reply is not None:
                return reply
        return self.answer_usually(raw, call)

    def answer_usually(self, raw: bytes, call: Call) -> bytes | Awaitable[bytes]:
        """Returns the handler's reply to a unary call, or an awaitable of it.

        Errors   those of handlers, MalformedRequest
        """
        method = self.method
        answer = method.handler(self.read(raw), call)
        if type(answer) is method.answer_type:
            return self.write(answer)
        return self._awaited(answer)

    async def _awaited(self, answer: Awaitable[Any]) -> bytes:
        return self.write(await answer)

    def refused(self, error: Exception, seconds: float) -> Refused:
        """Counts a call that failed after `seconds`; returns the refusal for its client.

        Must run in the context of the call: the refusal and log lines contain its request id.
        """
        shown = self.shown(error, seconds)
        request_id = current_request_id()
        if isinstance(shown, WireStatus):
            return Refused(shown, (), request_id)
        answers = shown if isinstance(shown, list) else [shown]
        if not self.method.kind.has_answers:
            assert len(answers) == 1, "a unary call has one answer"
        return Refused(None, [self.write(answer) for answer in answers], request_id)

    def shown(self, error: Exception, seconds: float) -> Any:
        """Counts a call that failed after `seconds`; returns its error in the API's form."""
        known = self._known(error)
        self.stats.count_failed(known, seconds)
        try:
            shown = self._service.refuse(known, self.method)
        except Exception as fault:  # An error that cannot be encoded: the client gets this one.
            shown = self._service.refuse(self._known(fault), self.method)
        let_frames_go(error)
        return shown

    def undo(self, effects: Callable[[], None]) -> None:
        """Undoes the effects of a lost answer; a failure is logged, and the call ends as usual."""
        try:
            effects()
        except Exception as fault:
            self._known(fault)

    def _known(self, error: Exception) -> BrokerError:
        """Returns the error, or Internal for an unexpected one; logs errors for operators."""
        if not isinstance(error, BrokerError):
            incident = token_hex(8)
            logger.error(
                "rpc.failed", exc_info=error, extra={"method": self.path, "incident": incident}
            )
            return Internal(incident=incident)
        is_new = not isinstance(error, Corruption) or self._serving.counted.count_damage(error)
        if isinstance(error, StorageError) and is_new:
            logger.error("rpc.refused", extra={"method": self.path, "error": str(error)})
        return error


def let_frames_go(error: BaseException) -> None:
    """Drops an error's traceback, cause and context.

    A task refers to its error, and the error's frames to the task. This cycle would keep a request
    of 16 MiB until Python's next full garbage collection.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None


class Serving:
    """The services of one server, with health and reflection.

    Life     constructor; `refusal` set or `show_ready`; `drain`
    """

    __slots__ = (
        "_health",
        "admission",
        "counted",
        "is_draining",
        "methods",
        "refusal",
        "requests",
        "stats",
        "turns",
    )

    def __init__(
        self, services: Sequence[Service], limits: Mapping[CallClass, int] = DEFAULT_LIMITS
    ) -> None:
        self.admission = Admission(limits)
        self.counted = CallStats(self.admission)
        self.stats = self.counted.stats
        self.refusal: BrokerError | None = None
        """Error of every call outside of the class PROBE; None while calls are served."""
        self.is_draining = False
        self.turns = Turns()
        """Schedules the parsing of streamed requests; replaced by the turns of an opened store."""
        self.methods: dict[str, ServedMethod] = {}
        """Served methods by their path, "/pocketmq.v1.Broker/SendMessage"."""
        self.requests: dict[int, ServedMethod] = {}
        """Served methods of remoting clients by their request code."""
        called = [service for service in services if service.protocol == GRPC]
        self._health = Health(service.name for service in called)
        self.serve(services)
        probes = self._health.service()
        self._add([probes, *Reflection([*called, probes]).services()], CallStats(self.admission))

    def serve(self, services: Sequence[Service]) -> None:
        """Serves these services from now on; they replace services with the same names."""
        self._add(services, self.counted)

    def _add(self, services: Iterable[Service], counted: CallStats) -> None:
        for service in services:
            for row in service.methods:
                gate = self.admission.gate(row.call_class)
                served = ServedMethod(service, row, gate, self, counted)
                if service.protocol == GRPC:
                    self.methods[f"/{served.path}"] = served
                else:
                    self.requests[row.number] = served

    def show_ready(self, writable: State, replica: State = True) -> None:
        """Serves calls and reports SERVING; a callable state is called by each health check."""
        assert not self.is_draining, "the server is draining"
        self.refusal = None
        self._health.show(serving=True, writable=writable, replica=replica)

    def drain(self) -> None:
        """Reports NOT_SERVING and refuses sends; other calls are still served."""
        self.is_draining = True
        self._health.end()
        self.admission.close_sends()
