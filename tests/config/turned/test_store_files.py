"""How the store keeps its files: transient pool, warm files, extension, how many are open."""

from pathlib import Path
from typing import Final

import pytest

from pocketmq.format.consume_unit import UNIT, is_extension_address
from pocketmq.model.reading import PullStatus
from tests.config.turned.language import OFTEN, TurnedStore, store_with
from tests.kit.store_language import until

POOL: Final = (*OFTEN, "store.transient_pool=true", "store.transient_pool_file_count=2")
SELDOM: Final = ("store.commit_thorough_interval_ms=1h", "store.commit_interval_ms=1ms")


def is_committed(store: TurnedStore) -> bool:
    marks = store.store.marks
    return marks.committed.value == marks.appended.value


async def first_round(store: TurnedStore) -> None:
    """Waits for the pass that every start makes."""
    await store.passed(1)
    await until(lambda: is_committed(store))


@pytest.mark.knob("store.transient_pool")
async def test_messages_wait_in_the_pool_before_they_are_seen(tmp_path: Path) -> None:
    async with store_with(tmp_path, *POOL, *SELDOM, "store.commit_least_pages=9") as store:
        await first_round(store)
        await store.send("T", "a")
        await store.passed(1_000)
        assert store.pull("T", 0).status is PullStatus.NO_NEW_MESSAGE


@pytest.mark.knob("store.transient_pool_file_count")
async def test_so_many_buffers_are_made(tmp_path: Path) -> None:
    async with store_with(tmp_path, *POOL, "store.transient_pool_file_count=4") as store:
        pool = store.store.log.pool
        assert pool is not None
        assert (pool.count, pool.free_count) == (4, 4)
        await store.send("T", "a")
        assert pool.free_count == 3


@pytest.mark.knob("store.commit_interval_ms")
async def test_what_waits_is_committed_at_its_interval(tmp_path: Path) -> None:
    given = (*SELDOM, "store.commit_least_pages=0", "store.commit_interval_ms=300ms")
    async with store_with(tmp_path, *POOL, *given) as store:
        await store.send("T", "a")
        await store.happens_after(299, lambda: is_committed(store))


@pytest.mark.knob("store.commit_least_pages")
async def test_few_pages_wait_in_the_pool(tmp_path: Path) -> None:
    async with store_with(tmp_path, *POOL, *SELDOM, "store.commit_least_pages=2") as store:
        await first_round(store)
        await store.send("T", "x" * 7_000)
        await store.passed(1_000)
        assert not is_committed(store)
        await store.send("T", "x" * 1_500)
        await store.passed(1)
        await until(lambda: is_committed(store))


@pytest.mark.knob("store.commit_thorough_interval_ms")
async def test_they_wait_for_the_thorough_pass(tmp_path: Path) -> None:
    given = ("store.commit_interval_ms=1ms", "store.commit_thorough_interval_ms=5s")
    async with store_with(tmp_path, *POOL, *given, "store.commit_least_pages=9") as store:
        await first_round(store)
        await store.send("T", "a")
        await store.happens_after(4_900, lambda: is_committed(store), within_ms=200)


@pytest.mark.knob("store.warm_files")
async def test_the_next_file_is_locked_in_memory(tmp_path: Path) -> None:
    async with store_with(tmp_path / "cold") as store:
        assert not store.disk.calls["lock"]
    async with store_with(tmp_path / "warm", "store.warm_files=true") as store:
        assert store.disk.calls["lock"] == [(65_536,)]


@pytest.mark.knob("store.consume_queue_extension")
async def test_units_lead_to_an_extension(tmp_path: Path) -> None:
    async with store_with(tmp_path, "store.consume_queue_extension=true") as store:
        await store.send("T", "a", tag="A")
        await store.settled()
        unit = UNIT.unpack(store.store.views.queues.queues["T", 0].units.read(0, 1))
        assert is_extension_address(unit[2])
    assert (tmp_path / "consumequeue_ext" / "T" / "0" / f"{0:020d}").exists()


@pytest.mark.knob("store.consume_queue_extension_file_size_bytes")
async def test_the_files_of_the_extension_are_so_long(tmp_path: Path) -> None:
    given = ("store.consume_queue_extension=true",)
    size = "store.consume_queue_extension_file_size_bytes=8KiB"
    async with store_with(tmp_path, *given, size) as store:
        await store.send("T", "a")
        await store.settled()
    assert store.files("consumequeue_ext") == {f"{0:020d}": 8_192}


@pytest.mark.knob("store.open_queue_files_max")
async def test_no_more_queue_files_are_open(tmp_path: Path) -> None:
    async with store_with(tmp_path, "store.open_queue_files_max=3") as store:
        for queue_id in range(9):
            await store.send("T", f"m{queue_id}", queue_id=queue_id)
        await store.settled()
        assert store.store._structures.queue_files.count == 3
        for queue_id in range(9):
            assert await store.pulled("T", queue_id) == [f"m{queue_id}"]
        assert store.store._structures.queue_files.count == 3
