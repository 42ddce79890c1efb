"""A disk under a store that can be full, fail, wait, and lose its power.

    disk.full_below = directory / "commitlog"    no room there until it is None again
    disk.broken_below = directory / "index"      no file can be made there for another reason
    disk.sync_error = FsyncFailed(why="EIO")     every sync fails while it is set
    with disk.held(): …                          syncs wait in their threads
    disk.power_cut(directory, to)                what is left: only what was synced, the rest zeros

Files are real ones. A power cut keeps all names: losing one is beyond it.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.model.errors import AllocationFailed, DiskFull, FsyncFailed
from tests.fakes.quick_disk import QuickDisk

DRAFTS = shutil.ignore_patterns("*.draft")
"""Files in the making: they may be gone before they are copied, and nobody reads them."""


class StoreDisk(QuickDisk):
    """The machine's file system without waiting for it; what was synced is remembered."""

    __slots__ = (
        "_durable", "_gate", "broken_below", "full_below", "sync_error", "sync_error_below",
        "synced",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._durable: dict[int, bytes] = {}
        self._gate = threading.Event()
        self._gate.set()
        self.full_below: Path | None = None
        self.broken_below: Path | None = None
        self.sync_error: FsyncFailed | None = None
        self.sync_error_below: Path | None = None
        self.synced: list[Path] = []
        """Files whose sync was asked for, those that failed or still wait included."""

    # -- being full ----------------------------------------------------------------------------
    def _check_room(self, path: Path) -> None:
        if self.full_below is not None and _is_below(path, self.full_below):
            raise DiskFull(path=str(path))
        if self.broken_below is not None and _is_below(path, self.broken_below):
            raise AllocationFailed(why="broken")

    def add_sparse_file(self, path: Path, size_bytes: int) -> int:
        self._check_room(path)
        return super().add_sparse_file(path, size_bytes)

    def make_allocated_file(self, draft: Path, path: Path, size_bytes: int) -> int:
        self._check_room(path)
        return super().make_allocated_file(draft, path, size_bytes)

    def allocate(self, descriptor: int, position: int, size_bytes: int, path: Path) -> None:
        self._check_room(path)
        super().allocate(descriptor, position, size_bytes, path)

    def write_file(self, path: Path, content: bytes) -> None:
        self._check_room(path)
        super().write_file(path, content)

    # -- syncing -------------------------------------------------------------------------------
    @contextmanager
    def held(self) -> Iterator[None]:
        """Let syncs wait in their threads until the block ends."""
        self._gate.clear()
        try:
            yield
        finally:
            self._gate.set()

    def sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self.synced.append(path)
        self._gate.wait()
        if self.sync_error is not None and _is_below(path, self.sync_error_below or Path("/")):
            raise self.sync_error
        super().sync(descriptor)
        found = os.fstat(descriptor)
        self._durable[found.st_ino] = os.pread(descriptor, found.st_size, 0)

    def sync_all(self, directory: Path) -> None:
        self._gate.wait()
        if self.sync_error is not None:
            raise self.sync_error
        super().sync_all(directory)
        self.trust(directory)

    # -- losing power --------------------------------------------------------------------------
    def trust(self, directory: Path) -> None:
        """Take everything that lies in a directory now for durable."""
        for path in directory.rglob("*"):
            if path.is_file():
                self._durable[path.stat().st_ino] = path.read_bytes()

    def power_cut(self, directory: Path, to: Path) -> Path:
        """Copy a directory as it is after a power cut; returns the copy."""
        shutil.copytree(directory, to, ignore=DRAFTS)
        for path in to.rglob("*"):
            if path.is_file():
                found = (directory / path.relative_to(to)).stat()
                kept = self._durable.get(found.st_ino, b"")[: found.st_size]
                path.write_bytes(kept.ljust(found.st_size, b"\0"))
        return to


def _is_below(path: Path, directory: Path) -> bool:
    return directory in (path, *path.parents)


def open_files(directory: Path) -> list[Path]:
    """Return the files below a directory that this process holds open."""
    held = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # The one that lists them is gone.
            held.append(descriptor.readlink())
    return [path for path in held if _is_below(path, directory)]
