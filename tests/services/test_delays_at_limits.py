"""Delays at their limits: notes that are late, keys that are alike, sizes, clocks that are set."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from pocketmq.model.errors import DiskFull, DiskSlow
from pocketmq.model.step import Now
from pocketmq.services.delay import dequeue
from pocketmq.services.delay.enqueue import TimerEnqueue
from pocketmq.store.settings import FLUSH_ASYNC
from pocketmq.store.timer.timer_files import TimerFiles
from pocketmq.store.write.writing import Writing
from tests.kit.store_language import store_at, turns, until
from tests.kit.timing import TimingDesk, row_of, timing
from tests.services.test_schedule import SETTINGS, Scheduled
from tests.sim.crash_points import LOG_FOLDER
from tests.sim.disk import SimDisk
from tests.sim.held_log import log_held

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


# -- the order of what becomes durable -------------------------------------------------------------


async def noted(desk: TimingDesk, is_noted: Callable[[], bool]) -> None:
    """Advances the clock until the progress is saved, an hour at most."""
    end = desk.clock.monotonic + 3_600_000

    def looked() -> bool:
        desk.clock.advance(20)
        assert desk.clock.monotonic < end
        desk.timer.step(Now(desk.clock.monotonic, desk.clock.wall))
        return is_noted()

    await until(looked)


async def test_what_was_delivered_may_not_go_before_that_is_written_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(*_: object) -> None:
        raise DiskFull(path="timercheck")

    async with timing() as desk:
        await desk.wait("a", 3_000)
        await desk.pass_time(1_000)
        (waits,) = desk.messages("rmq_sys_wheel_timer")
        with monkeypatch.context() as patch:
            patch.setattr(TimerFiles, "write_down", refused)
            await desk.pass_time(5_000)
            assert desk.bodies() == ["a"]
            assert desk.timer.floor() <= waits.physical_offset
        await noted(desk, lambda: desk.timer.floor() > waits.physical_offset)


def is_all_noted(desk: TimingDesk) -> bool:
    """Returns whether all that was delivered counts as that for good."""
    return desk.store.timer.progress.delivered_before == desk.store.appended


def read_ms_on_disk(desk: TimingDesk) -> int:
    """Returns the time before which the file says that every slot was delivered, -1: no file."""
    path = desk.directory / "config" / "timercheck"
    return int.from_bytes(desk.disk.read_file(path)[:8]) if desk.disk.exists(path) else -1


async def test_how_far_the_timer_is_waits_for_the_log() -> None:
    async with timing(flush=FLUSH_ASYNC) as desk:
        assert isinstance(desk.disk, SimDisk)
        due_ms = desk.clock.wall + 3_000
        await desk.wait("a", 3_000)
        await desk.store.flush()
        with log_held() as held:
            await desk.pass_time(6_000)
            await turns(100)
            assert held
            assert desk.bodies() == ["a"]
            assert read_ms_on_disk(desk) < due_ms
            left = desk.disk.image.copy(behind=LOG_FOLDER)
        await noted(desk, lambda: read_ms_on_disk(desk) >= due_ms)
        await desk.killed(left)
        await desk.pass_time(1_000)
        assert desk.bodies() == ["a"]


async def test_what_was_due_on_arrival_survives_a_power_cut_and_a_kill_before_it_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The power cut leaves the unit of a later message, but not the delivery."""
    async with timing(flush=FLUSH_ASYNC) as desk:
        assert isinstance(desk.disk, SimDisk)
        await desk.wait("a", 2_000)
        await desk.wait("b", 60_000)
        await desk.store.flush()
        desk.clock.advance(5_000)
        with log_held():
            while desk.bodies() != ["a"] or desk.timer.lag > 0:
                await desk.part(1)
            left = desk.disk.image.copy(behind=LOG_FOLDER)
        await desk.killed(left, runs=False)
        with monkeypatch.context() as patch:
            patch.setattr(TimerEnqueue, "read_some", AsyncMock(side_effect=DiskSlow(tries=1)))
            timer = desk.store.timer
            version = timer.progress.version_counter
            await noted(desk, lambda: timer.progress.version_counter > version)
        assert desk.timer.lag == 2
        await desk.killed()
        await desk.pass_time(2_000)
        assert desk.bodies() == ["a"]
        await desk.pass_time(60_000)
        assert desk.bodies() == ["a", "b"]
        assert desk.timer.waiting_count == 0


async def test_how_far_levels_are_waits_for_the_log() -> None:
    options, disk = {**SETTINGS, "flush": FLUSH_ASYNC}, SimDisk()
    async with store_at(Path("/store"), disk=disk, **options) as talking:
        waiting = Scheduled(talking)
        await waiting.run()
        await waiting.wait("a", 1)
        await talking.store.flush()
        with log_held() as held:
            await waiting.pass_time(1_000)
            await waiting.pass_time(10_000)
            await turns(100)
            assert held
            assert waiting.bodies() == ["a"]
            assert not disk.exists(Path("/store/config/delayOffset.json"))
            left = disk.image.copy(behind=LOG_FOLDER)
        await waiting.pass_time(10_000)
        await until(lambda: waiting.store.tables.delay_offsets.find(1) == 1)
    async with store_at(
        Path("/store"), clock=talking.clock, disk=SimDisk(left), **options
    ) as talking:
        again = Scheduled(talking)
        await again.run()
        assert again.bodies() == ["a"]


