"""Flushing of views: small passes, thorough passes, and a checkpoint that is never ahead."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import CheckpointValues, decode_checkpoint, encode_checkpoint
from pocketmq.format.names import MARK_FILE
from pocketmq.log.checkpoint import (
    QUEUE_ENDS_FILE,
    FlushedMark,
    QueueEnds,
)
from pocketmq.log.queue_end import QueueEnd
from pocketmq.model.errors import FsyncFailed
from pocketmq.model.message import QueueKey
from pocketmq.store.dispatch import flush as view_flush
from pocketmq.store.dispatch.flush import ViewFlush
from pocketmq.store.marks import Marks
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.start import start_at_once
from pocketmq.store.settings import PAGE_SIZE
from pocketmq.store.write.durability import Durability
from tests.kit.records import TIME_MS, Records, entry
from tests.kit.store_language import small_settings, until
from tests.sim.clock import FakeClock, at
from tests.sim.quick_disk import QuickDisk

SECOND_MS = 1_000
THOROUGH_MS = 10_000
UNITS_OF_2_PAGES = -(-2 * PAGE_SIZE // 20)


class Views:
    """The views of a store that take records, and the one who makes them durable."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.disk, self.clock = QuickDisk(), FakeClock()
        self.settings = small_settings(
            directory, consume_queue_file_size_bytes=12_000, index_entry_count_max=300, **settings
        )
        self.parts = StoreComponents(self.settings, self.disk)
        start_at_once(self.parts, self.clock)
        self.failures: list[BaseException] = []
        self.marks = Marks(0, 0, 0, is_sync=False)
        self.durability = Durability(
            self.parts.log, self.parts.mark, self.marks, self.parts.settings, self.clock,
            self.failures.append,
        )  # fmt: skip
        self.flush = ViewFlush(
            self.parts, self.marks, self.durability.request, self.failures.append
        )
        self._records = Records()
        self.disk.synced.clear()

    def dispatch(self, count: int, *, flushed: int | None = None) -> None:
        """Dispatches so many more records; the log is durable up to an offset, or wholly."""
        entries = self._records.take(count)
        self.parts.queues.apply(entries)
        self.parts.index.apply(entries)
        self.reach(entries[-1].begin, entries[-1].store_time_ms, flushed=flushed)

    def reach(
        self, last_record: int, time_ms: int = TIME_MS, *, flushed: int | None = None
    ) -> None:
        """Commits and dispatches one last record of 100 bytes."""
        end, marks = last_record + 100, self.marks
        marks.append(end, time_ms)
        marks.commit(end, time_ms)
        marks.flush(end if flushed is None else flushed, time_ms)
        marks.dispatch(end, time_ms, last_record)

    @asynccontextmanager
    async def in_first_pass(self) -> AsyncIterator[None]:
        """Dispatches 5 records; what is done inside is done while the first thorough pass syncs."""
        self.dispatch(5)
        self.flush.step(at(0))
        with self.disk.held():
            self.flush.step(at(THOROUGH_MS))
            await until(lambda: bool(self.disk.synced))
            yield

    async def idle(self) -> None:
        await until(lambda: self.flush._job is None)

    async def at(self, now_ms: int) -> None:
        """Takes a step at this time, and waits for what it began."""
        self.flush.step(at(now_ms))
        await self.idle()

    async def thorough(self, number: int = 1) -> None:
        """Makes the thorough pass of this number, from 1 on."""
        await self.at((number - 1) * THOROUGH_MS)
        await self.at(number * THOROUGH_MS)

    @property
    def synced(self) -> list[str]:
        """Directories and files synced so far, relative to the store."""
        paths = [path.relative_to(self.directory) for path in self.disk.synced]
        return [str(path if path.parts[0] in ("checkpoint", "pocketmq") else path.parts[0])
                for path in paths]  # fmt: skip

    @property
    def checkpoint(self) -> CheckpointValues:
        """The contents of the file."""
        return decode_checkpoint((self.directory / "checkpoint").read_bytes())

    def close(self) -> None:
        self.durability.close()
        self.parts.close()


@pytest.fixture
def views(tmp_path: Path) -> Iterator[Views]:
    made = Views(tmp_path / "store")
    yield made
    made.close()


