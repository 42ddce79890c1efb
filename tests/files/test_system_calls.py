"""Calls Python does not have: what they do here, and what is said where they cannot be made."""

import ctypes
import errno
import mmap
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.files.system_calls import call_on_memory, exchange_names, sync_file_system


@pytest.fixture
def no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A C library that has none of them."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())


def failing_with(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Let every call of the C library fail."""
    library = SimpleNamespace(syncfs=lambda *_: -1, renameat2=lambda *_: -1)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    monkeypatch.setattr(ctypes, "get_errno", lambda: code)


def test_a_file_system_is_synced(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    sync_file_system(descriptor)
    os.close(descriptor)


def test_a_file_system_that_cannot_be_synced_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        sync_file_system(0)


@pytest.mark.usefixtures("no_calls")
def test_everything_is_synced_where_one_file_system_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(os, "sync", lambda: called.append("sync"))
    sync_file_system(0)
    assert called == ["sync"]


def test_two_files_change_names(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).write_text(name)
    assert exchange_names(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one").read_text() == "other"


def test_names_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        exchange_names(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_knows_no_exchange(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    failing_with(monkeypatch, code)
    assert not exchange_names(Path("one"), Path("other"))


@pytest.mark.usefixtures("no_calls")
def test_where_there_is_no_such_call_nothing_happens() -> None:
    with mmap.mmap(-1, mmap.PAGESIZE) as memory:
        assert not call_on_memory("mlock", memory)
    assert not exchange_names(Path("one"), Path("other"))


def test_a_call_on_memory_leaves_it_closable() -> None:
    with mmap.mmap(-1, mmap.PAGESIZE) as memory:
        assert call_on_memory("madvise", memory, mmap.MADV_NORMAL)
