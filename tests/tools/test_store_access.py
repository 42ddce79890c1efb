"""Offline tools look at stores only, and at live ones only when told to."""

import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.errors import NotAStore, StoreLocked
from pocketmq.tools.store_access import check_access, is_live

HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_directory_must_exist(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="does not exist"):
        check_access(Disk(), tmp_path / "none", read_only=True)


def test_a_directory_with_other_files_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(NotAStore, match=r"holiday\.jpg"):
        check_access(Disk(), tmp_path, read_only=True)


def test_a_store_nobody_uses_may_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    check_access(Disk(), tmp_path, read_only=False)


def test_a_live_store_is_refused_unless_it_is_only_read(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_bytes(b"lock")
    command = [sys.executable, "-c", HOLD_LOCK, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_live(tmp_path)
        with pytest.raises(StoreLocked):
            check_access(Disk(), tmp_path, read_only=False)
        check_access(Disk(), tmp_path, read_only=True)
        holder.communicate()
    assert not is_live(tmp_path)
