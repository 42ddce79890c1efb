"""One consume queue: for each message of a (topic, queue id), where its record lies.

    byte 20 * n  →  unit n  →  record in the log

Invariants
    1. Unit n lies at byte 20 * n; units before the first message are pre-blank, and so are those of
       messages that a repair took out of the log.
    2. Physical offsets rise with n.
    3. No file exists without a unit in it: an empty one would read as a unit (0, 0, 0).
Source: ConsumeQueue; how a start finds its ends is in log/queue_bounds.py.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from broker.files.closing import close_all
from broker.files.disk import Disk
from broker.files.mapped_file import Keeper, MappedFile
from broker.files.mapped_file_queue import MappedFileQueue
from broker.format.consume_unit import (
    PRE_BLANK,
    UNIT,
    UNIT_SIZE,
    first_file_position,
)
from broker.format.extension_unit import is_address
from broker.format.record import RECORD_SIZE_MIN
from broker.log.queue_bounds import QueueBounds
from broker.log.queue_extension import QueueExtension
from broker.log.queue_units import FILL_UNITS, Units
from broker.model.batch import Written
from broker.model.errors import DiskFull

Gaps = Iterable[tuple[int, int]]
"""Where records were taken out of the log, as [begin, end); iterated more than once."""
_KEY_NAMES: Final = "mappedFileSizeConsumeQueue"


class ConsumeQueue(QueueBounds):
    """The units of one queue."""

    __slots__ = ("extension_failures", "queue_id", "topic", "writes_extension")

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
    ) -> None:
        super().__init__(
            MappedFileQueue(
                disk, directory, file_size_bytes, _KEY_NAMES, keeper, is_mapped=False, is_view=True
            ),
            extension,
        )
        self.writes_extension = False
        """Whether new messages get a unit there."""
        self.extension_failures = 0
        """Messages of late that have their plain tags code, their extension being unwritable."""
        self.topic = topic
        self.queue_id = queue_id

    # -- writing -------------------------------------------------------------------------------
    def put_all(self, runs: Sequence[Written], gaps: Gaps = ()) -> None:
        """Take records of this queue in log order; for `gaps` see `put`.

        Effects  records whose end is not beyond `max_physical_offset` change nothing
        Errors   DiskFull, AllocationFailed; putting the same records again goes on
        Cost     about 0.2 µs a record when they follow on each other
        """
        assert runs
        if self._follow(runs):
            units: list[bytes] = []
            for run in runs:
                codes = run.tags_codes
                if self.writes_extension:
                    codes = [self._extended(code, run.store_time_ms) for code in codes]
                units += map(UNIT.pack, run.physical_offsets, run.sizes, codes)
            self._append(b"".join(units))
            self.max_physical_offset = runs[-1].end
            return
        for run in runs:
            columns = zip(run.physical_offsets, run.sizes, run.tags_codes, strict=True)
            for queue_offset, unit in enumerate(columns, run.queue_offset):
                self.put(*unit, queue_offset, gaps, store_timestamp_ms=run.store_time_ms)

    def _follow(self, runs: Sequence[Written]) -> bool:
        """Return whether runs follow on each other and on the last unit, of which there is one."""
        expected, end = self.max_offset, self.max_physical_offset
        if not expected:
            return False
        for run in runs:
            if run.queue_offset != expected or run.begin < end:
                return False
            expected, end = expected + len(run), run.end
        return True

    def put_row(self, queue_offset: int, units: Units) -> bool:
        """Take units of messages that follow on each other and on the last one.

        Shape    elements are UNIT_TYPE, in the byte order of the disk
        Returns  False where they do not, nothing was done: they are to be `put` one by one
        Errors   DiskFull, AllocationFailed
        """
        expected = self.max_offset
        last_end = self.max_physical_offset
        if not expected or queue_offset != expected or units["physical_offset"][0] < last_end:
            return False
        self._append(units.tobytes())
        self.max_physical_offset = int(units["physical_offset"][-1]) + int(units["size"][-1])
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
        """Take one record; the rules are RocketMQ's, also where a queue's offsets do not follow.

        gaps     where the missing messages may have lain: pre-blank units then stand for them
        Source   ConsumeQueue.putMessagePositionInfo
        """
        if physical_offset + size <= self.max_physical_offset:
            return
        if not self.files.files:
            self._start(queue_offset, physical_offset)
        if queue_offset and queue_offset < self.max_offset:
            return
        missing = queue_offset - self.max_offset
        if 0 < missing <= self._room_in(gaps, physical_offset) // RECORD_SIZE_MIN:
            for begin in range(0, missing, FILL_UNITS):
                self._append(PRE_BLANK * min(missing - begin, FILL_UNITS))
        if self.writes_extension:
            tags_code = self._extended(tags_code, store_timestamp_ms)
        # A unit that would leave a gap is appended all the same (store-format.md 4.1, step 4).
        self._append(UNIT.pack(physical_offset, size, tags_code))
        self.max_physical_offset = physical_offset + size

    def _room_in(self, gaps: Gaps, physical_offset: int) -> int:
        """Return the bytes taken out of the log between the last record here and a place."""
        last = self.max_physical_offset
        return sum(end - begin for begin, end in gaps if last <= begin < physical_offset)

    def _start(self, queue_offset: int, physical_offset: int) -> None:
        """Make the first file and fill it with pre-blank units up to the first message."""
        size = self.files.file_size
        base = first_file_position(queue_offset, size)
        file = self.files.make_file(base)
        position = queue_offset * UNIT_SIZE - base
        try:
            file.allocate(position + UNIT_SIZE)
        except BaseException:
            self.files.files.pop().remove()
            raise
        for begin in range(0, position, FILL_UNITS * UNIT_SIZE):
            end = min(begin + FILL_UNITS * UNIT_SIZE, position)
            file.write(begin, PRE_BLANK * ((end - begin) // UNIT_SIZE))
        file.wrote = position
        self._front = self.min_offset = queue_offset
        self._min_asked, self._min_place = 0, physical_offset
        self.flushed = base

    def _append(self, units: bytes) -> None:
        file = self.files.files[-1]
        end = file.wrote + len(units)
        if end <= file.allocated and file.is_open:  # As nearly always.
            file.was_used = True
            file.write(file.wrote, units)
            file.wrote = end
            return
        try:
            self._append_by_file(units)
        except BaseException:  # A part of them may be in the files: that is the end now.
            self.max_physical_offset = self._last_end()
            raise

    def _append_by_file(self, units: bytes) -> None:
        begin = 0
        while begin < len(units):
            file = self.files.files[-1]
            if file.is_full:
                file = self._roll(file)
            elif not file.is_open:
                file.open()
            end = min(begin + file.size - file.wrote, len(units))
            file.allocate(file.wrote + end - begin)
            file.write(file.wrote, units[begin:end])
            file.wrote += end - begin
            begin = end

    def _roll(self, full: MappedFile) -> MappedFile:
        if self.is_doubtful:  # A crash may have left a file of the same name.
            self.files.unlink_from(full.base + 1)
        file = self.files.make_file(full.base + full.size)
        try:
            file.allocate(UNIT_SIZE)
        except BaseException:
            self.files.files.pop().remove()
            raise
        return file

    def _extended(self, tags_code: int, store_timestamp_ms: int) -> int:
        """Return the address of a new extension unit; the code itself where none can be made.

        Source   ConsumeQueue.putMessagePositionInfoWrapper
        """
        assert self.extension is not None
        try:
            return self.extension.put(tags_code, store_timestamp_ms)
        except DiskFull:
            self.extension_failures += 1
            return tags_code

    # -- reading -------------------------------------------------------------------------------
    def plain_code(self, tags_code: int) -> int:
        """Return the tags code an address leads to; the same where it is none or leads nowhere."""
        if self.extension is None or not is_address(tags_code):
            return tags_code
        found = self.extension.tags_code(tags_code)
        return tags_code if found is None else found

    # -- making durable, ending ---------------------------------------------------------------
    def dirty_files(self) -> list[MappedFile]:
        """Return the files with units that are not durable yet, oldest first."""
        own = [f for f in self.files.files if f.base + f.wrote > self.flushed]
        return own if self.extension is None else [*own, *self.extension.dirty_files()]

    def count_as_flushed(self) -> None:
        """Take everything written so far for durable: whoever has its dirty files sees to it."""
        self.flushed = self.files.max_offset
        if self.extension is not None:
            self.extension.flushed = self.extension.files.max_offset

    def close(self) -> None:
        """Unmap all files."""
        extension = [] if self.extension is None else [self.extension.files.close]
        close_all([self.files.close, *extension])

    def remove(self) -> list[MappedFile]:
        """Take all files out of the queue; returns them, to be removed."""
        gone, self.files.files = self.files.files, []
        if self.extension is not None:
            gone += self.extension.files.files
            self.extension.files.files = []
        return gone
