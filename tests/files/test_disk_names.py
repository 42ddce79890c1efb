"""After a loss the disk does nothing more, and tells of it once; a full one may make room."""

import errno
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.model.errors import (
    AllocationFailed,
    DiskFull,
    FsyncFailed,
    ReadFailed,
    StoreFailed,
    WriteFailed,
)
from tests.files.test_disk import refuse

CALLS: dict[str, Callable[[Disk, Path, int], object]] = {
    "sync": lambda disk, path, file: disk.sync(file),
    "sync_directory": lambda disk, path, file: disk.sync_directory(path),
    "sync_all": lambda disk, path, file: disk.sync_all(path),
    "write_at": lambda disk, path, file: disk.write_at(file, 0, b"x"),
    "write_file": lambda disk, path, file: disk.write_file(path / "f", b"x"),
    "rename": lambda disk, path, file: disk.rename(path / "f", path / "g"),
    "exchange": lambda disk, path, file: disk.exchange(path / "f", path / "g"),
    "unlink": lambda disk, path, file: disk.unlink(path / "f"),
    "remove_directory": lambda disk, path, file: disk.remove_directory(path),
    "make_directory": lambda disk, path, file: disk.make_directory(path / "d"),
    "add_directory": lambda disk, path, file: disk.add_directory(path / "d"),
    "allocate": lambda disk, path, file: disk.allocate(file, 0, 9, path),
    "make_sparse_file": lambda disk, path, file: disk.make_sparse_file(path / "s", 9),
    "make_allocated_file": lambda disk, path, file: disk.make_allocated_file(
        path / "d", path / "a", 9
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_changed_after_a_loss(tmp_path: Path, call: str) -> None:
    disk = Disk()
    file = disk.make_sparse_file(tmp_path / "f", 4)
    disk.lose(FsyncFailed(why="EIO"))
    with pytest.raises(FsyncFailed, match="EIO"):
        CALLS[call](disk, tmp_path, file)
    assert disk.names(tmp_path) == ["f"]
    assert disk.read_file(tmp_path / "f") == bytes(4)
    disk.close(file)


def test_a_loss_is_told_once_and_the_first_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, told = Disk(), list[StoreFailed]()
    with disk.reporting(lost=told.append):
        with monkeypatch.context() as patch, pytest.raises(FsyncFailed) as first:
            refuse(patch, "fsync", errno.EIO)
            disk.sync_directory(tmp_path)
        with pytest.raises(FsyncFailed) as again:
            disk.write_file(tmp_path / "f", b"x")
    assert told == [first.value]
    assert str(again.value) == str(first.value)
    assert again.value is not first.value  # An error raised twice is its own context.
    assert type(disk.lose(WriteFailed(why="later"))) is FsyncFailed


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_bytes_that_are_lost_at_closing_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    disk = Disk()
    file = disk.make_sparse_file(tmp_path / "f", 4)
    with monkeypatch.context() as patch, pytest.raises(FsyncFailed, match="close"):
        refuse(patch, "close", code)
        disk.close(file)
    assert disk.failure is not None
    os.close(file)


def test_a_directory_that_went_meanwhile_has_no_names_to_keep(tmp_path: Path) -> None:
    disk = Disk()
    disk.sync_directory(tmp_path / "gone")
    assert disk.failure is None


def test_a_directory_that_cannot_be_opened_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    with monkeypatch.context() as patch, pytest.raises(AllocationFailed, match="Too many"):
        refuse(patch, "open", errno.EMFILE)
        disk.sync_directory(tmp_path)
    assert disk.failure is None


@pytest.mark.parametrize("call", ["unlink", "rmdir"])
def test_a_name_that_stays_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    disk = Disk()
    with monkeypatch.context() as patch, pytest.raises(WriteFailed, match="Read-only"):
        refuse(patch, call, errno.EROFS)
        (disk.unlink if call == "unlink" else disk.remove_directory)(tmp_path / "f")
    assert disk.failure is None


@pytest.mark.parametrize("call", ["listdir", "stat", "statvfs"])
def test_names_that_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    disk = Disk()
    look = {"listdir": disk.names, "stat": disk.exists, "statvfs": disk.free_bytes}[call]
    with monkeypatch.context() as patch, pytest.raises(ReadFailed, match="Input/output"):
        refuse(patch, call, errno.EIO)
        look(tmp_path)


@pytest.mark.parametrize("has_room", [True, False])
def test_room_that_is_made_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_room: bool
) -> None:
    disk = Disk()
    with monkeypatch.context() as patch:
        refuse(patch, "mkdir", errno.ENOSPC)

        def give(full: DiskFull) -> bool:
            assert full.path == str(tmp_path / "d")
            patch.undo()
            return has_room

        with disk.reporting(full=give), nullcontext() if has_room else pytest.raises(DiskFull):
            disk.make_directory(tmp_path / "d")
    assert disk.is_directory(tmp_path / "d") is has_room
