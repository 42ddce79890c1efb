"""Whatever a crash leaves: each message that is there comes once, and none of them early."""

import asyncio
from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.timing import TimingDesk, row_of, timing
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk

STEPS = ("put", "many", "late", "second", "minute", "part", "start", "kill")
JUMPS_MS = {"forward": 7_200_000, "back": -7_200_000, "little": -1_500}


class Walk:
    """A timer that is used, crashes, and goes on."""

    def __init__(self, desk: TimingDesk, random: Random) -> None:
        self.desk = desk
        self.random = random
        self.number = 0
        self.due: dict[str, int] = {}
        """By name: monotonic ms."""

    async def put(self, count: int, most_ms: int) -> None:
        rows = []
        for _ in range(count):
            name, in_ms = f"m{self.number}", self.random.randrange(-3_000, most_ms)
            self.number += 1
            self.due[name] = self.desk.clock.monotonic + in_ms
            rows.append(row_of(self.desk, name, in_ms))
        await self.desk.put_waiting(*rows)

    async def step(self, step: str) -> None:
        desk = self.desk
        if step == "put":
            await self.put(1, 90_000)
        elif step == "many":
            await self.put(30, 20_000)
        elif step == "late":
            await self.put(3, -1)
        elif step in ("second", "minute"):
            await desk.pass_time(1_000 if step == "second" else 60_000, step_ms=5_000)
        elif step == "part":
            desk.clock.advance(700)
            await desk.part(self.random.randrange(8))
        elif step == "start":
            await desk.restarted()
        elif step == "kill":
            await desk.killed()
        else:
            desk.clock.wall += JUMPS_MS[step]
            await desk.run()
        self.check()

    def check(self) -> None:
        """Nothing came early, nothing twice."""
        for body, count in Counter(self.desk.bodies()).items():
            assert count == 1, body
            assert self.due[body] <= self.desk.clock.monotonic, body

    async def end(self, slack_ms: int = 2_000) -> None:
        """Everything that the log has comes, in time."""
        desk = self.desk
        await desk.pass_time(100_000 + slack_ms, step_ms=2_000)
        self.check()
        waited = {message.body.decode() for message in desk.messages("rmq_sys_wheel_timer")}
        assert set(desk.bodies()) == waited
        assert desk.timer.waiting_count == 0


async def walk(steps: list[str], seed: int, *, loses_power: bool) -> None:
    random, clock = Random(seed), FakeClock()
    async with timing(clock=clock) as desk:
        walk = Walk(desk, random)
        for step in steps:
            await walk.step(step)
        assert isinstance(desk.disk, SimDisk)
        if loses_power:
            await desk.killed(desk.disk.image.cut(random))
        await walk.end()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=14), st.integers(0, 2**32), st.booleans())
def test_everything_comes_once_whatever_a_crash_took(
    steps: list[str], seed: int, loses_power: bool
) -> None:
    asyncio.run(walk(steps, seed, loses_power=loses_power))


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(("put", "many", "second", "part", *JUMPS_MS)), max_size=14),
    st.integers(0, 2**32),
)
def test_everything_comes_once_whatever_is_done_to_the_clock(steps: list[str], seed: int) -> None:
    asyncio.run(walk(steps, seed, loses_power=False))
