"""The store as a whole: what a put promises, who sees what when, and how it ends."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.names import RESERVE_FILE
from pocketmq.model.batch import Destination, PutStatus, Run
from pocketmq.model.errors import (
    AllocationFailed,
    DiskFull,
    Draining,
    FsyncFailed,
    RecordTooLarge,
    StoreFailed,
    StoreLocked,
)
from pocketmq.model.message import TRANSACTION_PREPARED
from pocketmq.model.reading import Bound, PullStatus
from pocketmq.model.step import Next, Now
from pocketmq.store.dispatch import dispatcher as dispatcher_module
from pocketmq.store.message_store import open_store
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.recovery.progress import Starting
from pocketmq.store.write.allocation import Allocation
from tests.kit.golden_log import files_below
from tests.kit.rows import batch
from tests.kit.store_language import (
    STORE_HOST,
    TalkingStore,
    put_row,
    queue_bodies,
    rebuilt_views,
    small_settings,
    store_at,
    turns,
    until,
    view_files,
)
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk, open_files

HALF_FILE = "x" * 2_000
NEARLY_A_FILE = "x" * 3_900


def run_of(*bodies: str, topic: str = "T") -> Run:
    """One run of a put."""
    return Destination(topic, 0, STORE_HOST), batch(*map(put_row, bodies))


# -- the life of a message -------------------------------------------------------------------------


async def test_a_message_is_pulled_queried_and_found_again_after_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    async with store_at(tmp_path / "s", clock=clock) as store:
        assert store.store.state == "running"
        for number in range(30):
            await store.send("T", f"{number}", key=f"k{number % 3}", unique_key=f"id{number}")
            clock.advance(1_000)
        await store.send("T", "elsewhere", queue_id=2)
        whole = await store.pulled("T")
        assert whole == [str(number) for number in range(30)]
    async with store_at(tmp_path / "s", clock=clock) as store:
        assert await store.pulled("T") == whole
        assert await store.pulled("T", 2) == ["elsewhere"]
        assert await store.found("T", "k1") == [str(number) for number in range(28, 0, -3)]
        assert (await store.send("T", "next")).queue_offset == 30
        assert await store.pulled("T") == [*whole, "next"]


async def test_runs_of_one_put_lie_next_to_each_other(store: TalkingStore) -> None:
    runs = run_of(*"ab"), run_of("c", topic="other"), run_of("d")
    results = await store.store.writing.put(runs)
    places = [place for result in results for place in result.physical_offsets]
    assert [result.end for result in results] == [*places[2:], store.store.appended]
    assert [result.queue_offset for result in results] == [0, 0, 2]
    assert {result.store_timestamp_ms for result in results} == {START_MS}
    assert await store.pulled("T") == ["a", "b", "d"]
    assert await store.pulled("other") == ["c"]


async def test_questions_about_one_message(store: TalkingStore) -> None:
    first = (await store.send("T", "a", unique_key="id1")).physical_offsets[0]
    store.clock.advance(500)
    second = (await store.send("T", "b", key="id1", unique_key="id2")).physical_offsets[0]
    await store.settled()
    facade = store.store
    message = await facade.reading.message_by_unique_key("T", "id1")
    assert message is not None
    assert message.physical_offset == first
    assert await facade.reading.message_by_unique_key("T", "id3") is None
    assert await facade.reading.message_by_unique_key("U", "id1") is None
    found = await value_of(facade.reading.message_at(second))
    assert found is not None
    assert found.body == b"b"
    for place in (-1, 1, second - 1, facade.appended, 1 << 40):
        assert facade.reading.message_at(place) is None
    assert facade.reading.store_timestamp_at("T", 0, 1) == START_MS + 500
    assert facade.reading.store_timestamp_at("T", 0, 2) is None
    assert facade.reading.store_timestamp_at("T", 9, 0) is None
    assert facade.reading.queue_offset_by_time("T", 0, START_MS + 1, Bound.LOWER) == 1
    assert facade.reading.queue_offset_by_time("T", 0, START_MS + 1, Bound.UPPER) == 0
    assert facade.reading.queue_offset_by_time("T", 9, START_MS, Bound.LOWER) == 0


async def test_a_unique_key_is_found_behind_many_that_only_hash_alike(store: TalkingStore) -> None:
    await store.send("T", "wanted", unique_key="Aa")
    for number in range(40):
        await store.send("T", f"{number}", key="Aa", unique_key="BB")
    await store.settled()
    pages = store.store.reading._keys.seconds
    message = await store.store.reading.message_by_unique_key("T", "Aa")
    assert message is not None
    assert message.body == b"wanted"
    assert sum(pages.counts) > 1


async def test_every_component_shows_its_numbers(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        names = [stat.name for stat in store.store.stats]
    assert {name for name in names if names.count(name) > 1} == {"pocketmq_flush_seconds"}
    assert {
        "pocketmq_store_state",
        "pocketmq_consume_queue_files",
        "pocketmq_index_entries_total",
        "pocketmq_query_key_seconds",
        "pocketmq_put_lock_wait_seconds",
        "pocketmq_append_seconds",
        "pocketmq_flush_seconds",
        "pocketmq_group_commit_messages",
        "pocketmq_reput_seconds",
    } <= set(names)


async def test_queues_without_a_topic_make_one(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.store.tables.topics.create("T", queue_count=1)
        await store.send("T", "a", queue_id=3)
        await store.send("U", "a", queue_id=3)
    async with store_at(tmp_path / "s") as store:
        counts = {name: store.store.tables.topics.find(name) for name in ("T", "U")}
        assert {n: t.write_queue_count for n, t in counts.items() if t} == {"T": 1, "U": 4}


# -- who sees what when ----------------------------------------------------------------------------


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_consumers_see_what_the_flush_mode_promises(tmp_path: Path, flush: str) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk, flush=flush) as store:
        with disk.held():
            arrived = store.store.reading.arrivals("T", 0).reached(1)
            put = asyncio.create_task(store.send("T", "a", unique_key="id"))
            await until(lambda: bool(store.store.appended))
            if flush == "async":
                await arrived
                assert (await put).status is PutStatus.OK
                assert store.store.flushed == 0
            else:
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not put.done()
                assert store.pull("T", 0).status is PullStatus.NO_NEW_MESSAGE
                assert store.store.reading.message_at(0) is None
                assert await store.store.reading.message_by_unique_key("T", "id") is None
        await put
        assert await arrived is True
        assert await store.pulled("T") == ["a"]


async def test_a_put_that_does_not_wait_is_flushed_by_the_next_that_does(
    store: TalkingStore,
) -> None:
    await store.send("T", "a", wait=False)
    assert store.store.flushed == 0
    await store.send("T", "b")
    assert await store.pulled("T") == ["a", "b"]


@pytest.mark.parametrize("mode", [{}, {"flush": "async", "transient_pool": True}])
async def test_a_topic_is_removed_though_nothing_else_asks_for_a_flush(
    tmp_path: Path, mode: dict[str, Any]
) -> None:
    async with store_at(tmp_path / "s", **mode) as store:
        await store.send("T", "a", wait=False)
        assert store.store.dispatched == 0
        async with asyncio.timeout(5):
            await store.store.remove_topic("T")
        assert store.store.dispatched == store.store.appended


async def test_in_async_mode_the_timer_flushes(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", flush="async", flush_interval_ms=1) as store:
        await store.send("T", "a")
        store.clock.advance(10_000)
        await until(lambda: store.store.flushed == store.store.appended)


async def test_waiters_hear_of_every_message(store: TalkingStore) -> None:
    waiting = [store.store.reading.arrivals("T", 0).reached(number) for number in (1, 2, 3)]
    elsewhere = store.store.reading.arrivals("T", 1).reached(1)
    await store.send("T", "a", "b")
    assert [await waiter for waiter in waiting[:2]] == [True, True]
    assert not waiting[2].done()
    assert not elsewhere.done()
    store.store.drain()
    assert [await waiting[2], await elsewhere] == [False, False]


# -- what a put promises ---------------------------------------------------------------------------


async def test_queue_offsets_are_dense_whoever_puts_at_once(store: TalkingStore) -> None:
    async with asyncio.TaskGroup() as tasks:
        puts = [
            tasks.create_task(store.send("T", *["x"] * (1 + n % 3), queue_id=n % 4))
            for n in range(120)
        ]
    for queue_id in range(4):
        results = sorted(put.result().queue_offset for put in puts[queue_id::4])
        assert results[0] == 0
        assert len(await store.pulled("T", queue_id)) == sum(
            1 + n % 3 for n in range(queue_id, 120, 4)
        )


async def test_store_times_do_not_go_back_with_the_clock_over_a_restart(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", clock=FakeClock(START_MS + 9_000)) as store:
        before = (await store.send("T", "a")).store_timestamp_ms
    async with store_at(tmp_path / "s", clock=FakeClock(START_MS)) as store:
        assert (await store.send("T", "b")).store_timestamp_ms == before == START_MS + 9_000


async def test_prepared_messages_take_no_place_in_a_queue(store: TalkingStore) -> None:
    await store.send("T", "a")
    await store.send("T", "half", system_flag=TRANSACTION_PREPARED, key="k")
    await store.send("T", "b")
    assert await store.pulled("T") == ["a", "b"]
    assert await store.found("T", "k") == ["half"]


async def test_what_no_file_can_hold_is_refused_and_leaves_nothing(store: TalkingStore) -> None:
    await store.send("T", "a")
    await store.stocked()
    log = store.directory / "commitlog"
    before = files_below(log)
    one, half = (run_of(size * "x") for size in (4_000, 2_000))
    for runs in ([one], [run_of(HALF_FILE, HALF_FILE)], [half, half]):
        with pytest.raises(RecordTooLarge) as caught:
            await store.store.writing.put(runs)
        assert caught.value.limit_bytes == 4096 - 8
    assert files_below(log) == before
    assert (await store.send("T", "b")).queue_offset == 1


async def test_a_put_whose_caller_gives_up_is_stored(tmp_path: Path) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as store:
        with disk.held():
            puts = [asyncio.create_task(store.send("T", f"{n}", key="k")) for n in range(5)]
            await until(lambda: store.store.appended > 450)
            for put in puts[:3]:
                put.cancel()
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert [isinstance(result, asyncio.CancelledError) for result in results] == [True] * 3 + [
            False
        ] * 2
        assert await store.pulled("T") == ["0", "1", "2", "3", "4"]
        assert (await store.send("T", "5")).queue_offset == 5
    assert view_files(tmp_path / "s") == await rebuilt_views(tmp_path / "s", tmp_path / "anew")


async def test_a_put_that_waits_too_long_for_the_disk_is_told(store: TalkingStore) -> None:
    with store.quick_disk.held():
        put = asyncio.create_task(store.send("T", "a"))
        await until(lambda: store.store.appended > 0)
        store.clock.advance(5_000)
        assert (await put).status is PutStatus.FLUSH_DISK_TIMEOUT
    await until(lambda: store.store.flushed == store.store.appended)
    assert await store.pulled("T") == ["a"]


async def test_a_store_about_to_stop_refuses(store: TalkingStore) -> None:
    await store.send("T", "a")
    store.store.drain()
    assert store.store.state == "draining"
    with pytest.raises(Draining):
        await store.send("T", "b")
    assert await store.pulled("T") == ["a"]


# -- a disk without room ---------------------------------------------------------------------------


async def test_a_full_disk_refuses_what_needs_a_new_file_until_there_is_room(
    tmp_path: Path,
) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as store:
        await store.send("T", HALF_FILE)
        await store.stocked()
        disk.full_below = store.directory / "commitlog"
        await store.send("T", HALF_FILE)  # The spare file takes it.
        with pytest.raises(DiskFull):
            await store.send("T", NEARLY_A_FILE)
        await store.send("T", "fits")
        disk.full_below = None
        store.clock.advance(1_000)
        assert (await store.send("T", NEARLY_A_FILE)).queue_offset == 3
        assert await store.pulled("T") == [HALF_FILE, HALF_FILE, "fits", NEARLY_A_FILE]
        assert store.store.state == "running"
    assert not (tmp_path / "s" / "abort").exists()


async def test_a_view_without_room_makes_the_store_read_only_until_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "RETRY_INTERVAL_MS", 0)
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as store:
        await store.send("T", "a")
        await store.pulled("T")
        disk.full_below = store.directory / "consumequeue"
        await store.send("U", "b", key="k")
        await until(lambda: store.store.views.dispatcher.failure is not None)
        with pytest.raises(DiskFull, match="full"):
            await store.send("T", "c")
        assert queue_bodies(store.store, "T") == ["a"]
        disk.full_below = None
        assert await store.pulled("U") == ["b"]
        await store.send("T", "c")
        assert await store.pulled("T") == ["a", "c"]
    assert view_files(tmp_path / "s") == await rebuilt_views(tmp_path / "s", tmp_path / "anew")


async def test_a_store_closed_without_its_views_complete_says_so_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "RETRY_INTERVAL_MS", 0)
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as store:
        disk.full_below = store.directory / "consumequeue"
        await store.send("T", "a", key="k")
    assert (tmp_path / "s" / "abort").exists()
    async with store_at(tmp_path / "s") as store:
        assert await store.pulled("T") == ["a"]
        assert await store.found("T", "k") == ["a"]


# -- a disk that fails -----------------------------------------------------------------------------


async def test_a_failed_sync_is_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as store:
        await store.send("T", "kept")
        await store.settled()
        await store.stocked()
        flushed = store.store.flushed
        disk.sync_error = FsyncFailed(why="EIO")
        puts = [asyncio.create_task(store.send("T", f"{n}")) for n in range(5)]
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert {type(result) for result in results} <= {FsyncFailed, StoreFailed}
        assert store.store.failure.done()
        assert store.store.failure.exception() is disk.sync_error
        assert store.store.state == "failed"
        disk.sync_error, asked = None, len(disk.synced)
        with pytest.raises(StoreFailed):
            await store.send("T", "later")
        store.clock.advance(60_000)
        await turns()
        assert len(disk.synced) == asked  # The kernel reports a loss once: none is asked for again.
        assert store.store.flushed == flushed
        assert queue_bodies(store.store, "T") == ["kept"]
        assert await store.store.reading.arrivals("T", 0).reached(9) is False
    assert "store.failed" in [entry.message for entry in caplog.records]
    assert (tmp_path / "s" / "abort").exists()
    async with store_at(tmp_path / "s") as store:
        assert (await store.pulled("T"))[0] == "kept"


@pytest.mark.parametrize("below", ["", "commitlog", "consumequeue"])
async def test_a_sync_that_fails_while_closing_still_closes(tmp_path: Path, below: str) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as store:
        await store.send("T", "a")
        await store.send("T", "b", wait=False)
        disk.sync_error = FsyncFailed(why="EIO")
        disk.sync_error_below = store.directory / below
    assert store.store.failure.exception() is disk.sync_error
    assert (tmp_path / "s" / "abort").exists()
    async with store_at(tmp_path / "s") as store:
        assert (await store.pulled("T"))[0] == "a"


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        ("consumequeue", StoreFailed, "broken"),
        ("commitlog", AllocationFailed, "broken"),
        ("a step", StoreFailed, "of a loop"),
        ("a table", FsyncFailed, "a table"),
    ],
)
async def test_a_part_that_fails_ends_the_store(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
    error: type[StoreFailed],
    text: str,
) -> None:
    def fail(allocation: Allocation, now: Now) -> Next:
        raise ValueError("of a loop")

    disk = QuickDisk()
    if broken == "a step":
        monkeypatch.setattr(Allocation, "step", fail)
    async with store_at(tmp_path / "s", disk=disk) as store:
        if broken == "a table":
            disk.trouble.lose(FsyncFailed(why="a table"))
        disk.broken_below = store.directory / broken
        with pytest.raises(StoreFailed):
            for _ in range(3):
                await store.send("T", NEARLY_A_FILE)
                await until(lambda: store.store.failure.done() or broken == "commitlog")
        assert store.store.state == "failed"
        with pytest.raises(error, match=text):
            await store.store.failure
    assert "store.failed" in [entry.message for entry in caplog.records]


async def test_the_reserve_stands_soon_after_a_start(store: TalkingStore) -> None:
    reserve = store.directory / "pocketmq" / RESERVE_FILE
    assert reserve.stat().st_size == store.store.log.file_size_bytes


# -- opening and closing ---------------------------------------------------------------------------


async def test_a_start_that_fails_gives_the_lock_back(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a")
    topics = tmp_path / "s" / "config" / "topics.json"
    topics.parent.mkdir()
    topics.write_bytes(b"{")
    with pytest.raises(ValueError):
        async with store_at(tmp_path / "s"):
            pass
    assert open_files(tmp_path / "s") == []
    topics.unlink()
    async with store_at(tmp_path / "s") as store:
        assert await store.pulled("T") == ["a"]
    assert open_files(tmp_path / "s") == []


async def test_a_locked_store_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreLocked(path="s")

    monkeypatch.setattr("pocketmq.files.directory_lock.DirectoryLock.acquire", refuse)
    starting = Starting(FakeClock())
    with pytest.raises(StoreLocked):
        await open_store(small_settings(tmp_path / "s"), FakeClock(), QuickDisk(), starting)
    assert starting.state == "starting"


async def test_opening_is_logged_with_the_plan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with store_at(tmp_path / "s"):
            pass
    (opened,) = [entry for entry in caplog.records if entry.message == "store.opened"]
    assert vars(opened)["plan"] == "@no_log"


async def test_the_abort_mark_stands_while_the_store_is_open(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        assert (store.directory / "abort").read_text().isdecimal()
    assert not (tmp_path / "s" / "abort").exists()
    assert sorted(path.name for path in (tmp_path / "s" / "commitlog").iterdir()) == []