async def test_what_was_delivered_once_is_not_looked_for_for_ever() -> None:
    async with timing() as desk:
        for _ in range(2):
            await desk.wait("a", 3_000)
            await desk.pass_time(5_000)
            await noted(desk, lambda: is_all_noted(desk))
            await desk.killed()


# -- one key twice ---------------------------------------------------------------------------------


async def test_of_two_alike_the_one_that_was_not_delivered_before_a_kill_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dequeue, "PUT_MAX", 1)
    async with timing() as desk:
        await desk.put_waiting(*[row_of(desk, "a", 3_000) for _ in range(3)])
        await desk.pass_time(1_000)
        desk.clock.advance(3_000)
        while not desk.bodies():
            await desk.part(1)
        assert desk.bodies() == ["a"]
        for _ in range(2):
            await desk.killed()
            await desk.pass_time(3_000)
            assert desk.bodies() == ["a"] * 3


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_ms", [3_000, -3_000])
async def test_a_message_larger_than_one_put_comes_and_keeps_no_other(in_ms: int) -> None:
    async with timing() as desk:
        large = "x" * 200_000
        await desk.put_waiting(row_of(desk, "before", in_ms, key="k0"))
        await desk.put_waiting(row_of(desk, large, in_ms, key="k1"))
        await desk.put_waiting(row_of(desk, "behind", in_ms, key="k2"))
        await desk.pass_time(6_000)
        assert [body[:6] for body in desk.bodies()] == ["before", "xxxxxx", "behind"]
        assert desk.timer.waiting_count == 0


async def _sizes_of_puts(desk: TimingDesk, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns what will be told of puts: the bytes of their bodies."""
    sizes: list[int] = []
    put = Writing.put

    async def told(writing: Writing, runs: object, **words: object) -> object:
        sizes.append(sum(len(body) for _, batch in runs for body in batch.bodies))  # type: ignore[attr-defined,misc]
        return await put(writing, runs, **words)  # type: ignore[arg-type]

    monkeypatch.setattr(Writing, "put", told)
    return sizes


@pytest.mark.parametrize("in_ms", [3_000, -3_000])
async def test_no_put_is_larger_than_a_file_of_the_log(
    in_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with timing() as desk:
        for number in range(12):
            await desk.put_waiting(row_of(desk, f"{number:02d}" * 20_000, in_ms, key=f"k{number}"))
        sizes = await _sizes_of_puts(desk, monkeypatch)
        await desk.pass_time(6_000)
        assert [body[:2] for body in desk.bodies()] == [f"{number:02d}" for number in range(12)]
        assert max(sizes) < desk.store.settings.commit_log_file_size_bytes


async def test_an_entry_of_the_journal_moves_on_once_whatever_stands_for_it_twice() -> None:
    async with timing(is_open={0}.__contains__) as desk:
        await desk.wait("open", 3_000, topic=REVIVE, TAGS="ck")
        await desk.pass_time(1_000)
        (units,) = [found for found in desk.store.timer.waiting(0) if len(found)]
        desk.store.timer.add(units.copy())
        assert desk.timer.waiting_count == 2
        await desk.pass_time(8_000)
        assert desk.timer.waiting_count == 1


# -- clocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_ms", [0, 300, -300])
async def test_a_level_whose_times_cannot_be_waits_once(jump_ms: int) -> None:
    """The store times are ahead of a clock that was set back, and clocks go on being set."""
    async with store_at(Path("/store"), disk=SimDisk(), **SETTINGS) as talking:
        waiting = Scheduled(talking)
        await waiting.run()
        await talking.send("orders", "x", queue_id=1)
        waiting.clock.wall -= 1_800_000
        await waiting.run()
        for number in range(24):
            assert waiting.bodies() == [f"m{n}" for n in range(min(max(number - 9, 0), 12))]
            if number < 12:
                await waiting.wait(f"m{number}", 3)
                await waiting.run()
            waiting.clock.wall += jump_ms
            await waiting.pass_time(1_000)
        assert waiting.bodies() == [f"m{number}" for number in range(12)]


async def test_a_message_at_a_time_that_cannot_be_is_never_early() -> None:
    async with store_at(Path("/store"), disk=SimDisk(), **SETTINGS) as talking:
        waiting = Scheduled(talking)
        await waiting.run()
        await talking.send("orders", "x", queue_id=1)
        waiting.clock.wall -= 1_800_000
        await waiting.run()
        for name in ("a", "b"):
            await waiting.wait(name, 3)
            for _ in range(4):
                await waiting.pass_time(1_000)
        await waiting.pass_time(1_900)
        assert waiting.bodies() == []
        await waiting.pass_time(1_100)
        assert waiting.bodies() == ["a"]
