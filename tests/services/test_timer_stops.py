"""The timer's pauses, its counts, its stop, and a put that is too large: each at its bound."""

import asyncio
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from pocketmq.format.java_hash import java_hash
from pocketmq.format.table_json import decode_table
from pocketmq.format.timer_layout import LOG_UNIT_TYPE, MAGIC_DEFAULT, MAGIC_DELETE, TimerProgress
from pocketmq.log.timer_log import TimerLog
from pocketmq.model.errors import DiskFull, DiskSlow, FsyncFailed
from pocketmq.model.reading import ReadRange
from pocketmq.model.stats import Counter
from pocketmq.model.step import Now
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.services.delay import dequeue
from pocketmq.services.delay.enqueue import TimerEnqueue
from pocketmq.services.delay.timer_counts import WaitingCounts
from pocketmq.store.read.reading import Reading
from pocketmq.store.timer.timer_files import TimerFiles
from pocketmq.store.watermark import Watermark
from pocketmq.store.write.writing import Writing
from tests.kit.store_language import turns
from tests.kit.timing import SETTINGS, TimingDesk, row_of, timing

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


# -- pauses ------------------------------------------------------------------------------------
async def lag_after(desk: TimingDesk, by_ms: int) -> int:
    """Returns how many messages are unread after some time, before any pause of the desk's own."""
    desk.clock.advance(by_ms)
    await desk.part(8)
    return desk.timer.lag


@pytest.mark.parametrize("until_second_ms", [500, 20])
async def test_what_comes_within_50_ms_is_taken_in_together(until_second_ms: int) -> None:
    """Also where a second ends between."""
    async with timing() as desk:
        await desk.pass_time(2_000)
        desk.clock.advance(1_000 - until_second_ms)
        await desk.wait("a", 60_000)
        assert await lag_after(desk, 0) == 0
        await desk.wait("b", 60_000)
        assert await lag_after(desk, 20) == 1
        assert await lag_after(desk, 29) == 1
        assert await lag_after(desk, 1) == 0


async def test_an_idle_timer_is_called_by_the_next_message_and_not_before() -> None:
    async with timing() as desk:
        await desk.wait("a", 60_000)
        await desk.pass_time(2_000)
        following = desk.timer.step(Now(desk.clock.monotonic, desk.clock.wall))
        assert isinstance(following.mark, Watermark)
        assert following.value == following.mark.value + 1
        assert following.at_ms == desk.clock.monotonic + 1_000


async def test_each_writing_of_the_progress_has_the_next_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions: list[int] = []
    write_down = TimerFiles.write_down

    async def noted(files: TimerFiles, progress: TimerProgress) -> None:
        versions.append(progress.version_counter)
        await write_down(files, progress)

    monkeypatch.setattr(TimerFiles, "write_down", noted)
    async with timing() as desk:
        await desk.wait("a", 60_000)
        await desk.pass_time(3_000)
        await desk.restarted()
    assert len(versions) > 2
    assert versions == [*range(versions[0], versions[0] + len(versions))]


async def test_after_a_stop_in_order_no_copy_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[object] = []
    async with timing() as desk:
        await desk.wait("a", 600)
        await desk.run()
        await desk.restarted()
        monkeypatch.setattr(Reading, "query", lambda *asked: looks.append(asked))
        await desk.pass_time(3_000)
        assert (desk.bodies(), looks) == (["a"], [])


async def test_what_was_refused_is_tried_again_a_second_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[int] = []

    async def refused(writing: Writing, runs: Any, **words: Any) -> Any:
        tries.append(desk.clock.monotonic)
        raise DiskFull(path="commitlog")

    async with timing() as desk:
        await desk.wait("late", -5_000)
        begin = desk.clock.monotonic
        with monkeypatch.context() as patch:
            patch.setattr(Writing, "put", refused)
            for by_ms in (0, 999, 1, 999, 1):
                await lag_after(desk, by_ms)
        assert tries == [begin, begin + 1_000, begin + 2_000]
        await desk.pass_time(2_000)
        assert desk.bodies() == ["late"]


