"""Every call that touches the disk, in one object that a test can replace.

Rules learned the hard way, kept here:
    1. Written pages reach the disk by `fdatasync` alone; flushing a map holds the interpreter.
    2. Bytes are allocated before a map writes to them; else a full disk kills the process.
    3. A failed sync is final: the kernel reports the loss once and then pretends. The disk itself
       remembers it: nothing is written, synced, renamed or removed through it any more.
    4. A new or renamed name is durable when its directory has been synced.

call                            no space (ENOSPC, EDQUOT)     any other error
sync, sync_directory, sync_all  FsyncFailed, final            FsyncFailed, final
close                           FsyncFailed, final            FsyncFailed, final
write_at, write_file            DiskFull                      WriteFailed, final
make…, add…, allocate, rename   DiskFull, nothing stays       AllocationFailed, nothing stays
unlink, remove_directory        WriteFailed                   WriteFailed: the name stays
open, read…, names, exists      ReadFailed                    ReadFailed

A map has no calls: a page that cannot be read is SIGBUS, the end of the process, as kill -9 is.
Nothing here knows records. Calls that may block long (`sync`, `make_allocated_file`, `read_at` of
cold ranges) are functions of plain values, so that the store can run them off the event loop.
"""

import errno
import mmap
import os
import resource
from pathlib import Path
from typing import Final

from broker.files.directory_lock import DirectoryLock
from broker.files.disk_errors import FULL_DISK_ERRORS, FullDisk, Reading, forget, path_of
from broker.files.disk_names import DiskNames
from broker.files.system_calls import call_on_memory
from broker.model.errors import (
    DiskFull,
    FsyncFailed,
    ReadFailed,
    WriteFailed,
)

