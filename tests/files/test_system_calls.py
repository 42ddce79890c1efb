"""System calls that Python lacks, and the lock of a store, which one process holds."""

import ctypes
import errno
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from pocketmq.files.directory_lock import DirectoryLock, held_by, holder_text
from pocketmq.files.memory import call_on_memory
from pocketmq.files.system_calls import exchange_names, sync_file_system
from pocketmq.model.errors import StoreLocked


@pytest.fixture
def no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A C library that has none of them."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())


def failing_with(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Makes every call of the C library fail."""
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


OTHER_PROCESS = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
except OSError:
    print("refused", flush=True)
else:
    print("has it", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process(path: Path) -> Iterator[str]:
    """Another process that tries to take byte 0 of the file, and keeps it if it can."""
    command = [sys.executable, "-S", "-c", OTHER_PROCESS, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_a_second_process_is_refused_until_the_lock_is_released(path: Path) -> None:
    lock = DirectoryLock(path)
    lock.acquire()
    with other_process(path) as answer:
        assert answer == "refused"
    lock.release()
    lock.release()
    with other_process(path) as answer:
        assert answer == "has it"
    lock.acquire()
    with other_process(path) as answer:
        assert answer == "refused"
    lock.release()


def open_for_reading(path: Path, flags: int, open_file: Callable[..., int] = os.open) -> int:
    """Opens a file as a user who may not write to it."""
    if flags & (os.O_RDWR | os.O_WRONLY):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return open_file(path, flags)


def test_what_another_process_has_is_refused_with_the_directory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"lock")
    lock = DirectoryLock(path)
    with other_process(path) as answer:
        assert answer == "has it"
        assert (holder := re.fullmatch(r"process (\d+) \((.+)\)", held_by(path)))
        assert int(holder[1]) != os.getpid()
        assert Path(f"/proc/{holder[1]}").name == holder[1]
        with monkeypatch.context() as reader:
            reader.setattr(os, "open", open_for_reading)
            assert held_by(path) == holder[0]
        with pytest.raises(StoreLocked) as caught:
            lock.acquire()
    assert str(caught.value) == (
        f"{path.parent} is in use by {holder[0]}; stop it or use another directory"
    )
    assert held_by(path) == ""
    lock.acquire()
    lock.release()


@pytest.mark.parametrize(("before", "after"), [(None, b"lock"), (b"another word", b"another word")])
def test_the_file_holds_the_word_a_real_broker_writes_or_what_it_held(
    path: Path, before: bytes | None, after: bytes
) -> None:
    if before is not None:
        path.write_bytes(before)
    lock = DirectoryLock(path)
    lock.acquire()
    assert path.read_bytes() == after
    lock.release()
    assert path.read_bytes() == after


def test_a_lock_file_that_is_missing_is_not_locked(path: Path) -> None:
    assert held_by(path) == ""
    assert not path.exists()


@pytest.mark.parametrize(
    ("process_id", "text"),
    [(0, "another process"), (-1, "another process"), (2**22 + 1, f"process {2**22 + 1}")],
)
def test_a_holder_that_this_machine_does_not_show_has_no_name(process_id: int, text: str) -> None:
    assert holder_text(process_id) == text
