"""Offline tools look at stores only, and at live ones only when told to."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.errors import NotAStore, StoreLocked
from pocketmq.tools.store_access import check_access, is_live
from pocketmq.tools.verify.verification import verify
from tests.golden_stores import GoldenStores
from tests.kit.tool_sizes import golden_tool_sizes

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


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Lets another process have a directory open as a broker does."""
    lock = directory / "lock"
    lock.write_bytes(b"lock")
    command = [sys.executable, "-c", HOLD_LOCK, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


def test_a_live_store_is_refused_unless_it_is_only_read(tmp_path: Path) -> None:
    with held(tmp_path):
        assert is_live(tmp_path)
        with pytest.raises(StoreLocked):
            check_access(Disk(), tmp_path, read_only=False)
        check_access(Disk(), tmp_path, read_only=True)
    assert not is_live(tmp_path)


def test_the_abort_mark_of_a_running_broker_is_no_note(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = tmp_path / "s"
    shutil.copytree(golden.store("basic"), store)
    (store / "abort").touch()
    sizes = golden_tool_sizes(golden, "basic")
    assert "did not stop in order" in " ".join(verify(Disk(), store, sizes).notes)
    with held(store):
        assert "did not stop in order" not in " ".join(verify(Disk(), store, sizes).notes)
