"""The directory of one store: is it one, is it ours, how was it left.

`abort` exists while a broker runs; found at start it means the last one did not stop in order.
Source: DefaultMessageStore.load, createTempFile.
"""

from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.files.table_file import DRAFT_SUFFIX
from broker.format.names import (
    ABORT_FILE,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    LOCK_FILE,
    OWN_DIRECTORY,
)
from broker.model.errors import NotAStore

_STORE_NAMES: Final = frozenset(
    {
        ABORT_FILE,
        CHECKPOINT_FILE,
        COMMIT_LOG_DIRECTORY,
        CONFIG_DIRECTORY,
        CONSUME_QUEUE_DIRECTORY,
        INDEX_DIRECTORY,
        LOCK_FILE,
        OWN_DIRECTORY,
    }
)
"""One of these in a directory makes it a store."""
_HARMLESS_NAMES: Final = frozenset({"lost+found", ".DS_Store"})


class StoreDirectory:
    """Paths, lock and abort mark."""

    __slots__ = ("_disk", "_lock", "path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self._lock = disk.directory_lock(path / LOCK_FILE)

    @property
    def own_directory(self) -> Path:
        """Where this broker keeps what RocketMQ does not know."""
        return self.path / OWN_DIRECTORY

    def check(self) -> None:
        """Raise NotAStore unless the path is absent, empty, or holds a store."""
        if not self._disk.exists(self.path):
            return
        if not self._disk.is_directory(self.path):
            raise NotAStore(path=str(self.path), why="it is a file")
        names = set(self._disk.names(self.path)) - _HARMLESS_NAMES
        if names and not names & _STORE_NAMES:
            shown_names = ", ".join(sorted(names)[:3])
            raise NotAStore(path=str(self.path), why=f"it holds other files ({shown_names} …)")

    def acquire(self) -> None:
        """Make the directories if need be and take the store lock.

        Errors   NotAStore, StoreLocked, DiskFull
        """
        self.check()
        self._disk.make_directory(self.own_directory)
        self._disk.make_directory(self.path / COMMIT_LOG_DIRECTORY)
        self._lock.acquire()

    def was_aborted(self) -> bool:
        """Return whether the last broker here ended without stopping in order."""
        return self._disk.exists(self.path / ABORT_FILE)

    def mark_running(self, process_id: int) -> None:
        """Leave the abort mark, durable before the first message."""
        self._disk.write_file(self.path / ABORT_FILE, str(process_id).encode())
        self._disk.sync_directory(self.path)

    def mark_stopped(self) -> None:
        """Take the abort mark away: everything is flushed and dispatched."""
        self._disk.unlink(self.path / ABORT_FILE)
        self._disk.sync_directory(self.path)

    def remove_drafts(self) -> None:
        """Remove what an earlier life had in the making when it ended; the store is locked."""
        for directory in (self.own_directory, self.path / CONFIG_DIRECTORY, self.path):
            for name in self._disk.names(directory):
                if name.endswith(DRAFT_SUFFIX):
                    self._disk.unlink(directory / name)

    def release(self) -> None:
        """Give the store lock back."""
        self._lock.release()
