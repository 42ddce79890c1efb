"""Names, the store lock, space and faults of a simulated disk; the lower half of disk.py."""

import errno
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from pocketmq.files.directory_lock import DirectoryLock
from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import FullDisk, ReadErrors
from pocketmq.files.memory import PageMemory
from pocketmq.model.errors import (
    AllocationFailed,
    FsyncFailed,
    StoreLocked,
    WriteFailed,
)
from tests.sim.disk_image import BLOCK, File, Folder, Image, Node

PROCESS_ID: Final = 4711


@dataclass(slots=True)
class Fault:
    """A planned failure of one call, or of all from it on, by name and path."""

    call: str
    code: int
    at: int
    sticky: bool
    below: Path

    def strikes(self, call: str, path: Path) -> bool:
        """Counts a call; returns whether it fails."""
        if self.call not in ("", call) or self.below not in (path, *path.parents):
            return False
        self.at -= 1
        return self.at == 0 or (self.sticky and self.at < 0)


class SimLock(DirectoryLock):
    """The store lock on a disk in memory; lost with the machine."""

    __slots__ = ("_sim",)

    def __init__(self, disk: "SimNames", path: Path) -> None:
        super().__init__(path)
        self._sim = disk

    def acquire(self) -> None:
        self._sim.take_lock(self.path)

    def release(self) -> None:
        self._sim.locks.discard(self.path)


class SimMemory(PageMemory):
    """Pages of a simulated disk: all are in memory."""

    __slots__ = ("_sim",)

    def __init__(self, disk: "SimNames") -> None:
        super().__init__()
        self._sim = disk

    def populate(self, memory: mmap.mmap, position: int, size_bytes: int) -> None:
        self._sim.begin("populate", Path("/"))

    def lock(self, memory: mmap.mmap) -> bool:
        return True

    def unlock(self, memory: mmap.mmap) -> None:
        return None

    def bring(self, descriptor: int, position: int, size_bytes: int) -> None:
        return None

    touch = unlock


