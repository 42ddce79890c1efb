"""A loop that is kept busy is seen to be late."""

import asyncio
from collections.abc import Callable
from typing import Any

from broker.metrics.loop_lag import INTERVAL_SECONDS, LoopLag


class Loop:
    """A loop whose time is told to it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[..., Any], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, due: float, callback: Callable[..., Any], *arguments: Any) -> "Loop":
        self.timers.append((due, callback, arguments))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def turn(self, late_by: float) -> None:
        """Call the timer that is due next, too late."""
        due, callback, arguments = self.timers.pop(0)
        self.now = due + late_by
        callback(*arguments)


async def test_lateness_is_what_is_counted() -> None:
    loop, lag = Loop(), LoopLag()
    lag._plan(loop, loop.now)  # type: ignore[arg-type]
    for late_by in (0.0, 0.004, 0.3):
        loop.turn(late_by)
    assert round(lag.seconds.sum, 6) == 0.304
    assert sum(lag.seconds.counts) == 3
    assert loop.timers[0][0] == loop.now + INTERVAL_SECONDS


async def test_it_looks_from_start_to_end() -> None:
    lag = LoopLag()
    lag.end()
    lag.start()
    timer = lag._timer
    assert timer is not None
    assert abs(timer.when() - asyncio.get_running_loop().time() - INTERVAL_SECONDS) < 60
    lag.end()
    assert timer.cancelled()
    lag.end()