async def test_every_second_a_queue_with_2_dirty_pages_is_synced(views: Views) -> None:
    views.dispatch(UNITS_OF_2_PAGES - 1)
    assert views.flush.step(at(0)).at_ms == SECOND_MS
    await views.idle()
    assert views.synced == []
    views.dispatch(1)
    assert views.flush.step(at(SECOND_MS)).at_ms == 2 * SECOND_MS
    await views.idle()
    assert views.synced == ["consumequeue"]
    await views.at(2 * SECOND_MS)
    assert views.synced == ["consumequeue"]
    assert views.checkpoint == CheckpointValues()


async def test_a_queue_whose_units_wait_is_synced_when_its_file_has_2_dirty_pages(
    views: Views,
) -> None:
    views.dispatch(1)
    for second in range(4):
        views.dispatch(UNITS_OF_2_PAGES // 4)
        await views.at(second * SECOND_MS)
    assert views.synced == []
    for second in range(4, 7):
        views.dispatch(UNITS_OF_2_PAGES // 4)
        await views.at(second * SECOND_MS)
    assert set(views.synced) == {"consumequeue"}


async def test_every_10_s_all_views_are_synced_then_written_down(views: Views) -> None:
    views.dispatch(5)
    views.flush.step(at(0))
    for now_ms in range(SECOND_MS, THOROUGH_MS, SECOND_MS):
        views.flush.step(at(now_ms))
    assert views.synced == []
    await views.at(THOROUGH_MS)
    mark = f"pocketmq/{MARK_FILE}"
    table = f"pocketmq/{QUEUE_ENDS_FILE}.draft"
    assert views.synced == [mark, "consumequeue", "index", table, mark, "checkpoint"]
    assert views.checkpoint == CheckpointValues(
        physic_msg_timestamp=TIME_MS + 4_000,
        logics_msg_timestamp=TIME_MS + 4_000,
        logics_physical_offset=400,
    )


async def test_records_that_come_during_a_pass_belong_to_the_next(views: Views) -> None:
    async with views.in_first_pass():
        views.dispatch(5)
    await views.idle()
    assert views.checkpoint.logics_physical_offset == 400
    await views.at(2 * THOROUGH_MS)
    assert views.checkpoint.logics_physical_offset == 900


async def test_one_pass_is_in_progress_at_a_time(views: Views) -> None:
    async with views.in_first_pass():
        for now_ms in range(11_000, 30_000, 1_000):
            views.flush.step(at(now_ms))
        await asyncio.sleep(0)
        assert len(views.disk.synced) == 1
    await views.idle()


async def test_a_full_index_file_is_written_down_as_sealed(views: Views) -> None:
    views.dispatch(299)
    await views.thorough()
    assert views.checkpoint.index_msg_timestamp == TIME_MS + 298_000
    views.dispatch(50)
    await views.at(2 * THOROUGH_MS)
    assert views.checkpoint.index_msg_timestamp == TIME_MS + 298_000


async def test_the_checkpoint_never_goes_back(views: Views) -> None:
    views.dispatch(5)
    await views.thorough()
    before = CheckpointValues(*[value + 1_000_000 for value in views.checkpoint])
    views.parts.checkpoint.save(before)
    views.dispatch(5)
    await views.at(2 * THOROUGH_MS)
    assert views.checkpoint == before


async def test_the_checkpoint_tells_no_time_of_records_that_are_not_flushed(views: Views) -> None:
    views.dispatch(5)
    flushed_ms = views.marks.flushed.time_ms
    end = views.marks.appended.value + 100
    views.marks.append(end, flushed_ms + 5_000)
    views.marks.commit(end, flushed_ms + 5_000)
    await views.thorough()
    assert views.checkpoint.logics_physical_offset == 400
    assert views.checkpoint.physic_msg_timestamp == flushed_ms


async def test_after_a_power_cut_the_mark_fits_the_checkpoint(views: Views, tmp_path: Path) -> None:
    # A mark that fits no checkpoint is void, and damage could not be told from a torn tail.
    for passes in (1, 2, 3):
        views.dispatch(5)
        await views.thorough(passes)
        left = views.disk.power_cut(views.directory, tmp_path / str(passes))
        mark = FlushedMark(QuickDisk(), left / "pocketmq")
        mark.open()
        values = decode_checkpoint((left / "checkpoint").read_bytes())
        assert values.logics_physical_offset == 500 * passes - 100
        assert mark.valid_upto(encode_checkpoint(values)) is not None
        mark.close()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FsyncFailed(why="EIO"), str(FsyncFailed(why="EIO"))),
        (OSError("bad descriptor"), "the store has stopped: bad descriptor"),
    ],
)
async def test_a_view_that_cannot_be_synced_ends_the_store(
    views: Views, error: Exception, text: str
) -> None:
    views.dispatch(5)
    views.disk.fail("sync", error)
    await views.thorough()
    assert [str(failure) for failure in views.failures] == [text]
    assert views.checkpoint == CheckpointValues()


