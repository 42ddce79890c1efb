"""The store lock: one process has it, and any other, of whatever make, is told so."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.files.directory_lock import DirectoryLock, is_locked
from broker.model.errors import StoreLocked

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
    with other_process(path) as answer:
        assert answer == "has it"


def test_what_another_process_has_is_refused_with_the_directory(path: Path) -> None:
    path.write_bytes(b"lock")
    lock = DirectoryLock(path)
    with other_process(path) as answer:
        assert answer == "has it"
        assert is_locked(path)
        with pytest.raises(StoreLocked, match=f"{path.parent} is in use"):
            lock.acquire()
    assert not is_locked(path)
    lock.acquire()
    lock.release()


def test_the_file_holds_the_word_a_real_broker_writes(path: Path) -> None:
    lock = DirectoryLock(path)
    lock.acquire()
    assert path.read_bytes() == b"lock"
    lock.release()
    assert path.read_bytes() == b"lock"


def test_what_the_file_held_is_left_alone(path: Path) -> None:
    path.write_bytes(b"somebody was here")
    lock = DirectoryLock(path)
    lock.acquire()
    lock.release()
    assert path.read_bytes() == b"somebody was here"


def test_releasing_twice_is_fine_and_taking_again_works(path: Path) -> None:
    lock = DirectoryLock(path)
    lock.acquire()
    lock.release()
    lock.release()
    lock.acquire()
    with other_process(path) as answer:
        assert answer == "refused"
    lock.release()


def test_a_lock_file_that_is_missing_is_not_locked(path: Path) -> None:
    assert not is_locked(path)
    assert not path.exists()
