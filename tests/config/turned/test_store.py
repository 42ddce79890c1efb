"""Every setting of the store's files and records, turned: what the store then does otherwise."""

import asyncio
from pathlib import Path
from time import perf_counter

import pytest

from pocketmq.format.consume_unit import UNIT
from pocketmq.format.index_layout import STYLE_5_3, TAG_TYPE
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import PROPERTY_CRC_SIZE
from pocketmq.model.batch import Destination, PutStatus, batch_of
from pocketmq.model.errors import StoreBusy
from pocketmq.model.message import DELAY
from pocketmq.model.topic import SCHEDULE_TOPIC
from tests.config.turned.language import OFTEN, TurnedStore, store_with
from tests.kit.store_language import STORE_HOST, until
from tests.sim.clock import START_MS

THOROUGH_NEVER = "store.flush_thorough_interval_ms=1d"
VIEWS_NEVER = "store.view_flush_thorough_interval_ms=1d"


def is_flushed(store: TurnedStore) -> bool:
    return store.store.flushed == store.store.appended


@pytest.mark.knob("store.directory")
async def test_the_store_lies_where_it_is_told(tmp_path: Path) -> None:
    async with store_with(tmp_path / "here") as store:
        await store.send("T", "a")
    assert (tmp_path / "here" / "commitlog").is_dir()
    assert not (tmp_path / "store").exists()


@pytest.mark.knob("store.commit_log_file_size_bytes")
async def test_log_files_have_their_length(tmp_path: Path) -> None:
    async with store_with(tmp_path, "store.commit_log_file_size_bytes=8KiB") as store:
        for _ in range(3):
            await store.send("T", "x" * 5_000)
        assert [*store.files("commitlog").items()][:3] == [
            (f"{base:020d}", 8_192) for base in (0, 8_192, 16_384)
        ]


@pytest.mark.knob("store.consume_queue_file_size_bytes")
async def test_queue_files_have_their_length(tmp_path: Path) -> None:
    async with store_with(tmp_path, "store.consume_queue_file_size_bytes=60") as store:
        await store.send("T", *"abcd")
        await store.settled()
        assert store.files("consumequeue/T/0") == {f"{0:020d}": 60, f"{60:020d}": 60}


@pytest.mark.knob("store.index_slot_count")
async def test_index_files_have_their_slots(tmp_path: Path) -> None:
    for slots in (8, 50):
        directory = tmp_path / str(slots)
        async with store_with(directory, f"store.index_slot_count={slots}") as store:
            await store.send("T", "a", key="k")
            await store.settled()
            (size,) = store.files("index").values()
            assert size == 40 + 4 * slots + 20 * 16


@pytest.mark.knob("store.index_entry_count_max")
async def test_an_index_file_is_full_at_its_entries(tmp_path: Path) -> None:
    for entries, files in ((16, 1), (4, 3)):
        directory = tmp_path / str(entries)
        async with store_with(directory, f"store.index_entry_count_max={entries}") as store:
            for number in range(7):
                await store.send("T", "a", key=f"k{number}")
            await store.settled()
            assert len(store.files("index")) == files


@pytest.mark.knob("store.index_style")
async def test_from_5_5_on_tags_are_indexed(tmp_path: Path) -> None:
    found = []
    for style in ("5.5", STYLE_5_3):
        async with store_with(tmp_path / style, f"store.index_style={style}") as store:
            await store.send("T", "a", tag="TagA", unique_key="0123")
            found.append(await store.found("T", "TagA", index_type=TAG_TYPE))
    assert found == [["a"], []]


@pytest.mark.knob("store.time_zone")
async def test_index_files_are_named_by_the_time_of_a_zone(tmp_path: Path) -> None:
    names: list[str] = []
    for zone in ("UTC", "Asia/Shanghai"):
        async with store_with(tmp_path / zone, f"store.time_zone={zone}") as store:
            await store.send("T", "a", key="k")
            await store.settled()
            names += store.files("index")
    assert [name[8:12] for name in names] == ["1106", "1906"]


@pytest.mark.knob("store.flush")
async def test_sync_waits_for_the_disk_and_async_does_not(tmp_path: Path) -> None:
    async with store_with(tmp_path / "async", "store.flush=async") as store:
        with store.disk.held():
            assert (await store.send("T", "a")).status is PutStatus.OK
    async with store_with(tmp_path / "sync", "store.flush=sync") as store:
        with store.disk.held():
            sending = asyncio.create_task(store.send("T", "a"))
            await until(lambda: store.is_synced("commitlog"))
            assert not sending.done()
        assert (await sending).status is PutStatus.OK


@pytest.mark.knob("store.flush_interval_ms")
async def test_the_log_is_flushed_at_its_interval(tmp_path: Path) -> None:
    given = (*OFTEN, THOROUGH_NEVER, "store.flush_least_pages=0", "store.flush_interval_ms=300ms")
    async with store_with(tmp_path, *given) as store:
        await store.send("T", "a")
        await store.happens_after(299, lambda: is_flushed(store))


