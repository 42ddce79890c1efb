"""An operating system below a disk, one call of which fails, with the bytes it kept.

    system = FailingOs(directory)
    with system.under_disk(monkeypatch): …          every Disk made or not yet made calls it
    system.fail(Fault(7, errno.EIO, sticky=True))   the 7th call from now on, and all after it
    system.count                                    calls that could have failed so far
    system.power_cut(to)                            the state after a power cut
    system.capacity_bytes = 1 << 20                 beyond it writes fail (ENOSPC)
        system.stranger_bytes = 1 << 19                 the part of it that other programs use

A failed sync loses the bytes written since the last one, as in Linux: the pages count as clean from
then on, and later syncs succeed without them. Names are never lost. Bytes are those of real files.
No real sync is made, so a directory in memory suffices.
"""

import errno
import mmap
import os
import shutil
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from pocketmq.files import directory_lock, disk, disk_errors

SYNCS: Final = frozenset({"fdatasync", "fsync", "syncfs"})
WRITES: Final = frozenset(
    {
        *SYNCS,
        *("open", "pwrite", "write", "posix_fallocate", "ftruncate", "replace", "mkdir", "unlink"),
        "rmdir",
    }
)
"""Calls that need free space, or a writable file system."""
READS: Final = frozenset({"close", "pread", "listdir", "stat", "fstat", "lseek", "statvfs", "mmap"})
PAGE: Final = 4096


class Fault(NamedTuple):
    """The number of the failing call, from 1; its error number; whether later calls fail too."""

    number: int
    code: int
    sticky: bool

    def __str__(self) -> str:
        kind = "from" if self.sticky else "only"
        return f"{errno.errorcode[self.code]} {kind} call {self.number}"


