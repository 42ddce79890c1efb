"""Durability: who shares a flush, what the timer does, and that a failed flush is the last."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pocketmq.log.checkpoint import FlushedMark
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.errors import FsyncFailed, StoreFailed
from pocketmq.store.marks import Marks
from pocketmq.store.settings import PAGE_SIZE
from pocketmq.store.write import durability
from pocketmq.store.write.durability import SWEEP_INTERVAL_MS, Durability
from pocketmq.store.write.flush_group import FlushGroup
from tests.kit.records import TIME_MS, record
from tests.kit.store_language import small_settings, until
from tests.sim.clock import FakeClock, at
from tests.sim.quick_disk import QuickDisk

SIZE = 64 * 1024


class Flushing:
    """A log that is written to, and the one who makes it durable."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        (directory / "pocketmq").mkdir(parents=True)
        self.disk, self.clock = QuickDisk(), FakeClock()
        self.log = CommitLog(self.disk, directory / "commitlog", SIZE)
        self.mark = FlushedMark(self.disk, directory / "pocketmq")
        self.mark.open()
        self.failures: list[StoreFailed] = []
        self.marks = Marks(0, 0, 0, is_sync=True)
        self.durability = Durability(
            self.log,
            self.mark,
            self.marks,
            small_settings(directory, commit_log_file_size_bytes=SIZE, **settings),
            self.clock,
            self._fail,
        )
        self._make_room()
        self.disk.synced.clear()

    def _fail(self, error: BaseException) -> None:
        self.failures.append(StoreFailed.by(error))
        self.marks.fail(self.failures[-1])

    def _make_room(self) -> None:
        base = self.log.spare_base
        assert base is not None
        self.log.offer_spare(self.log.make_spare(self.mark_directory, base))

    @property
    def mark_directory(self) -> Path:
        return self.log.files.directory.parent / "pocketmq"

    def append(self, size: int = 200) -> int:
        """Puts one record; returns where it ends."""
        if not self.log.has_room(size):
            self._make_room()
            self.disk.synced.clear()
        place = self.log.place(size)
        self.log.write(place, record(place, size=size))
        self.marks.append(self.log.appended, TIME_MS + place)
        self.marks.commit(self.log.appended, TIME_MS + place)
        return self.log.appended

    @property
    def synced(self) -> list[int]:
        """Bases of the log files whose sync was asked for, in order."""
        return [int(path.name) for path in self.disk.synced]

    async def flushed(self, end: int) -> None:
        await until(lambda: self.marks.flushed.value >= end)

    def close(self) -> None:
        self.durability.close()
        self.log.close()
        self.mark.close()


Make = Callable[..., Flushing]


