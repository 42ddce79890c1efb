"""How many calls of each class run at once, so that they do not starve each other.

Parked polls never keep a send out. A gate only counts: whoever serves a call asks `refusal`, then
enters, and leaves when the call has ended.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from broker.model.errors import BrokerError, Draining, TooManyRequests


class CallClass(Enum):
    """What kind of work a method is, for limits."""

    SEND = "send"
    POLL = "poll"
    SETTLE = "settle"
    QUERY = "query"
    ADMIN = "admin"
    PROBE = "probe"
    SESSION = "session"
    STREAM = "stream"


DEFAULT_LIMITS: Final[Mapping[CallClass, int]] = {
    CallClass.SEND: 2_048,  # a client with more in flight gains nothing: the log is one
    CallClass.POLL: 10_000,  # a parked poll takes 2.5 KiB, about 20 on grpcio
    CallClass.SETTLE: 2_048,  # as sends: each is a put, and who is drained may still settle
    CallClass.QUERY: 256,  # each may hold a reply of 16 MiB
    CallClass.ADMIN: 64,
    CallClass.PROBE: 10_000,  # watches of health stay for long
    CallClass.SESSION: 2_048,  # over at once: heartbeats, routes
    CallClass.STREAM: 10_000,  # one a client, as long as that lives
}
"""Calls under way at once, by class."""


class Gate:
    """Counts the calls of one class."""

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

    def enter(self, count: int = 1) -> None:
        """Count calls that begin; none was refused."""
        assert self.count + count <= self.limit, "a call began that should have been refused"
        self.count += count

    def leave(self, count: int = 1) -> None:
        """Count calls that have ended."""
        assert count <= self.count, "more calls ended than began"
        self.count -= count


class Admission:
    """The gates of all classes of a server."""

    __slots__ = ("_gates",)

    def __init__(self, limits: Mapping[CallClass, int] = DEFAULT_LIMITS) -> None:
        self._gates = {call_class: Gate(call_class, limits[call_class]) for call_class in CallClass}

    def gate(self, call_class: CallClass) -> Gate:
        """Return the gate of a class."""
        return self._gates[call_class]

    def inflight_count(self) -> int:
        """Return the number of calls under way."""
        return sum(gate.count for gate in self._gates.values())

    def close_sends(self) -> None:
        """Refuse sends from now on; who has something to fetch still may."""
        self._gates[CallClass.SEND].is_closed = True
