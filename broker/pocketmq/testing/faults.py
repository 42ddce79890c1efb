"""Faults that a test injects into its broker's services, and a disk that can be full.

    call ─► the first fault that matches ─► refuse: its error     delay: wait, then serve
                                            lose_answer: serve, then break the connections
         └ none ─► the handler

Calls of Admin have no faults, as the test itself uses them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.model.errors import BrokerError, Code, GroupNotFound, TopicNotFound, Unavailable
from pocketmq.model.nearness import nearest
from pocketmq.rpc.call import Call
from pocketmq.rpc.service import Handler, Method, Refuse, Service, Shortcut, WireStatus
from pocketmq.testing.rocketmq import DISK_FULL

OFFICIAL: Final = "apache.rocketmq.v2.MessagingService"
OWN: Final = "pocketmq.v1.Broker"
FAULTY_SERVICES: Final = frozenset({OFFICIAL, OWN})
PLAIN_CODES: Final = {400: 3, 403: 7, 404: 5, 413: 3, 428: 9, 429: 8, 431: 3, 505: 12}
"""First three digits of a v2 code -> gRPC code, with which `pocketmq.v1` replies."""
INTERNAL: Final = 13
TELEMETRY: Final = "Telemetry"
REFUSE: Final = "refuse"
DELAY: Final = "delay"
LOSE_ANSWER: Final = "lose_answer"
NAMES: Final = (
    {"ReceiveMessage", "Receive"},
    {"AckMessage", "Ack"},
    {"ChangeInvisibleDuration", "ChangeInvisible"},
    {"ForwardMessageToDeadLetterQueue", "ForwardToDeadLetters"},
    {"RecallMessage", "Recall"},
    {"QueryOffset", "QueryOffsets"},
    {"GetOffset", "FetchOffset"},
    {"UpdateOffset", "CommitOffset"},
)
"""Methods of RocketMQ's protocol, and of `pocketmq.v1` under another name: a fault hits both."""
REFUSAL_COUNT_MAX: Final = 8
CALL_FAULTS: Final = (REFUSE, DELAY, LOSE_ANSWER)


class Injected(Unavailable):
    """The error of a call that a test's fault refuses."""

    message = "refused by a fault of the test, with {why}"
    why: str


def injected_error(code_name: str) -> Injected:
    """Returns an error with a code of the protocol, given by name."""
    kind = type(Injected.__name__, (Injected,), {}, code=Code[code_name])
    error = kind(why=code_name)
    assert isinstance(error, Injected)
    return error


@dataclass
class CallFault:
    """Makes calls of some methods fail, wait or lose their replies.

    kind      one of CALL_FAULTS
    methods   names of methods; empty: all except Telemetry, by which clients get settings
    code      name of the error code, for refuse
    seconds   delay, for delay
    left      number of calls still to hit; None: all calls
    hits      number of calls hit
    """

    kind: str
    methods: frozenset[str] = field(default_factory=frozenset)
    code: str = "TOO_MANY_REQUESTS"
    seconds: float = 0.0
    left: int | None = None
    hits: int = 0

    def wants(self, method: str) -> bool:
        """Returns whether a call of the method would be hit."""
        is_wanted = method in self.methods if self.methods else method != TELEMETRY
        return is_wanted and self.left != 0

    def hit(self) -> None:
        """Counts a call."""
        assert self.left != 0, "the fault has ended"
        self.hits += 1
        if self.left is not None:
            self.left -= 1


