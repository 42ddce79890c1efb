"""An event loop with seeded order and virtual time, without threads.

    run_seeded(7, story)            await story(loop) to its end; the same seed, the same order
    loop.clock                      a FakeClock with the loop's time
    loop.random                     further choices of the seed

What the seed decides
    ready callbacks    callbacks that one callback made ready keep their order, as those of a
                       future do. Callbacks of different origin are shuffled within the turn. Each
                       origin could have happened a little sooner or later (a socket, a timer, a
                       thread), so these are orders that asyncio may bring about
    jobs of executors  run inline at a later turn, whole. Their result arrives at a turn after
                       that. Jobs of one executor keep their order, as on one thread. A job whose
                       future was cancelled meanwhile runs or does not, as with threads
    time               a turn takes 0.1 ms; when nothing is ready, time jumps to the next timer

A loop with waiting tasks and no timer raises Deadlock. There are no sockets.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from tests.sim.clock import START_MS, FakeClock

TURN_SECONDS: Final = 0.0001
"""Virtual time of an iteration, so that time also passes for a spinning task."""
TURNS_MAX: Final = 2_000_000
"""Iterations after which a story counts as spinning."""
JOB_SECONDS: Final = 0.004
"""Upper limit of the delay of an executor's job."""

T = TypeVar("T")
Job = tuple["asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Deadlock(AssertionError):
    """All tasks wait without a timer, or spin."""


def _end_pause(future: "asyncio.Future[None]") -> None:
    if not future.done():  # It may be cancelled in the same iteration.
        future.set_result(None)


class LoopClock(FakeClock):
    """A clock that follows a loop's time; `wall` may be set, `advance` adds to both times."""

    def __init__(self, loop: "SeededLoop", wall_ms: int = START_MS) -> None:
        super().__init__(wall_ms)
        self._loop = loop

    def wall_ms(self) -> int:
        return self.wall + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> int:
        return self.monotonic + int(self._loop.time() * 1000)


class Worker:
    """Replaces an executor's thread: jobs to run and results to report, both in order."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()
        self.outcomes: deque[Callable[[], object]] = deque()
        self.has_ended = False


class SeededLoop(asyncio.BaseEventLoop):
    """The loop; `run_seeded` creates and ends it."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = Random(seed)
        self.turns = 0
        """Number of iterations."""
        self.errors: list[dict[str, Any]] = []
        """Uncaught errors."""
        self._now = 0.0
        self._groups: list[deque[asyncio.Handle]] = []
        self._workers: dict[Executor | None, Worker] = {}
        self.clock = LoopClock(self)
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    def time(self) -> float:
        return self._now

    async def pause(self, seconds: float) -> None:
        """Advances virtual time, which takes no real time."""
        future: asyncio.Future[None] = self.create_future()
        timer = self.call_later(seconds, _end_pause, future)
        try:
            await future
        finally:
            timer.cancel()

    def _write_to_self(self) -> None:
        """Does nothing: there is no other thread."""

    def _process_events(self, event_list: Any) -> None:
        """Does nothing: there are no sockets."""

    # -- turns ---------------------------------------------------------------------------------
    def _run_once(self) -> None:
        self._collect()
        scheduled = self._scheduled
        while scheduled and scheduled[0].cancelled():
            heapq.heappop(scheduled)
        if self._groups:
            self._now += TURN_SECONDS
        elif scheduled:
            self._now = max(self._now, scheduled[0].when())
        elif not self._stopping:  # type: ignore[attr-defined]
            raise Deadlock("everybody waits for somebody else")
        while scheduled and scheduled[0].when() <= self._now:
            self._groups.append(deque([heapq.heappop(scheduled)]))
        groups, self._groups = self._groups, []
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise Deadlock(f"no end after {TURNS_MAX} turns")
        while groups:
            number = self.random.randrange(len(groups)) if len(groups) > 1 else 0
            handle = groups[number].popleft()
            if not groups[number]:
                groups[number] = groups[-1]
                groups.pop()
            if not handle.cancelled():
                handle._run()
                self._collect()

    def _collect(self) -> None:
        """Collects the callbacks that one callback made ready as one group."""
        if self._ready:
            self._groups.append(deque(self._ready))
            self._ready.clear()

    # -- jobs ----------------------------------------------------------------------------------
    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *arguments: Any
    ) -> "asyncio.Future[Any]":
        worker = self._workers.get(executor)
        if worker is None:
            worker = self._workers[executor] = Worker()
            self._watch_end(executor, worker)
        if worker.has_ended:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: asyncio.Future[Any] = self.create_future()
        worker.jobs.append((future, func, arguments))
        self._later(self._run_job, worker)
        return future

    def _watch_end(self, executor: Executor | None, worker: Worker) -> None:
        """Makes an executor's shutdown wait for its jobs, as a real one does."""
        if executor is None:
            return
        end = executor.shutdown

        def shutdown(wait: bool = True, *, cancel_futures: bool = False) -> None:
            while worker.jobs:
                self._run_job(worker)
            worker.has_ended = True
            end(wait, cancel_futures=cancel_futures)

        executor.shutdown = shutdown  # type: ignore[method-assign]

    def _later(self, call: Callable[[Worker], None], worker: Worker) -> None:
        way = self.random.random()
        if way < 0.4:
            self.call_soon(call, worker)
        else:
            self.call_later(self.random.random() * JOB_SECONDS, call, worker)

    def _run_job(self, worker: Worker) -> None:
        if not worker.jobs:
            return  # The executor's shutdown has ended it.
        future, function, arguments = worker.jobs.popleft()
        if future.cancelled() and self.random.random() < 0.5:
            return
        try:
            result = function(*arguments)
        except Exception as error:  # noqa: BLE001 - as an executor does
            worker.outcomes.append(partial(_fail, future, error))
        else:
            worker.outcomes.append(partial(_end, future, result))
        self._later(_tell, worker)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _end(future: "asyncio.Future[Any]", result: object) -> None:
    if not future.done():
        future.set_result(result)


def _tell(worker: Worker) -> None:
    worker.outcomes.popleft()()


def run_seeded(seed: int, story: Callable[[SeededLoop], Awaitable[T]]) -> T:
    """Runs a coroutine function, which gets the loop, to its end; other tasks are then cancelled.

    Errors   Deadlock; AssertionError: a callback or a task failed, and no task received the error
    """
    loop = SeededLoop(seed)

    async def told() -> T:
        return await story(loop)

    try:
        result = loop.run_until_complete(told())
        _cancel_all(loop)
        assert not loop.errors, f"nobody was told: {loop.errors}"
        return result
    finally:
        end_loop(loop)


def end_loop(loop: SeededLoop) -> None:
    """Cancels all remaining tasks, and closes the loop."""
    with suppress(Deadlock):
        _cancel_all(loop)
    loop.close()


def _cancel_all(loop: SeededLoop) -> None:
    left = sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name)
    for task in left:
        task.cancel()
    if left:

        async def wait() -> None:
            await asyncio.wait(left)

        loop.run_until_complete(wait())
