"""A log with blocked flushes, while all other work of threads is done at once.

    with log_held() as held:
        await desk.pass_time(5_000)
        await turns()                   all work that awaits no flush is done
        assert held                     a flush was requested
        left = disk.image.copy(behind=LOG_FOLDER)
    the flushes continue here

Nothing runs in other threads within the block, so the disk's content there is deterministic.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from pocketmq.store.write import durability

Flush = tuple["asyncio.Future[Any]", Executor | None, Callable[..., Any]]


@contextmanager
def log_held() -> Iterator[list[Flush]]:
    """Holds back flushes of the log until the block ends; yields the waiting ones."""
    loop = asyncio.get_running_loop()
    run, held = loop.run_in_executor, list[Flush]()

    def run_here(
        executor: Executor | None, work: Callable[..., Any], *arguments: Any
    ) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = loop.create_future()
        if getattr(work, "__module__", "") == durability.__name__:
            held.append((future, executor, partial(work, *arguments)))
            return future
        try:
            future.set_result(work(*arguments))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "run_in_executor", run_here)
        yield held
    for future, executor, flush in held:
        run(executor, flush).add_done_callback(partial(_tell, future))


def _tell(future: "asyncio.Future[Any]", done: "asyncio.Future[Any]") -> None:
    error = done.exception()
    if future.done():
        return
    if error is None:
        future.set_result(done.result())
    else:
        future.set_exception(error)
