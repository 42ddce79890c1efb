"""Runs the first step of a coroutine without a task: most coroutines that serve calls never wait.

coroutine ─► first step ─► the coroutine's result       no task, no loop iteration
                └ waits ─► `EagerTask`: the remaining steps, run by a task
"""

import asyncio
from collections.abc import Coroutine
from types import CoroutineType
from typing import Any, Generic, TypeVar, cast

Value = TypeVar("Value")


class EagerTask(Generic[Value]):
    """The remaining steps of a coroutine whose first step awaited a future.

    Life     a task runs it; if the task is cancelled before its first step, the coroutine gets the
             cancellation at its await
    """

    __slots__ = ("_coroutine", "_is_begun", "_waited")

    def __init__(self, coroutine: "CoroutineType[Any, None, Value]", waited: Any) -> None:
        assert coroutine.cr_frame is not None, "the coroutine has ended"
        self._coroutine = coroutine
        self._waited = waited
        self._is_begun = False
        _mark(waited, is_awaited=False)  # As a task does; the future may have other waiters.

    def send(self, value: None, /) -> Any:
        """Returns the awaited future on the first call; then continues the coroutine."""
        if self._is_begun:
            return self._coroutine.send(value)
        self._is_begun = True
        waited, self._waited = self._waited, None
        _mark(waited, is_awaited=True)
        return waited

    def throw(self, error: Any, /, *_: Any) -> Any:
        """Raises an error at the coroutine's await; tasks pass only the exception itself.

        Effects  a cancellation also cancels the awaited future, as a task would
        """
        waited, self._waited = self._waited, None
        assert (waited is None) >= self._is_begun, "the awaited future was returned twice"
        self._is_begun = True
        if isinstance(error, asyncio.CancelledError) and isinstance(waited, asyncio.Future):
            waited.cancel()
        return self._coroutine.throw(error)

    def close(self) -> None:
        """Closes the coroutine."""
        self._coroutine.close()


def _mark(waited: Any, *, is_awaited: bool) -> None:
    """Sets the flag by which a task recognises that a future's `__await__` yielded that future."""
    if isinstance(waited, asyncio.Future):
        waited._asyncio_future_blocking = is_awaited


Coroutine.register(EagerTask)  # Tasks step it; it is never awaited.


def begun(coroutine: "CoroutineType[Any, None, Value]") -> Value | Coroutine[Any, None, Value]:
    """Returns the result of a coroutine that does not wait, or else its remaining steps.

    The first step runs outside of a task, so it must not use the current task.

    Errors   those of the first step; CancelledError if a future that it awaits was cancelled
    Cost     0.2 µs plus that step; if the coroutine waits, 0.5 µs and 64 bytes
    """
    try:
        waited = coroutine.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    return cast(Coroutine[Any, None, Value], EagerTask(coroutine, waited))
