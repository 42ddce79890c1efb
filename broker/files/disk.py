"""Every call that touches the disk, in one object that a test can replace.

Rules learned the hard way, kept here:
    1. Written pages reach the disk by `fdatasync` alone; flushing a map holds the interpreter.
    2. Bytes are allocated before a map writes to them; else a full disk kills the process.
    3. A failed sync is final: the kernel reports the loss once and then pretends.
    4. A new or renamed name is durable when its directory has been synced.
Nothing here knows records. Calls that may block long (`sync`, `make_allocated_file`, `read_at` of
cold ranges) are functions of plain values, so that the store can run them off the event loop.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import resource
from pathlib import Path
from typing import Final

from broker.model.errors import AllocationFailed, DiskFull, FsyncFailed

FULL_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
FILE_MODE: Final = 0o644
AT_FDCWD: Final = -100
RENAME_EXCHANGE: Final = 2
MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14; elsewhere pages are faulted in one by one."""
RWF_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
"""Linux: give what is in memory, or nothing."""


class Disk:
    """The machine's file system."""

    __slots__ = ("_can_populate",)

    def __init__(self) -> None:
        self._can_populate = True

    def own_process_id(self) -> int:
        """Return the number this process runs under, for the abort mark."""
        return os.getpid()

    # -- names ---------------------------------------------------------------------------------
    def names(self, directory: Path) -> list[str]:
        """Return the sorted names in a directory, none when there is no such directory."""
        try:
            return sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_directory(self, path: Path) -> bool:
        """Return whether the path is a directory."""
        return path.is_dir()

    def exists(self, path: Path) -> bool:
        """Return whether something has this name."""
        return path.exists()

    def file_size(self, path: Path) -> int:
        """Return the length in bytes."""
        return os.stat(path).st_size

    def make_directory(self, directory: Path) -> None:
        """Make a directory and those above it, and make their names durable."""
        if directory.is_dir():
            return
        self.make_directory(directory.parent)
        with contextlib.suppress(FileExistsError), FullDisk(directory):
            os.mkdir(directory)
        self.sync_directory(directory.parent)

    def add_directory(self, directory: Path) -> list[Path]:
        """Make a directory and those above it; returns where names are new, to be synced."""
        if directory.is_dir():
            return []
        above = self.add_directory(directory.parent)
        with contextlib.suppress(FileExistsError), FullDisk(directory):
            os.mkdir(directory)
        return [*above, directory.parent]

    def sync_directory(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise FsyncFailed(why=f"{directory}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def sync_all(self, directory: Path) -> None:
        """Make everything on the file system of a directory durable, names included; blocks.

        One call for a thousand files costs a fraction of a thousand calls.
        Errors   FsyncFailed
        """
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _sync_file_system(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, replacing what had it; durable after `sync_directory`.

        Errors   DiskFull, AllocationFailed; no name has changed
        """
        with FullDisk(target):
            os.replace(source, target)

    def exchange(self, one: Path, other: Path) -> None:
        """Let two directories or files change names in one step; durable after `sync_directory`.

        Where the system cannot, `other` has no name for a moment.
        Errors   DiskFull, AllocationFailed
        """
        if _rename_exchange(one, other):
            return
        aside = other.with_name(f"{other.name}.aside")
        self.rename(other, aside)
        self.rename(one, other)
        self.rename(aside, one)

    def unlink(self, path: Path) -> None:
        """Remove a name; none there is fine."""
        path.unlink(missing_ok=True)

    def remove_directory(self, directory: Path) -> None:
        """Remove an empty directory."""
        os.rmdir(directory)

    def free_bytes(self, path: Path) -> int:
        """Return what an ordinary user may still write under a path."""
        return self.space(path)[1]

    def space(self, path: Path) -> tuple[int, int]:
        """Return (bytes used, bytes an ordinary user may still write) of a path's file system."""
        stats = os.statvfs(path)
        used = (stats.f_blocks - stats.f_bfree) * stats.f_frsize
        return used, stats.f_bavail * stats.f_frsize

    def open_files_max(self) -> int:
        """Return how many files this process may have open."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    # -- whole small files ---------------------------------------------------------------------
    def read_file(self, path: Path) -> bytes:
        """Return the content of a small file."""
        return path.read_bytes()

    def write_file(self, path: Path, content: bytes) -> None:
        """Write a small file and make its content (not yet its name) durable."""
        with FullDisk(path):
            descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE
            )
        try:
            with FullDisk(path):
                left = memoryview(content)
                while left:  # A disk that is nearly full takes a part and says so.
                    left = left[os.write(descriptor, left) :]
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    # -- open files ----------------------------------------------------------------------------
    def open(self, path: Path) -> int:
        """Return a descriptor for reading and writing."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open_read_only(self, path: Path) -> int:
        """Return a descriptor for reading."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        """Give a descriptor back."""
        os.close(descriptor)

    def make_sparse_file(self, path: Path, size_bytes: int) -> int:
        """Make a file of this length without blocks behind it; returns its descriptor.

        Errors   DiskFull; what was half made is removed
        """
        descriptor = self.add_sparse_file(path, size_bytes)
        try:
            self.sync_directory(path.parent)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        return descriptor

    def add_sparse_file(self, path: Path, size_bytes: int) -> int:
        """Do the same; the name is durable once somebody synced the directory.

        Errors   DiskFull; what was half made is removed
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with FullDisk(path):
            descriptor = os.open(path, flags, FILE_MODE)
        try:
            with FullDisk(path):
                os.ftruncate(descriptor, size_bytes)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        return descriptor

    def make_allocated_file(self, draft: Path, path: Path, size_bytes: int) -> int:
        """Make a file whose every byte has a block; it appears under `path` when complete.

        Blocks   up to some 50 ms: run it off the event loop
        Errors   DiskFull, AllocationFailed; what was half made is removed
        """
        draft.unlink(missing_ok=True)
        descriptor = self.make_sparse_file(draft, 0)
        try:
            self.allocate(descriptor, 0, size_bytes, draft)
            self.sync(descriptor)
            with FullDisk(path):
                os.replace(draft, path)
            self.sync_directory(path.parent)
        except BaseException:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        return descriptor

    def allocate(self, descriptor: int, position: int, size_bytes: int, path: Path) -> None:
        """Put blocks behind a range of a file, so that writing to it cannot find the disk full."""
        with FullDisk(path):
            os.posix_fallocate(descriptor, position, size_bytes)

    def data_end(self, descriptor: int) -> int:
        """Return the byte behind the last one of a sparse file that has a block with data.

        Cost   one call for each hole; the file's length where the system cannot tell
        """
        end = os.fstat(descriptor).st_size
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
        return mmap.mmap(descriptor, size_bytes)

    def map_read_only(self, descriptor: int, size_bytes: int) -> mmap.mmap:
        """Return a map that cannot be written through."""
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
        return _memory_call("mlock", memory)

    def unlock(self, memory: mmap.mmap) -> None:
        """Let the system drop pages again; blocks shortly."""
        _memory_call("munlock", memory)

    def touch(self, memory: mmap.mmap) -> None:
        """Fault in all pages of a map for writing; blocks without holding the interpreter."""
        _memory_call("madvise", memory, MADV_POPULATE_WRITE)

    # -- reading and writing -------------------------------------------------------------------
    def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        """Return bytes of a file without going through a map."""
        return os.pread(descriptor, size_bytes, position)

    def read_resident(self, descriptor: int, position: int, size_bytes: int) -> bytes | None:
        """Return the same bytes when all of them are in memory, None when the disk were needed.

        Cost   about 1 µs and the copy; None always where the system cannot tell
        """
        if not RWF_NOWAIT:
            return None
        content = bytearray(size_bytes)
        try:
            count = os.preadv(descriptor, [content], position, RWF_NOWAIT)
        except OSError:  # EAGAIN, or a file system that does not know how.
            return None
        return bytes(content) if count == size_bytes else None

    def write_at(self, descriptor: int, position: int, content: bytes | memoryview) -> None:
        """Write bytes into allocated room; maps of the file see them at once."""
        written = os.pwrite(descriptor, content, position)
        while written < len(content):
            written += os.pwrite(descriptor, content[written:], position + written)

    def sync(self, descriptor: int) -> None:
        """Make written bytes durable, also those written through a map.

        Blocks   as long as the disk takes: run it off the event loop
        Errors   FsyncFailed: the process must end, see the rules above
        """
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            raise FsyncFailed(why=str(error.strerror)) from error


def _sync_file_system(descriptor: int) -> None:
    """Call syncfs, which Python does not have; sync everything where the system does not."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        os.sync()
    elif call(descriptor) != 0:
        raise FsyncFailed(why=os.strerror(ctypes.get_errno()))


def _memory_call(name: str, memory: mmap.mmap, *more: int) -> bool:
    """Call a function of the C library with the address and length of some memory."""
    call = getattr(ctypes.CDLL(None), name, None)
    if call is None:
        return False
    first = ctypes.c_char.from_buffer(memory)
    try:
        address = ctypes.c_void_p(ctypes.addressof(first))
        return bool(call(address, ctypes.c_size_t(len(memory)), *more) == 0)
    finally:
        del first  # The map can be closed again.


def _rename_exchange(one: Path, other: Path) -> bool:
    """Ask Linux to exchange two names; False where it does not know how."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        return False
    with FullDisk(other):
        raise OSError(code, os.strerror(code), str(other))


class FullDisk:
    """Turns "no space" into DiskFull and any other failure into AllocationFailed."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError) or isinstance(error, FileExistsError):
            return
        if error.errno in FULL_DISK_ERRORS:
            raise DiskFull(path=str(self._path)) from error
        raise AllocationFailed(why=f"{self._path}: {error.strerror}") from error
