"""Records whose units are damaged: found in the log, served, and led to again."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.format.consume_unit import UNIT
from broker.format.record import decode_record
from broker.log.consume_queue import ConsumeQueue
from broker.model.errors import MessageDamaged
from broker.model.reading import PullResult, ReadRange
from broker.store.reading import unit_repair
from broker.store.reading.patience import value_of
from broker.store.reading.record_check import Damage
from tests.fakes.quick_disk import QuickDisk
from tests.fakes.store_language import TalkingStore, store_at

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
    """Put another unit in the place of one."""
    file = queue_of(store).files.file_at(20 * queue_offset)
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
        relead(store, number, *was[(number + 7) % COUNT])
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

    def counted(self: unit_repair.Search, units: bytes, first: int, damage: Damage) -> object:
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
    monkeypatch.setattr("broker.log.queue_units.HOT_SIZE", 0)
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
