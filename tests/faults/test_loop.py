"""The seeded loop: a seed decides every order, threads are played, time is virtual."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.sim.loop import Deadlock, SeededLoop, run_seeded


def trace_of(seed: int) -> list[str]:
    """Returns the actions of a few tasks in the order they run."""
    seen: list[str] = []

    async def walk(loop: SeededLoop, name: str, pool: ThreadPoolExecutor) -> None:
        for step in range(3):
            seen.append(f"{name}{step}")
            await asyncio.sleep(0.001 * (step % 2))
            await loop.run_in_executor(pool, seen.append, f"{name}{step} in a thread")

    async def story(loop: SeededLoop) -> None:
        pool = ThreadPoolExecutor(1)
        await asyncio.gather(*(walk(loop, name, pool) for name in "abcd"))
        seen.append(f"at {loop.clock.monotonic_ms()} in turn {loop.turns}")
        pool.shutdown()
        assert not pool._threads

    run_seeded(seed, story)
    return seen


def test_the_same_seed_is_the_same_order_and_others_are_others() -> None:
    traces = [trace_of(seed) for seed in range(50)]
    assert traces == [trace_of(seed) for seed in range(50)]
    assert len(set(map(tuple, traces))) == 50


def test_callbacks_of_one_future_keep_their_order() -> None:
    async def story(loop: SeededLoop) -> None:
        seen: list[int] = []

        def note(number: int, _: "asyncio.Future[None]") -> None:
            seen.append(number)

        future: asyncio.Future[None] = loop.create_future()
        for number in range(20):
            future.add_done_callback(partial(note, number))
        future.set_result(None)
        await asyncio.sleep(0.01)
        assert seen == list(range(20))

    for seed in range(20):
        run_seeded(seed, story)


def test_time_jumps_to_the_next_timer_and_the_clock_with_it() -> None:
    async def story(loop: SeededLoop) -> None:
        before = loop.clock.wall_ms()
        await asyncio.sleep(86_400)
        assert 86_400_000 <= loop.clock.wall_ms() - before <= 86_400_010

    run_seeded(1, story)


def test_jobs_of_one_executor_keep_their_order_and_its_end_waits_for_them() -> None:
    async def story(loop: SeededLoop) -> None:
        pool = ThreadPoolExecutor(1)
        seen: list[int] = []
        jobs = [loop.run_in_executor(pool, seen.append, number) for number in range(9)]
        await jobs[3]
        assert seen[:4] == [0, 1, 2, 3]
        pool.shutdown()
        assert seen == list(range(9))
        with pytest.raises(RuntimeError):
            await loop.run_in_executor(pool, seen.append, 9)

    for seed in range(20):
        run_seeded(seed, story)


def test_an_error_in_a_job_comes_to_whoever_waits() -> None:
    async def story(loop: SeededLoop) -> None:
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 1, 0)

    run_seeded(3, story)


def test_everybody_waiting_for_ever_is_a_deadlock() -> None:
    async def story(loop: SeededLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        run_seeded(1, story)


def test_what_nobody_was_told_is_an_error() -> None:
    async def story(loop: SeededLoop) -> None:
        loop.call_soon(divmod, 1, 0)
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="nobody was told"):
        run_seeded(1, story)
