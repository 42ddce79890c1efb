"""A disk without waits that records its calls and fails on request.

    disk.fail("allocate", full_disk())          the next call of `allocate` raises
    disk.fail("rename", PowerCut(), skip=1)     the second call from now on raises
    disk.drop_resident()                        no page is in memory until it is read again
    disk.ranges("allocate")                     [(position, size), …] of all such calls so far
    disk.full_below = directory / "commitlog"   no room there until it is None again
    disk.broken_below = directory / "index"     making a file there fails for another reason
    disk.sync_error = FsyncFailed(why="EIO")    every sync fails while it is set
    with disk.held(): …                         syncs wait in their threads
    disk.power_cut(directory, to)               only synced bytes stay, the rest is zeros

Files are real, so that maps and lengths behave as usual. A power cut keeps all names; disk.py can
lose them.
"""

import contextlib
import mmap
import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pocketmq.files.disk import Disk
from pocketmq.files.memory import PageMemory
from pocketmq.model.errors import AllocationFailed, DiskFull, FsyncFailed

DRAFTS = shutil.ignore_patterns("*.draft")
"""Unfinished files: they may vanish before they are copied, and are never read."""
COPIES_MAX = 100


def copied(directory: Path, to: Path) -> Path:
    """Copies a store's directory without drafts; returns the copy.

    A thread may replace a table between its listing and its copy; the copy then begins anew.
    """
    for _ in range(COPIES_MAX):
        try:
            return Path(shutil.copytree(directory, to, ignore=DRAFTS))
        except (shutil.Error, FileNotFoundError):
            shutil.rmtree(to)
    raise AssertionError(f"a file of {directory} was gone at each of {COPIES_MAX} copies")


class PowerCut(Exception):
    """The machine stops before the interrupted call has any effect."""


def full_disk() -> DiskFull:
    """Returns the error of a full disk."""
    return DiskFull(path="/full")


class QuickMemory(PageMemory):
    """Memory whose pages are locked at once."""

    __slots__ = ("_disk",)

    def __init__(self, disk: "QuickDisk") -> None:
        super().__init__()
        self._disk = disk

    def lock(self, memory: mmap.mmap) -> bool:
        self._disk.note("lock", len(memory))
        return True

    def unlock(self, memory: mmap.mmap) -> None:
        self._disk.note("unlock", len(memory))

    def populate(self, memory: mmap.mmap, position: int, size_bytes: int) -> None:
        self._disk.note("populate", memory, position, size_bytes)
        super().populate(memory, position, size_bytes)

    def bring(self, descriptor: int, position: int, size_bytes: int) -> None:
        self._disk.note("bring", descriptor, position, size_bytes)
        super().bring(descriptor, position, size_bytes)


