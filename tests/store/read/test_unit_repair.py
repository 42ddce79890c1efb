"""Records whose units are damaged: found in the log, served, and led to again."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.format.consume_unit import UNIT
from pocketmq.format.record import decode_record
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.reading import Bound, KeyRange, PullResult, PullStatus, ReadRange
from pocketmq.store.read import unit_repair
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.read.record_check import UnservedRecord
from tests.golden_stores import GoldenStores
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import TalkingStore, store_at
from tests.sim.quick_disk import QuickDisk

Unit = tuple[int, int, int]
COUNT = 60


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[TalkingStore]:
    """60 messages of queue 0 of T over some files, others of other queues between them."""
    async with store_at(tmp_path / "s") as made:
        for number in range(COUNT):
            await made.stocked()
            await made.send("T", f"{number} {'x' * 60}", tag="A")
            await made.stocked()
            await made.send("T", "other", queue_id=1)
            await made.stocked()
            await made.send("U", "other", queue_id=0)
        await made.settled()
        yield made


def queue_of(store: TalkingStore) -> ConsumeQueue:
    return store.store.views.queues.queues["T", 0]


def unit_of(store: TalkingStore, queue_offset: int) -> Unit:
    unit = queue_of(store).units.at(queue_offset)
    assert unit is not None
    return unit


def relead(store: TalkingStore, queue_offset: int, *unit: int) -> None:
    """Puts another unit in the place of one."""
    queue = queue_of(store)
    queue.units.write_out()
    file = queue.files.file_at(20 * queue_offset)
    assert file is not None
    file.open().write(20 * queue_offset - file.base, UNIT.pack(*unit))


async def pull(store: TalkingStore, queue_offset: int, count: int = 32) -> PullResult:
    return await value_of(store.store.reading.pull(ReadRange("T", 0, queue_offset, count, 1 << 20)))


async def everything(store: TalkingStore) -> list[int]:
    """The numbers of all messages of the queue, read from its beginning."""
    found: list[int] = []
    while len(found) < COUNT:
        result = await pull(store, len(found))
        assert result.next_begin_offset == len(found) + result.record_count
        found += [int(decode_record(record).body.split()[0]) for record in result.records]
    return found


def nonsense(unit: Unit, other: Unit) -> list[Unit]:
    place, size, code = unit
    return [
        (0, 0, 0),
        (place ^ 1, size, code),
        (place ^ 1 << 62, size, code),
        (place | -(2**63), size, code),
        (place, size ^ 1 << 20, code),
        (place, size | -(2**31), code),
        (place, size ^ 4, code),
        (place + 4096 * 1000, size, code),
        other,
    ]


@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("queue_offset", [0, 1, 9, 10, 30, 59])
async def test_a_damaged_unit_hides_no_message(
    store: TalkingStore, number: int, queue_offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    was = unit_of(store, queue_offset)
    relead(store, queue_offset, *nonsense(was, unit_of(store, 40))[number])
    with caplog.at_level(logging.WARNING):
        assert await everything(store) == list(range(COUNT))
    assert unit_of(store, queue_offset) == was
    (line,) = [r for r in caplog.records if r.message == "consume_queue.mended"]
    assert vars(line)["queue_offset"] == queue_offset
    assert vars(line)["physical_offset"] == was[0]


async def test_a_row_of_damaged_units_hides_nothing(store: TalkingStore) -> None:
    was = [unit_of(store, number) for number in range(COUNT)]
    for number in range(COUNT):
        relead(store, number, *was[COUNT - 1 - number])
    assert await everything(store) == list(range(COUNT))
    assert [unit_of(store, number) for number in range(COUNT)] == was


async def test_a_store_that_is_not_written_serves_without_mending(store: TalkingStore) -> None:
    store.store.reading.repair.is_writing = False
    relead(store, 7, 0, 0, 0)
    for _ in range(2):
        assert await everything(store) == list(range(COUNT))
    assert unit_of(store, 7) == (0, 0, 0)


async def test_what_the_log_lost_is_looked_for_once(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, size, _ = unit_of(store, 20)
    file = store.store.log.files.file_at(place)
    assert file is not None
    store.disk.write_at(file.open().descriptor, place - file.base, bytes(size))
    searches: list[int] = []
    run = unit_repair.Search.run

    def counted(
        self: unit_repair.Search, units: bytes, first: int, damage: UnservedRecord
    ) -> object:
        searches.append(damage.queue_offset)
        return run(self, units, first, damage)

    monkeypatch.setattr(unit_repair.Search, "run", counted)
    for _ in range(3):
        with pytest.raises(MessageDamaged) as caught:
            await pull(store, 20)
        assert (caught.value.physical_offset, caught.value.next_begin_offset) == (place, 21)
    assert searches == [20]
    assert (await pull(store, 21)).record_count > 0


async def test_damage_beside_a_damaged_unit_does_not_end_the_search(store: TalkingStore) -> None:
    """Sizes and heads of the records between its neighbours are damaged too."""
    place = unit_of(store, 20)[0]
    for other in (place - 150, place - 300):
        file = store.store.log.files.file_at(other)
        assert file is not None
        store.disk.write_at(file.open().descriptor, other - file.base, b"\xff" * 40)
    relead(store, 20, 0, 0, 0)
    result = await pull(store, 20, 1)
    assert decode_record(result.records[0]).body.startswith(b"20 ")


async def test_what_a_body_holds_is_no_record(store: TalkingStore) -> None:
    """A body that looks like the wanted record, at the very place it names."""
    wanted = bytes((await pull(store, 30, 1)).records[0])
    end = store.store.appended
    head = 88
    forged = wanted[:28] + (end + head).to_bytes(8) + wanted[36:]
    await store.stocked()
    await store.send("U", forged)
    await store.settled()
    relead(store, 30, 0, 0, 0)
    for number in range(31, COUNT):
        relead(store, number, 0, 0, 0)
    result = await pull(store, 30, 1)
    assert result.records == [wanted]


async def test_units_that_are_not_in_memory_are_fetched(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    relead(store, 3, 0, 0, 0)
    monkeypatch.setattr("pocketmq.log.queue_units.HOT_SIZE", 0)
    assert isinstance(store.disk, QuickDisk)
    store.disk.drop_resident()
    assert (await pull(store, 3, 1)).record_count == 1


async def test_one_search_at_a_time(store: TalkingStore) -> None:
    for number in (10, 20, 30):
        relead(store, number, 0, 0, 0)
    results = await asyncio.gather(*(pull(store, number, 1) for number in (10, 20, 30, 10)))
    bodies = [decode_record(result.records[0]).body.split()[0] for result in results]
    assert bodies == [b"10", b"20", b"30", b"10"]
    assert store.store.reading.repair.repaired_count <= 4


async def test_a_file_that_is_gone_ends_nothing(store: TalkingStore) -> None:
    relead(store, 30, 0, 0, 0)
    files = store.store.log.files
    files.files[1].path.unlink()
    assert (await pull(store, 30, 1)).record_count == 1


# -- offsets that a real broker counted further ----------------------------------------------------


@pytest.fixture
async def drifted(golden: GoldenStores, tmp_path: Path) -> AsyncIterator[TalkingStore]:
    """Records of `Old500` queue 0 carry queue offsets 1 to 3 above their units."""
    directory = golden.copy("v500", tmp_path / "v500")
    async with store_at(directory, **golden_sizes(golden, "v500")) as made:
        yield made


async def old_places(store: TalkingStore) -> list[int]:
    """Where the messages of the queue lie, by their queue offsets as pulls show them."""
    places: list[int] = []
    while True:
        wanted = ReadRange("Old500", 0, len(places), 32, 1 << 20)
        result = await value_of(store.store.reading.pull(wanted))
        if result.status is not PullStatus.FOUND:
            return places
        for record in map(decode_record, result.records):
            assert record.queue_offset == len(places)
            places.append(record.physical_offset)
        assert result.next_begin_offset == len(places)


def old_units(store: TalkingStore) -> bytes:
    return store.store.views.queues.queues["Old500", 0].units.read(0, 10_000)


async def test_offsets_above_their_units_are_no_damage(drifted: TalkingStore) -> None:
    units = old_units(drifted)
    places = await old_places(drifted)
    assert places == [place for place, _, _ in UNIT.iter_unpack(units)]
    assert len(places) == 574
    assert old_units(drifted) == units
    assert drifted.store.reading.repair.repaired_count == 0


async def test_searches_by_key_and_id_show_the_offsets_that_pulls_do(
    drifted: TalkingStore,
) -> None:
    reading, places = drifted.store.reading, await old_places(drifted)
    carried = 0
    for queue_offset, place in enumerate(places):
        message = await value_of(reading.message_at(place))
        assert message is not None
        assert (message.physical_offset, message.queue_offset) == (place, queue_offset)
        record = decode_record(drifted.store._structures.log.read(place, message.store_size))
        carried += record.queue_offset != queue_offset
        if queue_offset % 29 == 0:
            for key in (message.unique_key, *message.keys[:1]):
                page = await reading.query(KeyRange("Old500", key, 64))
                shown = {m.physical_offset: m.queue_offset for m in page.messages}
                assert shown[place] == queue_offset
    assert carried > len(places) // 2


async def test_a_time_is_found_among_offsets_above_their_units(drifted: TalkingStore) -> None:
    reading = drifted.store.reading
    for queue_offset in (0, 100, 400, 573):
        time_ms = await value_of(reading.store_timestamp_at("Old500", 0, queue_offset))
        assert time_ms is not None
        found = reading.queue_offset_by_time("Old500", 0, time_ms, Bound.UPPER)
        upper = await value_of(found)
        assert upper >= queue_offset
        assert await value_of(reading.store_timestamp_at("Old500", 0, upper)) == time_ms


@pytest.mark.parametrize("count", [1, 2])
async def test_a_damaged_unit_beside_offsets_above_theirs_is_written_again(
    drifted: TalkingStore, count: int
) -> None:
    units = old_units(drifted)
    files = drifted.store.views.queues.queues["Old500", 0].files
    for queue_offset in range(60, 560, 29):
        for number in range(queue_offset, queue_offset + count):
            found = files.file_at(20 * number)
            assert found is not None
            found.open().write(20 * number - found.base, UNIT.pack(12, 345, 6))
        assert len(await old_places(drifted)) == 574
        assert old_units(drifted) == units
