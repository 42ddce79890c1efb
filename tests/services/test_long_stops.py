"""Random lives of delayed messages, with recalls, kills, and stops longer than the wheel's lap.

They run on the seeded loop, so a seed decides also when results of threads arrive.
"""

from pathlib import Path
from random import Random

import pytest

from pocketmq.model.errors import NotWaiting
from tests.kit.store_language import BORN_HOST
from tests.kit.timing import SETTINGS, TimingDesk, timing
from tests.services.test_recall import later, sending
from tests.sim.disk import SimDisk
from tests.sim.seeded_store import in_order, tell_seeded

LAP_MS = SETTINGS["timer_slot_count"] * 1_000
DELAYS_MS = (3_000, 60_000, 900_000, 2_000_000, 5_000_000, 9_000_000)
STEPS = ("send", "send", "send", "recall", "recall", "part", "part", "pass", "stop", "kill", "kill")


class Life:
    """One random life: what was sent and recalled, and what may be delivered."""

    def __init__(self, desk: TimingDesk, seed: int) -> None:
        self.desk, self.random = desk, Random(seed)
        self.due: dict[str, int] = {}
        self.handles: dict[str, str] = {}
        self.recalled: set[str] = set()
        self.maybe: set[str] = set()
        """Messages that were recalled as they were due."""
        self.seen: set[str] = set()

    async def step(self) -> None:
        """Does one random step."""
        desk, pick = self.desk, self.random.choice
        match pick(STEPS):
            case "send":
                for _ in range(pick((1, 1, 5))):
                    name = f"m{len(self.due)}"
                    delay_ms = pick(DELAYS_MS) + self.random.randrange(5_000)
                    self.due[name] = desk.clock.wall + delay_ms
                    self.handles[name] = await later(desk, name, delay_ms)
            case "recall":
                if self.handles:
                    await self.recall(pick(sorted(self.handles)))
            case "part":
                for _ in range(self.random.randrange(30)):
                    await desk.part(1)
                    desk.clock.advance(pick((0, 50, 100)))
            case "pass":
                await desk.pass_time(pick((5_000, 60_000)), step_ms=5_000)
            case how:
                assert isinstance(desk.disk, SimDisk)
                image = desk.disk.image.copy()
                await desk.close()
                desk.disk = SimDisk(image) if how == "kill" else desk.disk
                desk.clock.advance(pick((2_000, 300_000, LAP_MS // 3, LAP_MS, 2 * LAP_MS)))
                await desk.open(runs=False)
                in_order(desk.store)

    async def recall(self, name: str) -> None:
        """Recalls a message, if it is not due."""
        is_early = self.due[name] - self.desk.clock.wall > 2_000 and name not in self.desk.bodies()
        try:
            await sending(self.desk).recall.recall("orders", self.handles[name], BORN_HOST)
        except NotWaiting:
            return
        await self.desk.settled()
        (self.recalled if is_early else self.maybe).add(name)

    def check(self) -> None:
        """Checks that nothing was delivered early, twice, or after its recall."""
        found = self.desk.bodies()
        assert len(found) == len(set(found))
        for name in {*found} - self.seen:
            assert self.desk.clock.wall >= self.due[name] - 1_000
        self.seen.update(found)
        assert not self.seen & self.recalled


async def live(seed: int) -> None:
    """Runs one life, and then time until all messages are due."""
    async with timing(Path("/store")) as desk:
        in_order(desk.store)
        life = Life(desk, seed)
        for _ in range(40):
            await life.step()
            life.check()
        for _ in range(12):
            await desk.pass_time(2_000_000, step_ms=250_000)
            life.check()
        assert life.due.keys() - life.recalled - life.maybe <= life.seen


@pytest.mark.parametrize(
    ("seed", "order"), [(1, 1), (7, 7), (21, 21), (41, 41), (47, 47), (60, 60), (61, 61), (62, 54)]
)
def test_none_is_lost_early_twice_or_there_after_its_recall(seed: int, order: int) -> None:
    tell_seeded(order, lambda _: live(seed), f"python -m pytest {__file__} -k {seed}-{order}")


async def test_a_recall_before_a_long_stop_holds_though_it_is_not_read() -> None:
    """The message's slot is delivered before the marker is read."""
    async with timing(Path("/store")) as desk:
        handle = await later(desk, "a", 900_000)
        await later(desk, "b", 900_000)
        await desk.run()
        await desk.close()
        await desk.open(runs=False)
        await sending(desk).recall.recall("orders", handle, BORN_HOST)
        await desk.settled()
        await desk.close()
        desk.clock.advance(2 * LAP_MS)
        await desk.open()
        await desk.pass_time(10_000)
        assert desk.bodies() == ["b"]
        assert desk.timer.waiting_count == 0
