"""Work that runs in the background: a step checks later whether it is done.

    job = Job(work())        starts at once
    Next(mark=job, value=1)  requests a call when it is done
    job.result()             its result, or its error

A step with several such pieces in sequence is a generator: `yield from until_done(job)`. `Rounds`
continues an endless one from call to call.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any, Generic, TypeVar

from pocketmq.model.step import Next

Result = TypeVar("Result")


class Job(Generic[Result]):
    """One piece of work, run to its end even if all waiting callers give up."""

    __slots__ = ("_task",)

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self._task = asyncio.get_running_loop().create_task(work)

    @property
    def is_done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._task.done()

    def result(self) -> Result:
        """Returns its result, or raises its error; it is done."""
        return self._task.result()

    async def reached(self, _: int = 1) -> bool:
        """Returns when it is done."""
        await asyncio.wait((self._task,))
        return True

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.shield(self._task).__await__()


def or_failed(
    finish: Callable[["asyncio.Future[Result]"], object], fail: Callable[[Exception], object]
) -> Callable[["asyncio.Future[Result]"], None]:
    """Returns a callback of a job's end whose own errors are reported: asyncio only logs them."""

    def finish_or_fail(job: "asyncio.Future[Result]") -> None:
        try:
            finish(job)
        except Exception as error:  # noqa: BLE001 - whatever it is ends what waits for the job
            fail(error)

    return finish_or_fail


def until_done(job: Job[Result]) -> Generator[Next, None, Result]:
    """Asks to be called again until a job is done; returns its result or raises its error."""
    while not job.is_done:
        yield Next(mark=job, value=1)
    return job.result()


class Rounds:
    """A step's endless rounds: each call continues until the time of the next call is known.

    begin   makes them; is called again after an error
    """

    __slots__ = ("_begin", "_is_going", "_under_way")

    def __init__(self, begin: Callable[[], Iterator[Next]]) -> None:
        self._begin = begin
        self._under_way: Iterator[Next] | None = None
        self._is_going = False

    def go_on(self) -> Next:
        """Runs the next piece.

        Errors   those of the rounds
        """
        assert not self._is_going, "a step never runs within itself"
        rounds, self._under_way = self._under_way or self._begin(), None
        self._is_going = True
        try:
            following = next(rounds)
        finally:
            self._is_going = False
        self._under_way = rounds
        return following
