"""Scheduler of steps (model/step.py): each step returns the time or mark of its next call.

    step(now) ──► Next(at_ms, mark, value) ──► time or mark value reached ──► step(now) …

A step is never interrupted, so a slow step delays all other steps of its runner.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pocketmq.model.step import Clock, Next, Now, Step

RETRY_PAUSE_MS: Final = 10_000

logger = logging.getLogger(__name__)

Failed = Callable[[Step, BaseException, Now], Next | None]
"""Returns the next call of a step that raised; None ends the step."""


def retried(step: Step, error: BaseException, now: Now) -> Next:
    """Logs the failure of a service step, and schedules a retry after RETRY_PAUSE_MS."""
    logger.error("service.failed", exc_info=error, extra={"service": step.__qualname__})
    return Next(now.monotonic_ms + RETRY_PAUSE_MS)


class _Called:
    __slots__ = ("_wake", "at_ms", "risen", "step")

    def __init__(self, step: Step, wake: Callable[[object], None]) -> None:
        self.step = step
        self._wake = wake
        self.at_ms: int | None = 0
        self.risen: asyncio.Future[bool] | None = None

    def ask(self, following: Next) -> None:
        at_ms, mark, value = following
        assert (at_ms, mark) != (None, None), "the step would never be called again"
        self.at_ms = at_ms
        if mark is not None:
            self.risen = asyncio.ensure_future(mark.reached(value))
            self.risen.add_done_callback(self._wake)

    def is_due(self, now_ms: int) -> bool:
        if self.risen is not None and self.risen.done():
            return True
        return self.at_ms is not None and self.at_ms <= now_ms

    def forget(self) -> None:
        risen, self.risen = self.risen, None
        if risen is None:
            return
        risen.remove_done_callback(self._wake)
        if not risen.cancel():
            risen.result()


class Runner:
    """Calls steps until it is closed; calls `failed` if a step raises.

    Cost     5 µs for a call by a mark
    """

    __slots__ = ("_called", "_clock", "_failed", "_is_closed", "_loop", "_timer", "_timer_at_ms")

    def __init__(self, clock: Clock, failed: Failed = retried) -> None:
        self._clock = clock
        self._failed = failed
        self._is_closed = False
        self._called: list[_Called] = []
        self._timer: asyncio.Handle | None = None
        self._timer_at_ms = 0
        self._loop = asyncio.get_running_loop()

    def run(self, *steps: Step) -> None:
        """Adds steps, and calls them in the loop's next iteration."""
        self._called += [_Called(step, self._turn) for step in steps]
        self._set_timer()

    def close(self) -> None:
        """Stops all calls; may be called again."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for one in self._called:
            with suppress(Exception):
                one.forget()

    def look(self) -> None:
        """Runs the due steps after a test has moved their clock."""
        self._turn()

    def _ring(self) -> None:
        self._timer = None
        self._turn()

    def _turn(self, _: object = None) -> None:
        now = Now(self._clock.monotonic_ms(), self._clock.wall_ms())
        for one in [one for one in self._called if one.is_due(now.monotonic_ms)]:
            if not self._is_closed:  # An earlier step may have failed the store.
                self._call(one, now)
        if not self._is_closed:
            self._set_timer()

    def _call(self, one: _Called, now: Now) -> None:
        try:
            one.forget()
            asked = one.step(now)
            if not self._is_closed:
                one.ask(asked)
        except (Exception, asyncio.CancelledError) as error:
            following = self._failed(one.step, error, now)
            if following is None:
                self._called.remove(one)
            elif not self._is_closed:
                one.ask(following)

    def _set_timer(self) -> None:
        at_ms = min((one.at_ms for one in self._called if one.at_ms is not None), default=None)
        if self._timer is not None:
            if at_ms == self._timer_at_ms:
                return
            self._timer.cancel()
            self._timer = None
        if at_ms is None:
            return
        assert self._timer is None
        assert not self._is_closed, "timer of a closed runner"
        left_ms = at_ms - self._clock.monotonic_ms()
        self._timer_at_ms = at_ms
        if left_ms > 0:
            self._timer = self._loop.call_later(left_ms / 1000, self._ring)
        else:
            self._timer = self._loop.call_soon(self._ring)


class Pause:
    """A mark that is reached a number of seconds after each request, by the loop's time."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def reached(self, _: int) -> "asyncio.Future[bool]":
        """Returns a future that is done after the pause."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(self._seconds, _rise, future)
        future.add_done_callback(lambda _: timer.cancel())
        return future


def _rise(future: "asyncio.Future[bool]") -> None:
    if not future.done():
        future.set_result(True)
