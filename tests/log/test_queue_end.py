"""Where units end: what may have been lost is not passed over, what is durable is not read.

Of ends that were written down that of the checkpoint is found, never another, never a damaged one.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import ColdRead, MappedFile
from pocketmq.files.table_file import TableFile
from pocketmq.format.consume_unit import PRE_BLANK, UNIT, UNIT_SIZE
from pocketmq.log.checkpoint import QUEUE_ENDS_FILE, QueueEnds
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.log.queue_end import (
    READ_SIZE,
    QueueEnd,
    first_doubtful,
    is_clean_behind,
    vouches,
    written_end,
)
from pocketmq.model.errors import Corruption, DiskFull, ReadFailed
from pocketmq.model.message import QueueKey
from tests.kit.records import entry
from tests.sim.quick_disk import QuickDisk

UNITS = 40
SIZE = UNITS * UNIT_SIZE
LOST = bytes(UNIT_SIZE)
FAR = 1 << 40


def units_of(count: int, first: int = 0) -> list[bytes]:
    """Units of records of 100 bytes that lie one behind the other."""
    return [UNIT.pack(100 * (first + number), 100, 7) for number in range(count)]


class UnitsDisk(QuickDisk):
    """A disk of one file, which remembers what was read of it."""

    def __init__(self, units: list[bytes]) -> None:
        super().__init__()
        self.content = b"".join(units).ljust(SIZE, b"\0")
        self.end = len(units) * UNIT_SIZE
        self.read_ranges: list[tuple[int, int]] = []

    def open(self, path: Path | str, *, read_only: bool = False) -> int:
        return 0

    def data_end(self, descriptor: int) -> int:
        return self.end

    def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        self.read_ranges.append((position, size_bytes))
        return self.content[position : position + size_bytes]


class OneFile:
    """A file of a queue that holds these units, and what was read of it."""

    def __init__(self, units: list[bytes], base: int = 0) -> None:
        self.disk = UnitsDisk(units)
        self.read_ranges = self.disk.read_ranges
        self.file = MappedFile(self.disk, Path("none"), base, SIZE, is_mapped=False).open()


# -- one file --------------------------------------------------------------------------------------


def test_durable_units_are_not_read() -> None:
    file = OneFile(units_of(UNITS))
    units = b"".join(units_of(UNITS)[-8:])
    assert written_end(file.file, 3_500, 8 * UNIT_SIZE) == (SIZE, False, units)
    assert file.read_ranges == [(32 * UNIT_SIZE, 8 * UNIT_SIZE)]


@pytest.mark.parametrize(("believed", "read_size"), [(FAR, READ_SIZE), (0, UNIT_SIZE)])
def test_a_small_queue_or_one_not_believed_is_read_whole(believed: int, read_size: int) -> None:
    units = units_of(UNITS)
    units[3] = LOST
    assert READ_SIZE >= SIZE
    kept = b"".join(units[:3])
    assert written_end(OneFile(units).file, believed, read_size) == (3 * UNIT_SIZE, True, kept)


def test_pre_blank_units_vouch_for_nothing() -> None:
    # A repair's gap may have been filled behind a page that was then lost.
    units = [*units_of(4), LOST, *[PRE_BLANK] * 20, UNIT.pack(9_000, 100, 0)]
    kept = b"".join(units[:4])
    assert written_end(OneFile(units).file, 400, 4 * UNIT_SIZE) == (4 * UNIT_SIZE, True, kept)
    assert not vouches(PRE_BLANK, FAR)
    assert not vouches(LOST, FAR)


@given(
    durable=some.integers(0, 20),
    doubtful=some.lists(some.booleans(), max_size=UNITS - 20),
    read_units=some.integers(1, 8),
)
def test_it_ends_with_the_first_lost_unit(
    durable: int, doubtful: list[bool], read_units: int
) -> None:
    units = units_of(durable + len(doubtful))
    for number, is_lost in enumerate(doubtful, durable):
        units[number] = LOST if is_lost else units[number]
    kept = durable + [*doubtful, True].index(True)
    found = written_end(OneFile(units).file, 100 * durable, read_units * UNIT_SIZE)
    assert found[:2] == (kept * UNIT_SIZE, any(b"".join(units[kept:])))
    assert b"".join(units[:kept]).endswith(found.units)


# -- which file ------------------------------------------------------------------------------------


def row(count: int) -> list[OneFile]:
    return [OneFile(units_of(UNITS, n * UNITS), n * SIZE) for n in range(count)]


def doubtful(files: list[OneFile], believed: int) -> int:
    return first_doubtful([one.file for one in files], believed, read_only=True)


def test_without_belief_the_last_three_files_are_read() -> None:
    assert [doubtful(row(count), 0) for count in range(6)] == [0, 0, 0, 0, 1, 2]


@pytest.mark.parametrize("number", range(6))
def test_files_before_a_durable_unit_are_not_read(number: int) -> None:
    believed = 100 * (number * UNITS + 1)
    assert doubtful(row(6), believed) == number


def test_all_files_are_read_where_none_begins_with_a_durable_unit() -> None:
    files = row(6)
    assert doubtful(files[1:], 100) == 0


def test_a_lost_page_at_the_front_of_a_file_leads_to_the_one_before() -> None:
    files = row(4)
    files[3].disk.content = bytes(SIZE)
    assert doubtful(files, FAR) == 2


# -- behind an end that was written down -----------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Iterator[MappedFile]:
    """A sparse file of three units."""
    path = tmp_path / "00000000000000000000"
    path.touch()
    os.truncate(path, SIZE)
    made = MappedFile(QuickDisk(), path, 0, SIZE, is_mapped=False).open()
    made.write(0, b"".join(units_of(3)))
    made.wrote = 3 * UNIT_SIZE
    yield made
    made.close()


@pytest.mark.parametrize(
    ("act", "is_clean"),
    [
        (lambda file: None, True),
        (lambda file: file.write(3 * UNIT_SIZE, LOST), True),
        (lambda file: file.write(3 * UNIT_SIZE, b"x"), False),
        (lambda file: file.write(SIZE - 1, b"x"), False),
        (lambda file: file.path.with_name(f"{SIZE:020d}").touch(), False),
        (lambda file: file.path.with_name("notes").touch(), True),
        (lambda file: file.path.unlink(), False),
    ],
    ids=["nothing", "zeros", "a byte", "the last byte", "a file", "a stranger", "it is gone"],
)
def test_what_lies_behind(
    file: MappedFile, act: Callable[[MappedFile], object], is_clean: bool
) -> None:
    act(file)
    assert is_clean_behind(QuickDisk(), file) is is_clean


@pytest.mark.parametrize("place", [READ_SIZE, READ_SIZE + 3 * UNIT_SIZE, 5 * READ_SIZE])
def test_what_lies_far_behind_is_seen_too(tmp_path: Path, place: int) -> None:
    path = tmp_path / "00000000000000000000"
    path.touch()
    os.truncate(path, 8 * READ_SIZE)
    file = MappedFile(QuickDisk(), path, 0, 8 * READ_SIZE, is_mapped=False).open()
    file.write(0, b"".join(units_of(3)))
    file.wrote = 3 * UNIT_SIZE
    assert is_clean_behind(QuickDisk(), file)
    file.write(place, b"x")
    assert not is_clean_behind(QuickDisk(), file)
    file.close()


def test_it_goes_while_it_is_looked_at(file: MappedFile) -> None:
    class Late(QuickDisk):
        def open(self, path: Path | str, *, read_only: bool = False) -> int:
            Path(path).unlink()
            return super().open(path, read_only=read_only)

    assert not is_clean_behind(Late(), file)


def test_units_that_come_meanwhile_are_not_what_lay_there(file: MappedFile) -> None:
    class Busy(QuickDisk):
        def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
            content = b"".join(units_of(4, 3))
            file.write(file.wrote, content)
            file.wrote += len(content)
            return super().read_at(descriptor, position, size_bytes)

    assert is_clean_behind(Busy(), file)


PER_FILE = 5
FILE_SIZE = PER_FILE * UNIT_SIZE


class Adopted:
    """A queue of so many records of 100 bytes, begun anew from its end."""

    def __init__(self, directory: Path, count: int, *, first: int = 0) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.queue = self._anew()
        self.put(count, first=first)
        self.end = self.queue.end()

    def _anew(self) -> ConsumeQueue:
        return ConsumeQueue(self.disk, self.directory, FILE_SIZE, topic="T", queue_id=0)

    def put(self, count: int, *, first: int = 0) -> None:
        begin = max(self.queue.max_offset, first)
        places = range(begin, begin + count)
        self.queue.put_all([entry(100 * place + 100, queue_offset=place) for place in places])

    def again(self) -> bool:
        """Begins anew with the end of before; returns whether it was taken."""
        self.queue.files.close()
        self.queue = self._anew()
        return self.queue.adopt(self.end)

    def path(self, number: int) -> Path:
        return self.directory / f"{number * FILE_SIZE:020d}"

    @property
    def places(self) -> list[int]:
        units = [self.queue.units.at(number) for number in range(self.queue.max_offset)]
        return [unit[0] // 100 - 1 for unit in units if unit is not None]

    @property
    def loaded(self) -> ConsumeQueue:
        """The queue as a start finds it that reads its files."""
        queue = self._anew()
        queue.load()
        queue.correct_min(0)
        queue.files.close()
        return queue

    def close(self) -> None:
        self.queue.files.close()


@pytest.fixture(params=[1, PER_FILE, PER_FILE + 1, 3 * PER_FILE])
def adopted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Adopted]:
    made = Adopted(tmp_path / "0", request.param)
    yield made
    made.close()


def test_an_end_is_what_a_start_would_find_and_nothing_is_opened_for_it(adopted: Adopted) -> None:
    assert adopted.again()
    queue, loaded = adopted.queue, adopted.loaded
    assert queue.end() == loaded.end() == adopted.end
    assert queue.flushed == loaded.flushed
    assert queue.dirty_files() == []
    queue.correct_min(0)
    assert not any(file.is_open for file in queue.files.files)
    assert not queue.settle(), "nothing lies behind it"
    assert adopted.places == list(range(queue.max_offset))


def test_the_first_message_is_known_behind_pre_blank_units(tmp_path: Path) -> None:
    adopted = Adopted(tmp_path / "0", 2, first=7)
    assert adopted.end == QueueEnd(FILE_SIZE, 9 * UNIT_SIZE, 1_000, 7, 800)
    assert adopted.again()
    assert adopted.queue.min_offset == 7
    adopted.close()


# -- files of another kind -------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [False, True])
def test_without_its_last_file_or_with_half_of_it_it_is_to_be_loaded(
    adopted: Adopted, is_there: bool
) -> None:
    path = adopted.path(len(adopted.queue.files.files) - 1)
    content = path.read_bytes()
    path.unlink()
    if is_there:
        path.write_bytes(content[:-1])
    assert not adopted.again()
    assert adopted.queue.files.files == []


def test_and_when_retention_has_taken_its_first_file(tmp_path: Path) -> None:
    adopted = Adopted(tmp_path / "0", 2 * PER_FILE)
    adopted.path(0).unlink()
    assert not adopted.again()
    adopted.close()


@pytest.mark.parametrize("end", [QueueEnd(0, 0, 100, 0, 0), QueueEnd(0, 20, 0, 0, 0)])
def test_a_queue_without_a_message_has_no_end(tmp_path: Path, end: QueueEnd) -> None:
    adopted = Adopted(tmp_path / "0", 1)
    adopted.end = end
    assert not adopted.again()
    adopted.close()


# -- what a crash left -----------------------------------------------------------------------------


@pytest.mark.parametrize("more", [1, PER_FILE, 3 * PER_FILE])
def test_what_lies_behind_goes(adopted: Adopted, more: int) -> None:
    adopted.put(more)
    assert adopted.again()
    queue = adopted.queue
    assert [queue.is_doubtful, queue.settle(), queue.is_doubtful] == [True, True, False]
    assert not queue.settle()
    assert adopted.loaded.end() == adopted.end


@pytest.mark.parametrize("left", [0, 3 * PER_FILE])
@pytest.mark.parametrize("more", [1, PER_FILE, 3 * PER_FILE])
def test_it_goes_on_behind_its_end_whatever_is_left_there(
    adopted: Adopted, left: int, more: int
) -> None:
    if left:
        adopted.put(left)
    assert adopted.again()
    adopted.put(more)
    adopted.queue.settle()
    count = adopted.end.end // UNIT_SIZE + more
    assert adopted.places == list(range(count))
    assert adopted.loaded.max_offset == count


def test_a_cut_takes_what_is_left_with_it(tmp_path: Path) -> None:
    adopted = Adopted(tmp_path / "0", 2 * PER_FILE)
    adopted.put(PER_FILE)
    assert adopted.again()
    adopted.queue.truncate(400)
    assert not adopted.queue.is_doubtful
    assert adopted.places == [0, 1, 2]
    assert adopted.loaded.max_offset == 3
    adopted.close()


def test_a_last_unit_that_leads_elsewhere_is_told(adopted: Adopted) -> None:
    adopted.end = adopted.end._replace(max_physical_offset=adopted.end.max_physical_offset + 100)
    assert adopted.again()
    with pytest.raises(Corruption, match=r"/0/\d{20} is damaged at byte \d+"):
        adopted.queue.settle()
    assert adopted.queue.is_doubtful


def test_what_nobody_has_read_is_read_without_waiting(adopted: Adopted) -> None:
    count = adopted.queue.max_offset
    assert adopted.again()
    adopted.put(1)
    adopted.disk.drop_resident()
    with pytest.raises(ColdRead):
        adopted.queue.units.read_resident(count - 1, 1)
    assert adopted.queue.units.read_resident(count, 1)


FIRST, SECOND, THIRD = (bytes([number]) * 48 for number in (1, 2, 3))
OFFSETS = some.integers(0, 2**63 - 1)
ROWS = some.dictionaries(
    some.tuples(some.text(min_size=1, max_size=9), some.integers(0, 2**31 - 1)),
    some.builds(QueueEnd, OFFSETS, OFFSETS, OFFSETS, OFFSETS, OFFSETS),
    max_size=6,
)
ONE: Mapping[QueueKey, QueueEnd] = {("T", 0): QueueEnd(0, 40, 200, 0, 0)}
OTHER: Mapping[QueueKey, QueueEnd] = {("T", 0): QueueEnd(0, 60, 300, 0, 0)}


@pytest.fixture
def ends(tmp_path: Path) -> QueueEnds:
    return QueueEnds(QuickDisk(), tmp_path)


@given(rows=ROWS)
def test_what_was_saved_is_loaded(tmp_path_factory: pytest.TempPathFactory, rows: object) -> None:
    assert isinstance(rows, dict)
    ends = QueueEnds(QuickDisk(), tmp_path_factory.mktemp("own"))
    ends.save(FIRST, rows)
    assert ends.load(FIRST) == rows


def test_a_store_without_a_table_has_nothing(ends: QueueEnds) -> None:
    assert ends.load(FIRST) == {}


def test_until_a_checkpoint_is_saved_the_one_before_has_its_table(ends: QueueEnds) -> None:
    ends.save(FIRST, ONE)
    ends.save(SECOND, OTHER)
    assert ends.load(FIRST) == ONE
    assert ends.load(SECOND) == OTHER
    assert ends.load(THIRD) == {}


def test_a_table_with_any_bit_changed_is_none(ends: QueueEnds, tmp_path: Path) -> None:
    ends.save(FIRST, ONE)
    path = tmp_path / QUEUE_ENDS_FILE
    sound = path.read_bytes()
    for bit in range(8 * len(sound)):
        changed = bytearray(sound)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        assert ends.load(FIRST) in ({}, ONE)


def test_a_table_cut_short_is_none(ends: QueueEnds, tmp_path: Path) -> None:
    ends.save(FIRST, ONE)
    path = tmp_path / QUEUE_ENDS_FILE
    sound = path.read_bytes()
    for length in range(len(sound)):
        path.write_bytes(sound[:length])
        assert ends.load(FIRST) == {}


def test_on_a_full_disk_there_is_none(ends: QueueEnds) -> None:
    ends.save(FIRST, ONE)
    with patch.object(TableFile, "write", side_effect=DiskFull(path="here")):
        ends.save(FIRST, OTHER)
    assert ends.load(FIRST) == {}


def test_one_that_cannot_be_read_is_none(ends: QueueEnds, tmp_path: Path) -> None:
    ends.save(FIRST, ONE)
    (tmp_path / QUEUE_ENDS_FILE).unlink()
    (tmp_path / QUEUE_ENDS_FILE).mkdir()
    with pytest.raises(ReadFailed):
        QuickDisk().read_file(tmp_path / QUEUE_ENDS_FILE)
    assert ends.load(FIRST) == {}


def test_removed_no_start_finds_one(ends: QueueEnds, tmp_path: Path) -> None:
    ends.save(FIRST, ONE)
    ends.save(SECOND, OTHER)
    ends.remove()
    assert [*tmp_path.iterdir()] == []
    ends.remove()
    QueueEnds(Disk(), tmp_path / "none").remove()
    assert ends.load(FIRST) == ends.load(SECOND) == {}