class FailingOs:
    """Replacement of `os` and `mmap` in broker/pocketmq/files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._room_lock = threading.RLock()
        self._fault: Fault | None = None
        self._durable: dict[int, bytes] = {}
        self._lost: dict[int, dict[int, bytes]] = {}
        self.capacity_bytes: int | None = None
        self.stranger_bytes = 0
        self.count = 0
        self.failed: list[str] = []
        """Names of the calls that failed."""
        self.lost_count = 0
        """Number of failed syncs."""

    # -- failing -------------------------------------------------------------------------------
    def fail(self, fault: Fault | None) -> None:
        """Makes a later call fail; None: no call fails from now on."""
        self.count, self._fault = 0, fault

    def _is_failing(self, name: str, *, is_read: bool) -> bool:
        with self._lock:
            fault = self._fault
            if fault is not None and is_read and fault.code != errno.EIO:
                return False
            self.count += 1
            if fault is None:
                return False
            hit = self.count >= fault.number if fault.sticky else self.count == fault.number
            if hit:
                self.failed.append(name)
            return hit

    def _failing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def calling(*arguments: Any, **options: Any) -> Any:
            is_read = name in READS or (name == "open" and arguments[1] & os.O_ACCMODE == 0)
            if not self._is_failing(name, is_read=is_read):
                return call(*arguments, **options)
            if name == "close":
                call(*arguments)
            if name in SYNCS:
                self._lose(arguments[0])
            code = self._fault.code if self._fault is not None else errno.EIO
            raise OSError(code, os.strerror(code))

        return calling

    def under_disk(self, patch: pytest.MonkeyPatch) -> None:
        """Replaces the operating system in broker/pocketmq/files during the block."""
        calls: dict[str, Callable[..., Any]] = {
            "fdatasync": self._keep,
            "fsync": self._keep,
            **{name: getattr(os, name) for name in (WRITES | READS) - SYNCS - {"mmap"}},
            "posix_fallocate": self._allocate,
            "replace": self._replace,
            "pwrite": self._write,
            "statvfs": self._statvfs,
        }
        own = {name: self._failing(name, call) for name, call in calls.items()}
        fake = SimpleNamespace(**{**vars(os), **own})
        for module in (disk, disk_errors, directory_lock):
            patch.setattr(module, "os", fake)
        patch.setattr(disk, "sync_file_system", self._failing("syncfs", self._keep_all))
        maps = SimpleNamespace(**{**vars(mmap), "mmap": self._failing("mmap", mmap.mmap)})
        patch.setattr(disk, "mmap", maps)

    # -- being full ----------------------------------------------------------------------------
    @property
    def used_bytes(self) -> int:
        """Bytes of blocks in use; another thread may remove files meanwhile, but rename none."""
        blocks: dict[int, int] = {}
        with self._room_lock:
            for path in self._directory.rglob("*"):
                with suppress(FileNotFoundError):
                    found = path.stat()
                    if stat.S_ISREG(found.st_mode):
                        blocks[found.st_ino] = found.st_blocks
        return self.stranger_bytes + sum(blocks.values()) * 512

    @property
    def room_bytes(self) -> int:
        """Free bytes; negative after writes through a map allocated blocks."""
        return (
            1 << 40
            if self.capacity_bytes is None
            else (self.capacity_bytes - self.used_bytes) // PAGE * PAGE
        )

    def _allocate(self, descriptor: int, position: int, size: int) -> None:
        """Allocates a range, or only a part of it before the failure, as ext4 does."""
        with self._room_lock:  # Of two threads only one gets the last block.
            self._allocate_alone(descriptor, position, size)

    def _allocate_alone(self, descriptor: int, position: int, size: int) -> None:
        before = os.fstat(descriptor).st_blocks * 512
        if self.capacity_bytes is None or before >= -(-(position + size) // PAGE) * PAGE:
            os.posix_fallocate(descriptor, position, size)
            return
        room = self.room_bytes
        if -(-size // PAGE) * PAGE > room:
            if room >= PAGE:
                os.posix_fallocate(descriptor, position, room // PAGE * PAGE)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(descriptor, position, size)

    def _replace(self, source: Path | str, target: Path | str) -> None:
        with self._room_lock:  # A count of blocks meanwhile would miss the file.
            os.replace(source, target)  # noqa: PTH105 - what the disk calls

    def _write(self, descriptor: int, content: memoryview, position: int) -> int:
        with self._room_lock:
            has_blocks = os.fstat(descriptor).st_blocks * 512 >= position + len(content)
            room = len(content) if has_blocks else self.room_bytes
            if not has_blocks and room < PAGE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return os.pwrite(descriptor, content[:room], position)

    def _statvfs(self, path: Path) -> object:
        if self.capacity_bytes is None:
            return os.statvfs(path)
        free = max(self.room_bytes, 0) // PAGE
        total = self.capacity_bytes // PAGE
        return SimpleNamespace(f_blocks=total, f_bfree=free, f_bavail=free, f_frsize=PAGE)

    # -- what is durable -----------------------------------------------------------------------
    def _keep(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if not stat.S_ISDIR(found.st_mode):
            self._keep_content(found.st_ino, os.pread(descriptor, found.st_size, 0))

    def _keep_content(self, number: int, content: bytes) -> None:
        with self._lock:
            lost, before = self._lost.get(number, {}), self._durable.get(number, b"")
            kept = bytearray(content)
            for page, then in [*lost.items()]:
                part = slice(page * PAGE, page * PAGE + len(then))
                if content[part] == then:
                    kept[part] = before[part].ljust(len(then), b"\0")
                else:
                    del lost[page]
            self._durable[number] = bytes(kept)

    def _keep_all(self, descriptor: int) -> None:
        del descriptor
        for path in self._directory.rglob("*"):
            if path.is_file():
                self._keep_content(path.stat().st_ino, path.read_bytes())

    def _lose(self, descriptor: int) -> None:
        """Counts every dirty page of a file as clean without having kept it."""
        self.lost_count += 1
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            return
        content = os.pread(descriptor, found.st_size, 0)
        with self._lock:
            before = self._durable.get(found.st_ino, b"").ljust(len(content), b"\0")
            lost = self._lost.setdefault(found.st_ino, {})
            for position in range(0, len(content), PAGE):
                page = content[position : position + PAGE]
                if page != before[position : position + PAGE]:
                    lost[position // PAGE] = page

    def power_cut(self, to: Path) -> Path:
        """Copies the directory as a power cut would leave it now; returns the copy."""
        shutil.copytree(self._directory, to)
        for path in to.rglob("*"):
            if path.is_file():
                found = (self._directory / path.relative_to(to)).stat()
                kept = self._durable.get(found.st_ino, b"")[: found.st_size]
                path.write_bytes(kept.ljust(found.st_size, b"\0"))
        return to
