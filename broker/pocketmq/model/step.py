"""Time, and steps: bounded pieces of work that return when to call them again.

    def step(self, now: Now) -> Next

Flushing, dispatching, allocating, retention: each is a step that owns no loop, clock or thread. It
is synchronous: long work runs in a thread as a job, and a later call reads its result. One runner
(store/runner.py) calls all steps; tests call them with numbers. Code that waits or takes timestamps
gets a `Clock`; tests pass a fake one.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

CLOSING_MS: Final = 1_000
"""Time that a service may take at a stop to prepare the store for a real broker."""


class Clock(Protocol):
    """Wall time and monotonic time, in ms."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970: stored in records, shown to people, free to jump."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back: deadlines and measurements."""


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
    """One reading of both clocks: milliseconds to wait by, and milliseconds since 1970."""

    monotonic_ms: int
    wall_ms: int


class Mark(Protocol):
    """A number that only grows and can be waited for (store/watermark.py: no loop lives here)."""

    def reached(self, value: int, /) -> Awaitable[bool]:
        """Returns a future, done once the mark is at `value` or above; it may be cancelled."""


class Next(NamedTuple):
    """When to call a step again: at a time, when a mark rises, or at whichever comes first.

    at_ms   monotonic ms, not before; one that has passed means soon, after others had their turn
    mark    with the value it has to reach
    """

    at_ms: int | None = None
    mark: Mark | None = None
    value: int = 0


Step = Callable[[Now], Next]