@pytest.fixture
def flushing(tmp_path: Path) -> Coroutine[None, None, None] | Any:
    made: list[Flushing] = []

    def make(**settings: Any) -> Flushing:
        made.append(Flushing(tmp_path / str(len(made)), **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


# -- group commit ----------------------------------------------------------------------------------


async def test_a_put_is_durable_when_the_disk_says_so(flushing: Make) -> None:
    flush = flushing()
    with flush.disk.held():
        end = flush.append()
        waiting = flush.durability.reached(end)
        await until(lambda: bool(flush.disk.synced))
        assert not waiting.done()
        assert flush.marks.flushed.value == 0
        assert flush.mark.flushed_upto == 0
    assert await waiting is True
    assert flush.marks.flushed.value == flush.marks.replicated.value == end


async def test_puts_that_come_during_a_flush_share_the_next_one(flushing: Make) -> None:
    flush = flushing()
    with flush.disk.held():
        waiting = [flush.durability.reached(flush.append())]
        await until(lambda: bool(flush.disk.synced))
        waiting += [flush.durability.reached(flush.append()) for _ in range(5)]
        assert flush.synced == [0]
    await asyncio.gather(*waiting)
    assert flush.synced == [0, 0]
    assert flush.durability.group_messages.sum == 6
    assert sum(flush.durability.group_messages.counts) == 2
    assert sum(flush.durability.flush_seconds.counts) == 2


async def test_what_is_durable_already_asks_for_nothing(flushing: Make) -> None:
    flush = flushing()
    end = flush.append()
    await flush.durability.reached(end)
    assert await flush.durability.reached(end) is True
    flush.durability.request()
    assert flush.synced == [0]


async def test_files_are_synced_oldest_first_and_only_dirty_ones(flushing: Make) -> None:
    flush = flushing()
    await flush.durability.reached(flush.append(SIZE - 8))
    for size in (SIZE - 8, SIZE - 8, 200):
        flush.append(size)
    flush.disk.synced.clear()
    await flush.durability.reached(flush.log.appended)
    assert flush.synced == [0, SIZE, 2 * SIZE, 3 * SIZE]  # In the first one, the BLANK.
    await flush.durability.reached(flush.append())
    assert flush.synced[4:] == [3 * SIZE]


async def test_the_mark_follows_the_disk_with_a_copy_of_the_checkpoint(flushing: Make) -> None:
    flush = flushing()
    flush.mark.write(0, b"c" * 48)
    end = flush.append()
    await flush.durability.reached(end)
    assert flush.mark.valid_upto(b"c" * 48) == end
    assert flush.mark.valid_upto(b"d" * 48) is None
    assert flush.marks.flushed.time_ms == TIME_MS


async def test_a_put_that_waits_too_long_is_told_and_stays_stored(flushing: Make) -> None:
    flush = flushing(sync_flush_timeout_ms=5_000)
    with flush.disk.held():
        early = flush.durability.reached(flush.append())
        flush.clock.advance(1)
        late = flush.durability.reached(flush.append())
        flush.durability.step(at(flush.clock.monotonic + 4_998))
        assert not early.done()
        flush.durability.step(at(flush.clock.monotonic + 4_999))
        assert await early is False
        assert not late.done()
    assert await late is True
    assert flush.marks.flushed.value == flush.log.appended


async def test_in_sync_mode_the_timer_flushes_what_nobody_waits_for(flushing: Make) -> None:
    flush = flushing()
    assert flush.durability.step(at(7_000)).at_ms == 7_000 + SWEEP_INTERVAL_MS
    assert flush.synced == []
    end = flush.append()
    flush.durability.step(at(7_100))
    await flush.flushed(end)
    assert flush.synced == [0]
    assert sum(flush.durability.group_messages.counts) == 0


async def test_the_first_flush_takes_along_what_the_same_turn_brings(flushing: Make) -> None:
    flush = flushing()
    waiting = [flush.durability.reached(flush.append()) for _ in range(4)]
    assert flush.synced == []
    await asyncio.gather(*waiting)
    assert flush.synced == [0]
    assert flush.durability.group_messages.sum == 4
    assert sum(flush.durability.group_messages.counts) == 1


# -- told together ---------------------------------------------------------------------------------


def joined(flush: Flushing, heard: list[int], name: int) -> FlushGroup:
    """Joins a flush group, and notes the name when its flush has ended."""
    flush.append()
    group = flush.durability.group()
    group.join(lambda _: heard.append(name))
    return group


async def test_who_asks_before_a_flush_begins_is_told_with_the_others(flushing: Make) -> None:
    flush, heard = flushing(), list[int]()
    with flush.disk.held():
        first = joined(flush, heard, 0)
        assert joined(flush, heard, 1) is first
        await until(lambda: bool(flush.disk.synced))
        second = joined(flush, heard, 2)
        assert second is not first
        assert joined(flush, heard, 3) is second
        assert heard == []
    assert await first.future is True
    assert not second.future.done()
    assert await second.future is True
    await asyncio.sleep(0)
    assert heard == [0, 1, 2, 3]
    assert flush.synced == [0, 0]
    assert flush.durability.group_messages.sum == 4


async def test_who_joins_a_group_that_was_told_is_told_as_well(flushing: Make) -> None:
    flush, heard = flushing(), list[int]()
    group = joined(flush, heard, 0)
    await group.future
    group.join(lambda _: heard.append(1))
    await asyncio.sleep(0)
    assert heard == [0, 1]


async def test_an_error_of_one_who_is_told_keeps_no_other_from_it(flushing: Make) -> None:
    def broken(_: asyncio.Future[bool]) -> None:
        raise RuntimeError("no")

    flush, heard, errors = flushing(), list[int](), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    flush.append()
    flush.durability.group().join(broken)
    group = joined(flush, heard, 1)
    await group.future
    await until(lambda: heard == [1])
    assert len(errors) == 1


async def test_a_group_that_waits_too_long_is_told_and_a_later_one_waits_on(flushing: Make) -> None:
    flush = flushing(sync_flush_timeout_ms=5_000)
    with flush.disk.held():
        flush.append()
        early = flush.durability.group()
        await until(lambda: bool(flush.disk.synced))
        flush.append()
        late = flush.durability.group()
        flush.clock.advance(SWEEP_INTERVAL_MS)
        flush.append()
        later = flush.durability.group()
        assert later is not late
        flush.durability.step(at(flush.clock.monotonic + 4_900))
        assert await early.future is False
        assert await late.future is False
        assert not later.future.done()
    assert await later.future is True


async def test_a_group_is_told_of_a_failed_flush_and_none_comes_after_it(flushing: Make) -> None:
    flush, heard = flushing(), list[int]()
    flush.disk.sync_error = FsyncFailed(why="EIO")
    group = joined(flush, heard, 0)
    with pytest.raises(FsyncFailed, match="EIO"):
        await group.future
    assert heard == [0]
    with pytest.raises(FsyncFailed, match="EIO"):
        flush.durability.group()


async def test_what_lies_in_a_buffer_is_waited_for_by_itself(flushing: Make) -> None:
    flush = flushing()
    end = flush.append()
    flush.marks.append(end + 100, TIME_MS + end)
    first, second = flush.durability.group(), flush.durability.group()
    assert first is not second
    await flush.flushed(end)
    assert not first.future.done()
    flush.marks.commit(end + 100, TIME_MS + end)
    flush.durability.request()
    assert await first.future is await second.future is True


# -- by timer --------------------------------------------------------------------------------------


async def test_the_timer_flushes_4_dirty_pages(flushing: Make) -> None:
    flush = flushing(flush="async")
    # The first pass of all is a thorough one.
    assert flush.durability.step(at(1_000)).at_ms == 1_500
    flush.append(4 * PAGE_SIZE - 1)
    assert flush.durability.step(at(1_500)).at_ms == 2_000
    assert flush.synced == []
    flush.append(200)
    assert flush.durability.step(at(2_000)).at_ms == 2_500
    await flush.flushed(4 * PAGE_SIZE + 199)
    assert flush.synced == [0]


async def test_every_10_s_the_timer_flushes_whatever_there_is(flushing: Make) -> None:
    flush = flushing(flush="async")
    flush.durability.step(at(1_000))
    end = flush.append()
    for now_ms in range(1_500, 11_000, 500):
        flush.durability.step(at(now_ms))
    assert flush.synced == []
    flush.durability.step(at(11_000))
    await flush.flushed(end)
    flush.append()
    flush.durability.step(at(20_999))
    assert flush.synced == [0]
    flush.durability.step(at(21_000))
    await flush.flushed(flush.log.appended)


# -- failing ---------------------------------------------------------------------------------------


async def test_a_failed_flush_reaches_everyone_who_waits(flushing: Make) -> None:
    flush = flushing()
    flush.disk.sync_error = FsyncFailed(why="EIO")
    with flush.disk.held():
        waiting = [flush.durability.reached(flush.append()) for _ in range(3)]
    for waiter in waiting:
        with pytest.raises(FsyncFailed, match="EIO"):
            await waiter
    assert flush.failures == [flush.disk.sync_error]
    assert (flush.marks.flushed.value, flush.mark.flushed_upto) == (0, 0)


async def test_after_a_failed_flush_none_is_tried_again(flushing: Make) -> None:
    # The kernel reports a loss once: a second sync would say yes over lost pages.
    flush = flushing()
    flush.disk.sync_error = FsyncFailed(why="EIO")
    with pytest.raises(FsyncFailed):
        await flush.durability.reached(flush.append())
    flush.disk.sync_error = None
    flush.append()
    flush.durability.step(at(50_000))
    flush.durability.request()
    await flush.durability.drain()
    assert flush.synced == [0]
    assert flush.marks.flushed.value == 0


async def test_any_other_error_of_a_flush_is_as_final(flushing: Make) -> None:
    flush = flushing()
    flush.disk.fail("sync", OSError("bad descriptor"))
    with pytest.raises(StoreFailed, match="bad descriptor"):
        await flush.durability.reached(flush.append())
    assert [type(failure) for failure in flush.failures] == [StoreFailed]


# -- draining --------------------------------------------------------------------------------------


async def test_draining_returns_when_all_is_durable(flushing: Make) -> None:
    flush = flushing(flush="async")
    with flush.disk.held():
        flush.append()
        draining = asyncio.create_task(flush.durability.drain())
        await until(lambda: bool(flush.disk.synced))
        end = flush.append()  # It came during the flush and is part of what has to be durable.
    await draining
    assert flush.marks.flushed.value == end
    await flush.durability.drain()
    assert flush.synced == [0, 0]


async def test_draining_flushes_what_was_appended_during_a_flush(flushing: Make) -> None:
    flush = flushing()
    with flush.disk.held():
        flush.append()
        flush.durability.request()
        end = flush.append()
        draining = asyncio.create_task(flush.durability.drain())
        await asyncio.sleep(0)
    await asyncio.wait_for(draining, 5)
    assert flush.marks.flushed.value == end


async def test_draining_ends_when_the_disk_fails(flushing: Make) -> None:
    flush = flushing()
    flush.append()
    flush.disk.sync_error = FsyncFailed(why="EIO")
    await flush.durability.drain()
    assert flush.failures == [flush.disk.sync_error]
    assert flush.marks.flushed.value == 0


async def test_a_drain_whose_flush_cannot_begin_ends(
    flushing: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(files: object) -> None:
        raise StoreFailed(why="too many files")

    flush = flushing()
    flush.append()
    monkeypatch.setattr(durability, "hold_all", refusing)
    await asyncio.wait_for(flush.durability.drain(), 1)
    assert [str(failure) for failure in flush.failures] == [str(StoreFailed(why="too many files"))]


async def test_an_error_behind_a_flush_fails_the_store(
    flushing: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = flushing()
    monkeypatch.setattr(durability, "perf_counter", iter([0.0]).__next__)
    with pytest.raises(StoreFailed):
        await flush.durability.reached(flush.append())
    assert len(flush.failures) == 1


async def test_who_asks_with_nothing_new_makes_no_group_for_what_comes_then(flushing: Make) -> None:
    flush = flushing()
    with flush.disk.held():
        flush.append()
        flush.durability.group()
        await until(lambda: bool(flush.disk.synced))
        asked = flush.durability.group()
        flush.append()
        after = flush.durability.group()
        assert (asked.is_open, after.is_open) == (False, True)
    assert await asked.future is True
    assert not after.future.done()
    assert await after.future is True
    assert flush.marks.flushed.value == flush.log.appended


async def test_a_group_is_open_until_its_flush_begins_or_it_has_waited_long(flushing: Make) -> None:
    flush = flushing()
    with flush.disk.held():
        flush.append()
        first = flush.durability.group()
        states = [first.is_open]
        await until(lambda: bool(flush.disk.synced))
        states.append(first.is_open)
        flush.append()
        second = flush.durability.group()
        second.count += 2
        states.append(second.is_open)
        flush.durability.step(at(flush.clock.monotonic + SWEEP_INTERVAL_MS))
        states.append(second.is_open)
    assert states == [True, False, True, False]
    assert await second.future is True
    assert flush.durability.group_messages.sum == 4
