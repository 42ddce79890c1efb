"""Files in a row: one address space, and a start that names what does not belong to it."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from pocketmq.files.mapped_file import MappedFile
from pocketmq.files.mapped_file_queue import MappedFileQueue
from pocketmq.model.errors import DiskFull, NotAStore, StoreGap, WrongFileSize
from tests.sim.disk import SimDisk
from tests.sim.quick_disk import QuickDisk, full_disk

SIZE = 100


class Row:
    """A directory of files and the row made of it.

    row.lay(0, 100, 200)         makes files of full length, named by these offsets
    row.load().files             what a start finds
    row.names                    what the directory holds now
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = QuickDisk()
        self.queue = MappedFileQueue(self.disk, directory, SIZE, "someFileSize")

    def lay(self, *bases: int, size: int = SIZE) -> None:
        self.directory.mkdir(exist_ok=True)
        for base in bases:
            (self.directory / f"{base:020d}").write_bytes(b"%20d" % base + bytes(size - 20))

    def load(self, *, read_only: bool = False) -> MappedFileQueue:
        self.queue.load(read_only=read_only)
        return self.queue

    @property
    def names(self) -> list[str]:
        return [name.lstrip("0") or "0" for name in self.disk.names(self.directory)]


@pytest.fixture
def row(tmp_path: Path) -> Iterator[Row]:
    made = Row(tmp_path / "row")
    yield made
    made.queue.close()


def bases(queue: MappedFileQueue) -> list[int]:
    return [file.base for file in queue.files]


# -- loading ---------------------------------------------------------------------------------------


def test_a_missing_directory_is_an_empty_row(row: Row) -> None:
    queue = row.load()
    assert (queue.files, queue.min_offset, queue.max_offset) == ([], 0, 0)
    assert queue.file_at(0) is None


def test_files_count_as_full_and_are_mapped_when_needed(row: Row) -> None:
    row.lay(300, 500, 400)
    queue = row.load()
    assert (bases(queue), queue.min_offset, queue.max_offset) == ([300, 400, 500], 300, 600)
    assert not any(file.is_open for file in queue.files)
    found = queue.file_at(499)
    assert found is queue.files[1]
    assert bytes(found.view[:20]) == b"%20d" % 400


@pytest.mark.parametrize(
    ("position", "base"),
    [(-1, None), (299, None), (300, 300), (399, 300), (400, 400), (599, 500), (600, None)],
)
def test_each_byte_has_one_file(row: Row, position: int, base: int | None) -> None:
    row.lay(300, 400, 500)
    found = row.load().file_at(position)
    assert (found.base if found else None) == base


@pytest.mark.parametrize("size", [50, 99, 101])
def test_a_file_of_another_length_is_refused_with_the_settings_to_look_at(
    row: Row, size: int
) -> None:
    row.lay(0)
    row.lay(100, size=size)
    with pytest.raises(WrongFileSize, match=f"{size} bytes, expected 100; .* set someFileSize"):
        row.load()


@pytest.mark.parametrize("found", [[0, 200], [0, 100, 150]])
def test_a_missing_file_in_the_middle_is_refused_with_its_name(row: Row, found: list[int]) -> None:
    row.lay(*found)
    with pytest.raises(StoreGap) as caught:
        row.load()
    assert caught.value.expected == found[-2] + SIZE
    assert caught.value.found == found[-1]


@pytest.mark.parametrize("name", ["notes.txt", "0", "0000000000000000000x", "-0000000000000000100"])
def test_a_foreign_file_is_refused_and_left_alone(row: Row, name: str) -> None:
    row.lay(0)
    (row.directory / name).write_bytes(bytes(SIZE))
    with pytest.raises(NotAStore, match=name):
        row.load()
    assert (row.directory / name).exists()


def test_directories_are_passed_over(row: Row) -> None:
    row.lay(0)
    (row.directory / "lost+found").mkdir()
    assert bases(row.load()) == [0]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_last_file_of_length_zero_was_never_used(row: Row, read_only: bool) -> None:
    """It stays until its owner removes it."""
    row.lay(0)
    (row.directory / f"{100:020d}").touch()
    found = row.load(read_only=read_only)
    assert bases(found) == [0]
    assert row.names == ["0", "100"]
    found.remove_empty()
    assert row.names == ["0"]


