"""Where units end: nothing that may have been lost is passed over, what is durable is not read."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from broker.files.mapped_file import MappedFile
from broker.format.consume_unit import PRE_BLANK, UNIT, UNIT_SIZE
from broker.log.queue_end import (
    READ_SIZE,
    first_doubtful,
    is_clean_behind,
    vouches,
    written_end,
)
from tests.fakes.quick_disk import QuickDisk

UNITS = 40
SIZE = UNITS * UNIT_SIZE
LOST = bytes(UNIT_SIZE)
FAR = 1 << 40


def units_of(count: int, first: int = 0) -> list[bytes]:
    """Units of records of 100 bytes that lie one behind the other."""
    return [UNIT.pack(100 * (first + number), 100, 7) for number in range(count)]


class OneFile(MappedFile):
    """A file of a queue that holds these units and remembers what was read of it."""

    def __init__(self, units: list[bytes], base: int = 0) -> None:
        super().__init__(QuickDisk(), Path("none"), base, SIZE, is_mapped=False)
        self.content = b"".join(units).ljust(SIZE, b"\0")
        self.end = len(units) * UNIT_SIZE
        self.read_ranges: list[tuple[int, int]] = []

    def open(self, *, read_only: bool = False) -> MappedFile:
        return self

    def data_end(self) -> int:
        return self.end

    def read(self, position: int, size_bytes: int) -> bytes:
        self.read_ranges.append((position, size_bytes))
        return self.content[position : position + size_bytes]


# -- one file --------------------------------------------------------------------------------------


@pytest.mark.parametrize("believed", [0, 1_000, FAR])
@pytest.mark.parametrize("count", [0, 1, 5, UNITS])
def test_units_end_behind_the_last_one(count: int, believed: int) -> None:
    found = written_end(OneFile(units_of(count)), believed, UNIT_SIZE)[:2]
    assert found == (count * UNIT_SIZE, False)


@pytest.mark.parametrize("lost", range(12))
@pytest.mark.parametrize("believed", [0, 500])
def test_a_lost_unit_ends_what_is_doubtful(lost: int, believed: int) -> None:
    units = units_of(12)
    if believed <= 100 * lost:
        units[lost] = LOST
    expected = lost if believed <= 100 * lost else 12
    end, has_more, read = written_end(OneFile(units), believed, 2 * UNIT_SIZE)
    assert b"".join(units[:expected]).endswith(read)
    assert (end, has_more) == (expected * UNIT_SIZE, expected < 11)


def test_durable_units_are_not_read() -> None:
    file = OneFile(units_of(UNITS))
    units = b"".join(units_of(UNITS)[-8:])
    assert written_end(file, 3_500, 8 * UNIT_SIZE) == (SIZE, False, units)
    assert file.read_ranges == [(32 * UNIT_SIZE, 8 * UNIT_SIZE)]


def test_a_small_queue_is_read_whole_whatever_is_believed() -> None:
    units = units_of(UNITS)
    units[3] = LOST
    assert READ_SIZE >= SIZE
    kept = b"".join(units[:3])
    assert written_end(OneFile(units), FAR) == (3 * UNIT_SIZE, True, kept)


def test_where_nothing_is_believed_all_is_read() -> None:
    units = units_of(UNITS)
    units[3] = LOST
    kept = b"".join(units[:3])
    assert written_end(OneFile(units), 0, UNIT_SIZE) == (3 * UNIT_SIZE, True, kept)


def test_pre_blank_units_vouch_for_nothing() -> None:
    # A repair's gap may have been filled behind a page that was then lost.
    units = [*units_of(4), LOST, *[PRE_BLANK] * 20, UNIT.pack(9_000, 100, 0)]
    kept = b"".join(units[:4])
    assert written_end(OneFile(units), 400, 4 * UNIT_SIZE) == (4 * UNIT_SIZE, True, kept)
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
    found = written_end(OneFile(units), 100 * durable, read_units * UNIT_SIZE)
    assert found[:2] == (kept * UNIT_SIZE, any(b"".join(units[kept:])))
    assert b"".join(units[:kept]).endswith(found.units)


# -- which file ------------------------------------------------------------------------------------


def row(count: int) -> list[OneFile]:
    return [OneFile(units_of(UNITS, n * UNITS), n * SIZE) for n in range(count)]


def doubtful(files: list[OneFile], believed: int) -> int:
    return first_doubtful(files, believed, read_only=True)


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
    files[3].content = bytes(SIZE)
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


def test_nothing_lies_behind(file: MappedFile) -> None:
    assert is_clean_behind(QuickDisk(), file)
    file.write(3 * UNIT_SIZE, LOST)
    assert is_clean_behind(QuickDisk(), file)


@pytest.mark.parametrize("position", [3 * UNIT_SIZE, SIZE - 1])
def test_a_byte_lies_behind(file: MappedFile, position: int) -> None:
    file.write(position, b"x")
    assert not is_clean_behind(QuickDisk(), file)


def test_a_file_lies_behind(file: MappedFile) -> None:
    file.path.with_name(f"{SIZE:020d}").touch()
    assert not is_clean_behind(QuickDisk(), file)


def test_a_stranger_there_does_not_count(file: MappedFile) -> None:
    file.path.with_name("notes").touch()
    assert is_clean_behind(QuickDisk(), file)


def test_the_file_itself_is_gone(file: MappedFile) -> None:
    file.path.unlink()
    assert not is_clean_behind(QuickDisk(), file)


def test_it_goes_while_it_is_looked_at(file: MappedFile) -> None:
    class Late(QuickDisk):
        def open_read_only(self, path: Path) -> int:
            path.unlink()
            return super().open_read_only(path)

    assert not is_clean_behind(Late(), file)


def test_units_that_come_meanwhile_are_not_what_lay_there(file: MappedFile) -> None:
    class Busy(QuickDisk):
        def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
            content = b"".join(units_of(4, 3))
            file.write(file.wrote, content)
            file.wrote += len(content)
            return super().read_at(descriptor, position, size_bytes)

    assert is_clean_behind(Busy(), file)