async def test_finishing_waits_for_a_pass_and_makes_another(views: Views) -> None:
    async with views.in_first_pass():
        views.dispatch(5)
        finishing = asyncio.create_task(views.flush.finish())
    await finishing
    assert views.checkpoint.logics_physical_offset == 900
    assert views.parts.mark.valid_upto(encode_checkpoint(views.checkpoint)) == 0


async def test_a_failure_while_finishing_is_told_not_raised(views: Views) -> None:
    views.dispatch(5)
    views.disk.sync_error = FsyncFailed(why="EIO")
    await views.flush.finish()
    assert views.failures == [views.disk.sync_error]


async def test_with_much_behind_the_checkpoint_the_time_is_not_waited_for(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_flush, "BEHIND_MAX", 1_000)
    views.dispatch(10)
    await views.at(0)
    assert views.checkpoint == CheckpointValues()
    views.dispatch(1)
    await views.at(SECOND_MS)
    assert views.checkpoint.logics_physical_offset == 1_000
    views.dispatch(9)
    await views.at(2 * SECOND_MS)
    assert views.checkpoint.logics_physical_offset == 1_000


async def test_cuts_of_many_queues_are_durable_before_the_next_checkpoint(views: Views) -> None:
    views.dispatch(5)
    views.parts.queues.has_unsynced_cuts = True
    views.flush.step(at(0))
    views.disk.synced.clear()
    await views.at(THOROUGH_MS)
    assert len(views.disk.calls["sync_all"]) == 1
    assert not views.parts.queues.has_unsynced_cuts
    assert views.checkpoint.logics_physical_offset == 400


# -- the table of queue ends -----------------------------------------------------------------------


def table_of(views: Views) -> dict[QueueKey, QueueEnd]:
    """The table that fits the checkpoint on disk."""
    return QueueEnds(Disk(), views.directory / "pocketmq").load(encode_checkpoint(views.checkpoint))


async def test_a_checkpoint_has_its_table_of_queue_ends(views: Views) -> None:
    for number in (1, 2, 3):
        views.dispatch(5)
        await views.thorough(number)
        found = table_of(views)
        assert found == views.parts.queues.ends()
        assert sum(end.end for end in found.values()) == 100 * number


async def test_units_that_come_during_a_pass_are_not_in_its_table(views: Views) -> None:
    async with views.in_first_pass():
        views.dispatch(5)
    await views.idle()
    assert sum(end.end for end in table_of(views).values()) == 100


async def test_what_comes_between_two_turns_is_not_believed(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_flush, "TURN_SECONDS", 0)

    def dispatch(row: int) -> None:
        """Gives each of three queues its message of this number."""
        entries = [
            entry(100 * (3 * row + number) + 100, queue_id=number, queue_offset=row)
            for number in range(3)
        ]
        views.parts.queues.apply(entries)
        views.reach(entries[-1].begin)

    dispatch(0)
    before = views.parts.queues.ends()
    views.flush.step(at(0))
    views.flush.step(at(THOROUGH_MS))
    await asyncio.sleep(0)
    dispatch(1)
    await views.idle()
    assert views.checkpoint.logics_physical_offset == 300
    found = table_of(views)
    assert sorted(end.end for end in found.values()) == [20, 40, 40]
    assert {k for k, end in found.items() if end.max_physical_offset <= 400} == {
        k for k, end in found.items() if end == before[k]
    }


async def test_queues_that_small_passes_flushed_are_in_the_table(views: Views) -> None:
    views.flush.step(at(0))
    views.dispatch(UNITS_OF_2_PAGES)
    await views.at(SECOND_MS)
    assert not views.parts.queues.dirty
    await views.at(THOROUGH_MS)
    assert table_of(views) == views.parts.queues.ends() != {}


async def test_a_queue_that_was_removed_leaves_the_table(views: Views) -> None:
    views.dispatch(5)
    await views.thorough()
    views.parts.queues.take(set(views.parts.queues.queues))
    views.reach(900, views.marks.dispatched.time_ms)
    await views.thorough(2)
    assert views.checkpoint.logics_physical_offset == 900
    assert table_of(views) == {}


