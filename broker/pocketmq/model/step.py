"""Clocks, and steps: bounded pieces of work that return when to call them again.

    def step(self, now: Now) -> Next

Flushing, dispatching, allocating and retention are steps; store/runner.py calls them. A step must
not block: long work runs as a job, and a later call of the step reads the result.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

CLOSING_MS: Final = 1_000
"""Time that each service has when the broker stops, to write data that a RocketMQ broker needs."""


class Clock(Protocol):
    """Wall time and monotonic time, in ms."""

    def wall_ms(self) -> int:
        """Returns milliseconds since 1970, for records and people; this clock may jump."""

    def monotonic_ms(self) -> int:
        """Returns milliseconds for deadlines and measurements; this clock never goes back."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        """Returns milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Returns milliseconds since an arbitrary moment."""
        return time.monotonic_ns() // 1_000_000


class Now(NamedTuple):
    """One reading of both clocks: monotonic ms, and ms since 1970."""

    monotonic_ms: int
    wall_ms: int


class Mark(Protocol):
    """A number that only grows and that callers can wait for (store/watermark.py)."""

    def reached(self, value: int, /) -> Awaitable[bool]:
        """Returns a future that is done once the mark reaches `value`; it may be cancelled."""


class Next(NamedTuple):
    """Time of the next call of a step: at `at_ms`, or earlier if `mark` reaches `value`.

    at_ms   monotonic time; a past time: after the other steps; None: only the mark counts
    """

    at_ms: int | None = None
    mark: Mark | None = None
    value: int = 0


Step = Callable[[Now], Next]
