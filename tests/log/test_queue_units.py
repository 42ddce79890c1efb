"""Units read without waiting for the disk, and their extension: units in a row, files that roll."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.files.mapped_file import ColdRead
from pocketmq.format.consume_unit import (
    EXTENSION_END_MARK,
    EXTENSION_SIZE_MIN,
    UNIT,
    UNIT_SIZE,
    extension_address,
)
from pocketmq.log import queue_units
from pocketmq.log.queue_extension import QueueExtension
from pocketmq.log.queue_units import QueueUnits
from pocketmq.log.unit_buffer import UnitBuffer, UnitBuffers
from pocketmq.model.errors import DiskFull
from tests.sim.quick_disk import QuickDisk, full_disk

FOUR = 4
FOUR_SIZE = FOUR * UNIT_SIZE


@pytest.fixture
def disk() -> QuickDisk:
    return QuickDisk()


@pytest.fixture
def units(tmp_path: Path, disk: QuickDisk) -> Iterator[QueueUnits]:
    """Units that lead to six places, in files of four."""
    made = QueueUnits(disk, tmp_path / "q", FOUR_SIZE, None, UnitBuffer(UnitBuffers()))
    made.start(0)
    made.append(b"".join(UNIT.pack(100 * n, 100, 0) for n in range(6)), is_doubtful=False)
    yield made
    made.files.close()


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


@pytest.mark.parametrize("damaged", range(6))
@pytest.mark.parametrize("found", [7, 10**9])
def test_one_damaged_unit_does_not_mislead_a_search(
    units: QueueUnits, damaged: int, found: int
) -> None:
    file = units.files.file_at(damaged * UNIT_SIZE)
    assert file is not None
    file.write(damaged * UNIT_SIZE - file.base, UNIT.pack(found, 100, 0))
    for place in range(1, 6):
        units.forget_found()
        if damaged not in range(place - 2, place + 2):  # There two results are equally likely.
            assert units.first_at_or_behind(100 * place) == place


def test_fresh_units_never_wait(units: QueueUnits, disk: QuickDisk) -> None:
    disk.drop_resident()
    assert units.resident_at(0) == (0, 100, 0)


EXTENSION_FILE_SIZE = 100
"""Four units of 20 bytes, and the room behind them that stays free."""


class Kit:
    """An extension in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.extension = self.anew()

    def anew(self) -> QueueExtension:
        return QueueExtension(self.disk, self.directory, EXTENSION_FILE_SIZE)

    def reopen(self, last: int | None) -> None:
        self.extension.files.close()
        self.extension = self.anew()
        self.extension.load()
        self.extension.cut(last)

    @property
    def names(self) -> list[int]:
        return [int(name) for name in self.disk.names(self.directory)]


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    made = Kit(tmp_path / "T" / "0")
    yield made
    made.extension.files.close()


def test_units_lie_one_behind_the_other(kit: Kit) -> None:
    addresses = [kit.extension.put(0, 100, code, 1) for code in (7, -7, 0)]
    assert addresses == [extension_address(0), extension_address(20), extension_address(40)]
    assert [kit.extension.tags_code(address) for address in addresses] == [7, -7, 0]


def test_a_unit_that_does_not_fit_goes_to_the_next_file_behind_a_mark(kit: Kit) -> None:
    addresses = [kit.extension.put(0, 100, code, 1) for code in range(6)]
    assert addresses[4] == extension_address(EXTENSION_FILE_SIZE)
    assert kit.names == [0, EXTENSION_FILE_SIZE]
    first = (kit.directory / f"{0:020d}").read_bytes()
    assert first[80:82] == EXTENSION_END_MARK
    assert kit.extension.tags_code(addresses[5]) == 5


def test_an_address_that_leads_nowhere_has_no_code(kit: Kit) -> None:
    kit.extension.put(0, 100, 7, 1)
    assert kit.extension.tags_code(extension_address(20)) is None
    assert kit.extension.tags_code(extension_address(EXTENSION_FILE_SIZE)) is None
    assert (
        kit.extension.tags_code(extension_address(EXTENSION_FILE_SIZE - EXTENSION_SIZE_MIN + 1))
        is None
    )


def test_after_a_start_units_go_on_behind_the_last_one_a_queue_knows(kit: Kit) -> None:
    addresses = [kit.extension.put(0, 100, code, 1) for code in range(6)]
    kit.reopen(addresses[2])
    assert kit.names == [0]
    assert kit.extension.tags_code(addresses[3]) is None
    assert kit.extension.put(0, 100, 9, 1) == addresses[3]
    assert [kit.extension.tags_code(address) for address in addresses[:4]] == [0, 1, 2, 9]


def test_an_extension_no_unit_leads_to_begins_anew(kit: Kit) -> None:
    kit.extension.put(0, 100, 7, 1)
    kit.reopen(None)
    assert kit.names == []
    assert kit.extension.put(0, 100, 8, 1) == extension_address(0)


def test_files_before_an_address_are_taken_out_but_never_the_last(kit: Kit) -> None:
    addresses = [kit.extension.put(0, 100, code, 1) for code in range(10)]
    gone = kit.extension.trim(addresses[8])
    assert [file.base for file in gone] == [0, EXTENSION_FILE_SIZE]
    assert kit.extension.tags_code(addresses[8]) == 8
    assert kit.extension.tags_code(addresses[7]) is None
    assert kit.extension.trim(extension_address(10 * EXTENSION_FILE_SIZE)) == []
    for file in gone:
        file.remove()


def test_a_full_disk_stores_nothing(kit: Kit) -> None:
    kit.disk.fail("make_sparse_file", full_disk())
    with pytest.raises(DiskFull):
        kit.extension.put(0, 100, 7, 1)
    assert kit.extension.put(0, 100, 7, 1) == extension_address(0)


def test_what_was_written_is_dirty_until_it_is_flushed(kit: Kit) -> None:
    kit.extension.put(0, 100, 7, 1)
    assert [file.base for file in kit.extension.dirty_files()] == [0]
    kit.extension.flushed = kit.extension.files.max_offset
    assert kit.extension.dirty_files() == []
