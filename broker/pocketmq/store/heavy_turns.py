"""Shares the event loop among users with heavy work: filters, settings, questions.

    run, turn, soon ─► at once, while little heavy work was done of late
                       └► in line: one user after the other, each its oldest work

After a piece of work the loop serves others for as long as the piece took. Pieces limit their own
size (`filter/turns.py`); here they are timed. A user with much heavy work therefore delays only
itself, and a caller without heavy work waits for one piece at most.
"""

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar

from pocketmq.model.errors import Draining
from pocketmq.model.step import Clock, SystemClock

SLACK_MS: Final = 4
"""How far heavy work may be ahead of its share: half of that is work done without a pause."""
SHARE: Final = 2
"""Pause after a piece, as a multiple of its time: half of all time is left to others."""
COUNTED_MAX_MS: Final = 50
"""Most time that one piece counts: a pause of the whole machine is not its fault."""

Value = TypeVar("Value")
Work = Callable[[], object]


class HeavyTurns:
    """The heavy work of one event loop.

    clock   times the pieces; None: the machine's
    """

    __slots__ = (
        "_begun_ms", "_clock", "_due_ms", "_is_ended", "_is_granted", "_is_running", "_is_woken",
        "_line",
    )  # fmt: skip

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._due_ms = 0
        """When all that was done is paid for."""
        self._line: dict[str, dict[Hashable, Work]] = {}
        """Work that waits, by user; of users and of works the first comes next."""
        self._is_running = self._is_granted = False
        """Whether work is done right now, and whether a coroutine is about to do some."""
        self._begun_ms = -1
        """When that coroutine began, -1 before."""
        self._is_woken = False
        """Whether the line is looked at by itself."""
        self._is_ended = False

    @property
    def waiting_count(self) -> int:
        """Pieces of work that wait for their turn."""
        return sum(map(len, self._line.values()))

    def run(self, user: str, work: Callable[[], Any]) -> Any:
        """Returns the result of work: at once, or an awaitable of it, awaited where it is one.

        Errors   those of `work`; of the awaitable also Draining
        Cost     0.5 µs beside the work where that is done at once
        """
        if self._is_running:
            return work()
        return self.timed(work) if self.is_free else self._later(user, work)

    async def turn(self, user: str) -> None:
        """Returns when the caller may do heavy work, up to its next await.

        Errors   Draining
        """
        await self._in_line(user, self._grant)
        self._begun_ms = self._clock.monotonic_ms()

    async def came(self, user: str) -> bool:
        """Returns when the user's turn has come; False, at once, where the broker drains."""
        try:
            await self.turn(user)
        except Draining:
            return False
        return True

    def soon(self, user: str, key: Hashable, work: Work) -> None:
        """Runs work at once or in its turn; a queued key keeps its place.

        Work that the work itself requests runs in a later turn. Work must not raise. While the
        broker drains, work is dropped.
        """
        if self.is_free:
            self.timed(work)
        elif not self._is_ended:
            self._line_up(user, key, work)

    def drop(self, user: str, key: Hashable) -> None:
        """Forgets work that waits, if it does."""
        works = self._line.get(user)
        if works is not None:
            works.pop(key, None)
            if not works:
                del self._line[user]

    def drain(self) -> None:
        """Ends all waiting: queued turns raise Draining."""
        self._is_ended = True
        line, self._line = self._line, {}
        for works in line.values():
            for key in works:
                if isinstance(key, asyncio.Future) and not key.done():
                    key.set_exception(Draining())

    # -- one piece -----------------------------------------------------------------------------
    @property
    def is_free(self) -> bool:
        """Whether work may be done at once."""
        if self._line or self._is_granted or self._is_running:
            return False
        return self._clock.monotonic_ms() + SLACK_MS >= self._due_ms

    def timed(self, work: Callable[[], Value]) -> Value:
        """Does work at once, as a piece that is paid for: `is_free` allowed it.

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
        assert took_ms >= 0, "a monotonic clock"
        self._due_ms = max(self._due_ms, begun_ms) + SHARE * min(took_ms, COUNTED_MAX_MS)

    async def _later(self, user: str, work: Work) -> Any:
        found = await self._in_line(user, partial(_fulfil, work))
        return await found if isawaitable(found) else found

    async def _in_line(self, user: str, serve: Callable[["asyncio.Future[Any]"], None]) -> Any:
        """Returns the result of a future in its turn; a cancelled caller leaves the line."""
        if self._is_ended:
            raise Draining()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._line_up(user, future, partial(serve, future))
        try:
            return await future
        finally:
            self.drop(user, future)

    # -- the line ------------------------------------------------------------------------------
    def _line_up(self, user: str, key: Hashable, work: Work) -> None:
        self._line.setdefault(user, {}).setdefault(key, work)
        self._wake()

    def _wake(self) -> None:
        """Schedules the next look at the line, unless one is scheduled or a piece is running."""
        if not self._line or self._is_woken or self._is_granted or self._is_running:
            return
        loop, wait_ms = asyncio.get_running_loop(), self._due_ms - self._clock.monotonic_ms()
        self._is_woken = True
        if wait_ms > 0:
            loop.call_later(wait_ms / 1000, self._go_on)
        else:
            loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Runs queued work, at least one piece, while little heavy work was done of late."""
        is_first = True
        while self._line and not self._is_granted:
            if not is_first and self._clock.monotonic_ms() + SLACK_MS < self._due_ms:
                break
            is_first = False
            self.timed(self._next())
        self._is_woken = False
        self._wake()

    def _next(self) -> Work:
        """Takes the first work of the first user, who then goes to the end of the line."""
        user = next(iter(self._line))
        works = self._line.pop(user)
        work = works.pop(next(iter(works)))
        if works:
            self._line[user] = works
        return work

    def _grant(self, future: "asyncio.Future[Any]") -> None:
        """Resumes a coroutine; its piece of work is over when the loop reaches `_granted`."""
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
    """Runs work and sets its result on the future, unless the future was cancelled."""
    if future.done():
        return
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - whatever it is belongs to the waiting caller
        future.set_exception(error)
