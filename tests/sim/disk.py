"""A disk in memory that can lose power, be full, or fail at any call.

    disk = SimDisk()                              an empty one with a root directory
    disk.hook = lambda call, path: …              called before every call of the disk
    image = disk.image.cut(rng)                   a possible state after a power cut now
    disk = SimDisk(image)                         the machine after it
    disk.fail("sync", EIO, at=3, sticky=True)     the third sync from now on fails, and all later
    disk.capacity_bytes = 1 << 20                 beyond it no blocks are given (ENOSPC)

What a power cut keeps (the model of ALICE, OSDI 2014; the worst a file system is allowed to do)
    data      any subset of the 512-byte sectors changed since the file's last sync, each in its
              last version, in an earlier one seen at some call, or torn inside (half new, half old)
    length    any length the file had since its last sync, blocks likewise; missing bytes are zeros
    names     any subset of the creations, renames, exchanges and removals since a directory was
              last synced; each is one step, a rename never loses both names. A synced file whose
              name was not made durable by its directory's sync may be gone
    locks, open files    nothing

Failing calls
    a failed sync writes some of the sectors, and marks the rest clean: later syncs succeed,
    reads show the bytes, a power cut does not keep them (as Linux does)
    other failed calls change nothing

Writes through maps take effect at the next call of the disk. A write where the file has no block
raises AssertionError then: on a full disk it would be SIGBUS. A read-only map is a copy of the
file when it was made. A call takes no time and never blocks.
Not simulated: page-in errors (tests/faults/test_page_in_error.py), disks that only pretend to sync.
"""

import errno
import mmap
import os
from pathlib import Path
from typing import Final, cast

from pocketmq.files.disk_errors import FullDisk, ReadErrors
from pocketmq.model.errors import (
    FsyncFailed,
)
from tests.sim.disk_image import BLOCK, File
from tests.sim.disk_sim_names import SimNames

FIRST_DESCRIPTOR: Final = 1 << 24
"""No real file has such a descriptor, so a call that bypasses this disk fails."""


class _ReadOnlyBytes(bytes):
    def close(self) -> None:
        """Does nothing: unmapping has no effect here."""


class SimDisk(SimNames):
    """The file system of a machine without hardware."""

    __slots__ = ()

    # -- whole small files ---------------------------------------------------------------------
    def read_file(self, path: Path, position: int = 0, size_bytes: int | None = None) -> bytes:
        if size_bytes is not None:
            return super().read_file(path, position, size_bytes)
        with ReadErrors(path):
            self.begin("read", path)
            return self._file(path).content

    def _make_file(self, path: Path, flag: int, mode: int = 0o644) -> int:
        with FullDisk(path):
            self.begin("create", path)
            file = self._made(path, exclusive=flag == os.O_EXCL)
        file.resize(0)
        return self._opened(file, path)

    # -- open files ----------------------------------------------------------------------------
    def _path_of(self, descriptor: int) -> str:
        return str(self._open[descriptor][1])

    def _opened(self, file: File, path: Path) -> int:
        descriptor = FIRST_DESCRIPTOR + self.calls
        while descriptor in self._open:
            descriptor += 1
        self._open[descriptor] = (file, path)
        file.opens += 1
        return descriptor

    def _closed(self, descriptor: int) -> tuple[File, Path]:
        file, path = self._open.pop(descriptor)
        file.opens -= 1
        if not file.opens:
            file.look()
            self.image.open_files.pop(id(file), None)
        return file, path

    def _made(self, path: Path, *, exclusive: bool) -> File:
        folder = self._folder(path.parent)
        found = folder.live.get(path.name)
        if isinstance(found, File) and not exclusive:
            return found
        if found is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        file = File()
        self.image.change((folder, path.name, file))
        return file

    def open(self, path: Path | str, *, read_only: bool = False) -> int:
        path = Path(path)
        with ReadErrors(path):
            self.begin("open", path)
            return self._opened(self._file(path), path)

    def _set_length(self, descriptor: int, size_bytes: int, path: Path) -> None:
        with FullDisk(path):
            self.begin("truncate", path)
            self._open[descriptor][0].resize(size_bytes)

    def _forget(self, descriptor: int, path: Path) -> None:
        self._closed(descriptor)
        if self.image.find(path) is not None:
            self.image.change((self._folder(path.parent), path.name, None))

    def _allocate(self, descriptor: int, position: int, size_bytes: int, path: Path | str) -> None:
        path = Path(path)
        file = self._open[descriptor][0]
        with FullDisk(path):
            self.begin("allocate", path)
            self._give_blocks(file, position, position + size_bytes, path)
        if position + size_bytes > file.size:
            file.resize(position + size_bytes)

    def data_end(self, descriptor: int) -> int:
        file, path = self._open[descriptor]
        content = file.content
        try:
            self.begin("seek", path)
        except OSError:
            return len(content)
        used = len(content.rstrip(b"\0"))
        return min(-(-used // BLOCK) * BLOCK, len(content))

    def map(self, descriptor: int, size_bytes: int, *, read_only: bool = False) -> mmap.mmap:
        file, path = self._open[descriptor]
        with ReadErrors(path):
            self.begin("map", path)
        if size_bytes > file.size:
            raise ValueError("mmap length is greater than file size")
        if read_only:
            return cast(mmap.mmap, _ReadOnlyBytes(file.content))
        self.image.open_files[id(file)] = file
        return cast(mmap.mmap, file.opened())

    # -- reading and writing -------------------------------------------------------------------
    def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        file, path = self._open[descriptor]
        try:
            self.begin("read", path)
        except OSError as error:
            raise self._read_error(descriptor, error) from error
        content = file.durable if file.live is None else file.live
        return bytes(content[position : position + size_bytes])

    def read_into(self, descriptor: int, position: int, buffer: memoryview) -> int:
        content = self.read_at(descriptor, position, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def read_resident(self, descriptor: int, position: int, size_bytes: int) -> bytes | None:
        content = self.read_at(descriptor, position, size_bytes)
        return content if len(content) == size_bytes else None

    def fill_resident(self, descriptor: int, position: int, room: memoryview) -> bool:
        content = self.read_resident(descriptor, position, len(room))
        room[: len(content or b"")] = content or b""
        return content is not None

    def write_at(self, descriptor: int, position: int, content: bytes | memoryview) -> None:
        self.trouble.check()
        file, path = self._open[descriptor]
        end = position + len(content)
        try:
            self.begin("write", path)
            self._give_blocks(file, position, end, path)
        except OSError as error:
            raise self._write_error(descriptor, error) from error
        if end > file.size:
            file.resize(end)
        file.opened()[position:end] = content
        file.look()

    def _sync(self, descriptor: int) -> None:
        file, path = self._open[descriptor]
        try:
            self.begin("sync", path)
        except OSError:
            file.lose(self._random)
            raise
        file.sync()

    def close(self, descriptor: int) -> None:
        file, path = self._closed(descriptor)
        try:
            self.begin("close", path)
        except OSError as error:
            file.lose(self._random)
            raise self.trouble.lose(FsyncFailed(why=f"close: {error.strerror}")) from error
