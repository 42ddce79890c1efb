"""Background work: a step starts it, and checks later whether it has ended.

job = Job(work())        starts at once
Next(mark=job, value=1)  requests a call of the step when the job is done
job.result()             returns the job's result, or raises its error
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any, Generic, TypeVar

from pocketmq.model.step import Next

Result = TypeVar("Result")


class Job(Generic[Result]):
    """A task that completes even if all callers that wait for it are cancelled."""

    __slots__ = ("_task",)

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self._task = asyncio.get_running_loop().create_task(work)

    @property
    def is_done(self) -> bool:
        """Whether the work has returned or raised."""
        return self._task.done()

    def result(self) -> Result:
        """Returns the result, or raises the error; the job must be done."""
        return self._task.result()

    async def reached(self, _: int = 1) -> bool:
        """Waits until the job is done."""
        await asyncio.wait((self._task,))
        return True

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.shield(self._task).__await__()


def or_failed(
    finish: Callable[["asyncio.Future[Result]"], object], fail: Callable[[Exception], object]
) -> Callable[["asyncio.Future[Result]"], None]:
    """Wraps a done callback: passes its errors to `fail`, as asyncio would only log them."""

    def finish_or_fail(job: "asyncio.Future[Result]") -> None:
        try:
            finish(job)
        except Exception as error:  # noqa: BLE001 - `fail` gets any error
            fail(error)

    return finish_or_fail


def until_done(job: Job[Result]) -> Generator[Next, None, Result]:
    """Yields requests for a call of the step until a job is done; returns the job's result."""
    while not job.is_done:
        yield Next(mark=job, value=1)
    return job.result()


class Rounds:
    """A step's endless generator: each call of the step runs it up to its next `yield`.

    begin   creates the generator; called again after an error
    """

    __slots__ = ("_begin", "_is_going", "_under_way")

    def __init__(self, begin: Callable[[], Iterator[Next]]) -> None:
        self._begin = begin
        self._under_way: Iterator[Next] | None = None
        self._is_going = False

    def go_on(self) -> Next:
        """Runs the generator up to its next `yield`; raises the generator's errors."""
        assert not self._is_going, "the step was called while it runs"
        rounds, self._under_way = self._under_way or self._begin(), None
        self._is_going = True
        try:
            following = next(rounds)
        finally:
            self._is_going = False
        self._under_way = rounds
        return following
