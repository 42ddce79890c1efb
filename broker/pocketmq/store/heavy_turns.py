"""Shares the event loop among users with heavy work: filters, settings, queries.

    run, soon ─► at once, if little heavy work was done recently
              └► else queued: users in round-robin order, the oldest work of each user first
    turn      ─► always queued

After a piece of heavy work the loop serves other work for as long as the piece took. A piece limits
its own size (`filter/turns.py`); this module measures its time. A caller without heavy work waits
for at most one piece.
"""

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar

from pocketmq.model.errors import Draining
from pocketmq.model.step import Clock, SystemClock

SLACK_MS: Final = 4
"""Charged time up to which heavy work may exceed its share before it has to pause."""
SHARE: Final = 2
"""A piece is charged this multiple of its duration, so that others get half of all time."""
COUNTED_MAX_MS: Final = 50
"""Upper limit of the duration of a piece that is charged: the whole machine may have paused."""

Value = TypeVar("Value")
Work = Callable[[], object]


class HeavyTurns:
    """The heavy work of one event loop. `clock` measures it; None: the system clock."""

    __slots__ = (
        "_begun_ms", "_clock", "_due_ms", "_is_ended", "_is_granted", "_is_running", "_is_woken",
        "_line",
    )  # fmt: skip

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._due_ms = 0
        """Monotonic time (ms) until which heavy work has used up its share."""
        self._line: dict[str, dict[Hashable, Work]] = {}
        """Queued work by user; the first work of the first user is next."""
        self._is_running = self._is_granted = False
        """Whether a piece is running; whether a coroutine was resumed to run a piece."""
        self._begun_ms = -1
        """Monotonic time at which that coroutine was resumed; -1 if it was not."""
        self._is_woken = False
        """Whether `_go_on` is scheduled."""
        self._is_ended = False

    @property
    def waiting_count(self) -> int:
        """Number of queued pieces."""
        return sum(map(len, self._line.values()))

    def run(self, user: str, work: Callable[[], Any]) -> Any:
        """Runs work at once or queues it; returns its result, or an awaitable of its result.

        If running work calls `run`, the new work runs at once, as a part of the running work.

        Errors   those of `work`; the awaitable also raises Draining
        Cost     0.5 µs in addition to the work, if it runs at once
        """
        if self._is_running:
            return work()
        return self.timed(work) if self.is_free else self._later(user, work)

    async def turn(self, user: str) -> None:
        """Waits for the caller's turn to do heavy work, which ends when the caller awaits again.

        Errors   Draining
        """
        await self._in_line(user, self._grant)
        self._begun_ms = self._clock.monotonic_ms()

    async def came(self, user: str) -> bool:
        """Waits for the user's turn; returns False if the broker drains before the turn."""
        try:
            await self.turn(user)
        except Draining:
            return False
        return True

    def soon(self, user: str, key: Hashable, work: Work) -> None:
        """Runs work at once or queues it; a queued key keeps its position.

        Work must not raise. If running work calls `soon`, the new work is queued. While the broker
        drains, no work is queued.
        """
        if self.is_free:
            self.timed(work)
        elif not self._is_ended:
            self._line_up(user, key, work)

    def drop(self, user: str, key: Hashable) -> None:
        """Removes queued work."""
        works = self._line.get(user)
        if works is not None:
            works.pop(key, None)
            if not works:
                del self._line[user]

    def drain(self) -> None:
        """Drops queued work: waiting callers of `run` and `turn` get Draining."""
        self._is_ended = True
        line, self._line = self._line, {}
        for works in line.values():
            for key in works:
                if isinstance(key, asyncio.Future) and not key.done():
                    key.set_exception(Draining())

    # -- one piece -----------------------------------------------------------------------------
    @property
    def is_free(self) -> bool:
        """Whether heavy work may run at once."""
        if self._line or self._is_granted or self._is_running:
            return False
        return self._clock.monotonic_ms() + SLACK_MS >= self._due_ms

    def timed(self, work: Callable[[], Value]) -> Value:
        """Runs work as one piece and charges its time; the caller has checked `is_free`.

        Errors   those of `work`
        """
        begun_ms, self._is_running = self._clock.monotonic_ms(), True
        try:
            return work()
        finally:
            self._is_running = False
            self._count(begun_ms)
            self._wake()

    def _count(self, begun_ms: int) -> None:
        took_ms = self._clock.monotonic_ms() - begun_ms
        assert took_ms >= 0, "the clock went back"
        self._due_ms = max(self._due_ms, begun_ms) + SHARE * min(took_ms, COUNTED_MAX_MS)

    async def _later(self, user: str, work: Work) -> Any:
        found = await self._in_line(user, partial(_fulfil, work))
        return await found if isawaitable(found) else found

    async def _in_line(self, user: str, serve: Callable[["asyncio.Future[Any]"], None]) -> Any:
        if self._is_ended:
            raise Draining()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._line_up(user, future, partial(serve, future))
        try:
            return await future
        finally:
            self.drop(user, future)

    # -- the queue -----------------------------------------------------------------------------
    def _line_up(self, user: str, key: Hashable, work: Work) -> None:
        self._line.setdefault(user, {}).setdefault(key, work)
        self._wake()

    def _wake(self) -> None:
        if not self._line or self._is_woken or self._is_granted or self._is_running:
            return
        loop, wait_ms = asyncio.get_running_loop(), self._due_ms - self._clock.monotonic_ms()
        self._is_woken = True
        if wait_ms > 0:
            loop.call_later(wait_ms / 1000, self._go_on)
        else:
            loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        is_first = True
        while self._line and not self._is_granted:
            if not is_first and self._clock.monotonic_ms() + SLACK_MS < self._due_ms:
                break
            is_first = False
            self.timed(self._next())
        self._is_woken = False
        self._wake()

    def _next(self) -> Work:
        user = next(iter(self._line))
        works = self._line.pop(user)
        work = works.pop(next(iter(works)))
        if works:
            self._line[user] = works
        return work

    def _grant(self, future: "asyncio.Future[Any]") -> None:
        if not future.done():
            self._is_granted = True
            self._begun_ms = -1
            future.set_result(None)
            asyncio.get_running_loop().call_soon(self._granted)

    def _granted(self) -> None:
        self._is_granted = False
        if self._begun_ms >= 0:
            self._count(self._begun_ms)
        self._wake()


def _fulfil(work: Callable[[], object], future: "asyncio.Future[Any]") -> None:
    if future.done():
        return
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - the waiting caller gets any error
        future.set_exception(error)
