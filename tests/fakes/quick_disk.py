"""A disk that waits for nothing, remembers what was asked of it, and fails when told to.

    disk.fail("allocate", full_disk())          the next call of `allocate` raises
    disk.fail("rename", PowerCut(), skip=1)     the one after the next does
    disk.drop_resident()                        nothing is in memory until it is read once more
    disk.ranges("allocate")                     [(position, size), …] of all such calls so far

Files are real ones, so that maps and lengths behave as they do; syncs are only noted down. What a
power cut leaves of written pages is beyond it.
"""

import mmap
from collections import defaultdict
from pathlib import Path
from typing import Any

from broker.files.disk import Disk
from broker.model.errors import DiskFull


class PowerCut(Exception):
    """The machine stops here; what the interrupted call was to do has not happened."""


def full_disk() -> DiskFull:
    """The error of a disk without room."""
    return DiskFull(path="/full")


class QuickDisk(Disk):
    """The machine's file system without waiting for it."""

    __slots__ = ("_cold", "_faults", "_fetched", "calls")

    def __init__(self) -> None:
        super().__init__()
        self.calls: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self._faults: dict[str, tuple[int, Exception]] = {}
        self._cold = False
        self._fetched: set[tuple[str, int]] = set()

    def drop_resident(self) -> None:
        """Forget every page: from now on bytes are in memory once `read_at` brought them."""
        self._cold = True
        self._fetched.clear()

    def read_resident(self, descriptor: int, position: int, size_bytes: int) -> bytes | None:
        if self._cold and not set(_pages(descriptor, position, size_bytes)) <= self._fetched:
            return None
        return super().read_at(descriptor, position, size_bytes)

    def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        self._fetched.update(_pages(descriptor, position, size_bytes))
        return super().read_at(descriptor, position, size_bytes)

    def fail(self, call: str, error: Exception, *, skip: int = 0) -> None:
        """Make one later call raise: the next one, or the one after `skip` more."""
        self._faults[call] = (skip, error)

    def ranges(self, call: str) -> list[tuple[int, int]]:
        """The (position, size) pairs of all calls of `allocate`, `populate` or `write_at`."""
        return [(arguments[1], arguments[2]) for arguments in self.calls[call]]

    def _note(self, call: str, *arguments: object) -> None:
        self.calls[call].append(arguments)
        skip, error = self._faults.get(call, (0, None))
        if error is None:
            return
        if skip:
            self._faults[call] = (skip - 1, error)
            return
        del self._faults[call]
        raise error

    def sync(self, descriptor: int) -> None:
        self._note("sync", descriptor)

    def sync_directory(self, directory: Path) -> None:
        self._note("sync_directory", directory)

    def rename(self, source: Path, target: Path) -> None:
        self._note("rename", source, target)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._note("unlink", path)
        super().unlink(path)

    def write_file(self, path: Path, content: bytes) -> None:
        self._note("write_file", path, content)
        super().write_file(path, content)

    def write_at(self, descriptor: int, position: int, content: bytes | memoryview) -> None:
        self._note("write_at", descriptor, position, len(content))
        super().write_at(descriptor, position, content)

    def add_sparse_file(self, path: Path, size_bytes: int) -> int:
        self._note("make_sparse_file", path, size_bytes)
        return super().add_sparse_file(path, size_bytes)

    def lock(self, memory: mmap.mmap) -> bool:
        self._note("lock", len(memory))
        return True

    def unlock(self, memory: mmap.mmap) -> None:
        self._note("unlock", len(memory))

    def sync_all(self, directory: Path) -> None:
        self._note("sync_all", directory)

    def allocate(self, descriptor: int, position: int, size_bytes: int, path: Path) -> None:
        self._note("allocate", descriptor, position, size_bytes, path)
        super().allocate(descriptor, position, size_bytes, path)

    def populate(self, mapping: mmap.mmap, position: int, size_bytes: int) -> None:
        self._note("populate", mapping, position, size_bytes)
        super().populate(mapping, position, size_bytes)


def _pages(descriptor: int, position: int, size_bytes: int) -> list[tuple[str, int]]:
    name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    return [(name, page) for page in range(position >> 12, (position + size_bytes - 1 >> 12) + 1)]
