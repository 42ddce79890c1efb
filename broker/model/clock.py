"""The two clocks a broker needs: wall time as data, monotonic time for waiting.

Everything that waits or stamps takes a `Clock`; tests pass a fake one and never sleep.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What the store asks of time."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970: stored in records, shown to people, free to jump."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back: deadlines and measurements."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds since an arbitrary moment."""
        return time.monotonic_ns() // 1_000_000