class Faults:
    """The injected faults by number. Of several that match a call, the oldest hits it.

    cut_off   breaks all connections
    """

    __slots__ = ("_by_number", "_cut_off", "_methods", "_numbers", "_refusals")

    def __init__(self, cut_off: Callable[[], None]) -> None:
        self._by_number: dict[int, CallFault] = {}
        self._methods: set[str] = set()
        self._numbers = count(1)
        self._refusals: dict[tuple[str, str, str], None] = {}
        self._cut_off = cut_off

    def add(self, fault: CallFault) -> int:
        """Adds a fault, which hits calls from now on; returns its number.

        Errors   ValueError: unknown kind, code or method
        """
        _check("kind", fault.kind, CALL_FAULTS, (DISK_FULL,))
        _check("code", fault.code, Code.__members__)
        for name in fault.methods:
            _check("method", name, self._methods)
        number = next(self._numbers)
        both = (names for names in NAMES if names & fault.methods)
        self._by_number[number] = replace(fault, methods=fault.methods.union(*both))
        return number

    def clear(self, number: int) -> None:
        """Ends a fault; its hits are kept."""
        self._by_number[number].left = 0

    def hits(self, number: int) -> int:
        """Returns the number of calls that a fault has hit."""
        return self._by_number[number].hits

    def refusals(self) -> list[tuple[str, str, str]]:
        """Returns the last calls that were refused because a topic or group did not exist.

        Shape   (method, "topic" or "group", its name), each once, at most REFUSAL_COUNT_MAX
        """
        return [*self._refusals]

    def forget_refusals(self) -> None:
        """Forgets the refused calls, as a new test begins."""
        self._refusals.clear()

    def _note(self, error: BrokerError, method: Method) -> None:
        if isinstance(error, TopicNotFound):
            self._refusals[(method.name, "topic", error.topic)] = None
        elif isinstance(error, GroupNotFound):
            self._refusals[(method.name, "group", error.group)] = None
        if len(self._refusals) > REFUSAL_COUNT_MAX:
            del self._refusals[next(iter(self._refusals))]

    def around(self, services: Sequence[Service]) -> list[Service]:
        """Returns the services with faults around their handlers."""
        return [
            replace(one, methods=tuple(map(self._around, one.methods)), refuse=self._refusing(one))
            if one.name in FAULTY_SERVICES
            else one
            for one in services
        ]

    def _next(self, method: str) -> CallFault | None:
        return next((one for one in self._by_number.values() if one.wants(method)), None)

    def _around(self, method: Method) -> Method:
        self._methods.add(method.name)
        handler = self._streaming(method) if method.kind.has_answers else self._single(method)
        shortcut = None if method.shortcut is None else self._short(method.name, method.shortcut)
        return replace(method, handler=handler, shortcut=shortcut)

    def _short(self, name: str, shortcut: Shortcut) -> Shortcut:
        def guarded(*given: Any) -> Any:
            return shortcut(*given) if self._next(name) is None else None

        return guarded

    def _single(self, method: Method) -> Handler:
        def handler(request: Any, call: Call) -> Any:
            fault = self._next(method.name)
            if fault is None:
                return method.handler(request, call)
            fault.hit()
            return self._answer(fault, method.handler, request, call)

        return handler

    def _refusing(self, service: Service) -> Refuse:
        """Wraps a service's conversion of errors to replies, to convert injected errors."""

        def refuse(error: BrokerError, method: Method) -> Any:
            self._note(error, method)
            if service.name != OWN or not isinstance(error, Injected):
                return service.refuse(error, method)
            return WireStatus(PLAIN_CODES.get(error.code.value // 100, INTERNAL), str(error), b"")

        return refuse

    async def _answer(self, fault: CallFault, handler: Handler, request: Any, call: Call) -> Any:
        await _begin(fault)
        answer = handler(request, call)
        if isawaitable(answer):
            answer = await answer
        if fault.kind == LOSE_ANSWER:
            self._cut_off()
        return answer

    def _streaming(self, method: Method) -> Handler:
        async def handler(request: Any, call: Call) -> AsyncIterator[Any]:
            fault = self._next(method.name)
            if fault is not None:
                fault.hit()
                await _begin(fault)
            async with aclosing(method.handler(request, call)) as answers:
                async for answer in answers:
                    if fault is not None and fault.kind == LOSE_ANSWER:
                        self._cut_off()
                    yield answer

        return handler


def _check(what: str, given: str, known: Iterable[str], others: Iterable[str] = ()) -> None:
    if given not in known:
        names = sorted([*known, *others])
        words = {name.removesuffix("Message").lower(): name for name in names}
        near = words.get(given.lower()) or nearest(given, names)
        hint = f"did you mean {near}? There" if near else "there"
        raise ValueError(f"there is no {what} {given!r}; {hint} are {', '.join(names)}")


async def _begin(fault: CallFault) -> None:
    """Refuses or delays a call, by the kind of its fault."""
    if fault.kind == REFUSE:
        raise injected_error(fault.code)
    if fault.kind == DELAY:
        await asyncio.sleep(fault.seconds)


class FillableDisk(Disk):
    """The system's disk; while `is_full`, it reports no free bytes."""

    __slots__ = ("is_full",)

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def space(self, path: Path) -> tuple[int, int]:
        """Returns (bytes used, bytes that an unprivileged user may still write)."""
        used, usable = super().space(path)
        return (used + usable, 0) if self.is_full else (used, usable)