async def test_nothing_is_written_down_before_the_log_is_durable(views: Views) -> None:
    # A checkpoint ahead of the log would make units believed whose records a power cut took.
    with patch.object(views.flush, "_request_flush") as asked:
        views.dispatch(5, flushed=400)
        await views.thorough()
        assert views.checkpoint == CheckpointValues()
        for now_ms in range(THOROUGH_MS, 2 * THOROUGH_MS, SECOND_MS):
            await views.at(now_ms)
        assert views.checkpoint == CheckpointValues()
        assert asked.called
        views.dispatch(5, flushed=500)
        await views.at(2 * THOROUGH_MS)
    assert views.checkpoint.logics_physical_offset == 400
    assert sum(end.end for end in table_of(views).values()) == 100


def leave_behind(views: Views, count: int) -> int:
    """Leaves so many units behind the known ends of queues, as a crash does."""
    views.parts.ends.rows = end = views.parts.queues.ends()
    if count:
        views.dispatch(count)
    for key, known in end.items():
        queue = views.parts.queues.queues[key]
        queue.files.close()
        queue.files.files.clear()
        assert queue.adopt(known)
    views.parts.queues.dirty.clear()
    return sum(known.end for known in end.values())


async def test_the_first_pass_looks_behind_the_ends(views: Views) -> None:
    views.dispatch(5)
    leave_behind(views, 0)
    await views.thorough()
    assert views.parts.queues.doubtful == []
    assert views.checkpoint.logics_physical_offset == 400
    assert len(views.disk.calls["sync_all"]) == 1


async def test_units_over_what_was_left_are_synced_before_it_counts_as_gone(views: Views) -> None:
    # The look finds them in memory; on disk there may still be what a crash left.
    views.dispatch(5)
    leave_behind(views, 5)
    views.parts.queues.dirty.clear()
    views.flush.step(at(0))
    with patch.object(view_flush, "is_clean_behind", return_value=True):
        await views.at(THOROUGH_MS)
    assert len(views.disk.calls["sync_all"]) == 1
    assert views.checkpoint.logics_physical_offset == 900


async def test_any_error_between_turns_ends_the_store(views: Views) -> None:
    views.dispatch(5)
    views.flush.step(at(0))
    with patch.object(ViewFlush, "_syncing", side_effect=KeyError("what")):
        views.flush.step(at(THOROUGH_MS))
        await views.flush.close()
    assert [str(failure) for failure in views.failures] == ["the store has stopped: 'what'"]
    assert views.checkpoint == CheckpointValues()


async def test_what_lies_there_is_gone_before_the_checkpoint(views: Views) -> None:
    views.dispatch(5)
    end = leave_behind(views, 5)
    await views.thorough()
    assert views.checkpoint == CheckpointValues()
    assert views.parts.queues.doubtful == []
    assert views.parts.queues.has_unsynced_cuts
    views.disk.synced.clear()
    await views.at(THOROUGH_MS + SECOND_MS)
    assert len(views.disk.calls["sync_all"]) == 2
    assert views.checkpoint.logics_physical_offset == 900
    assert sum(known.end for known in table_of(views).values()) == end


async def test_finishing_does_both(views: Views) -> None:
    views.dispatch(5)
    leave_behind(views, 5)
    await views.flush.finish()
    assert views.parts.queues.doubtful == []
    assert views.checkpoint.logics_physical_offset == 900


@pytest.mark.parametrize("left", [0, 5])
async def test_a_queue_that_is_not_what_its_table_said_ends_the_store(
    views: Views, left: int
) -> None:
    views.dispatch(5)
    await views.thorough()
    assert table_of(views)
    leave_behind(views, left)
    for path in (views.directory / "consumequeue").rglob("0*"):
        if path.is_file():
            path.unlink()
    views.reach(900, views.marks.dispatched.time_ms)
    await views.thorough(2)
    assert len(views.failures) == 1
    assert table_of(views) == {}


async def test_the_end_does_not_wait_for_a_pass_that_was_cancelled_before_it_began(
    views: Views,
) -> None:
    views.dispatch(5)
    views.flush.step(at(0))
    views.flush.step(at(THOROUGH_MS))
    assert views.flush._job is not None
    views.flush._job._task.cancel()
    closing = asyncio.create_task(views.flush.close())
    for _ in range(20):
        await asyncio.sleep(0)
    assert closing.done()