def test_a_file_of_length_zero_in_the_middle_is_refused(row: Row) -> None:
    row.lay(0, 200)
    (row.directory / f"{100:020d}").touch()
    with pytest.raises(WrongFileSize, match="has 0 bytes"):
        row.load()
    assert row.names == ["0", "100", "200"]


def test_a_row_loaded_for_reading_maps_files_for_reading(row: Row) -> None:
    row.lay(0)
    found = row.load(read_only=True).file_at(0)
    assert found is not None
    with pytest.raises(TypeError):
        found.write(0, b"x")


# -- growing ---------------------------------------------------------------------------------------


def test_new_files_have_their_name_and_length(row: Row) -> None:
    row.queue.make_file(200).wrote = 100
    row.queue.make_file(300).wrote = 7
    assert row.names == ["200", "300"]
    assert (row.queue.min_offset, row.queue.max_offset) == (200, 307)
    assert [(row.directory / name).stat().st_size for name in row.disk.names(row.directory)] == [
        SIZE,
        SIZE,
    ]


def test_a_file_that_finds_no_room_leaves_the_row_as_it_was(row: Row) -> None:
    row.queue.make_file(0)
    row.disk.fail("make_sparse_file", full_disk())
    with pytest.raises(DiskFull):
        row.queue.make_file(100)
    assert (bases(row.queue), row.names) == ([0], ["0"])
    row.queue.make_file(100)
    assert bases(row.queue) == [0, 100]


@pytest.mark.parametrize("call", ["mkdir", "create", "allocate"])
def test_a_directory_made_before_the_disk_was_full_is_durable_with_the_file_made_later(
    call: str,
) -> None:
    for seed in range(12):
        disk = SimDisk(seed=seed)
        directory = Path("/queues/orders/0")
        disk.make_directory(directory.parent.parent)
        queue = MappedFileQueue(disk, directory, SIZE, "its size", is_view=True)
        disk.fail(call, errno.ENOSPC, at=2 if call == "mkdir" else 1)
        with pytest.raises(DiskFull):
            queue.make_file(0).allocate(SIZE)
        for file in queue.files:
            file.remove()
        queue.files.clear()
        queue.make_file(0).sync()
        left = SimDisk(disk.image.cut(Random(seed)))
        assert left.exists(directory / f"{0:020d}")


def test_a_file_made_elsewhere_must_follow_the_last_one(row: Row) -> None:
    def made(base: int) -> MappedFile:
        return MappedFile(row.disk, row.directory / f"{base:020d}", base, SIZE)

    row.queue.append_file(made(500))
    row.queue.append_file(made(600))
    with pytest.raises(AssertionError):
        row.queue.append_file(made(800))
    assert bases(row.queue) == [500, 600]


# -- cutting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("laid", "position", "left", "end"),
    [
        ([0, 100, 200], 300, [0, 100, 200], 300), ([0, 100, 200], 999, [0, 100, 200], 300),
        ([0, 100, 200], 201, [0, 100, 200], 201), ([0, 100, 200], 200, [0, 100], 200),
        ([0, 100, 200], 199, [0, 100], 199), ([0, 100, 200], 1, [0], 1), ([0, 100, 200], 0, [0], 0),
        ([300, 400], 301, [300], 301), ([300, 400], 300, [], 0), ([], 0, [], 0),
    ],
)  # fmt: skip
def test_a_cut_removes_later_files_and_only_the_very_first_one_stays_empty(
    row: Row, laid: list[int], position: int, left: list[int], end: int
) -> None:
    row.lay(*laid)
    row.load().cut(position)
    assert (bases(row.queue), row.queue.max_offset) == (left, end)
    assert row.names == [str(base) for base in left]


@pytest.mark.parametrize("act", [MappedFileQueue.close, lambda queue: queue.cut(-1)])
def test_closing_and_cutting_leave_no_file_mapped(
    row: Row, act: Callable[[MappedFileQueue], None]
) -> None:
    row.lay(100, 200)
    files = list(row.load().files)
    for file in files:
        row.queue.file_at(file.base)
    assert all(file.is_open for file in files)
    act(row.queue)
    assert not any(file.is_open for file in files)
