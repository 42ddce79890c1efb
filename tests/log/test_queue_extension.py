"""The extension of one queue: units in a row, files that roll, and what is cut away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.format.extension_unit import END_MARK, UNIT_SIZE_MIN, address_of
from broker.log.queue_extension import QueueExtension
from broker.model.errors import DiskFull
from tests.fakes.quick_disk import QuickDisk, full_disk

SIZE = 100
"""Four units of 20 bytes, and the room behind them that stays free."""


class Kit:
    """An extension in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.extension = self.anew()

    def anew(self) -> QueueExtension:
        return QueueExtension(self.disk, self.directory, SIZE)

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
    addresses = [kit.extension.put(code, 1) for code in (7, -7, 0)]
    assert addresses == [address_of(0), address_of(20), address_of(40)]
    assert [kit.extension.tags_code(address) for address in addresses] == [7, -7, 0]


def test_a_unit_that_does_not_fit_goes_to_the_next_file_behind_a_mark(kit: Kit) -> None:
    addresses = [kit.extension.put(code, 1) for code in range(6)]
    assert addresses[4] == address_of(SIZE)
    assert kit.names == [0, SIZE]
    first = (kit.directory / f"{0:020d}").read_bytes()
    assert first[80:82] == END_MARK
    assert kit.extension.tags_code(addresses[5]) == 5


def test_an_address_that_leads_nowhere_has_no_code(kit: Kit) -> None:
    kit.extension.put(7, 1)
    assert kit.extension.tags_code(address_of(20)) is None
    assert kit.extension.tags_code(address_of(SIZE)) is None
    assert kit.extension.tags_code(address_of(SIZE - UNIT_SIZE_MIN + 1)) is None


def test_after_a_start_units_go_on_behind_the_last_one_a_queue_knows(kit: Kit) -> None:
    addresses = [kit.extension.put(code, 1) for code in range(6)]
    kit.reopen(addresses[2])
    assert kit.names == [0]
    assert kit.extension.tags_code(addresses[3]) is None
    assert kit.extension.put(9, 1) == addresses[3]
    assert [kit.extension.tags_code(address) for address in addresses[:4]] == [0, 1, 2, 9]


def test_an_extension_no_unit_leads_to_begins_anew(kit: Kit) -> None:
    kit.extension.put(7, 1)
    kit.reopen(None)
    assert kit.names == []
    assert kit.extension.put(8, 1) == address_of(0)


def test_files_before_an_address_are_taken_out_but_never_the_last(kit: Kit) -> None:
    addresses = [kit.extension.put(code, 1) for code in range(10)]
    gone = kit.extension.trim(addresses[8])
    assert [file.base for file in gone] == [0, SIZE]
    assert kit.extension.tags_code(addresses[8]) == 8
    assert kit.extension.tags_code(addresses[7]) is None
    assert kit.extension.trim(address_of(10 * SIZE)) == []
    for file in gone:
        file.remove()


def test_a_full_disk_stores_nothing(kit: Kit) -> None:
    kit.disk.fail("make_sparse_file", full_disk())
    with pytest.raises(DiskFull):
        kit.extension.put(7, 1)
    assert kit.extension.put(7, 1) == address_of(0)


def test_what_was_written_is_dirty_until_it_is_flushed(kit: Kit) -> None:
    kit.extension.put(7, 1)
    assert [file.base for file in kit.extension.dirty_files()] == [0]
    kit.extension.flushed = kit.extension.files.max_offset
    assert kit.extension.dirty_files() == []
