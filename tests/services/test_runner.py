"""The loops of services: steps run again when they asked to, whatever one of them does."""

import asyncio

from broker.services.runner import RETRY_PAUSE_MS, call_step, services_running
from tests.fakes.clock import FakeClock


async def test_a_step_is_told_the_time_and_says_when_to_come_again() -> None:
    async def step(now_ms: int) -> int:
        return now_ms + 1

    assert await call_step(step, 41) == 42


async def test_a_step_that_fails_is_told_and_tried_later(caplog: object) -> None:
    async def step(now_ms: int) -> int:
        raise RuntimeError("no")

    assert await call_step(step, 0) == RETRY_PAUSE_MS


async def test_steps_run_side_by_side_until_the_block_ends() -> None:
    calls: list[str] = []

    def service(name: str, pause_ms: int) -> object:
        async def step(now_ms: int) -> int:
            calls.append(name)
            return pause_ms

        return step

    steps = [service("a", 0), service("b", 60_000)]
    async with services_running(steps, FakeClock()):  # type: ignore[arg-type]
        while calls.count("a") < 3:  # noqa: ASYNC110 - turns of the loop, no time
            await asyncio.sleep(0)
    seen = len(calls)
    await asyncio.sleep(0)
    assert len(calls) == seen
    assert calls.count("b") == 1
