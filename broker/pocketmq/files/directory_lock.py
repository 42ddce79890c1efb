"""The store lock: one process at a time has it; RocketMQ brokers acquire the same lock.

It is a POSIX record lock on byte 0 of the file `lock`. If a process closes any descriptor of that
file, the system releases its lock. So the process with the lock opens the file only once.
Source: DefaultMessageStore.start.
"""

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from pocketmq.files.disk_errors import FullDisk
from pocketmq.files.enclosure import FILE_MODE, PLAIN_ONLY, check_kind, check_plain
from pocketmq.model.errors import StoreLocked

LOCK_CONTENT = b"lock"
_FLOCK = struct.Struct("@hhqqi")
"""Linux' struct flock: type, whence, start, length, process."""
UNKNOWN: Final = "another process"


class DirectoryLock:
    """Locks a directory for this process."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def acquire(self) -> None:
        """Acquires the lock, without waiting.

        Errors   StoreLocked: another process has it; DiskFull, AllocationFailed, NotAPlainFile;
                 OSError: the file system supports no locks
        """
        assert self._descriptor < 0, "already locked"
        with FullDisk(self.path):
            descriptor = self._open()
        try:
            self._lock(descriptor)
            with FullDisk(self.path):
                if os.fstat(descriptor).st_size == 0:
                    os.write(descriptor, LOCK_CONTENT)
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _open(self) -> int:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | PLAIN_ONLY, FILE_MODE)
        except OSError as error:
            check_kind(error, str(self.path), self.path)
            raise
        return check_plain(descriptor, self.path)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except (BlockingIOError, PermissionError) as error:  # EAGAIN or EACCES
            holder = _holder(descriptor) or UNKNOWN
            raise StoreLocked(path=str(self.path.parent), holder=holder) from error

    def release(self) -> None:
        """Releases the lock; repeated calls have no effect."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):  # A failed close can lose only LOCK_CONTENT, which is not read.
                os.close(descriptor)


def held_by(path: Path) -> str:
    """Returns a text that names the process that holds a lock file (`holder` of StoreLocked).

    The text is "" if no process holds the lock, or if the file cannot be opened. Must not be called
    while this process holds the lock: the call would release it.
    """
    try:
        # For reading: callers may ask without permission to write.
        descriptor = check_plain(os.open(path, os.O_RDONLY | PLAIN_ONLY), path)
    except OSError:
        return ""
    try:
        return _holder(descriptor)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, process_id = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return "" if kind == fcntl.F_UNLCK else holder_text(process_id)


def holder_text(process_id: int) -> str:
    """Returns the text by which errors name a process: its id and its program's name.

    process_id   0 or less if the process runs on another machine or in another container
    """
    if process_id <= 0:
        return UNKNOWN
    try:
        name = Path(f"/proc/{process_id}/comm").read_text(errors="replace").strip()
    except OSError:
        name = ""  # The process has ended, or the system has no /proc.
    return f"process {process_id} ({name})" if name else f"process {process_id}"
