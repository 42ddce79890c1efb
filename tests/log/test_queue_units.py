"""Reading units without waiting for the disk, and finding where they pass a place in the log."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.files.mapped_file import ColdRead
from broker.files.mapped_file_queue import MappedFileQueue
from broker.format.consume_unit import PRE_BLANK, UNIT, UNIT_SIZE
from broker.log import queue_units
from broker.log.queue_units import QueueUnits
from tests.fakes.quick_disk import QuickDisk

FOUR = 4
FOUR_SIZE = FOUR * UNIT_SIZE


def units_at(directory: Path, disk: QuickDisk, places: list[int | None]) -> QueueUnits:
    """Units that lead to these places, None for a pre-blank one, in files of four."""
    row = MappedFileQueue(disk, directory, FOUR_SIZE, "size", is_mapped=False)
    for number, place in enumerate(places):
        if number % FOUR == 0:
            row.make_file(number * UNIT_SIZE)
        file = row.files[-1]
        unit = PRE_BLANK if place is None else UNIT.pack(place, 100, 0)
        file.write(file.wrote, unit)
        file.wrote += UNIT_SIZE
    return QueueUnits(row)


@pytest.fixture
def disk() -> QuickDisk:
    return QuickDisk()


@pytest.fixture
def units(tmp_path: Path, disk: QuickDisk) -> Iterator[QueueUnits]:
    made = units_at(tmp_path / "q", disk, [0, 100, 200, 300, 400, 500])
    yield made
    made.files.close()


def test_units_are_read_across_files(units: QueueUnits) -> None:
    assert units.read(3, 2) == UNIT.pack(300, 100, 0) + UNIT.pack(400, 100, 0)
    assert units.at(5) == (500, 100, 0)
    assert units.at(6) is None
    assert units.at(-1) is None


def test_old_units_are_read_when_they_are_in_memory(
    units: QueueUnits, disk: QuickDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_units, "HOT_SIZE", 0)
    assert units.read_resident(3, 2) == units.read(3, 2)
    assert units.resident_at(9) is None
    disk.drop_resident()
    with pytest.raises(ColdRead) as cold:
        units.resident_at(3)
    cold.value.fetch()
    assert units.resident_at(3) == (300, 100, 0)


def test_fresh_units_never_wait(units: QueueUnits, disk: QuickDisk) -> None:
    disk.drop_resident()
    assert units.resident_at(0) == (0, 100, 0)


@given(
    steps=st.lists(st.one_of(st.none(), st.integers(1, 5)), max_size=20),
    wanted=st.integers(0, 100),
)
def test_the_first_unit_at_or_behind_a_place_is_found_past_blank_ones(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | None], wanted: int
) -> None:
    place, places = 0, list[int | None]()
    for step in steps:
        place += step or 0
        places.append(None if step is None else place)
    units = units_at(tmp_path_factory.mktemp("q"), QuickDisk(), places)
    found = units.first_at_or_behind(wanted)
    before = [p for p in places[:found] if p is not None]
    behind = [p for p in places[found:] if p is not None]
    assert all(p < wanted for p in before)
    assert all(p >= wanted for p in behind)
    units.files.close()