class SimNames(Disk):
    """Names, locks and room of a simulated disk, and the calls that fail."""

    __slots__ = (
        "_faults", "_open", "_random", "calls", "capacity_bytes", "hook", "image", "locks"
    )  # fmt: skip

    def __init__(self, image: Image | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.memory = SimMemory(self)
        self.image = image or Image()
        self.hook: Callable[[str, Path], object] | None = None
        self.capacity_bytes: int | None = None
        self.calls = 0
        """Number of calls."""
        self.locks: set[Path] = set()
        self._open: dict[int, tuple[File, Path]] = {}
        self._faults: list[Fault] = []
        self._random = Random(seed)

    # -- faults --------------------------------------------------------------------------------
    def fail(
        self, call: str, code: int, *, at: int = 1, sticky: bool = False, below: Path = Path("/")
    ) -> None:
        """Makes the `at`-th call from now on fail; `sticky`: all after it too."""
        self._faults.append(Fault(call, code, at, sticky, below))

    def heal(self) -> None:
        """Removes all faults."""
        self._faults.clear()

    def begin(self, call: str, path: Path) -> None:
        """Begins a call of the kernel.

        Errors   OSError of a fault
        """
        self.calls += 1
        if self.image.open_files:
            self.image.look()
        if self.hook is not None:
            self.hook(call, path)
        for fault in self._faults:
            if fault.strikes(call, path):
                raise OSError(fault.code, os.strerror(fault.code), str(path))

    def _folder(self, path: Path) -> Folder:
        found = self.image.find(path)
        if isinstance(found, Folder):
            return found
        code = errno.ENOENT if found is None else errno.ENOTDIR
        raise OSError(code, os.strerror(code), str(path))

    def _file(self, path: Path) -> File:
        found = self.image.find(path)
        if isinstance(found, File):
            return found
        code = errno.ENOENT if found is None else errno.EISDIR
        raise OSError(code, os.strerror(code), str(path))

    # -- room ----------------------------------------------------------------------------------
    def own_process_id(self) -> int:
        return PROCESS_ID

    def open_files_max(self) -> int:
        return 4096

    def space(self, path: Path) -> tuple[int, int]:
        with ReadErrors(path):
            self.begin("space", path)
        used = self._used()
        return used, (self.capacity_bytes or 1 << 40) - used

    def _used(self) -> int:
        files = {id(file): file for _, file in self.image.files()}
        files.update({id(file): file for file, _ in list(self._open.values())})
        return sum(file.blocks.bit_count() for file in files.values()) * BLOCK

    def _give_blocks(self, file: File, begin: int, end: int, path: Path) -> None:
        """Allocates blocks for [begin, end).

        Errors   OSError (ENOSPC): none was allocated
        """
        if end <= begin:
            return
        first, last = begin // BLOCK, (end - 1) // BLOCK
        wanted = (1 << last + 1) - (1 << first) & ~file.blocks
        if wanted and self.capacity_bytes is not None:
            if self._used() + wanted.bit_count() * BLOCK > self.capacity_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        file.blocks |= wanted

    # -- names ---------------------------------------------------------------------------------
    def names(self, directory: Path) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError), ReadErrors(directory):
            self.begin("names", directory)
            return sorted(self._folder(directory).live)
        return []

    def _stat(self, path: Path) -> Node | None:
        with ReadErrors(path):
            self.begin("stat", path)
        return self.image.find(path)

    def is_directory(self, path: Path) -> bool:
        return isinstance(self._stat(path), Folder)

    def exists(self, path: Path) -> bool:
        return self._stat(path) is not None

    def file_size(self, path: Path | str) -> int:
        path = Path(path)
        with ReadErrors(path):
            self.begin("stat", path)
            return self._file(path).size

    def _make(self, directory: Path) -> None:
        self.trouble.check()
        with FullDisk(directory):
            self.begin("mkdir", directory)
            parent = self._folder(directory.parent)
            if directory.name not in parent.live:
                self.image.change((parent, directory.name, Folder()))

    def sync_directory(self, directory: Path) -> None:
        self.trouble.check()
        found = self.image.find(directory)
        if found is None:
            return
        if not isinstance(found, Folder):
            raise AllocationFailed(why=f"{directory}: {os.strerror(errno.ENOTDIR)}")
        try:
            self.begin("sync_directory", directory)
        except OSError as error:
            raise self.trouble.lose(FsyncFailed(why=f"{directory}: {error.strerror}")) from error
        self.image.sync_folder(found)

    def sync_all(self, directory: Path) -> None:
        self.trouble.check()
        try:
            self.begin("sync_all", directory)
        except OSError as error:
            for _, file in self.image.files():
                file.lose(self._random)
            raise self.trouble.lose(FsyncFailed(why=f"{directory}: {error.strerror}")) from error
        self.image.sync_all()

    def _replace(self, source: Path, target: Path) -> None:
        with FullDisk(target):
            self.begin("rename", target)
            above, below = self._folder(source.parent), self._folder(target.parent)
            node = above.live.get(source.name)
            if node is None:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
            self.image.change((above, source.name, None), (below, target.name, node))

    def exchange(self, one: Path, other: Path) -> None:
        self.trouble.check()
        with FullDisk(other):
            self.begin("rename", other)
            first, second = self._folder(one.parent), self._folder(other.parent)
            mine, theirs = first.live[one.name], second.live[other.name]
            self.image.change((first, one.name, theirs), (second, other.name, mine))

    def unlink(self, path: Path) -> None:
        self.trouble.check()
        try:
            self.begin("unlink", path)
        except OSError as error:
            raise WriteFailed(why=f"{path}: {error.strerror}") from error
        found = self.image.find(path)
        if isinstance(found, Folder):
            raise WriteFailed(why=f"{path}: {os.strerror(errno.EISDIR)}")
        if found is not None:
            self.image.change((self._folder(path.parent), path.name, None))

    def remove_directory(self, directory: Path) -> None:
        self.trouble.check()
        try:
            self.begin("rmdir", directory)
            if self._folder(directory).live:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        except OSError as error:
            raise WriteFailed(why=f"{directory}: {error.strerror}") from error
        self.image.change((self._folder(directory.parent), directory.name, None))

    # -- the store lock ------------------------------------------------------------------------
    def directory_lock(self, path: Path) -> DirectoryLock:
        return SimLock(self, path)

    def take_lock(self, path: Path) -> None:
        """Takes a lock file, which is made if it is missing."""
        with FullDisk(path):
            self.begin("lock", path)
            parent = self._folder(path.parent)
            if path in self.locks:
                raise StoreLocked(path=str(path.parent))
            if path.name not in parent.live:
                self.image.change((parent, path.name, File()))
        self.locks.add(path)
