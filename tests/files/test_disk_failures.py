"""Where the disk refuses: full is told from broken, nothing half made stays, a loss is final.

with refusing("fdatasync", errno.EIO): …        a call of the operating system fails
"""

import errno
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import FULL_DISK_ERRORS, FullDisk, ReadErrors, forget, path_of
from pocketmq.model.errors import (
    AllocationFailed,
    BrokerError,
    DiskFull,
    FsyncFailed,
    ReadFailed,
    StoreFailed,
    WriteFailed,
)

Call = Callable[[Disk, Path, int], object]
"""What is called, of a directory that holds an open file "f" of four bytes."""

CALLS: dict[str, Call] = {
    "sync": lambda disk, path, file: disk.sync(file),
    "sync_directory": lambda disk, path, file: disk.sync_directory(path),
    "sync_all": lambda disk, path, file: disk.sync_all(path),
    "write_at": lambda disk, path, file: disk.write_at(file, 0, b"x"),
    "write_file": lambda disk, path, file: disk.write_file(path / "new", b"x"),
    "rename": lambda disk, path, file: disk.rename(path / "f", path / "new"),
    "exchange": lambda disk, path, file: disk.exchange(path / "f", path / "g"),
    "unlink": lambda disk, path, file: disk.unlink(path / "f"),
    "remove_directory": lambda disk, path, file: disk.remove_directory(path),
    "make_directory": lambda disk, path, file: disk.make_directory(path / "new"),
    "add_directory": lambda disk, path, file: disk.add_directory(path / "new"),
    "allocate": lambda disk, path, file: disk.allocate(file, 0, 4, path / "f"),
    "make_sparse_file": lambda disk, path, file: disk.make_sparse_file(path / "new", 9),
    "make_allocated_file": lambda disk, path, file: disk.make_allocated_file(
        path / "draft", path / "new", 9
    ),
    "names": lambda disk, path, file: disk.names(path),
    "exists": lambda disk, path, file: disk.exists(path),
    "space": lambda disk, path, file: disk.space(path),
}
LOOKING = {"names", "exists", "space"}
REFUSALS = {errno.ENOSPC: DiskFull, errno.EDQUOT: DiskFull, errno.EIO: AllocationFailed}
MAKING = {
    "make_sparse_file": "open ftruncate",
    "make_allocated_file": "open posix_fallocate replace",
    "allocate": "posix_fallocate",
    "make_directory": "mkdir",
    "rename": "replace",
    "write_file": "open",
}
"""What makes files and names, and which calls of the operating system may refuse it."""

REFUSED = [
    (name, call, number, kind)
    for name, calls in MAKING.items()
    for call in calls.split()
    for number, kind in REFUSALS.items()
] + [
    ("write_file", "pwrite", errno.ENOSPC, DiskFull),
    ("write_file", "pwrite", errno.EDQUOT, DiskFull),
    ("write_file", "pwrite", errno.EIO, WriteFailed),
    ("write_file", "pwrite", errno.EROFS, WriteFailed),
    ("unlink", "unlink", errno.EROFS, WriteFailed),
    ("remove_directory", "rmdir", errno.EROFS, WriteFailed),
    ("sync_directory", "open", errno.EMFILE, AllocationFailed),
    ("names", "listdir", errno.EIO, ReadFailed),
    ("exists", "stat", errno.EIO, ReadFailed),
    ("space", "statvfs", errno.EIO, ReadFailed),
    ("make_allocated_file", "fdatasync", errno.EIO, FsyncFailed),
    ("sync", "fdatasync", errno.EIO, FsyncFailed),
    ("write_file", "fdatasync", errno.ENOSPC, FsyncFailed),
    ("sync_directory", "fsync", errno.EIO, FsyncFailed),
    ("make_sparse_file", "fsync", errno.EIO, FsyncFailed),
]
"""What is refused, by which call of the operating system, how, and what is told."""


def refusing(call: str, number: int) -> AbstractContextManager[object]:
    """Makes a call of the operating system fail with an error number."""
    return patch.object(os, call, side_effect=OSError(number, os.strerror(number)))


def open_descriptors() -> int:
    gc.collect()  # What another test left behind is not to go in the middle of this one.
    return len(list(Path("/proc/self/fd").iterdir()))


def content(path: Path) -> dict[str, bytes]:
    return {child.name: child.read_bytes() for child in path.iterdir()}


