"""Pulling what is not fresh: the same answers, read in a thread."""

import asyncio
import os
from collections.abc import AsyncIterator
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.consume_unit import PRE_BLANK, UNIT
from pocketmq.format.java_hash import tags_code
from pocketmq.format.record import decode_record
from pocketmq.log import commit_log
from pocketmq.model.errors import MessageDamaged, ReadFailed
from pocketmq.model.reading import PullResult, PullStatus, ReadRange
from pocketmq.store.read.known_pull import SPAN_MAX
from pocketmq.store.read.read_plan import QueuedRecords, Row, choose, runs_of
from pocketmq.store.read.record_check import GAP_MAX
from tests.kit.store_language import TalkingStore, at_once, store_at, until
from tests.sim.quick_disk import QuickDisk

BODIES = [f"message {number:03d}" for number in range(60)]


@pytest.fixture(autouse=True)
def _nothing_is_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "HOT_SIZE", 0)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[TalkingStore]:
    """A store that holds all of them, of which nothing is hot."""
    async with store_at(tmp_path / "s") as made:
        for body in BODIES:
            await made.stocked()
            await made.send("orders", body, tag="even" if int(body[-3:]) % 2 == 0 else "odd")
        await made.settled()
        yield made


async def cold(store: TalkingStore, queue_offset: int = 0) -> PullResult:
    store.quick_disk.drop_resident()
    found = store.store.reading.pull(ReadRange("orders", 0, queue_offset, 32, 1 << 20))
    assert not isinstance(found, PullResult)
    return await found


def bodies(result: PullResult) -> list[str]:
    return [decode_record(record).body.decode() for record in result.records]


async def test_old_messages_come_as_fresh_ones_do(store: TalkingStore) -> None:
    result = await cold(store, 10)
    assert (result.status, result.next_begin_offset) == (PullStatus.FOUND, 42)
    assert bodies(result) == BODIES[10:42]


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
async def test_old_messages_in_memory_are_read_at_once_whatever_lies_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool, is_known: bool
) -> None:
    """Records of a queue alternate with those of others: one read, as long as it is no waste."""
    sizes: list[int] = []
    usual = QuickDisk.read_resident

    def counted(disk: QuickDisk, descriptor: int, position: int, size: int) -> bytes | None:
        sizes.append(size)
        return usual(disk, descriptor, position, size)

    async with store_at(tmp_path / "s", commit_log_file_size_bytes=1 << 20) as store:
        for number in range(20):
            between = "x" * (SPAN_MAX if number == 12 else 3_000)
            await store.send("mixed", f"mine {number:02}", queue_id=0)
            await store.send("mixed", between, queue_id=1)
        await store.settled()
        (file,) = store.store.reading._log.files.files
        if not is_known:
            file.doubt()
        monkeypatch.setattr(QuickDisk, "read_resident", counted)
        wanted = ReadRange("mixed", 0, 0, 32, 1 << 20)
        found = at_once(store.store.reading.pull(wanted, joined=joined))
    assert found.record_count == 20
    assert b"".join(found.records).count(b"mine") == 20
    of_log = [size for size in sizes if size > 1_000]
    assert len(of_log) == 2
    assert max(of_log) <= SPAN_MAX


