"""All calls that touch the disk, in one object that tests can replace.

    1. `fdatasync` or `syncfs` makes written pages durable; flushing a map would hold the GIL.
    2. Bytes are allocated before a map writes to them; else a full disk kills the process.
    3. A failed sync is final. The kernel reports lost bytes only once, so `Trouble` keeps the
       error, and every later write, sync, rename or removal raises it again.
    4. A new or renamed name is durable once its directory has been synced.
    5. Only regular files are opened. Below a store directory no link is followed, except those
       that files/enclosure.py lists.

ARCHITECTURE.md ("Errors of the disk") lists which call raises which error. A memory map raises no
error: a page that cannot be read causes SIGBUS, which ends the process as kill -9 does.

Calls that may block long (`sync`, `make_allocated_file`, `read_at` of cold ranges) take and return
plain values, so that the store can run them in threads.
"""

import contextlib
import errno
import mmap
import os
import resource
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from pocketmq.files.directory_lock import DirectoryLock
from pocketmq.files.disk_errors import (
    FULL_DISK_ERRORS,
    FullDisk,
    ReadErrors,
    Trouble,
    forget,
    path_of,
)
from pocketmq.files.enclosure import (
    DIRECTORY_MODE,
    FILE_MODE,
    PLAIN_ONLY,
    Enclosure,
    check_kind,
    check_plain,
)
from pocketmq.files.memory import PageMemory
from pocketmq.files.system_calls import exchange_names, sync_file_system
from pocketmq.files.table_watch import TableWatch
from pocketmq.model.errors import (
    AllocationFailed,
    DiskFull,
    FsyncFailed,
    NotAPlainFile,
    ReadFailed,
    WriteFailed,
)

DRAFT_SUFFIX: Final = ".draft"
"""Suffix of unfinished files; a start removes unfinished files of earlier runs."""
RWF_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
"""Linux flag: read only if all pages are in memory."""


