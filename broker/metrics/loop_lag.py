"""How late the event loop is: the time from when a timer was due to when it was called.

Everything of the broker runs on that loop, so this is what every call waits at least.
"""

import asyncio
from typing import Final

from broker.model.stats import Histogram

INTERVAL_SECONDS: Final = 0.25
"""Four looks a second cost nothing and see most of what lasts longer than they are apart."""


class LoopLag:
    """Looks at the loop again and again, from `start` to `end`."""

    __slots__ = ("_timer", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(
            "pocketmq_event_loop_lag_seconds", "Time the event loop was late for a timer."
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
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self.seconds.observe(max(now - due, 0.0))
        self._plan(loop, now)
