"""The disk: files are made whole and written whole, names change at once, maps show their bytes."""

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast
from unittest.mock import patch

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.errors import AllocationFailed
from tests.files.test_disk_failures import content, refusing


@pytest.fixture
def disk() -> Disk:
    return Disk()


# -- making files ----------------------------------------------------------------------------------


def test_a_sparse_file_has_its_length_and_no_blocks(disk: Disk, tmp_path: Path) -> None:
    disk.close(disk.make_sparse_file(tmp_path / "f", 1 << 20))
    assert disk.file_size(tmp_path / "f") == 1 << 20
    assert (tmp_path / "f").stat().st_blocks == 0


def test_a_sparse_file_does_not_replace_another(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        disk.make_sparse_file(tmp_path / "f", 100)
    assert content(tmp_path) == {"f": b"precious"}


def test_an_allocated_file_has_blocks_behind_every_byte(disk: Disk, tmp_path: Path) -> None:
    """Also where a crash left a draft."""
    (tmp_path / "draft").write_bytes(b"left over")
    descriptor = disk.make_allocated_file(tmp_path / "draft", tmp_path / "file", 100_000)
    assert disk.read_at(descriptor, 0, 100_000) == bytes(100_000)
    assert (tmp_path / "file").stat().st_blocks * 512 >= 100_000
    assert content(tmp_path) == {"file": bytes(100_000)}
    disk.close(descriptor)


# -- writing ---------------------------------------------------------------------------------------


def test_a_small_file_is_written_whole_and_replaced_whole(disk: Disk, tmp_path: Path) -> None:
    disk.write_file(tmp_path / "f", b"a longer content")
    disk.write_file(tmp_path / "f", b"short")
    assert disk.read_file(tmp_path / "f") == b"short"


def dribble(call: Callable[..., int]) -> Callable[..., int]:
    """A write call that takes three bytes at a time, as on a disk that is nearly full."""
    return lambda descriptor, content, *position: call(descriptor, content[:3], *position)


def test_bytes_that_go_out_in_pieces_are_whole(disk: Disk, tmp_path: Path) -> None:
    descriptor = disk.make_sparse_file(tmp_path / "f", 20)
    with patch.object(os, "pwrite", dribble(os.pwrite)):
        disk.write_at(descriptor, 5, b"0123456789")
    assert disk.read_at(descriptor, 4, 12) == b"\x000123456789\x00"
    disk.close(descriptor)


# -- names -----------------------------------------------------------------------------------------


def test_names_come_sorted_and_what_is_no_directory_has_none(disk: Disk, tmp_path: Path) -> None:
    for name in ("b", "a", "C"):
        (tmp_path / name).touch()
    assert disk.names(tmp_path) == ["C", "a", "b"]
    assert disk.names(tmp_path / "missing") == disk.names(tmp_path / "a") == []


def test_directories_are_made_with_those_above_them(disk: Disk, tmp_path: Path) -> None:
    """Each of them durable in the one above."""
    synced: list[Path] = []
    with patch.object(Disk, "sync_directory", lambda _, directory: synced.append(directory)):
        disk.make_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    disk.make_directory(tmp_path / "a" / "b")
    assert disk.is_directory(tmp_path / "a" / "b")
    disk.remove_directory(tmp_path / "a" / "b")
    assert disk.names(tmp_path / "a") == []


def test_a_directory_that_another_process_made_meanwhile_is_fine(tmp_path: Path) -> None:
    with refusing("mkdir", errno.EEXIST):
        Disk().make_directory(tmp_path / "a")


def test_renaming_replaces_and_unlinking_twice_is_fine(disk: Disk, tmp_path: Path) -> None:
    disk.write_file(tmp_path / "a", b"new")
    disk.write_file(tmp_path / "b", b"old")
    disk.rename(tmp_path / "a", tmp_path / "b")
    assert content(tmp_path) == {"b": b"new"}
    disk.unlink(tmp_path / "b")
    disk.unlink(tmp_path / "b")
    assert content(tmp_path) == {}


@pytest.mark.parametrize("is_at_once", [True, False])
def test_two_directories_change_names(
    disk: Disk, tmp_path: Path, is_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the system cannot do it at once."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    if not is_at_once:
        monkeypatch.setattr("pocketmq.files.disk.exchange_names", lambda one, other: False)
    disk.exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one/file").read_text() == "other"
    assert (tmp_path / "other/file").read_text() == "one"
    assert disk.names(tmp_path) == ["one", "other"]
    with pytest.raises(AllocationFailed, match="No such file"):
        disk.exchange(tmp_path / "none", tmp_path / "one")


def test_the_disk_tells_about_itself(disk: Disk, tmp_path: Path) -> None:
    assert disk.own_process_id() == os.getpid()
    assert min(disk.space(tmp_path)) > 0
    assert disk.exists(tmp_path)
    assert not disk.exists(tmp_path / "missing")


def test_a_directory_that_went_meanwhile_has_no_names_to_keep(disk: Disk, tmp_path: Path) -> None:
    disk.sync_directory(tmp_path / "gone")
    assert disk.trouble.failure is None


# -- maps ------------------------------------------------------------------------------------------


def test_a_map_shows_what_is_written_and_writes_what_is_shown(disk: Disk, tmp_path: Path) -> None:
    disk.close(disk.make_sparse_file(tmp_path / "f", 8192))
    descriptor = disk.open(tmp_path / "f")
    mapping = disk.map(descriptor, 8192)
    mapping[0:3] = b"map"
    disk.write_at(descriptor, 4096, b"call")
    disk.sync(descriptor)
    disk.memory.populate(mapping, 0, 8192)
    assert disk.read_at(descriptor, 0, 3) == b"map"
    assert mapping[:] == b"map".ljust(4096, b"\0") + b"call".ljust(4096, b"\0")
    mapping.close()
    disk.close(descriptor)


def test_a_read_only_map_cannot_be_written(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"content")
    descriptor = disk.open(tmp_path / "f", read_only=True)
    mapping = disk.map(descriptor, 7, read_only=True)
    with pytest.raises(TypeError):
        mapping[0:1] = b"x"
    assert mapping[:] == b"content"
    mapping.close()
    disk.close(descriptor)


class OldKernel:
    """A map whose kernel does not know how to populate pages."""

    calls = 0

    def madvise(self, *arguments: int) -> None:
        self.calls += 1
        raise OSError(errno.EINVAL, "Invalid argument")


def test_populating_is_given_up_where_the_kernel_cannot(disk: Disk) -> None:
    mapping = OldKernel()
    disk.memory.populate(cast(mmap.mmap, mapping), 0, 4096)
    disk.memory.populate(cast(mmap.mmap, mapping), 4096, 4096)
    assert mapping.calls == 1


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_the_system_cannot_tell_what_is_in_memory_bytes_are_read(
    disk: Disk, tmp_path: Path, code: int
) -> None:
    (tmp_path / "f").write_bytes(b"content")
    descriptor = disk.open(tmp_path / "f", read_only=True)
    with refusing("preadv", code):
        assert disk.read_resident(descriptor, 3, 4) == b"tent"
    assert not disk.tells_resident
    with refusing("preadv", errno.EAGAIN):
        assert disk.read_resident(descriptor, 3, 4) is None
    disk.close(descriptor)


def test_bytes_of_which_half_is_in_memory_are_not_there(disk: Disk, tmp_path: Path) -> None:
    """The kernel gives what it has up to the first page that it lacks."""
    (tmp_path / "f").write_bytes(b"content")
    descriptor = disk.open(tmp_path / "f", read_only=True)

    def half(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
        buffers[0][:2] = b"te"
        return 2

    with patch("os.preadv", half):
        assert disk.read_resident(descriptor, 3, 4) is None
    disk.close(descriptor)
