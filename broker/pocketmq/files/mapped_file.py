"""One fixed-size file of a mapped file queue.

    0 ........ wrote ........ allocated ........ size
    records    next byte      allocated blocks   end of the map

Invariants
    1. wrote <= size. Writers `allocate` blocks before they store bytes. `allocated` stays 0 for a
       file that was created with all its blocks.
    2. The file is opened when first needed, and stays open until `close`. The OpenFiles of its
       queue may close it when another file is opened. Consume queues have thousands of files, so
       these are not mapped: pread and pwrite need only a descriptor.
    3. A held file keeps its map and descriptor until the last `let_go`, also after `close` and
       `remove`.
    4. Callers copy the bytes that they return: a map cannot be closed while a view of it exists.
Source: DefaultMappedFile, ReferenceResource.
"""

import mmap
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from pocketmq.files.disk import Disk
from pocketmq.model.errors import Corruption, ReadFailed, StoreFailed

ALLOCATION_STEP: Final = 64 * 1024
"""Unit of allocation: sparse files get blocks up to the next multiple after the last byte."""
POPULATE_STEP: Final = 256 * 1024
"""Bytes that one call prefaults: 0.4 µs a record of 1.3 KiB instead of 1.9 µs (measured)."""
DIRECT_WRITE_MIN: Final = 32 * 1024
"""Size from which on pwrite is faster than storing through the map."""
FETCH_MIN: Final = 256 * 1024
"""Minimum read of pages not in memory: the bytes that follow are often read next."""
_PAGE: Final = mmap.PAGESIZE
_PIECE_SIZE: Final = 1024 * 1024
_ZEROS: Final = bytes(_PIECE_SIZE)


class ColdRead(Exception):
    """Error of a read that would have to wait for the disk; nothing was read.

    fetch   loads the bytes into memory; blocks, so call it in a thread
    """

    def __init__(self, fetch: Callable[[], None]) -> None:
        super().__init__("a read would wait for the disk")
        self.fetch = fetch


class Keeper(Protocol):
    """Limits the number of open files."""

    def add(self, file: "MappedFile", /) -> None:
        """Counts a file that was opened."""

    def discard(self, file: "MappedFile", /) -> None:
        """Removes a file that was closed."""