class Disk:
    """The machine's file system."""

    __slots__ = ("enclosure", "memory", "tables", "tells_resident", "trouble")

    def __init__(self) -> None:
        self.enclosure = Enclosure()
        """The store directories below which no links are followed."""
        self.trouble = Trouble()
        self.memory = PageMemory()
        self.tables = TableWatch()
        self.tells_resident = bool(RWF_NOWAIT)
        """Whether `read_resident` can detect missing pages; cleared if a file system lacks that."""

    def own_process_id(self) -> int:
        """Returns the process id, for the abort mark."""
        return os.getpid()

    def space(self, path: Path) -> tuple[int, int]:
        """Returns (used bytes, bytes available to ordinary users) of a path's file system."""
        with ReadErrors(path):
            stats = os.statvfs(path)
        used = (stats.f_blocks - stats.f_bfree) * stats.f_frsize
        return used, stats.f_bavail * stats.f_frsize

    def open_files_max(self) -> int:
        """Returns the limit on open files of this process."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def directory_lock(self, path: Path) -> DirectoryLock:
        """Returns a lock, not acquired yet, on the file with this path."""
        return DirectoryLock(path)

    # -- whole small files ---------------------------------------------------------------------
    def read_file(self, path: Path, position: int = 0, size_bytes: int | None = None) -> bytes:
        """Returns the content of a small file, or `size_bytes` bytes from `position` on."""
        with self.opened(path) as descriptor:
            if size_bytes is None:
                with ReadErrors(path):
                    size_bytes = os.fstat(descriptor).st_size
            return self.read_at(descriptor, position, size_bytes)

    def write_file(self, path: Path, content: bytes, mode: int = FILE_MODE) -> None:
        """Creates a small file with `mode` and makes its content durable, but not its name.

        Effects  an existing file of this name is unlinked, not overwritten
        Errors   DiskFull: a part of the file may exist; AllocationFailed, WriteFailed, FsyncFailed
        """
        self.trouble.with_room(lambda: self._write_file(path, content, mode))

    def _write_file(self, path: Path, content: bytes, mode: int) -> None:
        try:
            descriptor = self._make_file(path, os.O_EXCL, mode)
        except FileExistsError:
            self.unlink(path)
            descriptor = self._make_file(path, os.O_EXCL, mode)
        try:
            self.write_at(descriptor, 0, content)
            self.sync(descriptor)
        finally:
            self.close(descriptor)

    def replace_file(self, path: Path, content: bytes, mode: int = FILE_MODE) -> None:
        """Replaces a small file as a whole, durably.

        Errors   DiskFull: the draft was removed; AllocationFailed, WriteFailed, FsyncFailed. The
                 old version remains, or the new one if only the last sync failed
        """
        draft = path.with_name(path.name + DRAFT_SUFFIX)
        try:
            self.write_file(draft, content, mode)
            self.rename(draft, path)
        except DiskFull:
            self.unlink(draft)
            raise
        self.sync_directory(path.parent)

    def _make_file(self, path: Path, flag: int, mode: int = FILE_MODE) -> int:
        with FullDisk(path), self.enclosure.place(path) as place:
            return os.open(place, flag | os.O_RDWR | os.O_CREAT | PLAIN_ONLY, mode)

    # -- names ---------------------------------------------------------------------------------
    def names(self, directory: Path) -> list[str]:
        """Returns the sorted names in a directory; none if the directory does not exist."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            ReadErrors(directory),
            self.enclosure.place(f"{directory}/") as place,
        ):
            return sorted(os.listdir(place))
        return []

    def is_directory(self, path: Path) -> bool:
        """Returns whether the path is a directory."""
        return stat.S_ISDIR(self._mode(path) or 0)

    def exists(self, path: Path) -> bool:
        """Returns whether a file or directory of this name exists."""
        return self._mode(path) is not None

    def _mode(self, path: Path) -> int | None:
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            ReadErrors(path),
        ):
            return self._found(path).st_mode
        return None

    def _found(self, path: Path | str) -> os.stat_result:
        inside = self.enclosure.place(path)
        with inside as place:
            found = os.stat(place, follow_symlinks=not inside.is_enclosed)
            return os.stat(place) if inside.is_followed(found) else found

    def file_size(self, path: Path | str) -> int:
        """Returns the length in bytes.

        Errors   FileNotFoundError, NotADirectoryError, ReadFailed, NotAPlainFile
        """
        with ReadErrors(path):
            found = self._found(path)
            if stat.S_ISLNK(found.st_mode):
                raise NotAPlainFile(path=str(path), why="it is a symbolic link")
            return found.st_size

    def make_directory(self, directory: Path) -> None:
        """Creates a directory and its missing parents, and makes their names durable."""
        if not self.is_directory(directory):
            self.make_directory(directory.parent)
            self.trouble.with_room(lambda: self._make(directory))
            self.sync_directory(directory.parent)

    def add_directory(self, directory: Path) -> list[Path]:
        """Creates a directory and its missing parents; returns the directories to sync."""
        if self.is_directory(directory):
            return []
        above = self.add_directory(directory.parent)
        try:
            self.trouble.with_room(lambda: self._make(directory))
        except BaseException:
            self.sync_directories(above)
            raise
        return [*above, directory.parent]

    def _make(self, directory: Path) -> None:
        inside = self.enclosure.place(directory)
        with contextlib.suppress(FileExistsError), FullDisk(directory), inside as place:
            os.mkdir(place, DIRECTORY_MODE)

    def sync_directory(self, directory: Path) -> None:
        """Makes the names in a directory durable; does nothing if the directory was removed.

        Errors   FsyncFailed; AllocationFailed: the directory cannot be opened
        """
        self._sync_directory(directory, os.fsync)

    def sync_directories(self, directories: Iterable[Path]) -> None:
        """Makes the names in directories durable; blocks."""
        for directory in directories:
            self.sync_directory(directory)

    def _sync_directory(self, directory: Path, call: Callable[[int], None]) -> None:
        self.trouble.check()
        try:
            with self.enclosure.place(f"{directory}/") as place:
                descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # The directory was removed: its names need not be durable.
        except NotAPlainFile:
            raise
        except OSError as error:
            raise AllocationFailed(why=f"{directory}: {error.strerror}") from error
        try:
            call(descriptor)
        except OSError as error:
            raise self.trouble.lose(FsyncFailed(why=f"{directory}: {error.strerror}")) from error
        finally:
            self.close(descriptor)

    def sync_all(self, directory: Path) -> None:
        """Makes everything on a directory's file system durable, also names; blocks.

        For a thousand files this costs a fraction of a sync of each file.
        """
        self._sync_directory(directory, sync_file_system)

    def rename(self, source: Path, target: Path) -> None:
        """Renames a file, which replaces a file of that name; durable after `sync_directory`.

        Errors   DiskFull, AllocationFailed; no name has changed
        """
        self.trouble.with_room(lambda: self._replace(source, target))

    def _replace(self, source: Path, target: Path) -> None:
        places = self.enclosure.place
        with FullDisk(target), places(source) as one, places(target) as other:
            os.replace(one, other)

    def exchange(self, one: Path, other: Path) -> None:
        """Exchanges the names of two files or directories; durable after `sync_directory`.

        On a system without such a call, each name does not exist for a moment.
        Errors   DiskFull, AllocationFailed
        """
        self.trouble.check()
        places = self.enclosure.place
        with FullDisk(other), places(one) as first, places(other) as second:
            if exchange_names(first, second):
                return
        aside = other.with_name(f"{other.name}.aside")
        self.rename(other, aside)
        self.rename(one, other)
        self.rename(aside, one)

    def unlink(self, path: Path) -> None:
        """Removes a name, if it exists.

        Errors   WriteFailed: the name remains
        """
        self.trouble.check()
        try:
            with contextlib.suppress(FileNotFoundError), self.enclosure.place(path) as place:
                os.unlink(place)
        except NotAPlainFile:
            raise
        except OSError as error:
            raise WriteFailed(why=f"{path}: {error.strerror}") from error

    def remove_directory(self, directory: Path) -> None:
        """Removes an empty directory.

        Errors   WriteFailed, for example because the directory is not empty
        """
        self.trouble.check()
        try:
            with self.enclosure.place(directory) as place:
                os.rmdir(place)
        except NotAPlainFile:
            raise
        except OSError as error:
            raise WriteFailed(why=f"{directory}: {error.strerror}") from error

    def close(self, descriptor: int) -> None:
        """Closes a descriptor.

        Errors   FsyncFailed: some systems report only on close that written bytes are lost
        """
        try:
            os.close(descriptor)
        except OSError as error:
            raise self.trouble.lose(FsyncFailed(why=f"close: {error.strerror}")) from error

    # -- open files ----------------------------------------------------------------------------
    def _write_error(self, descriptor: int, error: OSError) -> Exception:
        if error.errno in FULL_DISK_ERRORS:
            return DiskFull(path=self._path_of(descriptor))
        return self.trouble.lose(WriteFailed(why=f"{self._path_of(descriptor)}: {error.strerror}"))

    def _read_error(self, descriptor: int, error: OSError) -> ReadFailed:
        return ReadFailed(path=self._path_of(descriptor), why=str(error.strerror))

    def _path_of(self, descriptor: int) -> str:
        return path_of(descriptor)

    def _forget(self, descriptor: int, path: Path) -> None:
        with contextlib.suppress(OSError), self.enclosure.place(path) as place:
            forget(descriptor, place)

    def open(self, path: Path | str, *, read_only: bool = False) -> int:
        """Returns a descriptor for reading and, unless `read_only`, for writing.

        Errors   FileNotFoundError, ReadFailed, NotAPlainFile
        """
        with ReadErrors(path), self.enclosure.place(path) as place:
            return self._open_plain(path, place, os.O_RDONLY if read_only else os.O_RDWR)

    def _open_plain(self, path: Path | str, place: str, flags: int) -> int:
        try:
            descriptor = os.open(place, flags | PLAIN_ONLY)
        except OSError as error:
            check_kind(error, place, path)
            raise
        return check_plain(descriptor, path)

    @contextlib.contextmanager
    def opened(self, path: Path) -> Iterator[int]:
        """Opens a file for reading while the block lasts; see `open`."""
        descriptor = self.open(path, read_only=True)
        try:
            yield descriptor
        finally:
            self.close(descriptor)

    def make_sparse_file(self, path: Path, size_bytes: int, *, is_named: bool = True) -> int:
        """Creates a file of this length without disk blocks; returns its descriptor.

        is_named   whether the file's name is durable on return; else the caller syncs the directory
        Errors     DiskFull, AllocationFailed: a partly made file is removed; FileExistsError
        """
        return self.trouble.with_room(lambda: self._make_sparse_file(path, size_bytes, is_named))

    def _make_sparse_file(self, path: Path, size_bytes: int, is_named: bool) -> int:
        descriptor = self._make_file(path, os.O_EXCL)
        try:
            self._set_length(descriptor, size_bytes, path)
            if is_named:
                self.sync_directory(path.parent)
        except BaseException:
            self._forget(descriptor, path)
            raise
        return descriptor

    def _set_length(self, descriptor: int, size_bytes: int, path: Path) -> None:
        with FullDisk(path):
            os.ftruncate(descriptor, size_bytes)

    def make_allocated_file(self, draft: Path, path: Path, size_bytes: int) -> int:
        """Creates a file with all its blocks allocated; `path` appears when it is complete.

        Blocks   up to some 50 ms: run it off the event loop
        Errors   DiskFull, AllocationFailed, WriteFailed, FsyncFailed; an unfinished file is removed
        """
        self.unlink(draft)
        descriptor = self.make_sparse_file(draft, 0, is_named=False)
        try:
            self.allocate(descriptor, 0, size_bytes, draft)
            self.sync(descriptor)
            self.rename(draft, path)
            self.sync_directory(path.parent)
        except BaseException:
            self._forget(descriptor, draft)
            raise
        return descriptor

    def allocate(self, descriptor: int, position: int, size_bytes: int, path: Path | str) -> None:
        """Allocates disk blocks for a range of a file, so that no later write finds the disk full.

        Errors   DiskFull, AllocationFailed; some blocks may have been allocated
        """
        self.trouble.with_room(lambda: self._allocate(descriptor, position, size_bytes, path))

    def _allocate(self, descriptor: int, position: int, size_bytes: int, path: Path | str) -> None:
        with FullDisk(path):
            os.posix_fallocate(descriptor, position, size_bytes)

    def data_end(self, descriptor: int) -> int:
        """Returns the end of a sparse file's last data; its length if no hole is reported.

        Cost   two calls for each data extent
        """
        with ReadErrors(self._path_of(descriptor)):
            end = os.fstat(descriptor).st_size
        position = 0
        try:
            while position < end:
                position = os.lseek(descriptor, position, os.SEEK_DATA)
                position = os.lseek(descriptor, position, os.SEEK_HOLE)
        except OSError as error:
            return position if error.errno == errno.ENXIO else end  # ENXIO: no data after it.
        return position

    def map(self, descriptor: int, size_bytes: int, *, read_only: bool = False) -> mmap.mmap:
        """Returns a shared map of a file's first bytes; if `read_only`, writes through it fail.

        Errors   ValueError: the file is shorter than `size_bytes`; ReadFailed
        """
        access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
        with ReadErrors(self._path_of(descriptor)):
            return mmap.mmap(descriptor, size_bytes, access=access)

    # -- reading and writing -------------------------------------------------------------------
    def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        """Returns bytes of a file; fewer at the file's end."""
        try:
            return os.pread(descriptor, size_bytes, position)
        except OSError as error:
            raise self._read_error(descriptor, error) from error

    def read_into(self, descriptor: int, position: int, buffer: memoryview) -> int:
        """Reads bytes of a file into a buffer; returns their number."""
        try:
            return os.preadv(descriptor, [buffer], position)
        except OSError as error:
            raise self._read_error(descriptor, error) from error

    def read_resident(self, descriptor: int, position: int, size_bytes: int) -> bytes | None:
        """Returns bytes of a file if all are in memory, else None.

        If the system cannot detect whether they are in memory, the bytes are read even if the read
        blocks, because the caller would otherwise never get them. This applies to tmpfs, whose
        pages are all in memory, and to systems other than Linux.
        Shape    the range ends within the file
        Errors   ReadFailed
        Cost     about 1 µs and the copy
        """
        content = bytearray(size_bytes)
        is_filled = self.fill_resident(descriptor, position, memoryview(content))
        return bytes(content) if is_filled else None

    def fill_resident(self, descriptor: int, position: int, room: memoryview) -> bool:
        """Fills a buffer like `read_resident`; returns whether the bytes are in memory.

        Errors   ReadFailed
        """
        try:
            if RWF_NOWAIT:
                return os.preadv(descriptor, [room], position, RWF_NOWAIT) == len(room)
        except BlockingIOError:
            return False
        except OSError as error:  # The plain call succeeds, or raises the error again.
            self.tells_resident &= error.errno not in (errno.EOPNOTSUPP, errno.EINVAL)
        content = self.read_at(descriptor, position, len(room))
        room[: len(content)] = content
        return len(content) == len(room)

    def write_at(self, descriptor: int, position: int, content: bytes | memoryview) -> None:
        """Writes bytes at a position; maps of the file show them at once.

        Errors   WriteFailed; DiskFull: for allocated blocks only on a copy-on-write file system, or
                 because of a quota
        """
        self.trouble.check()
        try:
            written = os.pwrite(descriptor, content, position)
            while written < len(content):
                written += os.pwrite(descriptor, content[written:], position + written)
            assert written == len(content)
        except OSError as error:
            raise self._write_error(descriptor, error) from error

    def sync(self, descriptor: int) -> None:
        """Makes written bytes durable, also those written through a map.

        Blocks   as long as the disk takes: run it off the event loop
        Errors   FsyncFailed: the process must end (rule 3 of this module)
        """
        self.trouble.check()
        try:
            self._sync(descriptor)
        except OSError as error:
            why = f"{self._path_of(descriptor)}: {error.strerror}"
            raise self.trouble.lose(FsyncFailed(why=why)) from error

    def _sync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)
