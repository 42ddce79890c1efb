"""The disk's rules: full is told from broken, nothing half made stays, a failed sync is final."""

import errno
import gc
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from broker.files.disk import Disk
from broker.files.disk_errors import FULL_DISK_ERRORS
from broker.model.errors import (
    AllocationFailed,
    BrokerError,
    DiskFull,
    FsyncFailed,
    WriteFailed,
)

REFUSALS = [
    (errno.ENOSPC, DiskFull),
    (errno.EDQUOT, DiskFull),
    (errno.EIO, AllocationFailed),
]


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    """Let a call of the operating system fail with an error number."""

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)


def open_descriptors() -> int:
    gc.collect()  # What another test left behind is not to go in the middle of this one.
    return len(list(Path("/proc/self/fd").iterdir()))


def content(path: Path) -> dict[str, bytes]:
    return {child.name: child.read_bytes() for child in path.iterdir()}


# -- making files ----------------------------------------------------------------------------------


def test_a_sparse_file_has_its_length_and_no_blocks(tmp_path: Path) -> None:
    disk = Disk()
    disk.close(disk.make_sparse_file(tmp_path / "f", 1 << 20))
    assert disk.file_size(tmp_path / "f") == 1 << 20
    assert (tmp_path / "f").stat().st_blocks == 0


def test_a_sparse_file_does_not_replace_another(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        Disk().make_sparse_file(tmp_path / "f", 100)
    assert content(tmp_path) == {"f": b"precious"}


@pytest.mark.parametrize(("number", "kind"), REFUSALS)
@pytest.mark.parametrize("call", ["open", "ftruncate"])
def test_a_sparse_file_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: type[BrokerError]
) -> None:
    before = open_descriptors()
    with monkeypatch.context() as patch, pytest.raises(kind, match="f"):
        refuse(patch, call, number)
        Disk().make_sparse_file(tmp_path / "f", 100)
    assert content(tmp_path) == {}
    assert open_descriptors() == before


def test_an_allocated_file_has_blocks_behind_every_byte(tmp_path: Path) -> None:
    disk, draft, path = Disk(), tmp_path / "draft", tmp_path / "file"
    descriptor = disk.make_allocated_file(draft, path, 100_000)
    assert disk.read_at(descriptor, 0, 100_000) == bytes(100_000)
    assert path.stat().st_blocks * 512 >= 100_000
    assert not disk.exists(draft)
    disk.close(descriptor)


def test_a_draft_that_a_crash_left_is_no_obstacle(tmp_path: Path) -> None:
    disk, draft, path = Disk(), tmp_path / "draft", tmp_path / "file"
    draft.write_bytes(b"left over")
    disk.close(disk.make_allocated_file(draft, path, 4096))
    assert content(tmp_path) == {"file": bytes(4096)}


@pytest.mark.parametrize(("number", "kind"), REFUSALS)
@pytest.mark.parametrize("call", ["open", "posix_fallocate", "replace"])
def test_an_allocated_file_that_cannot_be_made_leaves_neither_draft_nor_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: type[BrokerError]
) -> None:
    before = open_descriptors()
    with monkeypatch.context() as patch, pytest.raises(kind):
        refuse(patch, call, number)
        Disk().make_allocated_file(tmp_path / "draft", tmp_path / "file", 4096)
    assert content(tmp_path) == {}
    assert open_descriptors() == before


def test_an_allocated_file_that_cannot_be_synced_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(FsyncFailed):
        refuse(patch, "fdatasync", errno.EIO)
        Disk().make_allocated_file(tmp_path / "draft", tmp_path / "file", 4096)
    assert content(tmp_path) == {}


@pytest.mark.parametrize(("number", "kind"), REFUSALS)
def test_allocating_more_of_a_file_tells_full_from_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[BrokerError]
) -> None:
    disk = Disk()
    descriptor = disk.make_sparse_file(tmp_path / "f", 8192)
    with monkeypatch.context() as patch, pytest.raises(kind, match="f"):
        refuse(patch, "posix_fallocate", number)
        disk.allocate(descriptor, 0, 8192, tmp_path / "f")
    disk.allocate(descriptor, 0, 8192, tmp_path / "f")
    assert (tmp_path / "f").stat().st_blocks * 512 >= 8192
    disk.close(descriptor)