@pytest.mark.parametrize("trouble", ["silent", "failing"])
async def test_where_memory_cannot_be_asked_a_thread_reads(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """A file system that cannot report cached pages, and one that fails to read them."""

    def fail(*_: object) -> bytes:
        raise ReadFailed(path="p", why="EIO")

    store.disk.tells_resident = trouble == "failing"
    monkeypatch.setattr(QuickDisk, "read_resident", fail)
    found = store.store.reading.pull(ReadRange("orders", 0, 10, 32, 1 << 20))
    assert not isinstance(found, PullResult)
    assert bodies(await found) == BODIES[10:42]


async def test_a_filter_chooses_before_anything_is_read(store: TalkingStore) -> None:
    wanted = ReadRange("orders", 0, 0, 4, 1 << 20)
    result = await store.store.reading.pull_cold(wanted, tags_code("odd").__eq__)
    assert bodies(result) == BODIES[1:8:2]
    assert result.next_begin_offset == 9


async def test_where_nothing_is_the_answer_is_the_same(store: TalkingStore) -> None:
    pull = store.store.reading.pull_cold
    result = await pull(ReadRange("orders", 0, 60, 1, 1))
    assert result.status is PullStatus.OFFSET_OVERFLOW_ONE
    result = await pull(ReadRange("nothing", 0, 0, 1, 1))
    assert result.status is PullStatus.NO_NEW_MESSAGE


def overwrite(store: TalkingStore, queue_offset: int, position: int, content: bytes) -> int:
    """Puts bytes over a record on disk; returns where the record lies."""
    parts = store.store._structures
    unit = parts.queues.queues["orders", 0].units.at(queue_offset)
    assert unit is not None
    file = parts.log.files.file_at(unit[0])
    assert file is not None
    with file.path.open("r+b") as disk:
        disk.seek(unit[0] - file.base + position)
        disk.write(content)
    return unit[0]


@pytest.mark.parametrize(
    ("position", "content", "why"),
    [
        (95, b"\0", "the CRC of its body is wrong"),
        (28, b"\x7f", "its own physical offset is"),
        (0, b"\0\0\0\x64", "its lengths disagree"),
        (36, b"\0\0\0\x10", "extends beyond its file|its lengths disagree"),
        (84, b"\xff", "negative body length"),
        (4, b"\xdb", "is not that of a record"),
        (12, b"\1", "another record is there: 'orders' 16777216 at 30"),
        (100, b"O", "another record is there: 'Orders' 0 at 30"),
    ],
)
async def test_one_damaged_record_costs_that_record_and_is_named(
    store: TalkingStore, position: int, content: bytes, why: str
) -> None:
    place = overwrite(store, 30, position, content)
    before = await cold(store, 10)
    assert bodies(before) == BODIES[10:30]
    assert before.next_begin_offset == 30
    with pytest.raises(MessageDamaged, match=why) as caught:
        await cold(store, 30)
    error = caught.value
    assert (error.queue_offset, error.next_begin_offset) == (30, 31)
    assert error.physical_offset == place
    assert Path(error.path).name == f"{place - place % 4096:020d}"
    assert error.file_position == place % 4096
    assert bodies(await cold(store, 31)) == BODIES[31:]


async def test_a_record_whose_own_number_is_damaged_is_where_its_unit_says(
    store: TalkingStore,
) -> None:
    overwrite(store, 30, 20, b"\1")
    result = await cold(store, 30)
    assert bodies(result) == BODIES[30:]
    assert decode_record(result.records[0]).queue_offset == 30


async def test_a_filter_passes_over_nothing_that_is_damaged(store: TalkingStore) -> None:
    overwrite(store, 31, 95, b"\0")
    pull = store.store.reading.pull_cold
    odd = tags_code("odd").__eq__
    result = await pull(ReadRange("orders", 0, 30, 4, 1 << 20), odd)
    assert (result.status, result.next_begin_offset) == (PullStatus.NO_MATCHED_MESSAGE, 31)
    with pytest.raises(MessageDamaged):
        await pull(ReadRange("orders", 0, 31, 4, 1 << 20), odd)


async def test_a_log_file_that_became_shorter_costs_what_it_held(store: TalkingStore) -> None:
    path = store.directory / "commitlog" / f"{0:020d}"
    os.truncate(path, 1_000)
    first = await cold(store)
    assert bodies(first) == BODIES[: len(first.records)]
    with pytest.raises(MessageDamaged, match="shorter") as caught:
        await cold(store, first.next_begin_offset)
    assert caught.value.path == str(path)


async def test_a_reader_keeps_a_file_that_is_removed_meanwhile(store: TalkingStore) -> None:
    reading = asyncio.create_task(cold(store))
    await asyncio.sleep(0)
    files = store.store.log.files
    first = files.files[0]
    files.drop_first().remove()
    assert bodies(await reading)[:5] == BODIES[:5]
    await until(lambda: not first.is_open)


async def test_a_caller_who_gives_up_leaves_no_file_held(store: TalkingStore) -> None:
    reading = asyncio.create_task(cold(store))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    first = store.store.log.files.files[0]
    await until(lambda: not first.is_held)


async def test_units_that_are_not_in_memory_are_fetched_first(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.log.queue_units.HOT_SIZE", 0)
    store.quick_disk.drop_resident()
    assert bodies(await cold(store, 10)) == BODIES[10:42]


@given(
    st.lists(st.tuples(st.integers(-300, 300), st.sampled_from((-1, 90, 91, 100, 2**31 - 1)))),
    st.integers(1, 9),
    st.integers(1, 900),
)
def test_what_is_quick_for_records_in_a_row_is_no_other_choice(
    units: list[tuple[int, int]], max_messages: int, max_bytes: int
) -> None:
    """Units of any kind: rows are as a filter that takes everything leaves them, runs in order."""
    wanted = ReadRange("orders", 0, 7, max_messages, max_bytes)
    packed = b"".join(UNIT.pack(place, size, 0) for place, size in units[:max_messages])
    chosen, following = choose(packed, wanted, None)
    assert (chosen, following) == choose(packed, wanted, lambda _: True)
    runs = runs_of(chosen, 200, 10, 200)
    assert [row for run in runs for row in run.rows] == chosen.rows
    for run in runs:
        for (place, size, _), (next_place, _, _) in pairwise(run.rows):
            assert next_place // 200 == place // 200
            gap = next_place - place - max(size, 0)
            assert 0 <= gap <= (0 if run.is_straight else 10)


@given(st.lists(st.integers(91, 200), min_size=1, max_size=99), st.integers(0, 20_000))
def test_units_in_a_row_choose_as_one_by_one(sizes: list[int], max_bytes: int) -> None:
    places = accumulate([1_000, *sizes])
    packed = b"".join(UNIT.pack(place, size, 0) for place, size in zip(places, sizes, strict=False))
    wanted = ReadRange("orders", 0, 7, len(sizes), max_bytes)
    chosen, following = choose(packed, wanted, None)
    assert (chosen, following) == choose(packed, wanted, lambda _: True)
    assert chosen.is_straight
    broken = UNIT.pack(998, sizes[0], 0) + packed[20:]
    assert choose(broken, wanted, None) == choose(broken, wanted, lambda _: True)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_every_message_of_a_range_is_chosen_once(rows: list[tuple[int, bool]]) -> None:
    units = b"".join(
        PRE_BLANK if is_blank else UNIT.pack(number * 100, 100, code)
        for number, (code, is_blank) in enumerate(rows)
    )
    begin, found = 0, list[Row]()
    while begin < len(rows):
        wanted = ReadRange("orders", 0, begin, 3, 250)
        chosen, following = choose(units[begin * 20 :], wanted, lambda code: code > 1)
        assert len(chosen.rows) <= 2
        found += chosen.rows
        assert all(begin <= number < following for _, _, number in chosen.rows)
        assert following > begin
        begin = following
    expected = [(n * 100, 100, n) for n, (code, blank) in enumerate(rows) if code > 1 and not blank]
    assert found == expected


def test_records_near_each_other_are_read_at_once_but_never_across_files() -> None:
    rows = [(0, 100, 7), (100, 100, 8), (300 + GAP_MAX, 100, 9), (1_000_000, 50, 10)]
    runs = runs_of(QueuedRecords(rows, False), 1_000_000, GAP_MAX, 1_000_000)
    assert [run.rows for run in runs] == [rows[:2], rows[2:3], rows[3:]]