class QuickDisk(Disk):
    """The machine's file system, without waits for the disk."""

    __slots__ = (
        "_cold", "_durable", "_faults", "_fetched", "_gate", "_held_below", "broken_below", "calls",
        "full_below", "sync_error", "sync_error_below", "synced",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.memory: PageMemory = QuickMemory(self)
        self.calls: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self._faults: dict[str, tuple[int, Exception]] = {}
        self._cold = False
        self._fetched: set[tuple[str, int]] = set()
        self._durable: dict[int, bytes] = {}
        self._gate = threading.Event()
        self._gate.set()
        self._held_below = Path("/")
        self.full_below: Path | None = None
        self.broken_below: Path | None = None
        self.sync_error: FsyncFailed | None = None
        self.sync_error_below: Path | None = None
        self.synced: list[Path] = []
        """Files whose sync was requested, failed and waiting ones included."""

    def drop_resident(self) -> None:
        """Forgets every page: bytes are in memory again once `read_at` has read them."""
        self._cold = True
        self._fetched.clear()

    def read_resident(self, descriptor: int, position: int, size_bytes: int) -> bytes | None:
        if self._cold and not set(_pages(descriptor, position, size_bytes)) <= self._fetched:
            return None
        return super().read_at(descriptor, position, size_bytes)

    def fill_resident(self, descriptor: int, position: int, room: memoryview) -> bool:
        content = self.read_resident(descriptor, position, len(room))
        room[: len(content or b"")] = content or b""
        return content is not None

    def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        self._fetched.update(_pages(descriptor, position, size_bytes))
        return super().read_at(descriptor, position, size_bytes)

    def fail(self, call: str, error: Exception, *, skip: int = 0) -> None:
        """Makes the next call raise, or the one after `skip` more."""
        self._faults[call] = (skip, error)

    def ranges(self, call: str) -> list[tuple[int, int]]:
        """The (position, size) pairs of all calls of one of these names, `write_at` for one."""
        return [(arguments[1], arguments[2]) for arguments in self.calls[call]]

    def _check_room(self, path: Path) -> None:
        if self.full_below is not None and is_below(path, self.full_below):
            raise DiskFull(path=str(path))
        if self.broken_below is not None and is_below(path, self.broken_below):
            raise AllocationFailed(why="broken")

    def note(self, call: str, *arguments: object) -> None:
        self.calls[call].append(arguments)
        skip, error = self._faults.get(call, (0, None))
        if error is None:
            return
        if skip:
            self._faults[call] = (skip - 1, error)
            return
        del self._faults[call]
        raise error

    # -- syncing -------------------------------------------------------------------------------
    @contextlib.contextmanager
    def held(self, below: Path = Path("/")) -> Iterator[None]:
        """Holds syncs below a path in their threads until the block ends."""
        self._held_below = below
        self._gate.clear()
        try:
            yield
        finally:
            self._gate.set()

    def sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self.synced.append(path)
        if is_below(path, self._held_below):
            self._gate.wait()
        if self.sync_error is not None and is_below(path, self.sync_error_below or Path("/")):
            raise self.sync_error
        self.note("sync", descriptor)
        found = os.fstat(descriptor)
        self._durable[found.st_ino] = os.pread(descriptor, found.st_size, 0)

    def sync_all(self, directory: Path) -> None:
        self._gate.wait()
        if self.sync_error is not None:
            raise self.sync_error
        self.note("sync_all", directory)
        self.trust(directory)

    def trust(self, directory: Path) -> None:
        """Declares the present content of a directory durable."""
        for path in directory.rglob("*"):
            if path.is_file():
                self._durable[path.stat().st_ino] = path.read_bytes()

    def power_cut(self, directory: Path, to: Path) -> Path:
        """Copies a directory as it is after a power cut; returns the copy."""
        copied(directory, to)
        for path in to.rglob("*"):
            if path.is_file():
                found = (directory / path.relative_to(to)).stat()
                kept = self._durable.get(found.st_ino, b"")[: found.st_size]
                path.write_bytes(kept.ljust(found.st_size, b"\0"))
        return to

    # -- calls ---------------------------------------------------------------------------------
    def sync_directory(self, directory: Path) -> None:
        self.note("sync_directory", directory)

    def rename(self, source: Path, target: Path) -> None:
        self.note("rename", source, target)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self.note("unlink", path)
        super().unlink(path)

    def write_file(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        self._check_room(path)
        self.note("write_file", path, content)
        super().write_file(path, content, mode)

    def write_at(self, descriptor: int, position: int, content: bytes | memoryview) -> None:
        self.note("write_at", descriptor, position, len(content))
        super().write_at(descriptor, position, content)

    def make_allocated_file(self, draft: Path, path: Path, size_bytes: int) -> int:
        self._check_room(path)
        return super().make_allocated_file(draft, path, size_bytes)

    def make_sparse_file(self, path: Path, size_bytes: int, *, is_named: bool = True) -> int:
        self._check_room(path)
        self.note("make_sparse_file", path, size_bytes)
        return super().make_sparse_file(path, size_bytes, is_named=is_named)

    def allocate(self, descriptor: int, position: int, size_bytes: int, path: Path | str) -> None:
        path = Path(path)
        self._check_room(path)
        self.note("allocate", descriptor, position, size_bytes, path)
        super().allocate(descriptor, position, size_bytes, path)


def _pages(descriptor: int, position: int, size_bytes: int) -> list[tuple[str, int]]:
    name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    return [(name, page) for page in range(position >> 12, (position + size_bytes - 1 >> 12) + 1)]


def is_below(path: Path, directory: Path) -> bool:
    """Returns whether a path is a directory or is below it."""
    return directory in (path, *path.parents)


def open_files(directory: Path) -> list[Path]:
    """Returns the files below a directory that this process holds open."""
    held = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # The listing's own one is closed.
            held.append(descriptor.readlink())
    return [path for path in held if is_below(path, directory)]