def test_only_two_errors_mean_a_full_disk() -> None:
    assert {errno.ENOSPC, errno.EDQUOT} == FULL_DISK_ERRORS


# -- small files -----------------------------------------------------------------------------------


def test_a_small_file_is_written_whole_and_replaced_whole(tmp_path: Path) -> None:
    disk = Disk()
    disk.write_file(tmp_path / "f", b"a longer content")
    disk.write_file(tmp_path / "f", b"short")
    assert disk.read_file(tmp_path / "f") == b"short"


@pytest.mark.parametrize(
    ("call", "number", "kind"),
    [
        *(("open", *refusal) for refusal in REFUSALS),
        ("write", errno.ENOSPC, DiskFull),
        ("write", errno.EDQUOT, DiskFull),
        ("write", errno.EIO, WriteFailed),
        ("write", errno.EROFS, WriteFailed),
    ],
)
def test_a_small_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: type[BrokerError]
) -> None:
    before = open_descriptors()
    with monkeypatch.context() as patch, pytest.raises(kind, match="f"):
        refuse(patch, call, number)
        Disk().write_file(tmp_path / "f", b"content")
    assert open_descriptors() == before


def dribble(call: Callable[..., int]) -> Callable[..., int]:
    """A write call that takes three bytes at a time, as on a disk that is nearly full."""

    def write(descriptor: int, content: bytes, *position: int) -> int:
        return call(descriptor, content[:3], *position)

    return write


def test_a_small_file_that_goes_out_in_pieces_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", dribble(os.write))
        Disk().write_file(tmp_path / "f", b"0123456789")
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_bytes_written_at_a_position_in_pieces_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    descriptor = disk.make_sparse_file(tmp_path / "f", 20)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", dribble(os.pwrite))
        disk.write_at(descriptor, 5, b"0123456789")
    assert disk.read_at(descriptor, 4, 12) == b"\x000123456789\x00"
    disk.close(descriptor)


# -- syncing ---------------------------------------------------------------------------------------


def test_a_failed_sync_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    descriptor = disk.make_sparse_file(tmp_path / "f", 20)
    disk.sync(descriptor)
    with monkeypatch.context() as patch, pytest.raises(FsyncFailed, match="Input/output error"):
        refuse(patch, "fdatasync", errno.EIO)
        disk.sync(descriptor)
    disk.close(descriptor)


def test_no_room_at_a_sync_is_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(FsyncFailed):
        refuse(patch, "fdatasync", errno.ENOSPC)
        Disk().write_file(tmp_path / "f", b"content")


def test_a_failed_sync_of_a_directory_is_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_descriptors()
    with monkeypatch.context() as patch, pytest.raises(FsyncFailed, match=tmp_path.name):
        refuse(patch, "fsync", errno.EIO)
        Disk().sync_directory(tmp_path)
    assert open_descriptors() == before


# -- names -----------------------------------------------------------------------------------------


def test_names_come_sorted_and_what_is_no_directory_has_none(tmp_path: Path) -> None:
    for name in ("b", "a", "C"):
        (tmp_path / name).touch()
    assert Disk().names(tmp_path) == ["C", "a", "b"]
    assert Disk().names(tmp_path / "missing") == []
    assert Disk().names(tmp_path / "a") == []


def test_directories_are_made_with_those_above_them(tmp_path: Path) -> None:
    disk = Disk()
    disk.make_directory(tmp_path / "a" / "b" / "c")
    disk.make_directory(tmp_path / "a" / "b" / "c")
    assert disk.is_directory(tmp_path / "a" / "b" / "c")
    disk.remove_directory(tmp_path / "a" / "b" / "c")
    assert disk.names(tmp_path / "a" / "b") == []


def test_each_new_directory_is_made_durable_in_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(Disk, "sync_directory", lambda self, directory: synced.append(directory))
    Disk().make_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]


def test_a_directory_that_another_process_made_meanwhile_is_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "mkdir", errno.EEXIST)
    Disk().make_directory(tmp_path / "a")


@pytest.mark.parametrize(("number", "kind"), REFUSALS)
def test_a_directory_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[BrokerError]
) -> None:
    with monkeypatch.context() as patch, pytest.raises(kind):
        refuse(patch, "mkdir", number)
        Disk().make_directory(tmp_path / "a")


