"""A task that starts eagerly ends as one that the loop starts."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

import pytest

from pocketmq.rpc.own.eager_task import EagerTask, begun

if TYPE_CHECKING:
    from types import CoroutineType


class Waiter:
    """Serves by waiting for a future, and tells what happened to it."""

    def __init__(self) -> None:
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.told: list[str] = []

    async def serve(self) -> bytes:
        try:
            found = await self.future
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.told.append("cancelled")
            raise
        finally:
            self.told.append("over")
        return found

    def begin(self) -> asyncio.Task[bytes]:
        rest = begun(cast("CoroutineType[Any, None, bytes]", self.serve()))
        assert isinstance(rest, EagerTask)
        return asyncio.Task(cast(Coroutine[Any, None, bytes], rest))


async def at_once(value: bytes) -> bytes:
    if not value:
        raise ValueError("nothing")
    return value


async def test_what_never_waits_is_over_at_once() -> None:
    before = asyncio.all_tasks()
    assert begun(cast("CoroutineType[Any, None, bytes]", at_once(b"reply"))) == b"reply"
    assert asyncio.all_tasks() == before


async def test_an_error_of_the_first_step_is_raised() -> None:
    with pytest.raises(ValueError, match="nothing"):
        begun(cast("CoroutineType[Any, None, bytes]", at_once(b"")))


async def test_what_waits_goes_on_in_its_task() -> None:
    waiter = Waiter()
    task = waiter.begin()
    await asyncio.sleep(0)
    assert not waiter.told
    waiter.future.set_result(b"late")
    assert await task == b"late"
    assert waiter.told == ["over"]


async def test_what_it_waits_for_may_be_there_before_its_task_begins() -> None:
    waiter = Waiter()
    task = waiter.begin()
    waiter.future.set_result(b"soon")
    assert await task == b"soon"


async def test_two_may_wait_for_the_same() -> None:
    waiters = [Waiter(), Waiter()]
    waiters[1].future = waiters[0].future
    tasks = [waiter.begin() for waiter in waiters]
    await asyncio.sleep(0)
    waiters[0].future.set_result(b"both")
    assert await asyncio.gather(*tasks) == [b"both", b"both"]


async def test_an_error_of_what_it_waits_for_is_its_own() -> None:
    waiter = Waiter()
    task = waiter.begin()
    waiter.future.set_exception(KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        await task
    assert waiter.told == ["over"]


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_being_cancelled_reaches_it_and_what_it_waits_for(turns: int) -> None:
    waiter = Waiter()
    task = waiter.begin()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waiter.told == ["cancelled", "over"]
    assert waiter.future.cancelled()


async def test_one_that_is_cut_off_ends_what_it_began() -> None:
    waiter = Waiter()
    rest = begun(cast("CoroutineType[Any, None, bytes]", waiter.serve()))
    assert isinstance(rest, EagerTask)
    rest.close()
    assert waiter.told == ["over"]
