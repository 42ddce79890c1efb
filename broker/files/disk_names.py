"""Names on the disk, and the memory of a loss that is final; the lower half of files/disk.py.

A failed sync is told once: the kernel then takes the lost pages for written. So the first loss is
kept here, and whatever would write, sync, rename or remove raises it again instead.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from broker.files.disk_errors import FullDisk, Reading
from broker.files.system_calls import exchange_names, sync_file_system
from broker.model.errors import AllocationFailed, DiskFull, FsyncFailed, StoreFailed, WriteFailed

Result = TypeVar("Result")
Lost = Callable[[StoreFailed], object]
Full = Callable[[DiskFull], bool]


def _ignored(error: StoreFailed) -> None:
    return None


def _no_room(full: DiskFull) -> bool:
    return False


class DiskNames:
    """Directories and names; see files/disk.py for what each call raises."""

    __slots__ = ("_full", "_lost", "failure")

    def __init__(self) -> None:
        self.failure: StoreFailed | None = None
        """The first loss of written bytes, None while there was none."""
        self._lost: Lost = _ignored
        self._full: Full = _no_room

    @contextlib.contextmanager
    def reporting(self, *, lost: Lost | None = None, full: Full | None = None) -> Iterator[None]:
        """Report to somebody while the block lasts.

        lost   hears of the first loss, once, in the thread that met it
        full   is asked for room where there is none; True when it made some: a second try is due
        """
        before = self._lost, self._full
        self._lost, self._full = lost or self._lost, full or self._full
        try:
            yield
        finally:
            self._lost, self._full = before

    def _with_room(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except DiskFull as full:
            if not self._full(full):
                raise
        return work()

    def lose(self, error: StoreFailed) -> StoreFailed:
        """Remember a loss, which is final; returns what to raise: the first one."""
        if self.failure is None:
            self.failure = error
            self._lost(error)
            return error
        return self._again(self.failure)

    def _check(self) -> None:
        if self.failure is not None:
            raise self._again(self.failure)

    def _again(self, failure: StoreFailed) -> StoreFailed:
        """Return a copy: one error raised in many places would end up in its own context."""
        return type(failure)(why=failure.why)

    def names(self, directory: Path) -> list[str]:
        """Return the sorted names in a directory, none when there is no such directory."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), Reading(directory):
            return sorted(os.listdir(directory))
        return []

    def is_directory(self, path: Path) -> bool:
        """Return whether the path is a directory."""
        mode = self._mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def exists(self, path: Path) -> bool:
        """Return whether something has this name."""
        return self._mode(path) is not None

    def _mode(self, path: Path) -> int | None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), Reading(path):
            return os.stat(path).st_mode
        return None

    def file_size(self, path: Path | str) -> int:
        """Return the length in bytes."""
        with Reading(path):
            return os.stat(path).st_size

    def make_directory(self, directory: Path) -> None:
        """Make a directory and those above it, and make their names durable."""
        if self.is_directory(directory):
            return
        self.make_directory(directory.parent)
        self._with_room(lambda: self._make(directory))
        self.sync_directory(directory.parent)

    def add_directory(self, directory: Path) -> list[Path]:
        """Make a directory and those above it; returns where names are new, to be synced."""
        if self.is_directory(directory):
            return []
        above = self.add_directory(directory.parent)
        self._with_room(lambda: self._make(directory))
        return [*above, directory.parent]

    def _make(self, directory: Path) -> None:
        self._check()
        with contextlib.suppress(FileExistsError), FullDisk(directory):
            os.mkdir(directory)

    def sync_directory(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        self._sync_directory(directory, os.fsync)

    def _sync_directory(self, directory: Path, call: Callable[[int], None]) -> None:
        self._check()
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return  # It was removed meanwhile: its names are of no use.
        except OSError as error:
            raise AllocationFailed(why=f"{directory}: {error.strerror}") from error
        try:
            call(descriptor)
        except OSError as error:
            raise self.lose(FsyncFailed(why=f"{directory}: {error.strerror}")) from error
        finally:
            self.close(descriptor)

    def sync_all(self, directory: Path) -> None:
        """Make everything on the file system of a directory durable, names included; blocks.

        One call for a thousand files costs a fraction of a thousand calls.
        Errors   FsyncFailed
        """
        self._sync_directory(directory, sync_file_system)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, replacing what had it; durable after `sync_directory`.

        Errors   DiskFull, AllocationFailed; no name has changed
        """
        self._check()
        self._with_room(lambda: self._replace(source, target))

    def _replace(self, source: Path, target: Path) -> None:
        with FullDisk(target):
            os.replace(source, target)

    def exchange(self, one: Path, other: Path) -> None:
        """Let two directories or files change names in one step; durable after `sync_directory`.

        Where the system cannot, `other` has no name for a moment.
        Errors   DiskFull, AllocationFailed
        """
        self._check()
        with FullDisk(other):
            if exchange_names(one, other):
                return
        aside = other.with_name(f"{other.name}.aside")
        self.rename(other, aside)
        self.rename(one, other)
        self.rename(aside, one)

    def unlink(self, path: Path) -> None:
        """Remove a name; none there is fine.

        Errors   WriteFailed: it stays
        """
        self._check()
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        except OSError as error:
            raise WriteFailed(why=f"{path}: {error.strerror}") from error

    def remove_directory(self, directory: Path) -> None:
        """Remove an empty directory.

        Errors   WriteFailed: it stays, perhaps because it is not empty
        """
        self._check()
        try:
            os.rmdir(directory)
        except OSError as error:
            raise WriteFailed(why=f"{directory}: {error.strerror}") from error

    def close(self, descriptor: int) -> None:
        """Give a descriptor back.

        Errors   FsyncFailed: some systems tell only now that written bytes are lost
        """
        try:
            os.close(descriptor)
        except OSError as error:
            raise self.lose(FsyncFailed(why=f"close: {error.strerror}")) from error