async def test_messages_that_cannot_be_read_keep_no_slot_from_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pull = Reading.pull

    def slow(reading: Reading, wanted: ReadRange, *more: Any, **words: Any) -> Any:
        if wanted.topic == TIMER_TOPIC:
            raise DiskSlow(tries=1)
        return pull(reading, wanted, *more, **words)

    async with timing() as desk:
        await desk.wait("a", 3_000)
        await desk.pass_time(1_000)
        await desk.wait("b", 60_000)
        with monkeypatch.context() as patch:
            patch.setattr(Reading, "pull", slow)
            for _ in range(6):
                await lag_after(desk, 1_000)
            assert desk.timer.lag == 1
        assert desk.bodies() == ["a"]


@pytest.mark.parametrize("in_ms", [3_000, -3_000])
async def test_an_open_lease_is_looked_at_again_two_seconds_later(in_ms: int) -> None:
    asked: list[int] = []

    def is_open(_: int) -> bool:
        asked.append(desk.clock.wall // 1_000)
        return True

    async with timing(is_open=is_open) as desk:
        await desk.wait("open", in_ms, topic=REVIVE, TAGS="ck")
        await desk.pass_time(10_000 + in_ms)
        seconds = sorted({*asked})
        assert len(seconds) > 2
        assert {b - a for a, b in pairwise(seconds)} == {3}


async def test_a_long_slot_is_followed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dequeue, "CHAIN_MAX", 8)
    turn, seen, chain = 0, list[int](), TimerLog.chain

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(log: TimerLog, place: int, count_max: int) -> Any:
        seen.append(turn)
        return chain(log, place, count_max)

    async with timing() as desk:
        names = [f"m{number}" for number in range(30)]
        await desk.put_waiting(*[row_of(desk, name, 3_000) for name in names])
        await desk.pass_time(1_000)
        ticking = asyncio.create_task(others())
        monkeypatch.setattr(TimerLog, "chain", noted)
        await desk.pass_time(4_000)
        ticking.cancel()
        assert desk.bodies() == names
    assert len(seen) == len({*seen}) == 4
    assert max(b - a for a, b in pairwise(seen)) < 200, "none has to wait"