FILE_MODE: Final = 0o644
_PIECE_SIZE: Final = 1024 * 1024
MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14; elsewhere pages are faulted in one by one."""
RWF_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
"""Linux: give what is in memory, or nothing."""


class Disk(DiskNames):
    """The machine's file system."""

    __slots__ = ("_can_populate", "tells_resident")

    def __init__(self) -> None:
        super().__init__()
        self._can_populate = True
        self.tells_resident = bool(RWF_NOWAIT)
        """Whether `read_resident` knows what is in memory, as far as it was asked."""

    def own_process_id(self) -> int:
        """Return the number this process runs under, for the abort mark."""
        return os.getpid()

    def free_bytes(self, path: Path) -> int:
        """Return what an ordinary user may still write under a path."""
        return self.space(path)[1]

    def space(self, path: Path) -> tuple[int, int]:
        """Return (bytes used, bytes an ordinary user may still write) of a path's file system."""
        with Reading(path):
            stats = os.statvfs(path)
        used = (stats.f_blocks - stats.f_bfree) * stats.f_frsize
        return used, stats.f_bavail * stats.f_frsize

    def open_files_max(self) -> int:
        """Return how many files this process may have open."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def directory_lock(self, path: Path) -> DirectoryLock:
        """Return the lock that a file of this name is; not taken yet."""
        return DirectoryLock(path)

    # -- whole small files ---------------------------------------------------------------------
    def read_file(self, path: Path) -> bytes:
        """Return the content of a small file."""
        descriptor = self.open_read_only(path)
        try:
            pieces = [self.read_at(descriptor, 0, _PIECE_SIZE)]
            while len(pieces[-1]) == _PIECE_SIZE:
                pieces.append(self.read_at(descriptor, len(pieces) * _PIECE_SIZE, _PIECE_SIZE))
            return b"".join(pieces)
        finally:
            self.close(descriptor)

    def write_file(self, path: Path, content: bytes) -> None:
        """Write a small file and make its content (not yet its name) durable.

        Errors   DiskFull: a part of it may stand there; AllocationFailed, WriteFailed, FsyncFailed
        """
        self._check()
        self._with_room(lambda: self._write_file(path, content))

    def _write_file(self, path: Path, content: bytes) -> None:
        with FullDisk(path):
            descriptor = self._open_anew(path)
        try:
            self._write(descriptor, content)
            self.sync(descriptor)
        finally:
            self.close(descriptor)

    def _open_anew(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.open(path, flags, FILE_MODE)

    def _write(self, descriptor: int, content: bytes) -> None:
        try:
            left = memoryview(content)
            while left:  # A disk that is nearly full takes a part and says so.
                left = left[os.write(descriptor, left) :]
        except OSError as error:
            raise self._write_error(descriptor, error) from error

    def _write_error(self, descriptor: int, error: OSError) -> Exception:
        path = self._path_of(descriptor)
        if error.errno in FULL_DISK_ERRORS:
            return DiskFull(path=path)
        return self.lose(WriteFailed(why=f"{path}: {error.strerror}"))

    def _read_error(self, descriptor: int, error: OSError) -> ReadFailed:
        return ReadFailed(path=self._path_of(descriptor), why=str(error.strerror))

    # -- open files ----------------------------------------------------------------------------
    def _path_of(self, descriptor: int) -> str:
        return path_of(descriptor)

    def _forget(self, descriptor: int, path: Path) -> None:
        forget(descriptor, path)

    def open(self, path: Path) -> int:
        """Return a descriptor for reading and writing.

        Errors   FileNotFoundError, ReadFailed
        """
        with Reading(path):
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open_read_only(self, path: Path) -> int:
        """Return a descriptor for reading.

        Errors   FileNotFoundError, ReadFailed
        """
        with Reading(path):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def make_sparse_file(self, path: Path, size_bytes: int) -> int:
        """Make a file of this length without blocks behind it; returns its descriptor.

        Errors   DiskFull; what was half made is removed
        """
        descriptor = self.add_sparse_file(path, size_bytes)
        try:
            self.sync_directory(path.parent)
        except BaseException:
            self._forget(descriptor, path)
            raise
        return descriptor

    def add_sparse_file(self, path: Path, size_bytes: int) -> int:
        """Do the same; the name is durable once somebody synced the directory.

        Errors   DiskFull; what was half made is removed
        """
        self._check()
        return self._with_room(lambda: self._add_file(path, size_bytes))

    def _add_file(self, path: Path, size_bytes: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with FullDisk(path):
            descriptor = os.open(path, flags, FILE_MODE)
        try:
            with FullDisk(path):
                os.ftruncate(descriptor, size_bytes)
        except BaseException:
            self._forget(descriptor, path)
            raise
        return descriptor

    def make_allocated_file(self, draft: Path, path: Path, size_bytes: int) -> int:
        """Make a file whose every byte has a block; it appears under `path` when complete.

        Blocks   up to some 50 ms: run it off the event loop
        Errors   DiskFull, AllocationFailed; what was half made is removed
        """
        self.unlink(draft)
        descriptor = self.add_sparse_file(draft, 0)
        try:
            self.allocate(descriptor, 0, size_bytes, draft)
            self.sync(descriptor)
            self.rename(draft, path)
            self.sync_directory(path.parent)
        except BaseException:
            self._forget(descriptor, draft)
            raise
        return descriptor

    def allocate(self, descriptor: int, position: int, size_bytes: int, path: Path) -> None:
        """Put blocks behind a range of a file, so that writing to it cannot find the disk full.

        Errors   DiskFull, AllocationFailed; some blocks of the range may be there
        """
        self._check()
        self._with_room(lambda: self._allocate(descriptor, position, size_bytes, path))

    def _allocate(self, descriptor: int, position: int, size_bytes: int, path: Path) -> None:
        with FullDisk(path):
            os.posix_fallocate(descriptor, position, size_bytes)

    def data_end(self, descriptor: int) -> int:
        """Return the byte behind the last one of a sparse file that has a block with data.

        Cost   one call for each hole; the file's length where the system cannot tell
        """
        try:
            end = os.fstat(descriptor).st_size
        except OSError as error:
            raise self._read_error(descriptor, error) from error
        position = 0
        try:
            while position < end:
                position = os.lseek(descriptor, position, os.SEEK_DATA)
                position = os.lseek(descriptor, position, os.SEEK_HOLE)
        except OSError as error:
            return position if error.errno == errno.ENXIO else end  # No data behind it, or no idea.
        return position

    def map(self, descriptor: int, size_bytes: int) -> mmap.mmap:
        """Return a shared map of the whole file."""
        with Reading(Path(self._path_of(descriptor))):
            return mmap.mmap(descriptor, size_bytes)

    def map_read_only(self, descriptor: int, size_bytes: int) -> mmap.mmap:
        """Return a map that cannot be written through."""
        with Reading(Path(self._path_of(descriptor))):
            return mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ)

    def populate(self, mapping: mmap.mmap, position: int, size_bytes: int) -> None:
        """Fault in pages that are about to be written, in one call instead of one fault each."""
        if not self._can_populate:
            return
        try:
            mapping.madvise(MADV_POPULATE_WRITE, position, size_bytes)
        except OSError:
            self._can_populate = False

    # -- memory --------------------------------------------------------------------------------
    def make_buffer(self, size_bytes: int) -> mmap.mmap:
        """Return memory that belongs to no file."""
        return mmap.mmap(-1, size_bytes)

    def lock(self, memory: mmap.mmap) -> bool:
        """Keep all pages of a map or buffer in memory; False where the system does not allow it.

        Blocks   until all pages are there, without holding the interpreter
        """
        return call_on_memory("mlock", memory)

    def unlock(self, memory: mmap.mmap) -> None:
        """Let the system drop pages again; blocks shortly."""
        call_on_memory("munlock", memory)

    def touch(self, memory: mmap.mmap) -> None:
        """Fault in all pages of a map for writing; blocks without holding the interpreter."""
        call_on_memory("madvise", memory, MADV_POPULATE_WRITE)

    # -- reading and writing -------------------------------------------------------------------
    def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        """Return bytes of a file without going through a map.

        Errors   ReadFailed
        """
        try:
            return os.pread(descriptor, size_bytes, position)
        except OSError as error:
            raise self._read_error(descriptor, error) from error

    def read_into(self, descriptor: int, position: int, buffer: memoryview) -> int:
        """Fill a buffer with bytes of a file; returns how many there were.

        Errors   ReadFailed
        """
        try:
            return os.preadv(descriptor, [buffer], position)
        except OSError as error:
            raise self._read_error(descriptor, error) from error

    def read_resident(self, descriptor: int, position: int, size_bytes: int) -> bytes | None:
        """Return the same bytes when all of them are in memory, None when the disk were needed.

        Where the system cannot tell (tmpfs, which has everything in memory; other systems than
        Linux) the bytes are read at any price: waiting for them to be there would never end.
        Errors   ReadFailed
        Cost     about 1 µs and the copy
        """
        if not RWF_NOWAIT:
            return self.read_at(descriptor, position, size_bytes)
        content = bytearray(size_bytes)
        try:
            count = os.preadv(descriptor, [content], position, RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:  # Or an error the plain call will tell.
            self.tells_resident &= error.errno not in (errno.EOPNOTSUPP, errno.EINVAL)
            return self.read_at(descriptor, position, size_bytes)
        return bytes(content) if count == size_bytes else None

    def write_at(self, descriptor: int, position: int, content: bytes | memoryview) -> None:
        """Write bytes into allocated room; maps of the file see them at once.

        Errors   DiskFull (a file system that copies on write, or a quota), WriteFailed
        """
        if self.failure is not None:
            self._check()
        try:
            written = os.pwrite(descriptor, content, position)
            while written < len(content):
                written += os.pwrite(descriptor, content[written:], position + written)
            assert written == len(content)
        except OSError as error:
            raise self._write_error(descriptor, error) from error

    def sync(self, descriptor: int) -> None:
        """Make written bytes durable, also those written through a map.

        Blocks   as long as the disk takes: run it off the event loop
        Errors   FsyncFailed: the process must end, see the rules above
        """
        self._check()
        try:
            self._sync(descriptor)
        except OSError as error:
            why = f"{self._path_of(descriptor)}: {error.strerror}"
            raise self.lose(FsyncFailed(why=why)) from error

    def _sync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)
