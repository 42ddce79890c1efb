"""The one loop: it calls steps (model/step.py), each again when it asked to be called.

    step(now) ──► Next(at_ms, mark, value) ──► the time comes, or the mark rises ──► step(now) …

Steps of the store and of the services run in it alike; a step is never interrupted, and a slow one
keeps the others waiting.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from broker.model.step import Clock, Next, Now, Step

RETRY_PAUSE_MS: Final = 10_000

logger = logging.getLogger(__name__)

Failed = Callable[[Step, BaseException, Now], Next | None]
"""Decides what follows on a step that raised: None, it is not called again."""


def retried(step: Step, error: BaseException, now: Now) -> Next:
    """Log the failure of a service, and call it again after RETRY_PAUSE_MS: others go on."""
    logger.error("service.failed", exc_info=error, extra={"service": step.__qualname__})
    return Next(now.monotonic_ms + RETRY_PAUSE_MS)


class _Called:
    """A step, and what it asked for."""

    __slots__ = ("at_ms", "risen", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.ask(Next(at_ms=0))

    def ask(self, following: Next) -> None:
        at_ms, mark, value = following
        assert (at_ms, mark) != (None, None), "a step that is never called again"
        self.at_ms = at_ms
        self.risen = None if mark is None else asyncio.ensure_future(mark.reached(value))

    def is_due(self, now_ms: int) -> bool:
        has_risen = self.risen is not None and self.risen.done()
        return has_risen or (self.at_ms is not None and self.at_ms <= now_ms)

    def forget(self) -> None:
        """Wait for the mark no more; one that failed raises its error."""
        if self.risen is not None and not self.risen.cancel():
            self.risen.result()


class Runner:
    """Calls steps until it is closed; `failed` hears of those that raise."""

    __slots__ = ("_clock", "_failed", "_is_stopped", "_tasks")

    def __init__(self, clock: Clock, failed: Failed = retried) -> None:
        self._clock = clock
        self._failed = failed
        self._is_stopped = False
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, *steps: Step) -> None:
        """Call steps from now on, the first time soon."""
        self._tasks.append(asyncio.create_task(self._loop([_Called(step) for step in steps])))

    def stop(self) -> None:
        """Call no step any more."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Call no step any more, and return when none runs; once more is fine."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _loop(self, called: list[_Called]) -> None:
        try:
            while called:
                now = Now(self._clock.monotonic_ms(), self._clock.wall_ms())
                for one in [one for one in called if one.is_due(now.monotonic_ms)]:
                    if not self._is_stopped:  # A step before it may have failed the store.
                        self._call(one, now, called)
                await self._pause(called)
        finally:
            for one in called:
                with suppress(Exception):
                    one.forget()

    def _call(self, one: _Called, now: Now, called: list[_Called]) -> None:
        try:
            one.forget()
            one.ask(one.step(now))
        except (Exception, asyncio.CancelledError) as error:
            following = self._failed(one.step, error, now)
            if following is None:
                called.remove(one)
            else:
                one.ask(following)

    async def _pause(self, called: list[_Called]) -> None:
        """Return when a step may be due, after others had their turn."""
        await asyncio.sleep(0)
        times = [one.at_ms for one in called if one.at_ms is not None]
        timeout = max(min(times) - self._clock.monotonic_ms(), 0) / 1000 if times else None
        marks = [one.risen for one in called if one.risen is not None]
        if marks:
            await asyncio.wait(marks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        elif timeout is not None:
            await asyncio.sleep(timeout)


class Pause:
    """A mark that rises so long after it was asked for, by the loop's own time."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def reached(self, _: int) -> "asyncio.Future[bool]":
        """Return a future that is done when the pause is over."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(self._seconds, _rise, future)
        future.add_done_callback(lambda _: timer.cancel())
        return future


def _rise(future: "asyncio.Future[bool]") -> None:
    if not future.done():
        future.set_result(True)
