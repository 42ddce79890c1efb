"""One consume queue: for each message of a (topic, queue id), where its record lies.

    byte 20 * n  →  unit n  →  record in the log

Invariants
    1. Unit n lies at byte 20 * n; units before the first message are pre-blank, and so are those of
       messages that a repair took out of the log.
    2. Physical offsets rise with n.
    3. No file exists without a unit in it: an empty one would read as a unit (0, 0, 0).
Source: ConsumeQueue.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.files.mapped_file import MappedFile
from broker.files.mapped_file_queue import MappedFileQueue
from broker.format.consume_unit import (
    PRE_BLANK,
    PRE_BLANK_SIZE,
    UNIT,
    UNIT_SIZE,
    first_file_position,
    valid_unit_count,
)
from broker.format.record import RECORD_SIZE_MIN
from broker.model.message import DispatchEntry

Gaps = Iterable[tuple[int, int]]
"""Where records were taken out of the log, as [begin, end); iterated more than once."""
_KEY_NAMES: Final = "mappedFileSizeConsumeQueue"
_FILL_UNITS: Final = 4096
"""Pre-blank units written in one piece."""
_FILES_READ: Final = 3
"""Files a start reads unit by unit: a power cut may keep a page and lose one before it."""


class ConsumeQueue:
    """The units of one queue."""

    __slots__ = (
        "_front", "files", "flushed", "max_physical_offset", "min_offset", "queue_id", "topic",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: Path, file_size_bytes: int, *, topic: str, queue_id: int
    ) -> None:
        self.files = MappedFileQueue(disk, directory, file_size_bytes, _KEY_NAMES)
        self.topic = topic
        self.queue_id = queue_id
        self._front = 0
        """Units below this one are pre-blank, as far as known; where searches begin."""
        self.min_offset = 0
        self.max_physical_offset = 0
        """End of the last record that has a unit here."""
        self.flushed = 0
        """Byte of the queue up to which units are durable."""

    @property
    def max_offset(self) -> int:
        """Queue offset the next message gets."""
        return self.files.max_offset // UNIT_SIZE

    # -- writing -------------------------------------------------------------------------------
    def put_all(self, entries: Sequence[DispatchEntry], gaps: Gaps = ()) -> None:
        """Take records of this queue in log order; for `gaps` see `put`.

        Effects  records whose end is not beyond `max_physical_offset` change nothing
        Errors   DiskFull, AllocationFailed; putting the same records again goes on
        Cost     about 0.4 µs a record when they follow on each other
        """
        count, first = len(entries), entries[0]
        expected = self.max_offset
        follows = first[6] == expected and first[0] >= self.max_physical_offset
        if (
            follows
            and expected
            and [e[6] for e in entries] == list(range(expected, expected + count))
        ):
            self._append(b"".join([UNIT.pack(e[0], e[1], e[2]) for e in entries]))
            last = entries[-1]
            self.max_physical_offset = last[0] + last[1]
            return
        for entry in entries:
            self.put(entry[0], entry[1], entry[2], entry[6], gaps)

    def put(
        self, physical_offset: int, size: int, tags_code: int, queue_offset: int, gaps: Gaps = ()
    ) -> None:
        """Take one record; the rules are RocketMQ's, also where a queue's offsets do not follow.

        gaps     where the missing messages may have lain: pre-blank units then stand for them
        Source   ConsumeQueue.putMessagePositionInfo
        """
        if physical_offset + size <= self.max_physical_offset:
            return
        if not self.files.files:
            self._start(queue_offset)
        if queue_offset and queue_offset < self.max_offset:
            return
        missing = queue_offset - self.max_offset
        if 0 < missing <= self._room_in(gaps, physical_offset) // RECORD_SIZE_MIN:
            for begin in range(0, missing, _FILL_UNITS):
                self._append(PRE_BLANK * min(missing - begin, _FILL_UNITS))
        # A unit that would leave a gap is appended all the same (store-format.md 4.1, step 4).
        self._append(UNIT.pack(physical_offset, size, tags_code))
        self.max_physical_offset = physical_offset + size

    def _room_in(self, gaps: Gaps, physical_offset: int) -> int:
        """Return the bytes taken out of the log between the last record here and a place."""
        last = self.max_physical_offset
        return sum(end - begin for begin, end in gaps if last <= begin < physical_offset)

    def _start(self, queue_offset: int) -> None:
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
        for begin in range(0, position, _FILL_UNITS * UNIT_SIZE):
            end = min(begin + _FILL_UNITS * UNIT_SIZE, position)
            file.write(begin, PRE_BLANK * ((end - begin) // UNIT_SIZE))
        file.wrote = position
        self._front = self.min_offset = queue_offset
        self.flushed = base

    def _append(self, units: bytes) -> None:
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
        file = self.files.make_file(full.base + full.size)
        try:
            file.allocate(UNIT_SIZE)
        except BaseException:
            self.files.files.pop().remove()
            raise
        return file

    # -- reading -------------------------------------------------------------------------------
    def units(self, queue_offset: int, count: int) -> bytes:
        """Return up to `count` units from a queue offset on, joined; fewer at the end."""
        position = queue_offset * UNIT_SIZE
        end = min(position + count * UNIT_SIZE, self.files.max_offset)
        parts = []
        while position < end:
            file = self.files.file_at(position)
            if file is None:
                break
            upper = min(end, file.base + file.size)
            parts.append(bytes(file.view[position - file.base : upper - file.base]))
            position = upper
        return b"".join(parts)

    def unit(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Return (physical offset, size, tags code) of one message, None when there is none."""
        found = self.units(queue_offset, 1) if queue_offset >= 0 else b""
        return UNIT.unpack(found) if found else None

    # -- opening, cutting ----------------------------------------------------------------------
    def load(self, *, read_only: bool = False) -> None:
        """Find the files and where their units end.

        Effects  files behind the first unit that holds nothing are left out
        Source   ConsumeQueue.recover
        """
        self.files.load(read_only=read_only)
        self._front = 0
        self._find_end(read_only)
        self.flushed = self.files.max_offset
        self.max_physical_offset = self._last_end()

    def _find_end(self, read_only: bool) -> None:
        files = self.files.files
        number = max(len(files) - _FILES_READ, 0)
        while number < len(files):
            file = files[number].open(read_only=read_only)
            file.wrote = valid_unit_count(file.view) * UNIT_SIZE
            if file.is_full:
                number += 1
                continue
            kept = number + 1 if file.wrote else number
            while len(files) > kept:
                self._drop_last(read_only)
            number = kept if file.wrote else max(number - 1, 0)

    def _drop_last(self, read_only: bool) -> None:
        file = self.files.files.pop()
        if read_only:
            file.close()
        else:
            file.remove()

    def _last_end(self) -> int:
        return self._end_before(self.max_offset)

    def _end_before(self, queue_offset: int) -> int:
        """Return the end of the last record whose unit lies before a queue offset, else 0."""
        last = self.unit(self.message_before(queue_offset))
        return 0 if last is None else last[0] + last[1]

    def end_below(self, physical_offset: int) -> int:
        """Return the end of the last record that starts below an offset and has a unit, else 0."""
        return self._end_before(self.first_at_or_behind(physical_offset))

    def truncate(self, physical_offset: int) -> None:
        """Drop the units of records at or behind a physical offset, and zero them."""
        keep = self.first_at_or_behind(physical_offset)
        if keep * UNIT_SIZE >= self.files.max_offset:
            return
        self.files.cut(keep * UNIT_SIZE)
        if self.files.files and not self.files.files[-1].wrote:
            self.files.files.pop().remove()
        if self.files.files and self.message_before(self.max_offset) < 0:
            while self.files.files:
                self.files.files.pop().remove()
        if self.files.files:
            last = self.files.files[-1].open()
            last.zero_from(last.wrote)
            last.sync()
        self._front = min(self._front, self.max_offset)
        self.flushed = min(self.flushed, self.files.max_offset)
        self.max_physical_offset = self._last_end()

    def first_at_or_behind(self, physical_offset: int) -> int:
        """Return the queue offset of the first unit whose record is not before an offset.

        Pre-blank units count as before everything. Returns max_offset when there is none.
        Cost     some 20 looks; once after a start all pre-blank units at the front are read
        """
        found = self._search(physical_offset, self.max_offset)
        while True:
            # Pre-blank units between messages may have led the search to their right.
            before = self.message_before(found)
            unit = self.unit(before)
            if unit is None:
                self._front = max(self._front, min(found, self.max_offset))
                return found
            if unit[0] < physical_offset:
                return found
            found = self._search(physical_offset, before)

    def _search(self, physical_offset: int, upper: int) -> int:
        """Return where units before an offset go over into others, looking below `upper`."""
        lower = self._lowest
        while lower < upper:
            middle = (lower + upper) // 2
            found = self.unit(middle)
            if found is None or (found[1] != PRE_BLANK_SIZE and found[0] >= physical_offset):
                upper = middle
            else:
                lower = middle + 1
        return lower

    @property
    def _lowest(self) -> int:
        """The first unit that may tell of a message."""
        return max(self.files.min_offset // UNIT_SIZE, self._front)

    def message_before(self, queue_offset: int) -> int:
        """Return the last unit before a queue offset that is not pre-blank, -1 without one."""
        end, count = queue_offset, 1
        while end > self._lowest:
            begin = max(self._lowest, end - count)
            units = self.units(begin, end - begin)
            if units != PRE_BLANK * (end - begin):
                number = end - begin - 1
                while units[number * UNIT_SIZE : (number + 1) * UNIT_SIZE] == PRE_BLANK:
                    number -= 1
                return begin + number
            end, count = begin, _FILL_UNITS
        return -1

    def correct_min(self, min_physical_offset: int) -> None:
        """Set `min_offset` to the first unit whose record the log still holds.

        Source   ConsumeQueue.correctMinOffset, which counts pre-blank units; here they are skipped
        """
        self.min_offset = self.first_at_or_behind(min_physical_offset)

    def dirty_files(self) -> list[MappedFile]:
        """Return the files with units that are not durable yet, oldest first."""
        return [f for f in self.files.files if f.is_open and f.base + f.wrote > self.flushed]
