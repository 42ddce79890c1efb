"""Removal of old messages: the log first, then queues and index; readers are not disturbed."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.model.reading import PullStatus
from pocketmq.store.dispatch.expiry import UNKNOWN_TIME, OldestLogFile
from tests.kit.store_language import TalkingStore, rebuilt_views, store_at, view_files
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk

BODIES = [f"{number:02d}" + "x" * 900 for number in range(20)]
"""Four to a file."""


async def filled(store: TalkingStore) -> None:
    """Sends all of them to two queues in turn, a second apart; they are durable in every view."""
    for number, body in enumerate(BODIES):
        store.clock.advance(1_000)
        await store.stocked()
        await store.send("orders", body, queue_id=number % 2, key=f"k{number}")
    await store.settled()
    await store.store.views.flush.finish()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[TalkingStore]:
    """A store that holds all of them."""
    async with store_at(tmp_path / "s") as made:
        await filled(made)
        yield made


async def expire(store: TalkingStore, count: int) -> None:
    expiry = store.store.views.expiry
    for _ in range(count):
        oldest = expiry.oldest()
        assert oldest is not None
        await expiry.drop(oldest)
    await expiry.trim_views()


async def test_the_oldest_file_goes_and_queues_begin_behind_it(store: TalkingStore) -> None:
    size_before = store.store.views.expiry.log_size_bytes
    await expire(store, 2)
    assert store.store.min_offset == 8192
    assert store.store.views.expiry.log_size_bytes == size_before - 8192
    assert await store.pulled("orders", 0) == BODIES[8::2]
    assert await store.pulled("orders", 1) == BODIES[9::2]
    assert await store.found("orders", "k3") == []
    assert await store.found("orders", "k9") == [BODIES[9]]


async def test_a_reader_of_what_is_gone_is_told_where_to_go_on(store: TalkingStore) -> None:
    oldest = store.store.views.expiry.oldest()
    assert oldest is not None
    await store.store.views.expiry.drop(oldest)  # The queues have not followed yet.
    result = store.pull("orders", 0)
    assert (result.status, result.next_begin_offset) == (PullStatus.EXPIRED, 2)
    await store.store.views.expiry.trim_views()
    result = store.pull("orders", 0)
    assert (result.status, result.next_begin_offset) == (PullStatus.OFFSET_TOO_SMALL, 2)


async def test_queue_and_index_files_follow_but_never_the_last(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", consume_queue_file_size_bytes=60) as store:
        await filled(store)
        index_files = len(store.store.views.index.files)
        await expire(store, 4)
        queue = tmp_path / "s" / "consumequeue" / "orders" / "0"
        assert [path.name for path in sorted(queue.iterdir())] == [f"{120:020d}", f"{180:020d}"]
        assert 0 < len(store.store.views.index.files) < index_files
    assert view_files(tmp_path / "s").keys() <= (
        await rebuilt_views(tmp_path / "s", tmp_path / "anew", consume_queue_file_size_bytes=60)
    ).keys() | {name for name in view_files(tmp_path / "s") if name.startswith("index")}


async def test_the_file_that_is_written_to_never_goes(store: TalkingStore) -> None:
    await expire(store, 4)
    assert store.store.views.expiry.oldest() is None


async def test_a_file_a_view_does_not_know_yet_never_goes(tmp_path: Path) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as store:
        disk.full_below = tmp_path / "s" / "consumequeue"
        for body in BODIES[:9]:
            await store.stocked()
            await store.send("orders", body)
        assert store.store.views.expiry.oldest() is None
        disk.full_below = None
        store.clock.advance(1_000)
        await store.settled()
        assert store.store.views.expiry.oldest() is None  # A power cut may still take its units.
        await store.store.views.flush.finish()
        assert store.store.views.expiry.oldest() is not None


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_is_left_is_there_after_a_start(tmp_path: Path, is_killed: bool) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
        await expire(store, 3)
        image = store.killed(tmp_path / "image")
    async with store_at(image if is_killed else tmp_path / "s") as store:
        assert await store.pulled("orders", 0) == BODIES[12::2]
        assert await store.pulled("orders", 1) == BODIES[13::2]
        await store.send("orders", "more")
        assert (await store.pulled("orders", 0))[-1] == "more"
        assert store.pull("orders", 0).status is PullStatus.OFFSET_TOO_SMALL


async def test_the_age_of_a_file_is_that_of_its_last_message(store: TalkingStore) -> None:
    expiry = store.store.views.expiry
    oldest = expiry.oldest()
    assert oldest == OldestLogFile(0, 4096)
    assert await expiry.last_time(oldest) == START_MS + 4_000
    assert await expiry.last_time(oldest) == START_MS + 4_000


@pytest.mark.parametrize("mtime_s", [1, 4_000_000_000])
async def test_the_age_of_a_file_is_not_what_the_file_system_says(
    store: TalkingStore, mtime_s: int
) -> None:
    os.utime(store.directory / "commitlog" / f"{0:020d}", (mtime_s, mtime_s))
    assert await store.store.views.expiry.last_time(OldestLogFile(0, 4096)) == START_MS + 4_000


async def test_a_file_of_a_clock_that_was_ahead_is_as_old_as_a_later_file(tmp_path: Path) -> None:
    clock = FakeClock(START_MS + 24 * 365 * 86_400_000)
    async with store_at(tmp_path / "s", clock=clock) as store:
        await filled(store)
        ahead_ms = clock.wall
        clock.wall = START_MS
        await filled(store)
        await store.send("orders", "the last")
        expiry, oldest = store.store.views.expiry, OldestLogFile(0, 4096)
        assert await expiry.last_time(oldest) > START_MS + 10_000
        believed_ms = await expiry.last_time(oldest, START_MS + 3_600_000)
        assert START_MS <= believed_ms <= clock.wall < ahead_ms


async def test_a_damaged_file_is_never_old(store: TalkingStore) -> None:
    path = store.directory / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[4:8] = b"rust"
    path.write_bytes(content)
    assert await store.store.views.expiry.last_time(OldestLogFile(0, 4096)) == UNKNOWN_TIME


async def test_a_file_that_cannot_be_removed_stays_in_the_log(store: TalkingStore) -> None:
    store.quick_disk.fail("unlink", PermissionError(13, "Permission denied"))
    oldest = store.store.views.expiry.oldest()
    assert oldest is not None
    with pytest.raises(PermissionError):
        await store.store.views.expiry.drop(oldest)
    assert store.store.min_offset == 0
    assert await store.pulled("orders", 0) == BODIES[::2]
