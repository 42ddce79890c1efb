"""Consume queues: the physical offsets of the records of each (topic, queue id).

    byte 20 * n  →  unit n  →  record in the log

    |- pre-blank, or lost from log -|- purged -|- messages -|- doubtful: old units -| end of file
                           unit_min ^          ^ min_offset ^ max_offset
Invariants
    1. Unit n is at byte 20 * n. Units before the first message, and units of messages that a repair
       removed from the log, are pre-blank. Physical offsets ascend with n.
    2. A file contains at least one unit: an empty file would read as a unit (0, 0, 0).

A start finds the ends of queues in their last files (log/queue_end.py), or in the table of the
checkpoint. If it used the table, bytes after the last unit are unchecked; `settle` zeroes them
before the next checkpoint.
Source: ConsumeQueue.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import close_all
from pocketmq.files.mapped_file import Keeper, MappedFile
from pocketmq.format.consume_unit import (
    PRE_BLANK,
    PRE_BLANK_SIZE,
    UNIT,
    UNIT_SIZE,
    is_extension_address,
)
from pocketmq.format.dispatch_batch import following_units
from pocketmq.format.record import RECORD_SIZE_MIN
from pocketmq.log.queue_end import QueueEnd, find_end, leave_out_last
from pocketmq.log.queue_extension import QueueExtension, last_address
from pocketmq.log.queue_units import FILL_UNITS, QueueUnits
from pocketmq.log.unit_buffer import UnitBuffer, UnitBuffers
from pocketmq.model.batch import Written
from pocketmq.model.errors import Corruption, DiskFull

Gaps = Iterable[tuple[int, int]]
"""Ranges [begin, end) of records removed from the log; iterated more than once."""
_NOT_ASKED: Final = -1
NOWHERE: Final = 2**63 - 1


class ConsumeQueue:
    """One queue: its units, and the bounds of the units that are readable messages."""

    __slots__ = (
        "_min_asked", "_min_place", "buffer", "extension", "extension_failures", "files", "floor",
        "flushed", "hidden_from", "is_doubtful", "min_offset", "queue_id", "topic", "unit_min",
        "units", "writes_extension",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path | str,
        file_size_bytes: int,
        *,
        topic: str,
        queue_id: int,
        keeper: Keeper | None = None,
        extension: QueueExtension | None = None,
        buffers: UnitBuffers | None = None,
    ) -> None:
        self.buffer = UnitBuffer(buffers or UnitBuffers())
        self.units = QueueUnits(disk, directory, file_size_bytes, keeper, self.buffer)
        self.files = self.units.files
        self.extension = extension
        """The extension that holds the queue's extension units, or None."""
        self.writes_extension = False
        self.extension_failures = 0
        """Number of messages without extension unit because the disk was full, not yet counted by
        the table."""
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = 0
        """Queue offset of the first message that may be read."""
        self.floor = 0
        """Queue offset below which messages were purged, or expired by their topic's retention."""
        self.hidden_from = NOWHERE
        """Queue offset from which on consumers must not see messages yet."""
        self.unit_min = 0
        """Queue offset of the first message whose record is in the log, purged or not."""
        self._min_place = 0
        """Physical offset of the record of `unit_min`; 0: unknown."""
        self._min_asked = _NOT_ASKED
        """The log's minimum offset for which `unit_min` was computed."""
        self.flushed = 0
        """Bytes of the queue that are durable, from its begin."""
        self.is_doubtful = False
        """Whether bytes after the last unit are unchecked since the start."""

    @property
    def max_offset(self) -> int:
        """Queue offset of the next message."""
        return self.units.max_offset

    @property
    def shown_max(self) -> int:
        """Queue offset after the last message that consumers may see."""
        return max(min(self.units.max_offset, self.hidden_from), self.min_offset)

    @property
    def max_physical_offset(self) -> int:
        """The end of the last record with a unit in this queue."""
        return self.buffer.record_end

    @max_physical_offset.setter
    def max_physical_offset(self, end: int) -> None:
        self.buffer.record_end = end

    # -- writing -------------------------------------------------------------------------------
    def put_all(self, runs: Sequence[Written], gaps: Gaps = ()) -> None:
        """Appends units for records of this queue, in log order; for `gaps` see `put`.

        Effects  records that end at or before `max_physical_offset` are skipped
        Errors   DiskFull, AllocationFailed; the caller may put the same records again
        Cost     about 0.2 µs a record when queue offsets are consecutive
        """
        assert runs
        if self.max_offset and not self.writes_extension:
            units = following_units(runs, self.max_offset, self.max_physical_offset)
            if units is not None:
                self._append(units)
                self.max_physical_offset = runs[-1].end
                if not self.is_doubtful:  # A crash may leave bytes after the last unit.
                    self.units.accept()
                return
        for run in runs:
            columns = zip(run.physical_offsets, run.sizes, run.tags_codes, strict=True)
            for queue_offset, unit in enumerate(columns, run.queue_offset):
                self.put(*unit, queue_offset, gaps, store_timestamp_ms=run.store_time_ms)

    def put_row(self, queue_offset: int, units: bytes) -> bool:
        """Appends encoded units if they continue the queue without a gap.

        Returns  False if they do not continue it: nothing was done; the caller must `put` each unit
        Errors   DiskFull, AllocationFailed
        """
        follows = 0 < self.max_offset == queue_offset
        if not follows or UNIT.unpack_from(units)[0] < self.max_physical_offset:
            return False
        self._append(units)
        place, size, _ = UNIT.unpack_from(units, len(units) - UNIT_SIZE)
        self.max_physical_offset = place + size
        return True

    def put(
        self,
        physical_offset: int,
        size: int,
        tags_code: int,
        queue_offset: int,
        gaps: Gaps = (),
        *,
        store_timestamp_ms: int = 0,
    ) -> None:
        """Appends the unit of one record by RocketMQ's rules, even if queue offsets have gaps.

        gaps     log ranges that may have contained missing messages; pre-blank units replace the
                 units of these messages
        Source   ConsumeQueue.putMessagePositionInfo
        """
        if physical_offset + size <= self.max_physical_offset:
            return
        if not self.files.files:
            self.flushed = self.units.start(queue_offset)
            self._set_min(queue_offset)
            self._min_asked, self._min_place = 0, physical_offset
        if queue_offset and queue_offset < self.max_offset:
            return
        missing = queue_offset - self.max_offset
        if 0 < missing <= self._room_in(gaps, physical_offset) // RECORD_SIZE_MIN:
            for begin in range(0, missing, FILL_UNITS):
                self._append(PRE_BLANK * min(missing - begin, FILL_UNITS))
        if self.writes_extension:
            tags_code = self._extended(physical_offset, size, tags_code, store_timestamp_ms)
        # RocketMQ appends the unit also after a gap in the queue offsets.
        self._append(UNIT.pack(physical_offset, size, tags_code))
        self.max_physical_offset = physical_offset + size

    def _room_in(self, gaps: Gaps, physical_offset: int) -> int:
        last = self.max_physical_offset  # May be within a gap: the repair removed later records.
        return sum(
            min(end, physical_offset) - max(begin, last)
            for begin, end in gaps
            if last < end and begin < physical_offset
        )

    def _append(self, units: bytes) -> None:
        try:
            self.units.append(units, is_doubtful=self.is_doubtful)
        except BaseException:  # Some units may be in the files: the queue ends after them.
            self.max_physical_offset = self.units.last_end()
            raise

    def _extended(self, place: int, size: int, tags_code: int, store_timestamp_ms: int) -> int:
        """Returns the address of a new extension unit, or the tags code if the disk is full.

        Source   ConsumeQueue.putMessagePositionInfoWrapper
        """
        assert self.extension is not None
        try:
            return self.extension.put(place, size, tags_code, store_timestamp_ms)
        except DiskFull:
            self.extension_failures += 1
            return tags_code

    # -- reading -------------------------------------------------------------------------------
    def plain_code(self, tags_code: int) -> int:
        """Returns the tags code at an extension address; any other code is returned unchanged."""
        if self.extension is None or not is_extension_address(tags_code):
            return tags_code
        found = self.extension.tags_code(tags_code)
        return tags_code if found is None else found

    # -- making durable, ending ---------------------------------------------------------------
    def dirty_files(self) -> list[MappedFile]:
        """Writes buffered units; returns the files with units not yet durable, oldest first."""
        self.units.write_out()
        own = [f for f in self.files.files if f.base + f.wrote > self.flushed]
        return own if self.extension is None else [*own, *self.extension.dirty_files()]

    def count_as_flushed(self) -> None:
        """Counts all written units as durable; the caller must sync the `dirty_files`."""
        assert not self.buffer.size_bytes
        self.flushed = self.files.max_offset
        if self.extension is not None:
            self.extension.flushed = self.extension.files.max_offset

    def close(self) -> None:
        """Writes out buffered units and closes all files."""
        try:
            close_all((self.units.write_out, self.files.close))
        finally:
            if self.extension is not None:
                self.extension.files.close()

    def remove(self) -> list[MappedFile]:
        """Removes all files from the queue; the caller must unlink the returned files."""
        self.buffer.clear()
        gone, self.files.files = self.files.files, []
        if self.extension is not None:
            gone += self.extension.files.files
            self.extension.files.files = []
        return gone

    # -- begin and end --------------------------------------------------------------------------
    def load(self, *, read_only: bool = False, believed_upto: int = 0) -> None:
        """Finds the files, and the end of their units.

        believed_upto   physical offset below which every record has its unit; 0: unknown
        Effects  unless `read_only`, removes files after the first empty unit, and all files of a
                 queue that has only pre-blank units: a crash lost the file with its first message
        Source   ConsumeQueue.recover
        """
        assert not self.buffer.size_bytes
        self.files.load(read_only=read_only)
        self.units.front = 0
        self.units.forget_found()
        self._note_ends(find_end(self.files, believed_upto, read_only=read_only))
        while not self.max_physical_offset and self.files.files and not read_only:
            leave_out_last(self.files, read_only=read_only)
        self.flushed = self.files.max_offset
        if self.extension is not None:
            self.extension.load(read_only=read_only)
            if not read_only:
                self._cut_extension()

    def end(self) -> QueueEnd:
        """Returns the queue's ends, which the next start can `adopt`.

        Cost     about 1 µs: a checkpoint calls it for all queues
        """
        self.units.write_out()
        files = self.files.files
        begin = files[0].base if files else 0
        end = files[-1].base + files[-1].wrote if files else 0
        place = self._min_place if self._min_asked != _NOT_ASKED else 0
        return QueueEnd(begin, end, self.max_physical_offset, self.unit_min, place)

    def lacks(self, known: QueueEnd, log_begin: int) -> bool:
        """Returns whether units that existed at `known` are missing at the begin or end.

        log_begin   physical offset of the log's begin: units of older messages may be missing
        """
        lacks_begin = self.unit_min > known.min_offset and known.min_place >= log_begin
        return lacks_begin or self.files.max_offset < known.end

    def adopt(self, known: QueueEnd) -> bool:
        """Accepts the ends stored with the checkpoint, without reading the queue.

        Returns  False if the files differ, or `known` has no message: the caller must `load`
        Effects  bytes after the end are doubtful until `settle`
        Cost     one stat of the last file; one directory listing if there are several files
        """
        if not known.max_physical_offset or not self.files.adopt(known.begin, known.end):
            return False
        self.units.front = 0
        self.units.forget_found()
        self.max_physical_offset = known.max_physical_offset
        self._set_min(known.min_offset)
        self._min_place = known.min_place
        self._min_asked = 0 if known.min_place else _NOT_ASKED
        self.flushed = self.units.cold_below = known.end
        self.is_doubtful = True
        return True

    def settle(self) -> bool:
        """Zeroes the bytes after the last unit and removes later files, which a crash may leave.

        Returns  whether it changed anything; durable with the next sync of the whole file system
        Errors   Corruption: the last unit differs from the checkpoint's; FileNotFoundError,
                 ReadFailed, WriteFailed
        """
        last = self.files.files[-1].open()
        if self.units.last_end() != self.max_physical_offset:
            raise Corruption(
                path=str(last.path),
                file_position=last.wrote - UNIT_SIZE,
                physical_offset=self.max_physical_offset,
                why="its last unit refers to another record than when the checkpoint was written",
            )
        self.is_doubtful = False
        has_files = self.files.unlink_from(last.base + 1)
        return last.zero_from(last.wrote) or has_files

    def _cut_extension(self) -> None:
        """Ends the extension at the last unit that refers to it.

        Effects  none if the queue has units, but none that refers to the extension
        """
        assert self.extension is not None
        address = last_address(self.units)
        if address is not None or not self.max_offset:
            self.extension.cut(address)

    def _note_ends(self, units: bytes) -> None:
        self._min_asked = _NOT_ASKED
        last = UNIT.unpack_from(units, len(units) - UNIT_SIZE) if units else None
        if last is None or last[1] == PRE_BLANK_SIZE:
            self.max_physical_offset = self.units.last_end()
            return
        self.max_physical_offset = last[0] + last[1]
        first = UNIT.unpack_from(units)
        is_all = len(units) == self.files.max_offset - self.files.min_offset
        if is_all and first[1] != PRE_BLANK_SIZE:
            self._set_min(self.files.min_offset // UNIT_SIZE)
            self._min_asked, self._min_place = 0, first[0]

    def end_below(self, physical_offset: int) -> int:
        """Returns the end of the last record with a unit that starts below an offset; 0 if none."""
        if self.max_physical_offset <= physical_offset:
            return self.max_physical_offset
        return self.units.end_before(self.units.first_at_or_behind(physical_offset))

    def truncate(self, physical_offset: int) -> MappedFile | None:
        """Drops the units of records at or after a physical offset, and zeroes their bytes.

        Returns  the zeroed file, or None; the caller must sync it before it writes a checkpoint
        """
        if self.max_physical_offset <= physical_offset:
            return None
        self.units.write_out()
        self.buffer.clear()  # Its room may be in files that are removed.
        keep = self.units.first_at_or_behind(physical_offset)
        if keep * UNIT_SIZE >= self.files.max_offset:
            return None
        if self.is_doubtful:
            self.settle()
        last = None
        self.files.cut(keep * UNIT_SIZE)
        if self.files.files and not self.files.files[-1].wrote:
            self.files.files.pop().remove()
        if self.files.files and self.units.message_before(self.max_offset)[0] < 0:
            while self.files.files:
                self.files.files.pop().remove()
        if self.files.files:
            last = self.files.files[-1].open()
            last.zero_from(last.wrote)
        self.units.front = min(self.units.front, self.max_offset)
        self.units.forget_found()
        self._min_asked = _NOT_ASKED
        self.flushed = min(self.flushed, self.files.max_offset)
        self.max_physical_offset = self.units.last_end()
        if self.extension is not None:
            self._cut_extension()
        return last

    def correct_min(self, min_physical_offset: int) -> None:
        """Sets `unit_min` to the first unit whose record is still in the log.

        Cost     none if the log still has the record of `unit_min`, else one read or a search
        Source   ConsumeQueue.correctMinOffset, which counts pre-blank units; PocketMQ skips them
        """
        if _NOT_ASKED < self._min_asked <= min_physical_offset <= self._min_place:
            return
        lower, first = self.units.first_from_front(min_physical_offset)
        self._set_min(lower)
        self._min_asked = min_physical_offset
        self._min_place = first[0] if first is not None and first[1] != PRE_BLANK_SIZE else 0

    def _set_min(self, unit_min: int) -> None:
        self.unit_min = unit_min
        self.min_offset = max(unit_min, self.floor)

    def set_floor(self, queue_offset: int) -> None:
        """Makes the messages below a queue offset unreachable, and those above it reachable."""
        assert queue_offset <= self.max_offset, "the floor is above the queue's end"
        self.floor = queue_offset
        self.min_offset = max(self.unit_min, self.floor)

    def trim(self, min_physical_offset: int) -> list[MappedFile]:
        """Drops files, except the last, whose records left the log; returns them for unlinking.

        Effects  `correct_min`; the returned files include those of the extension
        Source   ConsumeQueue.deleteExpiredFile, MappedFileQueue.deleteExpiredFileByOffset
        Cost     about 20 reads of the queue; one comparison if no record of the queue left the log
        """
        if self._min_place >= min_physical_offset:
            return []
        gone: list[MappedFile] = []
        files = self.files.files
        while len(files) > 1:
            last = self.units.at((files[0].base + files[0].size) // UNIT_SIZE - 1)
            if last is None or (last[1] != PRE_BLANK_SIZE and last[0] >= min_physical_offset):
                break
            gone.append(self.files.drop_first())
        self.correct_min(min_physical_offset)
        first = self.units.at(self.unit_min)
        if self.extension is not None and first is not None and is_extension_address(first[2]):
            gone += self.extension.trim(first[2])
        return gone
