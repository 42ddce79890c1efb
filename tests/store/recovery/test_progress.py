"""Progress that a start reports of its recovery."""

from pathlib import Path

from pocketmq.store.message_store import opened
from pocketmq.store.recovery.progress import PHASES, Starting
from tests.kit.store_language import small_settings, store_at
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk


def test_phases_follow_each_other() -> None:
    numbers = Starting(FakeClock())
    assert (numbers.state, numbers.since_ms) == ("starting", START_MS)
    numbers.recover()
    assert numbers.state == "recovering"
    assert [stat.name for stat in numbers.stats] == [
        "pocketmq_recovery_seconds",
        "pocketmq_recovery_progress_ratio",
        "pocketmq_recovery_truncated_bytes",
    ]
    numbers.enter("load")
    numbers.enter("scan")
    numbers.end()
    assert numbers.progress == 1.0
    assert numbers.seconds["load",] > 0
    assert numbers.seconds["scan",] > 0
    assert numbers.seconds["dispatch",] == 0


async def test_every_phase_of_a_start_takes_its_time(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("orders", "a")
        image = store.killed(tmp_path / "image")
    numbers = Starting(FakeClock())
    async with opened(small_settings(image), FakeClock(), QuickDisk(), numbers):
        assert {phase for (phase,), seconds in numbers.seconds.items() if seconds} == set(PHASES)
        assert numbers.progress == 1.0
        assert numbers.truncated_bytes == 0