@pytest.mark.parametrize(("number", "kind"), REFUSALS)
def test_a_rename_that_finds_no_room_for_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[BrokerError]
) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with monkeypatch.context() as patch, pytest.raises(kind):
        refuse(patch, "replace", number)
        Disk().rename(tmp_path / "a", tmp_path / "b")
    assert content(tmp_path) == {"a": b"a"}


def test_renaming_replaces_and_unlinking_twice_is_fine(tmp_path: Path) -> None:
    disk, source, target = Disk(), tmp_path / "a", tmp_path / "b"
    disk.write_file(source, b"new")
    disk.write_file(target, b"old")
    disk.rename(source, target)
    assert content(tmp_path) == {"b": b"new"}
    disk.unlink(target)
    disk.unlink(target)
    assert content(tmp_path) == {}


def test_the_disk_tells_about_itself(tmp_path: Path) -> None:
    disk = Disk()
    assert disk.own_process_id() == os.getpid()
    assert disk.free_bytes(tmp_path) > 0
    assert disk.exists(tmp_path)
    assert not disk.exists(tmp_path / "missing")


# -- maps ------------------------------------------------------------------------------------------


def test_a_map_shows_what_is_written_and_writes_what_is_shown(tmp_path: Path) -> None:
    disk = Disk()
    disk.close(disk.make_sparse_file(tmp_path / "f", 8192))
    descriptor = disk.open(tmp_path / "f")
    mapping = disk.map(descriptor, 8192)
    mapping[0:3] = b"map"
    disk.write_at(descriptor, 4096, b"call")
    disk.sync(descriptor)
    assert disk.read_at(descriptor, 0, 3) == b"map"
    assert mapping[4096:4100] == b"call"
    mapping.close()
    disk.close(descriptor)


def test_a_read_only_map_cannot_be_written(tmp_path: Path) -> None:
    disk = Disk()
    (tmp_path / "f").write_bytes(b"content")
    descriptor = disk.open_read_only(tmp_path / "f")
    mapping = disk.map_read_only(descriptor, 7)
    with pytest.raises(TypeError):
        mapping[0:1] = b"x"
    assert mapping[:] == b"content"
    mapping.close()
    disk.close(descriptor)


class OldKernel:
    """A map whose kernel does not know how to populate pages."""

    def __init__(self) -> None:
        self.calls = 0

    def madvise(self, *arguments: int) -> None:
        self.calls += 1
        raise OSError(errno.EINVAL, "Invalid argument")


def test_populating_is_given_up_where_the_kernel_cannot() -> None:
    disk, mapping = Disk(), OldKernel()
    disk.populate(cast(mmap.mmap, mapping), 0, 4096)
    disk.populate(cast(mmap.mmap, mapping), 4096, 4096)
    assert mapping.calls == 1


def test_populated_pages_keep_their_bytes(tmp_path: Path) -> None:
    disk = Disk()
    descriptor = disk.make_allocated_file(tmp_path / "draft", tmp_path / "f", 8192)
    disk.write_at(descriptor, 4096, b"kept")
    mapping = disk.map(descriptor, 8192)
    disk.populate(mapping, 0, 8192)
    assert mapping[:] == bytes(4096) + b"kept" + bytes(4092)
    mapping.close()
    disk.close(descriptor)


def test_two_directories_change_names(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    Disk().exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one/file").read_text() == "other"
    assert (tmp_path / "other/file").read_text() == "one"
    with pytest.raises(AllocationFailed, match="No such file"):
        Disk().exchange(tmp_path / "none", tmp_path / "one")


def test_names_change_also_where_the_system_cannot_do_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.files.disk_names.exchange_names", lambda one, other: False)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    Disk().exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one/file").read_text() == "other"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_the_system_cannot_tell_what_is_in_memory_bytes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    disk = Disk()
    (tmp_path / "f").write_bytes(b"content")
    descriptor = disk.open_read_only(tmp_path / "f")
    with monkeypatch.context() as patch:
        refuse(patch, "preadv", code)
        assert disk.read_resident(descriptor, 3, 4) == b"tent"
    with monkeypatch.context() as patch:
        refuse(patch, "preadv", errno.EAGAIN)
        assert disk.read_resident(descriptor, 3, 4) is None
    disk.close(descriptor)
