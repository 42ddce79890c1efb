"""The commit log: all messages of a store, each once, in order of arrival.

    min_offset                                                  appended
    |--- file ---|--- file ---BLANK|--- file --------|=staged=|....... spare
                                                     ^ committed (appended without a pool)

Invariants
    1. Records are contiguous; a file ends with a BLANK record or at its last byte.
    2. `appended` only grows once a start has found the end of the log.
    3. A record's own physical offset equals its position.
    4. A record leaves 8 bytes of its file free, so that a BLANK fits; a batch is in one file.
In other modules: committed, durable and dispatched offsets (store/marks.py), the meaning of records
(services/), recovery (store/recovery/recovery_plan.py), allocation (store/write/allocation.py).
Source: CommitLog, MappedFileQueue.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import Keeper, MappedFile
from pocketmq.files.mapped_file_queue import MappedFileQueue
from pocketmq.files.memory import TransientPool
from pocketmq.format.names import offset_file_name
from pocketmq.format.record import (
    BLANK_SIZE,
    SIZE_AND_MAGIC,
    STORE_TIMESTAMP_FIELD,
    BadRecord,
    check_record,
    encode_blank,
    split_record,
)
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import OFFSET_MAX

DRAFT_NAME: Final = "commitlog.draft"
HOT_SIZE: int = 64 * 1024 * 1024  # Not Final, also when compiled: tests set it to 0.
"""Number of newest bytes of the log that are read through the map: the system evicts the pages of
older bytes first."""
_KEY_NAMES: Final = "mappedFileSizeCommitLog"


class LogScan:
    """A walk over the log from one record start; iterating yields (offset, file, position, size).

    Afterwards `position` is the physical offset where valid records end; `end`, `reason` and
    `path` describe why the walk stopped at it.
    """

    __slots__ = ("_queue", "_upper", "end", "path", "position", "reason")

    def __init__(self, queue: MappedFileQueue, begin: int, upper: int) -> None:
        self._queue = queue
        self._upper = upper
        self.position = begin
        self.end = ScanEnd.END_OF_DATA
        self.reason = ""
        self.path = ""

    def __iter__(self) -> Iterator[tuple[int, MappedFile, int, int]]:
        while self.position < self._upper:
            file = self._queue.file_at(self.position)
            if file is None:
                return
            scan = RecordScan(file.view, file.base, self.position - file.base)
            for position, size in scan:
                physical_offset = file.base + position
                if physical_offset >= self._upper:
                    return
                assert physical_offset == self.position
                yield physical_offset, file, position, size
                self.position = physical_offset + size
            if not scan.blank and scan.position + BLANK_SIZE <= file.size:
                self.end, self.reason, self.path = scan.end, scan.reason, str(file.path)
                return
            if self._queue.file_at(file.base + file.size) is None:
                return
            self.position = file.base + file.size


class CommitLog:
    """The log of one store. All methods are synchronous; writers hold the store's put-lock."""

    __slots__ = (
        "_disk", "_full", "_last", "_spare", "_staged", "_warm", "appended", "files",
        "pool", "property_crc", "property_crc_from",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        file_size_bytes: int,
        *,
        property_crc: bool = False,
        keeper: Keeper | None = None,
        pool: TransientPool | None = None,
        warm: bool = False,
    ) -> None:
        self._disk = disk
        self.pool = pool
        """Buffers that receive writes before the files do; None: writes go to the files."""
        self._warm = warm
        self._full: list[MappedFile] = []
        self._staged: list[MappedFile] = []
        self.property_crc = property_crc
        """Whether new records end with a CRC of the whole record."""
        self.property_crc_from: int | None = None
        """Physical offset from which on every record has such a CRC; None if it is unknown."""
        self.files = MappedFileQueue(disk, directory, file_size_bytes, _KEY_NAMES, keeper)
        self._spare: MappedFile | None = None
        self._last: MappedFile | None = None
        self.appended = 0

    @property
    def file_size_bytes(self) -> int:
        """Length of each file."""
        return self.files.file_size

    @property
    def min_offset(self) -> int:
        """Physical offset of the oldest file."""
        return self.files.min_offset

    @property
    def oldest_base(self) -> int:
        """Physical offset of the oldest file; OFFSET_MAX without files."""
        return self.files.min_offset if self.files.files else OFFSET_MAX

    @property
    def hot_begin(self) -> int:
        """Physical offset from which on records are read through the map."""
        return self.appended - HOT_SIZE

    @property
    def record_size_max(self) -> int:
        """Size limit of a record or batch: it must fit into one file."""
        return self.files.file_size - BLANK_SIZE

    # -- appending -----------------------------------------------------------------------------
    def has_room(self, size_bytes: int) -> bool:
        """Returns whether `place` would succeed without waiting."""
        if self._last is None:
            return self._spare is not None
        left = self._last.size - self._last.wrote
        if size_bytes + BLANK_SIZE <= left:
            return True
        return self._spare is not None and not self.is_pool_empty

    @property
    def is_pool_empty(self) -> bool:
        """Whether the next file must wait for a free buffer."""
        return self.pool is not None and not self.pool.free_count

    def place(self, size_bytes: int) -> int:
        """Returns the physical offset for the next `size_bytes`; may start a new file.

        Requires size_bytes <= record_size_max, and that `has_room` returns true
        Effects  may write a BLANK and switch to the next file; `write` must follow
        Source   DefaultAppendMessageCallback.doAppend (END_OF_FILE)
        """
        assert size_bytes <= self.record_size_max
        last = self._last
        if last is None:
            return self._advance().base
        left = last.size - last.wrote
        if size_bytes + BLANK_SIZE > left:
            if left >= BLANK_SIZE:
                last.write(last.wrote, encode_blank(left))
            last.wrote = last.size
            last = self._advance()
        return last.base + last.wrote

    def write(self, physical_offset: int, content: bytes) -> None:
        """Stores records at the offset that `place` returned.

        Effects  `appended` becomes the end of the records
        Blocks   as `MappedFile.write`
        """
        last = self._last
        assert last is not None
        assert physical_offset == last.base + last.wrote
        last.write(last.wrote, content)
        last.wrote += len(content)
        self.appended = physical_offset + len(content)

    def _advance(self) -> MappedFile:
        spare = self._spare
        assert spare is not None
        self._spare = None
        self.files.append_file(spare)
        self._write_to(spare)
        return spare

    def _write_to(self, file: MappedFile | None) -> None:
        before, self._last = self._last, file.hold() if file is not None else None
        if file is not None:
            file.doubt()
        if before is not None:
            before.let_go()
            if self._warm:
                self._full.append(before.hold())
        if self.pool is not None and file is not None and file.staged is None:
            file.staged, file.staged_end = self.pool.borrow(), file.wrote
            self._staged.append(file)

    def take_full(self) -> list[MappedFile]:
        """Returns full files whose pages may be evicted; they are held, and the caller lets go."""
        full, self._full = self._full, []
        return full

    # -- copying another broker's log ----------------------------------------------------------
    @property
    def can_copy(self) -> bool:
        """Whether `copy` would succeed without waiting."""
        return self._spare is not None or (self._last is not None and not self._last.is_full)

    def copy(self, physical_offset: int, content: bytes, end: int) -> None:
        """Stores bytes of another broker's log at their offset; `can_copy` must be true.

        Shape    the bytes follow those of the last call, and end within one file
        end      end of the last record; `appended` becomes it. Bytes from there on are a BLANK and
                 the rest of its file
        """
        last = self._last
        if last is None or last.is_full:
            last = self._advance()
        assert physical_offset == last.base + last.wrote
        last.write(last.wrote, content)
        last.wrote += len(content)
        self.appended = end

    def copy_again(self) -> None:
        """Makes `copy` continue at `appended`; higher bytes are overwritten."""
        if self._last is not None:
            self._last.wrote = self.appended - self._last.base

    def begin_at(self, physical_offset: int) -> None:
        """Makes `copy` begin at an offset at which a file begins; removes the files of the log.

        Shape    the log contains no record
        """
        assert physical_offset % self.files.file_size == 0, "a log begins with a file"
        spare, self._spare = self._spare, None
        self._write_to(None)
        for file in [*self.files.files, *([spare] if spare is not None else [])]:
            file.remove()
        self.files.files.clear()
        self.appended = physical_offset

    # -- committing staged bytes ---------------------------------------------------------------
    def staged_ranges(self, begin: int, upto: int) -> list[tuple[MappedFile, int, int]]:
        """Returns the parts of [begin, upto) to commit: (file, begin, end) in bytes of the file.

        Effects  the files are held; `unstage` releases them
        """
        return [
            (file.hold(), max(begin - file.base, 0), min(upto - file.base, file.size))
            for file in self._staged
            if file.base < upto
        ]

    def unstage(self, upto: int, files: Sequence[MappedFile]) -> None:
        """Releases held files; the buffers of files that are committed to their end become free."""
        for file in files:
            file.let_go()
        for file in [f for f in self._staged if f is not self._last and f.base + f.size <= upto]:
            self._return_buffer(file)

    def _return_buffer(self, file: MappedFile) -> None:
        assert self.pool is not None
        assert file.staged is not None
        self._staged.remove(file)
        self.pool.give_back(file.staged)
        file.staged = None

    # -- the next file -------------------------------------------------------------------------
    @property
    def spare_base(self) -> int | None:
        """Base of the next file to create; None if the next file exists already."""
        if self._spare is not None:
            return None
        if self._last is None:
            return self.appended - self.appended % self.files.file_size
        return self._last.base + self._last.size

    def make_spare(self, own_directory: Path, base: int) -> MappedFile:
        """Creates a file with all its blocks; does not change this object, so threads may call it.

        Blocks   up to some 50 ms: run it off the event loop
        Errors   DiskFull, AllocationFailed, FsyncFailed
        """
        directory, size = self.files.directory, self.files.file_size
        self._disk.make_directory(directory)
        path = directory / offset_file_name(base)
        descriptor = self._disk.make_allocated_file(own_directory / DRAFT_NAME, path, size)
        file = MappedFile(self._disk, path, base, size).adopt(descriptor)
        if self._warm:
            file.warm()
        return file

    def offer_spare(self, file: MappedFile) -> None:
        """Accepts a file as the next file; removes the file if its base is not `spare_base`."""
        if file.base == self.spare_base:
            self._spare = file
        else:
            file.remove()

    # -- reading -------------------------------------------------------------------------------
    def read(self, physical_offset: int, size_bytes: int) -> bytes:
        """Returns a copy of the bytes at a physical offset; fewer at the file's end."""
        file = self.files.file_at(physical_offset)
        if file is None:
            return b""
        position = physical_offset - file.base
        return bytes(file.view[position : position + size_bytes])

    @property
    def tells_resident(self) -> bool:
        """Whether `read_resident` never waits; some file systems cannot report missing pages."""
        return self._disk.tells_resident

    def read_resident(self, physical_offset: int, size_bytes: int) -> bytes:
        """Returns a copy of the bytes at an offset without waiting for the disk.

        Errors   ColdRead: the bytes are not in memory; ReadFailed
        """
        if physical_offset >= self.hot_begin:
            return self.read(physical_offset, size_bytes)
        file = self.files.file_at(physical_offset)
        if file is None:
            return b""
        return file.read_resident(physical_offset - file.base, size_bytes)

    def record_size_at(self, physical_offset: int) -> int | None:
        """Returns the size of the record that starts at an offset; None if there is no record."""
        file = self.files.file_at(physical_offset)
        if file is None or physical_offset >= self.appended:
            return None
        position = physical_offset - file.base
        if position + SIZE_AND_MAGIC.size > file.size:
            return None
        try:
            return check_record(file.view, position, physical_offset, crc=False) or None
        except BadRecord:
            return None

    def store_time_at(self, physical_offset: int) -> int:
        """Returns the store time of the record that starts at an offset; 0 without a record."""
        file = self.files.file_at(physical_offset)
        if file is None or self.record_size_at(physical_offset) is None:
            return 0
        return int(split_record(file.view, physical_offset - file.base)[0][STORE_TIMESTAMP_FIELD])

    def scan(self, begin: int, upper: int = 2**63) -> LogScan:
        """Returns a walk from a record's start up to an offset; bodies are not read."""
        return LogScan(self.files, max(begin, self.min_offset), upper)

    # -- opening, syncing, cutting -------------------------------------------------------------
    def load(self, *, read_only: bool = False) -> None:
        """Finds the files; `adopt_end` or, to read only, `serve_upto` must follow.

        Errors   those of `MappedFileQueue.load`; no file is changed in any case
        """
        self.files.load(read_only=read_only)
        self.appended = self.files.max_offset

    def adopt_end(self, end: int) -> None:
        """Starts appending at the end that recovery found, and removes later files."""
        self.files.cut(end + 1)
        self.files.remove_empty()
        # An empty file after a BLANK is kept: without the file the log would end before the BLANK.
        last = self.files.file_at(end) or self.files.file_at(end - 1)
        if last is None and self.files.files:
            last = self.files.files[0]
        self._write_to(last)
        if last is not None:
            last.wrote = end - last.base
            last.doubt()
            last.allocate(last.size, last.size)
        self.appended = end

    def place_of(self, physical_offset: int) -> tuple[str, int]:
        """Returns (path, position) of a byte for error texts; (directory, 0) if no file has it."""
        file = self.files.file_at(physical_offset) if physical_offset >= 0 else None
        if file is None:
            return str(self.files.directory), 0
        return str(file.path), physical_offset - file.base

    def serve_upto(self, end: int) -> None:
        """Makes records below an offset readable in a log to which nothing is appended."""
        self.appended = end

    def truncate(self, physical_offset: int) -> None:
        """Drops everything from an offset on and zeros its bytes; called before appends begin."""
        file = self.files.file_at(physical_offset)
        if file is not None:
            file.wrote = min(file.wrote, physical_offset - file.base)
            file.zero_from(physical_offset - file.base)
            file.sync()
        self.adopt_end(physical_offset)

    def renew(self, begin: int) -> None:
        """Writes all bytes from an offset on again and makes them durable; blocks.

        The previous process may have ended before a sync, or because a sync failed. Bytes that a
        failed sync lost can still be read, but the kernel counts them as written: no later sync
        stores them.
        """
        for file in self.files.files:
            if file.base + file.size > begin and file.wrote:
                file.open().renew(max(begin - file.base, 0), file.wrote)

    def files_between(self, begin: int, upto: int) -> list[MappedFile]:
        """Returns the files with bytes in [begin, upto), oldest first."""
        size = self.files.file_size
        return [f for f in self.files.files if f.base < upto and f.base + size > begin]

    def close(self) -> None:
        """Closes all files and removes a spare file that was not used."""
        spare, self._spare = self._spare, None
        self._write_to(None)
        for file in self.take_full():
            file.let_go()
        for file in [*self._staged]:
            self._return_buffer(file)
        try:
            self.files.close()
        finally:
            if spare is not None:
                spare.remove()
