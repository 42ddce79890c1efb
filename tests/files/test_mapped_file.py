"""One mapped file: bytes stay in it, blocks stand behind them, zeros go where they should."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.files.mapped_file import (
    ALLOCATION_STEP,
    DIRECT_WRITE_MIN,
    POPULATE_STEP,
    ColdRead,
    MappedFile,
)
from pocketmq.model.errors import Corruption, DiskFull
from tests.sim.quick_disk import QuickDisk, full_disk

KIB = 1024
SIZE = 1024 * KIB


@pytest.fixture
def disk() -> QuickDisk:
    return QuickDisk()


@pytest.fixture
def file(disk: QuickDisk, tmp_path: Path) -> Iterator[MappedFile]:
    """A fresh sparse file of 1 MiB, mapped."""
    path = tmp_path / "f"
    made = MappedFile(disk, path, 0, SIZE).adopt(disk.make_sparse_file(path, SIZE))
    yield made
    made.close()


# -- opening and closing ---------------------------------------------------------------------------


def test_a_file_is_mapped_once_and_closed_twice_without_harm(file: MappedFile) -> None:
    descriptor, view = file.descriptor, file.view
    assert file.open() is file
    assert (file.descriptor, file.view, file.is_open) == (descriptor, view, True)
    file.write(0, b"kept")
    copied = bytes(view[:4])
    file.close()
    file.close()
    assert not file.is_open
    assert bytes(file.open().view[:4]) == copied == b"kept"


def test_a_closed_file_is_synced_all_the_same_and_a_removed_one_is_not(
    disk: QuickDisk, file: MappedFile
) -> None:
    file.close()
    file.sync()
    assert len(disk.calls["sync"]) == 1
    assert not file.is_open
    file.open()
    file.remove()
    assert (file.is_open, file.path.exists()) == (False, False)
    file.sync()
    assert len(disk.calls["sync"]) == 1


# -- holding ---------------------------------------------------------------------------------------


def test_a_held_file_closes_when_the_last_holder_lets_go(file: MappedFile) -> None:
    file.hold().let_go()
    assert file.is_open, "nobody closed it"
    file.hold().hold()
    file.close()
    file.let_go()
    assert file.is_open
    file.let_go()
    assert not file.is_open


def test_a_held_file_loses_its_name_at_once_and_its_bytes_later(file: MappedFile) -> None:
    file.write(0, b"kept")
    file.hold()
    file.remove()
    assert not file.path.exists()
    assert file.read(0, 4) == b"kept"
    file.let_go()
    assert not file.is_open


# -- reading without the map -----------------------------------------------------------------------


def test_bytes_in_memory_are_read_at_once_and_end_with_the_file(file: MappedFile) -> None:
    file.write(SIZE - 4, b"tail")
    assert file.read_resident(SIZE - 4, 100) == b"tail"
    assert file.read_resident(SIZE, 4) == b""


def test_bytes_that_are_not_in_memory_are_fetched_by_whoever_asked(
    disk: QuickDisk, file: MappedFile
) -> None:
    file.write(8, b"cold")
    disk.drop_resident()
    with pytest.raises(ColdRead) as caught:
        file.read_resident(8, 4)
    file.close()
    caught.value.fetch()
    assert file.read_resident(8, 4) == b"cold"
    file.remove()
    caught.value.fetch()  # There is nothing to fetch any more.


def test_a_view_that_somebody_kept_is_noticed_when_the_file_closes(file: MappedFile) -> None:
    kept = file.view[:4]
    with pytest.raises(BufferError):
        file.close()
    kept.release()


def test_a_file_that_is_too_short_is_damaged_and_does_not_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000002048"
    path.write_bytes(bytes(100))
    file = MappedFile(QuickDisk(), path, 2048, 1024)
    with pytest.raises(Corruption, match=r"2048 is damaged at byte 0 .*shorter than 1024"):
        file.open()
    assert not file.is_open
    assert file.descriptor == -1


def test_a_file_opened_for_reading_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"content")
    file = MappedFile(QuickDisk(), tmp_path / "f", 0, 7).open(read_only=True)
    with pytest.raises(TypeError):
        file.write(0, b"x")
    assert bytes(file.view) == b"content"
    file.close()


# -- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "is_direct"), [(1, False), (DIRECT_WRITE_MIN - 1, False), (DIRECT_WRITE_MIN, True)]
)
def test_large_pieces_go_out_by_a_call_and_show_in_the_map(
    disk: QuickDisk, file: MappedFile, size: int, is_direct: bool
) -> None:
    content = bytes(range(256)) * (size // 256) + bytes(range(1, size % 256 + 1))
    file.write(100, content)
    assert bytes(file.view[99 : 101 + size]) == b"\0" + content + b"\0"
    assert bool(disk.calls["write_at"]) is is_direct


def test_a_file_is_written_to_its_last_byte_and_not_behind_it(file: MappedFile) -> None:
    file.write(SIZE - 3, b"end")
    with pytest.raises(AssertionError):
        file.write(SIZE - 2, b"end")
    assert bytes(file.view[-4:]) == b"\0end"


def test_pages_are_populated_ahead_once_a_step(disk: QuickDisk, file: MappedFile) -> None:
    """From where writing begins to the end of the file."""
    file.write(SIZE - 5000, b"x")
    assert disk.ranges("populate") == [(SIZE - 8192, 8192)]
    disk.calls.clear()
    other = MappedFile(disk, file.path, 0, SIZE).open()
    for position in range(0, 2 * POPULATE_STEP, 1000):
        other.write(position, b"x" * 1000)
    assert disk.ranges("populate") == [(n * POPULATE_STEP, POPULATE_STEP) for n in range(3)]
    other.close()


def test_a_file_is_full_when_its_last_byte_is_written_and_needs_no_blocks_then(
    disk: QuickDisk, file: MappedFile
) -> None:
    states = []
    for file.wrote in (SIZE - 1, SIZE):
        states.append(file.is_full)
    assert states == [False, True]
    file.allocate(SIZE, SIZE)
    assert disk.ranges("allocate") == []


# -- allocating ------------------------------------------------------------------------------------


def test_blocks_come_in_steps_ahead_of_what_is_written(disk: QuickDisk, file: MappedFile) -> None:
    for upto in (1, 2, ALLOCATION_STEP, ALLOCATION_STEP + 1):
        file.allocate(upto)
        file.wrote = upto
    assert disk.ranges("allocate") == [(0, ALLOCATION_STEP), (ALLOCATION_STEP, ALLOCATION_STEP)]
    assert file.path.stat().st_blocks * 512 >= 2 * ALLOCATION_STEP


def test_blocks_end_with_the_file(disk: QuickDisk, file: MappedFile) -> None:
    """And a full disk leaves it as it was; it may be tried again."""
    disk.fail("allocate", full_disk())
    with pytest.raises(DiskFull):
        file.allocate(100)
    assert file.allocated == 0
    disk.calls.clear()
    file.allocate(SIZE - 1, 3 * SIZE)
    assert disk.ranges("allocate") == [(0, SIZE)]
    assert file.path.stat().st_size == SIZE


def test_a_file_found_with_data_gets_blocks_from_the_page_its_data_end_in(
    disk: QuickDisk, file: MappedFile
) -> None:
    file.wrote = 5000
    file.allocate(5020)
    assert disk.ranges("allocate") == [(4096, ALLOCATION_STEP - 4096)]


# -- zeroing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 4095, 4096, 4097, 100_000, SIZE - 1, SIZE])
def test_zeros_go_behind_a_position_and_nowhere_else(file: MappedFile, position: int) -> None:
    content = b"\xff" * SIZE
    file.write(0, content)
    file.zero_from(position)
    assert file.view == content[:position] + bytes(SIZE - position)


def test_pages_that_hold_nothing_are_not_written(disk: QuickDisk, file: MappedFile) -> None:
    file.write(100, b"record")
    file.write(500_000, b"stale")
    file.zero_from(106)
    assert disk.ranges("write_at") == [(499_712, 4096)]
    assert bytes(file.view[100:106]) == b"record"
    assert file.path.stat().st_blocks * 512 < SIZE, "holes stay holes"
