"""One index file: the bytes RocketMQ writes, however they come, and as they were when undone."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketmq.format.index_entries import packed, searched_hash
from pocketmq.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexGeometry,
    IndexHeaderValues,
)
from pocketmq.log.index_file import IndexFile
from pocketmq.model.errors import Corruption, DiskFull
from tests.kit.records import TIME_MS
from tests.sim.quick_disk import QuickDisk, full_disk

GEOMETRY = IndexGeometry(10, 8)


class Row(NamedTuple):
    """One entry to put."""

    key_hash: int
    place: int
    time_ms: int


def put(file: IndexFile, rows: Sequence[Row]) -> int:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return file.put_all(packed(*columns.T))


def header_of(content: bytes) -> IndexHeaderValues:
    return IndexHeaderValues(*HEADER.unpack_from(content))


class Index:
    """One index file in a directory of its own.

    index.put(Row(7, 0, TIME_MS)); assert index.walk(7) == [(1, 0)]
    """

    def __init__(
        self,
        directory: Path,
        geometry: IndexGeometry = GEOMETRY,
        previous: IndexHeaderValues | None = None,
    ) -> None:
        self.disk = QuickDisk()
        self.path = directory / "20261121003515660"
        directory.mkdir(exist_ok=True)
        self.file = IndexFile(self.disk, self.path, geometry)
        self.file.make(self.disk, previous)

    def put(self, *rows: Row) -> int:
        return put(self.file, rows)

    def walk(self, wanted: int, below: int = 0) -> list[tuple[int, int]]:
        """The (entry number, place) of every entry with this hash."""
        return [(step[0], step[1]) for step in self.file.walk(wanted, below) if step[3]]

    def overwrite(self, position: int, content: bytes) -> None:
        held = bytearray(self.content)
        held[position : position + len(content)] = content
        self.path.write_bytes(held)

    def overwrite_entry(self, number: int, *fields: int) -> None:
        position = self.file.geometry.entries_position + ENTRY_SIZE * number
        self.overwrite(position, ENTRY.pack(*fields))

    def overwrite_slot(self, slot: int, value: int) -> None:
        self.overwrite(HEADER_SIZE + SLOT_SIZE * slot, value.to_bytes(SLOT_SIZE, signed=True))

    def reopen(self) -> IndexFile:
        self.file.close()
        self.file = IndexFile(self.disk, self.path, self.file.geometry)
        self.file.load()
        return self.file

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(tmp_path)
    yield made
    made.file.close()


def rows_of(count: int, slot_count: int = 3) -> list[Row]:
    """Rows of records 100 bytes apart, a second each, in a few chains."""
    return [
        Row(number % slot_count, 100 * number, TIME_MS + 1000 * number) for number in range(count)
    ]


# -- the bytes RocketMQ writes ---------------------------------------------------------------------

SAMPLE = bytes.fromhex(
    """
    0000018bcfe5687b 0000018bcfe57f6f 0000000000000000
    0000000000000384 00000002 00000005
    00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000004
    0000000000000000000000000000000000000000
    0177801400000000000000000000000000000000
    717125c900000000000000000000000000000000
    717125c800000000000000000000000000000001
    717125c900000000000003840000000500000002
    """
)
"""Ten slots, room for eight: a record with three keys at 0 and one with one of them at 900."""


def test_a_file_has_the_bytes_of_the_sample(index: Index) -> None:
    keys = ["7F0000010001000000000000000A0001", "k1", "k2"]
    hashes = [searched_hash("TopicA", key) for key in keys]
    assert index.put(*[Row(found, 0, 1700000000123) for found in hashes]) == 3
    assert index.put(Row(hashes[1], 900, 1700000005999)) == 1
    assert index.content == SAMPLE + bytes(GEOMETRY.file_size - len(SAMPLE))
    assert index.walk(hashes[1]) == [(4, 900), (2, 0)]


def plain_content(
    geometry: IndexGeometry, previous: IndexHeaderValues | None, rows: Sequence[Row]
) -> bytes:
    """The rules once more, as store-format.md 5 puts them."""
    content = bytearray(geometry.file_size)
    begin_time = end_time = begin_place = end_place = 0
    if previous is not None:
        begin_time = end_time = max(previous.end_timestamp, 0)
        begin_place = end_place = max(previous.end_physical_offset, 0)
    slots: dict[int, int] = {}
    number = 1
    for row in rows[: geometry.entry_count_max - 1]:
        seconds = int((row.time_ms - begin_time) / 1000) if begin_time > 0 else 0
        slot = row.key_hash % geometry.slot_count
        ENTRY.pack_into(
            content,
            geometry.entries_position + ENTRY_SIZE * number,
            row.key_hash,
            row.place,
            min(max(seconds, 0), 2**31 - 1),
            slots.get(slot, 0),
        )
        if number == 1:
            begin_time, begin_place = row.time_ms, row.place
        end_time, end_place = row.time_ms, row.place
        slots[slot] = number
        number += 1
    for slot, newest in slots.items():
        position = HEADER_SIZE + SLOT_SIZE * slot
        content[position : position + SLOT_SIZE] = newest.to_bytes(SLOT_SIZE)
    is_untouched = number == 1 and previous is None
    header = (
        begin_time, end_time, begin_place, end_place, len(slots), 0 if is_untouched else number,
    )  # fmt: skip
    HEADER.pack_into(content, 0, *header)
    return bytes(content)


@st.composite
def fillings(draw: st.DrawFn) -> tuple[IndexGeometry, IndexHeaderValues | None, list[Row]]:
    """A file and what goes into it: chains of any length, times going back, records of many keys.

    A byte of `steps` makes one entry: bits 0-2 its hash, bits 3-4 the step to its record (0: the
    same one), bits 5-7 the step in time, in units of 700 ms from 3 back to 4 ahead.
    """
    geometry = IndexGeometry(draw(st.sampled_from([1, 2, 5, 50])), draw(st.integers(2, 80)))
    previous = draw(
        st.none()
        | st.builds(
            IndexHeaderValues,
            end_timestamp=st.sampled_from([0, -5, TIME_MS, TIME_MS - 5500, TIME_MS + 5500, 1]),
            end_physical_offset=st.sampled_from([0, -1, 777]),
        )
    )
    place, time_ms = draw(st.sampled_from([(0, TIME_MS), (777, TIME_MS), (5000, 0), (0, 2**42)]))
    rows = []
    for step in draw(st.binary(max_size=90)):
        place += step // 8 % 4 * 100
        time_ms += (step // 32 - 3) * 700
        rows.append(Row((0, 1, 2, 5, 6, 51, 2**31 - 1, 101)[step % 8], place, time_ms))
    return geometry, previous, rows


def pieces(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for begin in range(0, len(rows), size):
        yield rows[begin : begin + size]


def filled(
    filling: tuple[IndexGeometry, IndexHeaderValues | None, list[Row]], size: int
) -> tuple[bytes, int]:
    """The content of a file filled in pieces of a size, and how many entries it took."""
    geometry, previous, rows = filling
    with TemporaryDirectory() as directory:
        index = Index(Path(directory), geometry, previous)
        count = sum(index.put(*piece) for piece in pieces(rows, size))
        assert header_of(index.content)._replace(index_count=index.file.header.index_count) == (
            index.file.header
        )
        index.file.close()
        return index.content, count


@settings(max_examples=80)
@given(fillings(), st.sampled_from([2, 23, 24, 25, 40, 100]))
@example((IndexGeometry(50, 1001), None, rows_of(1000, 333)), 1000)
@example((IndexGeometry(50, 900), IndexHeaderValues(0, TIME_MS - 5500, 0, 7), rows_of(1000)), 300)
@example((IndexGeometry(7, 900), None, [Row(9, place, 0) for place in range(600)]), 250)
@example((IndexGeometry(7, 900), None, [Row(9, at, TIME_MS - 99 * at) for at in range(600)]), 250)
def test_many_entries_at_once_make_the_same_bytes_as_one_by_one(
    filling: tuple[IndexGeometry, IndexHeaderValues | None, list[Row]], size: int
) -> None:
    many, singly = filled(filling, size), filled(filling, 1)
    assert many == singly
    assert many[1] == min(len(filling[2]), filling[0].entry_count_max - 1)
    assert many[0] == plain_content(*filling)


def test_a_file_takes_one_entry_less_than_its_maximum(index: Index) -> None:
    assert index.put(*rows_of(5)) == 5
    assert (index.file.entry_count, index.file.is_full) == (5, False)
    assert index.put(*rows_of(5)) == 2
    assert (index.file.entry_count, index.file.is_full) == (7, True)
    assert index.put(*rows_of(1)) == 0


# -- blocks, and a full disk -----------------------------------------------------------------------


@pytest.mark.parametrize("call", ["make_sparse_file", "allocate"])
def test_a_file_that_finds_no_room_leaves_nothing(tmp_path: Path, call: str) -> None:
    disk = QuickDisk()
    disk.fail(call, full_disk())
    file = IndexFile(disk, tmp_path / "f", GEOMETRY)
    with pytest.raises(DiskFull):
        file.make(disk, None)
    assert disk.names(tmp_path) == []
    file.make(disk, None)
    file.remove()
    assert disk.names(tmp_path) == []


def test_entries_that_find_no_room_may_be_put_again(index: Index) -> None:
    index.disk.fail("allocate", full_disk())
    with pytest.raises(DiskFull):
        index.put(*rows_of(3))
    assert (index.file.entry_count, any(index.content)) == (0, False)
    assert index.put(*rows_of(3)) == 3


LARGE = IndexGeometry(30_000, 30_000)


def test_blocks_stand_behind_slots_and_entries(tmp_path: Path) -> None:
    index = Index(tmp_path, LARGE)
    assert index.path.stat().st_blocks * 512 >= LARGE.entries_position
    index.put(*rows_of(1000))
    assert index.path.stat().st_blocks * 512 >= LARGE.entries_position + 1001 * ENTRY_SIZE
    index.file.close()


def test_a_file_found_sparse_gets_its_blocks_before_it_is_written(tmp_path: Path) -> None:
    index = Index(tmp_path, LARGE)
    index.put(*rows_of(3))
    held = index.content
    index.file.close()
    index.path.unlink()
    index.disk.close(index.disk.make_sparse_file(index.path, LARGE.file_size))
    with index.path.open("r+b") as copy:
        copy.write(held[:4096])
        copy.seek(LARGE.entries_position // 4096 * 4096)
        copy.write(held[LARGE.entries_position // 4096 * 4096 :][:4096])
    assert index.path.stat().st_blocks * 512 < LARGE.entries_position
    index.reopen()
    index.disk.calls.clear()
    index.put(*rows_of(1))
    ((begin, size),) = index.disk.ranges("allocate")
    assert begin == 0
    assert size >= LARGE.entries_position + 5 * ENTRY_SIZE
    index.file.close()


# -- undoing ---------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(fillings(), st.integers(0, 90))
@example((IndexGeometry(3, 900), None, rows_of(899)), 40)
def test_undoing_leaves_the_bytes_there_were_then(
    filling: tuple[IndexGeometry, IndexHeaderValues | None, list[Row]], cut: int
) -> None:
    geometry, previous, rows = filling
    rows = rows[: geometry.entry_count_max - 1]
    behind = [row.place for row in rows if row.place > rows[0].place]
    place = behind[cut % len(behind)] if behind else 2**40
    kept = [row for row in rows if row.place < place]
    times = {row.place: row.time_ms for row in kept[::-1]}
    kept = [row._replace(time_ms=times[row.place]) for row in kept]
    rows = [*kept, *rows[len(kept) :]]
    with TemporaryDirectory() as directory:
        index = Index(Path(directory), geometry, previous)
        index.put(*rows)
        index.file.truncate(place, times.__getitem__)
        assert index.content == plain_content(geometry, previous, kept)
        index.put(*rows[len(kept) :])
        assert index.content == plain_content(geometry, previous, rows)
        index.file.close()


def test_undoing_is_written_with_the_next_sync_if_there_is_something_to_undo(index: Index) -> None:
    index.put(*rows_of(5))
    index.file.sync()
    before = index.content
    index.file.truncate(401, int)
    assert (index.content, index.file.is_dirty) == (before, False)
    index.file.truncate(400, lambda place: TIME_MS)
    assert index.file.is_dirty


def test_a_file_that_loses_every_entry_is_empty_and_sound(index: Index) -> None:
    index.put(*rows_of(5))
    index.file.truncate(0, int)
    assert not any(index.content[HEADER_SIZE:])
    assert (index.file.entry_count, index.file.header.end_physical_offset) == (0, 0)
    assert index.reopen().is_sound()


# -- its last records ------------------------------------------------------------------------------


def test_the_entries_of_the_last_record_are_counted(tmp_path: Path) -> None:
    index = Index(tmp_path, previous=IndexHeaderValues(0, TIME_MS, 0, 100, 3, 8))
    counts = []
    for place in (100, 200, 200, 300, 300, 300):
        counts.append(index.file.last_record_count())
        index.put(Row(1, place, TIME_MS))
    assert [*counts, index.file.last_record_count()] == [0, 1, 1, 2, 1, 2, 3]
    index.file.header = index.file.header._replace(index_count=1 << 27)
    assert index.file.last_record_count() == 0
    index.file.close()


def test_the_last_record_below_a_place_is_found(index: Index) -> None:
    assert index.file.last_place_below(1000) == -1
    index.put(*[Row(1, place, TIME_MS) for place in (100, 100, 200, 400)])
    found = {place: index.file.last_place_below(place) for place in (0, 100, 101, 200, 201, 400)}
    assert found == {0: -1, 100: -1, 101: 100, 200: 100, 201: 200, 400: 200}
    assert index.file.last_place_below(5000) == 400


# -- walking ---------------------------------------------------------------------------------------


def test_a_walk_goes_from_the_newest_to_the_oldest(index: Index) -> None:
    index.put(Row(3, 0, TIME_MS), Row(13, 100, TIME_MS + 2500), Row(4, 200, TIME_MS + 3000))
    index.put(Row(3, 300, TIME_MS + 9999))
    assert list(index.file.walk(3)) == [
        (4, 300, TIME_MS + 9000, True),
        (2, 100, TIME_MS + 2000, False),
        (1, 0, TIME_MS, True),
    ]
    assert list(index.file.walk(5)) == []


@pytest.mark.parametrize(("below", "found"), [(7, 6), (2, 1), (1, 0), (-1, 0), (8, 0), (100, 0)])
def test_a_walk_goes_on_behind_an_entry(index: Index, below: int, found: int) -> None:
    """Behind one that is not there it finds nothing."""
    index.put(*rows_of(7, slot_count=1))
    assert index.walk(0, below) == [(number, 100 * number - 100) for number in range(found, 0, -1)]


@pytest.mark.parametrize("previous", [3, 4, 5, 8, 2**31 - 1, -1, -(2**31)])
def test_a_link_that_does_not_lead_back_ends_the_walk(index: Index, previous: int) -> None:
    index.put(*rows_of(5, slot_count=1))
    index.file.close()
    index.overwrite_entry(3, 0, 200, 2, previous)
    index.reopen()
    assert index.walk(0) == [(5, 400), (4, 300), (3, 200)]
    assert index.walk(0, 3) == []


@pytest.mark.parametrize(
    ("count", "value"),
    [
        *((5, value) for value in (-1, 6, 8, 100, 2**31 - 1)),
        *((200_000, n) for n in (8, 9, 100_000)),
    ],
)
def test_a_slot_that_leads_nowhere_is_an_empty_chain(index: Index, count: int, value: int) -> None:
    """Also where the header counts more entries than the file has."""
    index.put(*rows_of(4, slot_count=1))
    index.file.close()
    index.overwrite(36, count.to_bytes(4))
    index.overwrite_slot(0, value)
    assert not index.reopen().is_sound()
    assert index.walk(0) == []


@pytest.mark.parametrize("count", [1, 500])
@pytest.mark.parametrize("value", [-1, 100])
def test_a_slot_that_leads_nowhere_begins_a_new_chain(
    tmp_path: Path, value: int, count: int
) -> None:
    index = Index(tmp_path, IndexGeometry(10, 1000))
    index.put(*rows_of(4, slot_count=1))
    index.file.close()
    index.overwrite_slot(0, value)
    index.reopen()
    index.put(*[Row(0, 900, TIME_MS)] * count)
    assert index.walk(0) == [(5 + number, 900) for number in range(count - 1, -1, -1)]
    assert index.file.entry(5)[3] == 0
    index.file.close()


# -- loading, and what a torn write breaks ---------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_opens_again_as_it_was(index: Index, read_only: bool) -> None:
    index.put(*rows_of(5))
    header, walked, before = index.file.header, index.walk(1), index.content
    index.file.close()
    index.file = IndexFile(index.disk, index.path, GEOMETRY)
    index.file.load(read_only=read_only)
    assert (index.file.header, index.walk(1), index.content) == (header, walked, before)
    assert index.file.is_sound()
    if not read_only:
        assert index.put(*rows_of(7)[5:]) == 2
        assert index.content == plain_content(GEOMETRY, None, rows_of(7))


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_count_below_1_reads_as_1(index: Index, count: int) -> None:
    index.file.close()
    index.overwrite(36, count.to_bytes(4, signed=True))
    assert index.reopen().header.index_count == 1
    assert index.file.is_sound()


def test_a_file_that_is_too_short_is_damaged(index: Index) -> None:
    index.file.close()
    index.path.write_bytes(index.content[:-1])
    with pytest.raises(Corruption, match="shorter"):
        index.reopen()


@pytest.mark.parametrize("count", range(8))
@pytest.mark.parametrize("previous", [None, IndexHeaderValues(1, TIME_MS, 2, 500, 3, 8)])
def test_a_file_is_sound_however_full(
    tmp_path: Path, previous: IndexHeaderValues | None, count: int
) -> None:
    """Also one that has inherited and holds nothing."""
    index = Index(tmp_path, previous=previous)
    index.put(*rows_of(count))
    assert index.reopen().is_sound()
    index.file.close()


DAMAGES: dict[str, Callable[[Index, int], None]] = {
    "header zeroed": lambda index, last: index.overwrite(0, bytes(HEADER_SIZE)),
    "last torn": lambda index, last: index.overwrite_entry(last, 0, 0, 0, 0),
    "last other": lambda index, last: index.overwrite_entry(last, 1, 77, 0, 0),
    "first other": lambda index, last: index.overwrite_entry(1, 0, 77, 0, 0),
    "one behind the last": lambda index, last: index.overwrite_entry(last + 1, 0, 77, 0, 0),
    "slots zeroed": lambda index, last: index.overwrite(HEADER_SIZE, bytes(10 * SLOT_SIZE)),
    "count one too low": lambda index, last: index.overwrite(36, last.to_bytes(4)),
    "count too high": lambda index, last: index.overwrite(36, (9).to_bytes(4)),
}


@pytest.mark.parametrize("count", [1, 5, 6])
@pytest.mark.parametrize("how", DAMAGES)
def test_a_torn_write_is_noticed(index: Index, how: str, count: int) -> None:
    index.put(*[row._replace(place=row.place + 50) for row in rows_of(count)])
    index.file.close()
    DAMAGES[how](index, count)
    assert not index.reopen().is_sound()


# -- closing ---------------------------------------------------------------------------------------


def test_a_file_is_dirty_until_synced_and_gone_when_removed(index: Index) -> None:
    states = [index.file.is_dirty]
    index.put(*rows_of(1))
    states.append(index.file.is_dirty)
    index.file.sync()
    states.append(index.file.is_dirty)
    assert states == [False, True, False]
    index.file.remove()
    assert not index.path.exists()
