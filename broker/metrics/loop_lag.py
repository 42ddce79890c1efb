"""How late the event loop is: the time from when a timer was due to when it was called.

Everything of the broker runs on that loop, so this is what every call waits at least.
"""

import asyncio
from typing import Final

from broker.model.stats import Histogram

INTERVAL_SECONDS: Final = 0.02
"""A look takes some microseconds; what lasts longer than two of them are apart cannot hide."""
BUCKETS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4
)  # fmt: skip
"""Seconds; 50 ms is what a broker may be late, 200 ms on a machine that does other things too."""


class LoopLag:
    """Looks at the loop again and again, from `start` to `end`."""

    __slots__ = ("_timer", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(
            "pocketmq_event_loop_lag_seconds", "Time the event loop was late for a timer.", BUCKETS
        )
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look, on the running loop."""
        loop = asyncio.get_running_loop()
        self._plan(loop, loop.time())

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        due = now + INTERVAL_SECONDS
        assert due > now
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self.seconds.observe(max(now - due, 0.0))
        self._plan(loop, now)