@pytest.mark.knob("store.flush_least_pages")
async def test_few_dirty_pages_wait(tmp_path: Path) -> None:
    async with store_with(tmp_path, *OFTEN, THOROUGH_NEVER, "store.flush_least_pages=2") as store:
        await store.send("T", "x" * 7_000)
        await store.passed(1_000)
        assert not is_flushed(store)
        await store.send("T", "x" * 1_500)
        await store.passed(1)
        await until(lambda: is_flushed(store))


@pytest.mark.knob("store.flush_thorough_interval_ms")
async def test_they_wait_for_the_thorough_flush(tmp_path: Path) -> None:
    given = (*OFTEN, "store.flush_least_pages=9", "store.flush_thorough_interval_ms=5s")
    async with store_with(tmp_path, *given) as store:
        await store.passed(1)
        await store.send("T", "a")
        await store.happens_after(4_998, lambda: is_flushed(store), within_ms=2)


@pytest.mark.knob("store.sync_flush_timeout_ms")
async def test_a_producer_waits_no_longer_than_this(tmp_path: Path) -> None:
    given = ("store.sync_flush_timeout_ms=300ms", "store.view_flush_interval_ms=1ms")
    async with store_with(tmp_path, *given) as store:
        with store.disk.held():
            sending = asyncio.create_task(store.send("T", "a"))
            await until(lambda: store.is_synced("commitlog"))
            await store.passed(299)
            assert not sending.done()
            await store.passed(200)
            assert (await sending).status is PutStatus.FLUSH_DISK_TIMEOUT


@pytest.mark.knob("store.view_flush_interval_ms")
async def test_queues_are_flushed_at_their_interval(tmp_path: Path) -> None:
    given = (*OFTEN, VIEWS_NEVER, "store.view_flush_least_pages=0")
    async with store_with(tmp_path, *given, "store.view_flush_interval_ms=300ms") as store:
        await store.send("T", "a")
        await store.settled()
        await store.happens_after(299, lambda: store.is_synced("consumequeue"))


@pytest.mark.knob("store.view_flush_least_pages")
@pytest.mark.parametrize(("pages", "is_flushed"), [(0, True), (1, False)])
async def test_queues_with_few_dirty_pages_wait(
    tmp_path: Path, pages: int, *, is_flushed: bool
) -> None:
    given = (*OFTEN, VIEWS_NEVER, f"store.view_flush_least_pages={pages}")
    async with store_with(tmp_path, *given) as store:
        await store.send("T", "a")
        await store.settled()
        await store.passed(1_000)
        if is_flushed:  # In a thread, which takes as long as it takes.
            await until(lambda: store.is_synced("consumequeue"))
        assert store.is_synced("consumequeue") == is_flushed


@pytest.mark.knob("store.view_flush_thorough_interval_ms")
async def test_the_checkpoint_is_written_with_the_thorough_flush(tmp_path: Path) -> None:
    given = (*OFTEN, "store.view_flush_thorough_interval_ms=5s", "store.flush_least_pages=0")
    async with store_with(tmp_path, *given) as store:
        before = (tmp_path / "checkpoint").read_bytes()
        await store.send("T", "a")
        await store.settled()
        await store.passed(4_998)
        assert (tmp_path / "checkpoint").read_bytes() == before
        await store.passed(2)
        await until(lambda: (tmp_path / "checkpoint").read_bytes() != before)


@pytest.mark.knob("store.busy_timeout_ms")
async def test_a_writer_that_finds_the_store_held_is_refused(tmp_path: Path) -> None:
    async with store_with(tmp_path, "store.busy_timeout_ms=1ms") as store:
        with store.store.writing.writer.lock:
            begun = perf_counter()
            await until(lambda: perf_counter() - begun > 0.002)
            with pytest.raises(StoreBusy) as caught:
                await store.send("T", "a")
        assert caught.value.limit_ms == 1
        assert (await store.send("T", "a")).status is PutStatus.OK


@pytest.mark.knob("store.property_crc")
async def test_records_end_with_a_crc_of_all_of_them(tmp_path: Path) -> None:
    sizes = []
    for word in ("false", "true"):
        async with store_with(tmp_path / word, f"store.property_crc={word}") as store:
            await store.send("T", "a")
            await store.settled()
            (record,) = store.pull("T", 0).records
            sizes.append(len(record))
    assert sizes[1] - sizes[0] == PROPERTY_CRC_SIZE


@pytest.mark.knob("store.delay_levels")
async def test_a_level_is_a_delay_of_its_list(tmp_path: Path) -> None:
    made = batch_of(b"a", property_block=encode_properties({DELAY: "2"}))
    async with store_with(tmp_path, "store.delay_levels=1s 7s") as store:
        await store.store.writing.put([(Destination(SCHEDULE_TOPIC, 1, STORE_HOST), made)])
        await store.settled()
        unit = (tmp_path / "consumequeue" / SCHEDULE_TOPIC / "1" / f"{0:020d}").read_bytes()
        assert UNIT.unpack_from(unit)[2] == START_MS + 7_000
