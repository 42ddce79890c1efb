"""The transient pool: what is staged is neither visible nor safe until it is committed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pocketmq.files.memory import TransientPool
from pocketmq.format.record import BLANK_SIZE
from pocketmq.format.record_scan import RecordScan
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.errors import IllegalConfig, StoreFailed, TransientPoolEmpty
from pocketmq.model.reading import PullStatus
from pocketmq.store.marks import Marks
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.write.commit import Commit
from tests.kit.records import record
from tests.kit.store_language import (
    TalkingStore,
    rebuilt_views,
    small_settings,
    store_at,
    until,
    view_files,
)
from tests.sim.clock import at
from tests.sim.quick_disk import QuickDisk

LARGE = "x" * 1500
"""Two such messages fill a file."""


@asynccontextmanager
async def pooled(directory: Path, disk: QuickDisk | None = None) -> AsyncIterator[TalkingStore]:
    async with store_at(
        directory, disk=disk, flush="async", transient_pool=True, transient_pool_file_count=2
    ) as store:
        yield store


def commit(store: TalkingStore) -> None:
    store.store.writing.commit.request()


async def committed(store: TalkingStore) -> None:
    marks = store.store.marks
    commit(store)
    await until(lambda: marks.committed.value == marks.appended.value)


async def test_a_message_is_seen_when_it_is_committed(tmp_path: Path) -> None:
    async with pooled(tmp_path / "s") as store:
        await store.send("orders", "a")
        marks = store.store.marks
        assert (marks.appended.value > 0, marks.committed.value) == (True, 0)
        assert store.pull("orders", 0).status is PullStatus.NO_NEW_MESSAGE
        await committed(store)
        assert await store.pulled("orders") == ["a"]


async def test_a_kill_loses_what_was_staged_and_nothing_else(tmp_path: Path) -> None:
    async with pooled(tmp_path / "s") as store:
        await store.send("orders", "a")
        await committed(store)
        await store.send("orders", "b")
        image = store.killed(tmp_path / "image")
    async with store_at(image) as store:
        assert await store.pulled("orders") == ["a"]
        await store.send("orders", "c")
        assert await store.pulled("orders") == ["a", "c"]


async def test_an_orderly_stop_keeps_everything(tmp_path: Path) -> None:
    bodies = [f"{number}{LARGE}" for number in range(7)]
    async with pooled(tmp_path / "s") as store:
        for body in bodies:
            await store.stocked()
            await store.send("orders", body, key="k")
            await committed(store)
    async with pooled(tmp_path / "s") as store:
        assert await store.pulled("orders") == bodies
        await store.send("orders", "more")
        await committed(store)
        assert await store.pulled("orders") == [*bodies, "more"]
    assert view_files(tmp_path / "s") == await rebuilt_views(tmp_path / "s", tmp_path / "anew")


async def test_a_buffer_used_twice_brings_nothing_of_the_file_before(tmp_path: Path) -> None:
    async with pooled(tmp_path / "s") as store:
        for number in range(6):
            await store.stocked()
            await store.send("orders", "y" * (1400 + number))
            await committed(store)
    for path in sorted((tmp_path / "s" / "commitlog").iterdir()):
        content = path.read_bytes()
        scan = RecordScan(content, int(path.name))
        assert len(list(scan)) == 2
        assert content[scan.position + BLANK_SIZE :].strip(b"\0") == b""


async def test_when_all_buffers_wait_sends_are_told_to_try_again(tmp_path: Path) -> None:
    async with pooled(tmp_path / "s") as store:
        for number in range(4):
            await store.stocked()
            await store.send("orders", f"{number}{LARGE}")
        with pytest.raises(TransientPoolEmpty, match="all 2 buffers of the transient pool"):
            await store.send("orders", f"5{LARGE}")
        await committed(store)
        await store.send("orders", f"5{LARGE}")
        await committed(store)
        assert len(await store.pulled("orders")) == 5


async def test_the_timer_waits_for_pages_or_its_longest_pause(tmp_path: Path) -> None:
    disk, settings = QuickDisk(), small_settings(tmp_path, commit_thorough_interval_ms=1_000)
    pool = TransientPool(disk.memory, size_bytes=1 << 20, count=2)
    log = CommitLog(disk, tmp_path / "commitlog", 1 << 20, pool=pool)
    (tmp_path / "own").mkdir()
    log.offer_spare(log.make_spare(tmp_path / "own", 0))
    marks = Marks(0, 0, 0, is_sync=False)
    failures: list[BaseException] = []
    commit = Commit(log, marks, settings, failures.append)

    def put(size: int) -> None:
        place = log.place(size)
        log.write(place, record(place, size=size))
        marks.append(log.appended, 7)

    assert commit.step(at(0)).at_ms == 200
    put(4 * 4096 - 1)
    commit.step(at(200))
    assert marks.committed.value == 0
    put(100)
    commit.step(at(400))
    await until(lambda: marks.committed.value == 4 * 4096 + 99)
    put(100)
    commit.step(at(600))
    assert marks.committed.value == 4 * 4096 + 99
    commit.step(at(1_000))
    await until(lambda: marks.committed.value == log.appended)
    assert (marks.committed.time_ms, failures) == (7, [])
    commit.close()
    log.close()
    pool.close()


async def test_a_file_that_cannot_be_written_ends_the_store(tmp_path: Path) -> None:
    disk = QuickDisk()
    async with pooled(tmp_path / "s", disk) as store:
        await store.send("orders", "a")
        disk.fail("write_at", OSError(5, "Input/output error"))
        commit(store)
        with pytest.raises(StoreFailed, match="staged records could not be written"):
            await asyncio.shield(store.store.failure)


def test_with_sync_flush_a_pool_is_refused(tmp_path: Path) -> None:
    settings = small_settings(tmp_path / "s", transient_pool=True)
    with pytest.raises(IllegalConfig, match=r"store.transient_pool: it needs store.flush"):
        StoreComponents(settings, QuickDisk())


async def test_warm_files_are_locked_ahead_and_released_when_full(tmp_path: Path) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk, warm_files=True) as store:
        for number in range(5):
            await store.stocked()
            await store.send("orders", f"{number}{LARGE}")
        await store.stocked()
        assert len(disk.calls["lock"]) == 4
        assert len(disk.calls["unlock"]) == 2
        assert len(await store.pulled("orders")) == 5