class MappedFile:
    """A file of a mapped file queue; `base` is the queue's offset of its first byte."""

    __slots__ = (
        "_disk",
        "_holders",
        "_is_leaving",
        "_is_mapped",
        "_keeper",
        "_map",
        "_place",
        "allocated",
        "base",
        "checked",
        "descriptor",
        "populated",
        "size",
        "staged",
        "staged_end",
        "unsynced_names",
        "view",
        "was_used",
        "written_from",
        "wrote",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        path: Path | str,
        base: int,
        size: int,
        keeper: Keeper | None = None,
        *,
        is_mapped: bool = True,
    ) -> None:
        self._disk = disk
        self._keeper = keeper
        self._is_mapped = is_mapped
        self._map: mmap.mmap | None = None
        self.populated = 0
        """Position below which writes through the map fault in no page."""
        self._holders = 0
        self._is_leaving = False
        self.was_used = True
        """Set at each use; cleared by the keeper when it searches for a file to close."""
        self._place = path
        self.base = base
        self.size = size
        self.wrote = 0
        self.written_from = size
        """Position from which on this process wrote all bytes since the last `doubt`."""
        self.checked: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        """Ranges that readers have validated since the last `doubt`; readers define the keys."""
        self.allocated = 0
        self.descriptor = -1
        self.view: memoryview = memoryview(b"")
        self.staged: memoryview | None = None
        """Buffer that receives writes until they are committed; None: writes go to the file."""
        self.staged_end = 0
        """End of the last write to `staged`."""
        self.unsynced_names: list[Path] = []
        """Directories with new names that were created for this file; `sync` syncs them."""

    @property
    def path(self) -> Path:
        """Path of the file; created at each call, as paths of thousands of files take memory."""
        return Path(self._place)

    @property
    def is_open(self) -> bool:
        """Whether the file has a descriptor and, if it is to be mapped, its map."""
        return self.descriptor >= 0

    @property
    def is_full(self) -> bool:
        """Whether the file is written to its end."""
        return self.wrote >= self.size

    def open(self, *, read_only: bool = False) -> "MappedFile":
        """Opens and maps the file unless it is open already.

        Errors   FileNotFoundError, ReadFailed; Corruption: the file is shorter than its map
        """
        if self.descriptor >= 0:
            return self
        return self.adopt(self._disk.open(self._place, read_only=read_only), read_only=read_only)

    def join(self, keeper: Keeper | None) -> None:
        """Registers this open file with the keeper of the queue to which it was added."""
        self._keeper = keeper
        if keeper is not None:
            keeper.add(self)

    def adopt(self, descriptor: int, *, read_only: bool = False) -> "MappedFile":
        """Maps the file through a descriptor that was opened for it."""
        if self._is_mapped:
            try:
                self._map = self._disk.map(descriptor, self.size, read_only=read_only)
            except (ValueError, ReadFailed) as error:
                self._disk.close(descriptor)
                raise error if isinstance(error, ReadFailed) else self._too_short(0) from error
            self.view = memoryview(self._map)
        self.descriptor = descriptor
        if self._keeper is not None:
            self._keeper.add(self)
        return self

    def _too_short(self, position: int) -> Corruption:
        return Corruption(
            path=str(self.path),
            file_position=position,
            physical_offset=self.base + position,
            why=f"it is shorter than {self.size} bytes",
        )

    # -- holding -------------------------------------------------------------------------------
    @property
    def is_held(self) -> bool:
        """Whether a caller or a thread relies on the descriptor."""
        return self._holders > 0

    def hold(self) -> "MappedFile":
        """Opens the file and keeps it open until `let_go`; both are called on the event loop."""
        self.open()
        self._holders += 1
        return self

    def let_go(self) -> None:
        """Ends one `hold`; the last one closes the file if `close` was called meanwhile."""
        assert self._holders > 0
        self._holders -= 1
        if self._is_leaving and not self._holders:
            self.close()

    def doubt(self) -> None:
        """Makes readers validate all bytes again, as pages may be read from the disk again."""
        self.checked.clear()
        self.written_from = self.wrote
        assert 0 <= self.written_from <= self.size

    # -- writing -------------------------------------------------------------------------------

    def allocate(self, upto: int, step: int = ALLOCATION_STEP) -> None:
        """Allocates disk blocks for all bytes below `upto`, rounded up to a step.

        Errors   DiskFull: nothing was written
        """
        if upto <= self.allocated:
            return
        begin = max(self.allocated, self.wrote) // _PAGE * _PAGE
        end = min(-(-upto // step) * step, self.size)
        if begin < end:  # A file that was full when opened has all its blocks.
            self._disk.allocate(self.descriptor, begin, end - begin, self._place)
        self.allocated = end

    def write(self, position: int, content: bytes) -> None:
        """Stores bytes at a position: through the map, or by pwrite if that is faster.

        Shape    position + len(content) <= size
        Blocks   for the copy and its page faults, not for a sync
        Errors   those of `Disk.write_at`
        """
        end = position + len(content)
        assert end <= self.size
        if self.staged is not None:
            self.staged[position:end] = content
            self.staged_end = end
            return
        if self._map is None or len(content) >= DIRECT_WRITE_MIN:
            self._disk.write_at(self.descriptor, position, content)
            return
        if end > self.populated:
            self._populate(position, end)
        self.view[position:end] = content

    def commit(self, begin: int, end: int) -> None:
        """Writes staged bytes to the file, which must be held; blocks.

        Shape    the caller writes no byte below `end` again
        """
        assert self.staged is not None
        upper = min(end, self.staged_end)
        if begin < upper:
            self._disk.write_at(self.descriptor, begin, self.staged[begin:upper])

    def warm(self) -> bool:
        """Loads all pages into memory and locks them in memory until `cool`; blocks.

        Returns  whether the pages are locked; the system may not allow it
        """
        assert self._map is not None
        self._disk.memory.touch(self._map)
        self.populated = self.size
        return self._disk.memory.lock(self._map)

    def cool(self) -> None:
        """Unlocks the file's pages, so that the system may evict them; blocks briefly."""
        if self._map is not None:
            self._disk.memory.unlock(self._map)

    def bring(self, position: int, end: int) -> None:
        """Loads pages that will be written soon into memory; the file must be held; blocks."""
        with suppress(OSError):  # The write to these pages will report the error.
            self._disk.memory.bring(self.descriptor, position, min(end, self.size) - position)

    def _populate(self, position: int, end: int) -> None:
        assert self._map is not None
        begin = max(self.populated, position) // _PAGE * _PAGE
        upper = min(-(-end // POPULATE_STEP) * POPULATE_STEP, self.size)
        self._disk.memory.populate(self._map, begin, upper - begin)
        self.populated = upper

    def read_resident(self, position: int, size_bytes: int) -> bytes:
        """Returns bytes if they are in memory; fewer at the file's end.

        Errors   ReadFailed; ColdRead: the bytes are not in memory. Other pages may have been
                 evicted as well, so `doubt` was called
        """
        size_bytes = max(min(size_bytes, self.size - position), 0)
        if not size_bytes:
            return b""
        found = self._disk.read_resident(self.open().descriptor, position, size_bytes)
        if found is None:
            self.doubt()
            raise ColdRead(lambda: self.fetch(position, size_bytes))
        return found

    def fill_resident(self, position: int, room: memoryview) -> None:
        """Fills a buffer with bytes that are in memory; the range ends within the file.

        Errors   as `read_resident`
        """
        assert position + len(room) <= self.size, "the range ends after the file"
        if not self._disk.fill_resident(self.open().descriptor, position, room):
            self.doubt()
            size_bytes = len(room)
            raise ColdRead(lambda: self.fetch(position, size_bytes))

    def fetch(self, position: int, size_bytes: int) -> None:
        """Loads bytes, and some that follow, into memory through a separate descriptor; blocks.

        Effects  none if the file was removed: the next read reports it
        """
        with suppress(FileNotFoundError):
            self._disk.read_file(self.path, position, max(size_bytes, FETCH_MIN))

    def read(self, position: int, size_bytes: int) -> bytes:
        """Returns bytes read with pread, not through the map; fewer at the file's end; blocks.

        Shape    the file is open
        Errors   Corruption: the file on disk is too short
        """
        size_bytes = max(min(size_bytes, self.size - position), 0)
        content = self._disk.read_at(self.descriptor, position, size_bytes)
        if len(content) < size_bytes:
            raise self._too_short(position + len(content))
        return content

    def data_end(self) -> int:
        """Returns the end of the file's last data extent (SEEK_DATA, SEEK_HOLE).

        Shape    the file is open
        """
        return min(self._disk.data_end(self.descriptor), self.size)

    def zero_from(self, position: int) -> bool:
        """Overwrites all bytes from a position on with zeros, unless they are zeros already.

        Old bytes after the position could later be parsed as records.
        Returns  whether any byte was not zero
        """
        data_end = self.data_end()
        has_more = False
        while position < data_end:
            end = min(position - position % _PIECE_SIZE + _PIECE_SIZE, data_end)
            end = min(-(-end // _PAGE) * _PAGE, self.size)
            found = self._disk.read_at(self.descriptor, position, end - position)
            if found != _ZEROS[: len(found)]:
                lower = len(found) - len(found.lstrip(b"\0"))
                upper = len(found.rstrip(b"\0"))
                lower = max((position + lower) // _PAGE * _PAGE, position)
                upper = min(-(-(position + upper) // _PAGE) * _PAGE, end)
                self._disk.write_at(self.descriptor, lower, bytes(upper - lower))
                has_more = True
            position = end
        return has_more

    def renew(self, begin: int, end: int) -> None:
        """Rewrites existing bytes in place and syncs them; the file is open; blocks."""
        for position in range(begin, end, _PIECE_SIZE):
            size = min(_PIECE_SIZE, end - position)
            self._disk.write_at(self.descriptor, position, self.read(position, size))
        self.sync()

    def sync(self) -> None:
        """Makes written bytes durable (see `Disk.sync`); threads may call it on a held file."""
        if self.descriptor < 0:
            self.sync_apart()
            return
        self._disk.sync(self.descriptor)
        self._sync_names()

    def _sync_names(self) -> None:
        names, self.unsynced_names = self.unsynced_names, []
        for directory in names:
            self._disk.sync_directory(directory)

    def sync_apart(self) -> None:
        """Syncs through a separate descriptor, so that the file may be closed at the same time.

        Effects  none if the file was removed
        """
        try:
            descriptor = self._disk.open(self.path)
        except FileNotFoundError:
            return
        try:
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)
        self._sync_names()

    def close(self) -> None:
        """Unmaps and closes the file once no caller holds it; its bytes stay in the page cache."""
        if self.descriptor < 0:
            return
        if self._holders:
            self._is_leaving = True
            return
        if self._keeper is not None:
            self._keeper.discard(self)
        self._is_leaving = False
        self.populated = 0
        self.doubt()
        if self._map is not None:
            self.view.release()
            self._map.close()
            self._map = None
            self.view = memoryview(b"")
        descriptor, self.descriptor = self.descriptor, -1
        self._disk.close(descriptor)

    def remove(self) -> None:
        """Unlinks the file, and closes it once no caller holds it.

        Effects  the names of directories that were created for the file become durable: a later
                 file finds these directories, and does not sync their names
        """
        try:
            self.close()
        finally:
            self._disk.unlink(self.path)
            self._disk.sync_directories(self.unsynced_names[:-1])


def hold_all(files: Iterable[MappedFile]) -> list[MappedFile]:
    """Holds all files, or none.

    Errors   those of `MappedFile.open`
    """
    held: list[MappedFile] = []
    try:
        for file in files:
            held.append(file.hold())  # noqa: PERF401 - held files are released on an error
    except BaseException:
        let_go(held)
        raise
    return held


def let_go(files: Iterable[MappedFile]) -> None:
    """Ends one `hold` of each file.

    Effects  a failed close counts as data loss, which the disk reports (`Trouble.reporting`)
    """
    for file in files:
        with suppress(StoreFailed):
            file.let_go()