@pytest.mark.parametrize(("name", "call", "number", "kind"), REFUSED)
def test_what_is_refused_is_told_and_leaves_nothing(
    tmp_path: Path, name: str, call: str, number: int, kind: type[BrokerError]
) -> None:
    disk = Disk()
    file = disk.make_sparse_file(tmp_path / "f", 4)
    before = open_descriptors()
    with refusing(call, number), pytest.raises(kind) as caught:
        CALLS[name](disk, tmp_path, file)
    assert (str(tmp_path) if kind is DiskFull else os.strerror(number)) in str(caught.value)
    assert name == "write_file" or content(tmp_path) == {"f": bytes(4)}
    assert open_descriptors() == before
    is_lost = call in ("pwrite", "fdatasync", "fsync") and kind is not DiskFull
    assert (disk.trouble.failure is not None) is is_lost
    disk.close(file)


def test_only_two_errors_mean_a_full_disk() -> None:
    assert {errno.ENOSPC, errno.EDQUOT} == FULL_DISK_ERRORS


@pytest.mark.parametrize("call", sorted(CALLS.keys() - LOOKING))
def test_nothing_is_changed_after_a_loss(tmp_path: Path, call: str) -> None:
    disk = Disk()
    file = disk.make_sparse_file(tmp_path / "f", 4)
    disk.trouble.lose(FsyncFailed(why="EIO"))
    with pytest.raises(FsyncFailed, match="EIO"):
        CALLS[call](disk, tmp_path, file)
    assert content(tmp_path) == {"f": bytes(4)}
    disk.close(file)


def test_a_loss_is_told_once_and_the_first_one_counts(tmp_path: Path) -> None:
    disk, told = Disk(), list[StoreFailed]()
    with disk.trouble.reporting(lost=told.append):
        with refusing("fsync", errno.EIO), pytest.raises(FsyncFailed, match=tmp_path.name) as first:
            disk.sync_directory(tmp_path)
        with pytest.raises(FsyncFailed) as again:
            disk.write_file(tmp_path / "f", b"x")
    assert told == [first.value]
    assert str(again.value) == str(first.value)
    assert again.value is not first.value  # An error raised twice is its own context.
    assert type(disk.trouble.lose(WriteFailed(why="later"))) is FsyncFailed


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_bytes_that_are_lost_at_closing_are_lost(tmp_path: Path, code: int) -> None:
    disk = Disk()
    file = disk.make_sparse_file(tmp_path / "f", 4)
    with refusing("close", code), pytest.raises(FsyncFailed, match="close"):
        disk.close(file)
    assert disk.trouble.failure is not None
    os.close(file)


@pytest.mark.parametrize("has_room", [True, False])
def test_room_that_is_made_is_used(tmp_path: Path, has_room: bool) -> None:
    disk, full = Disk(), refusing("mkdir", errno.ENOSPC)

    @contextmanager
    def give(found: DiskFull) -> Iterator[bool]:
        assert found.path == str(tmp_path / "d")
        full.__exit__(None, None, None)
        yield has_room

    full.__enter__()
    with disk.trouble.reporting(full=give), nullcontext() if has_room else pytest.raises(DiskFull):
        disk.make_directory(tmp_path / "d")
    assert disk.is_directory(tmp_path / "d") is has_room


# -- errors of the operating system ----------------------------------------------------------------

WHERE = Path("/s/file")


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_what_cannot_be_read_says_where_and_why(code: int) -> None:
    with pytest.raises(ReadFailed) as caught, ReadErrors(WHERE):
        raise OSError(code, os.strerror(code))
    assert (caught.value.path, caught.value.strerror) == (str(WHERE), os.strerror(code))
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("kind", [FileNotFoundError, NotADirectoryError, ValueError])
def test_that_nothing_is_there_passes_as_it_is(kind: type[Exception]) -> None:
    with pytest.raises(kind), ReadErrors(WHERE):
        raise kind


def test_an_error_that_says_where_already_stays() -> None:
    with pytest.raises(ReadFailed, match="/inner"), ReadErrors(WHERE):
        raise ReadFailed(path="/inner", why="EIO")


def test_a_file_exists_already_is_not_a_trouble_of_the_disk() -> None:
    with pytest.raises(FileExistsError), FullDisk(WHERE):
        raise FileExistsError


def test_an_open_file_knows_its_name(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "f", os.O_CREAT | os.O_RDWR)
    assert path_of(descriptor) == str(tmp_path / "f")
    forget(descriptor, tmp_path / "f")
    assert [*tmp_path.iterdir()] == []
    assert path_of(descriptor) == f"descriptor {descriptor}"
    forget(descriptor, tmp_path / "f")  # Neither exists any more, and there is no error.
