"""The one loop: steps run again when they asked to, by time or by mark."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from pocketmq.model.step import Next, Now, Step
from pocketmq.store.job import Job, or_failed, until_done
from pocketmq.store.runner import RETRY_PAUSE_MS, Runner, retried
from pocketmq.store.watermark import Watermark
from tests.kit.store_language import until
from tests.sim.clock import FakeClock, at


class Called:
    """A step that lists when it was called, and answers what it is told to."""

    def __init__(self, answer: Callable[[Now], Next]) -> None:
        self.times: list[int] = []
        self._answer = answer

    def step(self, now: Now) -> Next:
        self.times.append(now.monotonic_ms)
        return self._answer(now)


@pytest.fixture
async def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def runner(clock: FakeClock) -> AsyncIterator[Runner]:
    made = Runner(clock)
    yield made
    made.close()


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_step_is_called_again_when_its_time_has_come(
    runner: Runner, clock: FakeClock
) -> None:
    begun = clock.monotonic
    seldom = Called(lambda now: Next(now.monotonic_ms + 3))
    often = Called(lambda now: Next(now.monotonic_ms))
    runner.run(seldom.step, often.step)
    await until(lambda: len(often.times) > 5)
    assert seldom.times == [begun]
    clock.advance(3)
    await until(lambda: len(seldom.times) == 2)
    runner.close()
    seen = len(often.times)
    await turns()
    assert len(often.times) == seen


async def test_a_step_is_called_again_when_its_mark_rose(runner: Runner) -> None:
    mark = Watermark(5)
    waiting = Called(lambda _: Next(mark=mark, value=mark.value + 2))
    runner.run(waiting.step)
    await turns()
    mark.advance(6)
    await turns()
    assert len(waiting.times) == 1
    mark.advance(7)
    await turns()
    assert len(waiting.times) == 2


async def test_of_time_and_mark_the_first_counts(runner: Runner, clock: FakeClock) -> None:
    mark, begun = Watermark(), clock.monotonic
    waiting = Called(lambda now: Next(now.monotonic_ms + 2, mark, mark.value + 1))
    runner.run(waiting.step)
    await turns()
    clock.advance(1)
    mark.advance(1)
    await until(lambda: len(waiting.times) == 2)
    clock.advance(2)
    await until(lambda: len(waiting.times) == 3)
    assert waiting.times == [begun, begun + 1, begun + 3]
    mark.sweep(0)
    assert mark.waiter_count == 1, "who was called by the clock waits for the mark no more"


async def test_a_service_that_fails_is_called_again_later(
    caplog: pytest.LogCaptureFixture, clock: FakeClock, runner: Runner
) -> None:
    def fail(now: Now) -> Next:
        raise RuntimeError("no")

    failing = Called(fail)
    runner.run(failing.step)
    await turns()
    assert len(failing.times) == 1
    assert retried(failing.step, RuntimeError(), at(41)).at_ms == 41 + RETRY_PAUSE_MS
    assert {record.message for record in caplog.records} == {"service.failed"}


async def test_who_made_the_runner_may_end_a_step_that_fails(clock: FakeClock) -> None:
    heard: list[BaseException] = []

    def failed(step: Step, error: BaseException, now: Now) -> Next | None:
        heard.append(error)
        return None

    runner, mark = Runner(clock, failed), Watermark()
    waiting = Called(lambda _: Next(mark=mark, value=1))
    runner.run(waiting.step)
    await turns()
    mark.fail(RuntimeError("lost"))
    await turns()
    assert [str(error) for error in heard] == ["lost"]
    assert len(waiting.times) == 1
    runner.close()


# -- jobs ------------------------------------------------------------------------------------------


async def test_a_step_in_several_pieces_looks_for_what_it_began(
    runner: Runner, clock: FakeClock
) -> None:
    gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> int:
        return await gate

    found: list[int] = []

    def pieces() -> Iterator[Next]:
        found.append((yield from until_done(Job(work()))))
        yield Next(at_ms=clock.monotonic + 60_000)

    steps = pieces()
    runner.run(lambda _: next(steps))
    await turns()
    assert found == []
    gate.set_result(7)
    await until(lambda: found == [7])


async def test_a_job_goes_on_when_who_waits_for_it_gives_up() -> None:
    gate = asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        await gate.wait()
        done.append("done")

    job = Job(work())

    async def wait() -> None:
        await job

    waiting = asyncio.create_task(wait())
    await turns(2)
    waiting.cancel()
    await turns(2)
    gate.set()
    assert await job.reached() is True
    assert (done, job.is_done, waiting.cancelled()) == (["done"], True, True)


async def test_the_error_of_a_job_is_its_result() -> None:
    async def fail() -> None:
        raise PermissionError(13, "no")

    job = Job(fail())
    await job.reached()
    with pytest.raises(PermissionError):
        job.result()


# -- what must not pass unheard --------------------------------------------------------------------


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("no")])
async def test_a_step_that_cannot_be_called_again_is_reported(
    clock: FakeClock, error: BaseException
) -> None:
    class Broken:
        def reached(self, value: int) -> asyncio.Future[bool]:
            raise error

    heard: list[BaseException] = []

    def failed(step: Step, error: BaseException, now: Now) -> Next | None:
        heard.append(error)
        return None

    runner, other = Runner(clock, failed), Called(lambda now: Next(now.monotonic_ms))
    runner.run(Called(lambda _: Next(mark=Broken(), value=1)).step, other.step)
    await turns()
    assert heard == [error]
    assert len(other.times) > 2
    runner.close()


async def test_after_a_step_that_stops_the_runner_no_other_is_called(clock: FakeClock) -> None:
    runner, other = Runner(clock), Called(lambda now: Next(now.monotonic_ms))

    def stop(now: Now) -> Next:
        runner.close()
        return Next(now.monotonic_ms)

    runner.run(stop, other.step)
    await turns()
    assert other.times == []
    runner.close()


async def test_what_fails_when_a_job_ends_is_reported() -> None:
    job: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    heard: list[Exception] = []
    job.add_done_callback(or_failed(lambda job: 1 // job.result(), heard.append))
    job.set_result(0)
    await turns(1)
    assert [type(error) for error in heard] == [ZeroDivisionError]
