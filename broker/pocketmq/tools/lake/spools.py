"""Directories for drafts of lakes in object stores; a run removes those of killed runs.

A directory contains a file that its process locks, before the file gets its name. So a directory
whose file can be locked belongs to no process. Locks are those of flock(2): two spools of one
process exclude each other.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "pocketmq-lake-"
LOCK: Final = "lock"
_NEW: Final = "new"


@contextmanager
def spool() -> Iterator[Path]:
    """Yields a directory for drafts, which is removed at the end of the block.

    Effects  removes the directories of processes that were killed
    Errors   OSError
    """
    _remove_left(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as made:
        new = Path(made, _NEW)
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            new.rename(Path(made, LOCK))
            yield Path(made)
        finally:
            os.close(descriptor)


def _remove_left(place: Path) -> None:
    for path in place.glob(f"{PREFIX}*"):
        try:
            descriptor = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # It is another user's, or its process has not locked it yet.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:  # Its process runs.
            continue
        finally:
            os.close(descriptor)