async def test_one_look_follows_4096_units(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    chain = TimerLog.chain

    def noted(log: TimerLog, place: int, count_max: int) -> Any:
        counts.append(count_max)
        return chain(log, place, count_max)

    async with timing() as desk:
        await desk.wait("a", 3_000)
        monkeypatch.setattr(TimerLog, "chain", noted)
        await desk.pass_time(5_000)
        assert (desk.bodies(), counts) == (["a"], [4_096])


# -- counts --------------------------------------------------------------------------------------
async def test_counts_of_what_waits_are_written_every_ten_seconds() -> None:
    async with timing() as desk:
        written: list[int] = []
        for _ in range(25):
            await desk.wait("a", 90_000)
            await desk.pass_time(1_000)
            path = desk.directory / "config" / "timermetrics"
            if desk.disk.exists(path):  # A thread writes it: the first is there by the next second.
                rows = decode_table(desk.disk.read_file(path))["timingCount"]
                written.append(rows["orders"]["count"])
        assert len({*written}) == 3


def units(*markers: bool) -> Any:
    """Returns units of the timer log, of topic "a"."""
    found = np.zeros(len(markers), LOG_UNIT_TYPE)
    found["topic_hash"] = java_hash("a")
    found["magic"] = [MAGIC_DEFAULT | MAGIC_DELETE * is_marker for is_marker in markers]
    return found


def test_each_message_that_comes_and_goes_counts_as_one() -> None:
    known = WaitingCounts(["a"])
    known.add(units(False))
    assert known.by_topic() == {("a",): 1}
    known.arrive(units(False, False))
    assert known.by_topic() == {("a",): 3}
    assert known.enqueued.values == {("a",): 2}
    known.take(units(False))
    assert known.by_topic() == {("a",): 2}
    assert known.rows(7) == {"a": {"count": 2, "timeStamp": 7}}
    known.arrive(units(True))
    assert known.by_topic() == {("a",): 1}
    known.take(units(False))
    assert known.by_topic() == {}


async def test_a_store_that_failed_ends_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed(writing: Writing, runs: Any, **words: Any) -> Any:
        raise FsyncFailed(why="EIO")

    async with timing() as desk:
        await desk.wait("late", -5_000)
        with monkeypatch.context() as patch:
            patch.setattr(Writing, "put", failed)
            with pytest.raises(FsyncFailed):
                await desk.run()


# -- stops -------------------------------------------------------------------------------------
async def test_a_stop_waits_for_a_put_that_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    put, gate, puts = Writing.put, asyncio.Event(), list[Any]()

    async def held(writing: Writing, runs: Any, **words: Any) -> Any:
        if not puts:
            puts.append(runs)
            await gate.wait()
        return await put(writing, runs, **words)

    async with timing() as desk:
        await desk.wait("late", -5_000)
        monkeypatch.setattr(Writing, "put", held)
        await desk.part(3)
        closing = asyncio.create_task(desk.timer.close())
        await turns(50)
        assert not closing.done()
        gate.set()
        await closing
        await desk.settled()
        assert desk.bodies() == ["late"]


async def test_a_stop_reads_a_thousand_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [0]

    async def in_vain(*_: Any) -> bool:
        reads[0] += 1
        return True

    async with timing() as desk:
        await desk.wait("unread", 60_000)
        with monkeypatch.context() as patch:
            patch.setattr(TimerEnqueue, "read_some", in_vain)
            await desk.timer.close()
    assert reads == [1_000]


# -- records too large -------------------------------------------------------------------------
def discarded(desk: TimingDesk) -> dict[tuple[str, ...], float]:
    """Returns how many messages went nowhere, by why."""
    found = {stat.name: stat for stat in desk.timer.stats}["pocketmq_timer_dropped_total"]
    assert isinstance(found, Counter)
    return dict(found.values)


@pytest.mark.parametrize(("more", "comes"), [(0, False), (-1_000, True)])
async def test_records_that_fit_no_file_together_are_put_one_by_one(
    more: int, *, comes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The large one alone may have no room: what is added as it is delivered makes it longer."""
    async with timing() as desk:
        begin = desk.store.appended
        await desk.wait("", -5_000)
        overhead = desk.store.appended - begin
        await desk.run()
        large = "x" * (desk.store.log.record_size_max - overhead - len("large") + more)
        rows = [row_of(desk, "small", -5_000), row_of(desk, large, -5_000, key="KEYlarge")]
        await desk.put_waiting(*rows[:1])
        await desk.put_waiting(*rows[1:])
        await desk.pass_time(2_000)
        assert [len(body) for body in desk.bodies()] == [0, 5, *([len(large)] if comes else [])]
        assert discarded(desk) == ({} if comes else {("discarded",): 1})
        told = [record.message for record in caplog.records].count("timer.discarded")
        assert told == (0 if comes else 1)


# -- a stop of a lap of the wheel ------------------------------------------------------------------
LAP_MS = SETTINGS["timer_slot_count"] * 1_000


async def test_a_stop_amid_the_slots_of_a_lap_ago_loses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New messages wait unread, as their slots still contain messages of the lap before."""

    async def refused(*_: object) -> None:
        raise DiskSlow(tries=1)

    names = [f"old{number}" for number in range(30)]
    async with timing() as desk:
        for number, name in enumerate(names):
            await desk.wait(name, 100_000 + 1_000 * number)
        await desk.restarted()
        await desk.close()
        desk.clock.advance(LAP_MS)
        with monkeypatch.context() as patch:
            patch.setattr(dequeue.TimerDequeue, "deliver_some", refused)
            await desk.open(runs=False)
            for number in range(30):
                await desk.wait(f"new{number}", 100_000 + 1_000 * number)
            while not desk.timer.lag:
                await desk.part(1)
            await desk.close()
        await desk.open()
        await desk.pass_time(150_000, step_ms=10_000)
        assert sorted(desk.bodies()) == sorted([*names, *(f"new{n}" for n in range(30))])


async def test_a_checkpoint_that_moves_takes_no_slot_of_a_lap_ago() -> None:
    open_leases = {0}
    async with timing(is_open=open_leases.__contains__) as desk:
        await desk.wait("open", 3_000, topic=REVIVE, TAGS="ck")
        for number in range(30):
            await desk.wait(f"old{number}", 100_000 + 1_000 * number)
        await desk.restarted()
        await desk.close()
        desk.clock.advance(LAP_MS + 110_000 - 2_000)
        await desk.open()
        open_leases.clear()
        await desk.pass_time(20_000)
        assert sorted(desk.bodies()) == sorted(f"old{number}" for number in range(30))
        assert desk.timer.waiting_count == 0
