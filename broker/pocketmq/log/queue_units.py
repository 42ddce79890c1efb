"""The units of one consume queue, in its mapped file queue: reading, writing, searching.

    byte 20 * n  →  unit n  →  record in the log

Units before the first message, and units of messages that a repair removed from the log, are
pre-blank; searches skip them. The last units may still be in a buffer, and are read from it:

    |- in files -|----- buffered -----|
                 ^ files.max_offset   ^ end

When a store is opened, log/queue_end.py finds the end of the units.
Source: ConsumeQueue.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import Keeper, MappedFile
from pocketmq.files.mapped_file_queue import MappedFileQueue
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import (
    PRE_BLANK,
    PRE_BLANK_SIZE,
    UNIT,
    UNIT_SIZE,
    first_file_position,
)
from pocketmq.log.unit_buffer import UnitBuffer

Units = NDArray[Any]
"""Elements as on disk (UNIT_TYPE)."""
HOT_SIZE: Final = 64 * 1024
"""Number of bytes at a queue's end that are read without a check of the page cache.

As the newest bytes, they are assumed to be in it.
"""
TAILS: Final = (64, 3_200)
"""Numbers of last units in which a search begins, as most searches are for new units."""
FILL_UNITS: Final = 4096
"""Number of pre-blank units written or read at once."""
_KEY_NAMES: Final = "mappedFileSizeConsumeQueue"
_NOTHING: Final = (-1, 0, 0, 0)


class QueueUnits:
    """The units of one queue."""

    __slots__ = ("_found", "buffer", "cold_below", "files", "front")

    def __init__(
        self,
        disk: Disk,
        directory: Path | str,
        file_size_bytes: int,
        keeper: Keeper | None,
        buffer: UnitBuffer,
    ) -> None:
        self.buffer = buffer
        self.files = MappedFileQueue(
            disk, directory, file_size_bytes, _KEY_NAMES, keeper, is_mapped=False, is_view=True
        )
        self.cold_below = 0
        """Position below which the start read no bytes, so that they may not be in memory."""
        self.front = 0
        """Queue offset where searches begin: all units before it are known to be pre-blank."""
        self._found = _NOTHING
        """Last search: its physical offset, the queue's begin and end, the queue offset found."""

    @property
    def max_offset(self) -> int:
        """Queue offset of the next message."""
        return self.end // UNIT_SIZE

    @property
    def end(self) -> int:
        """Position in the queue after the last unit, buffered units included."""
        return self.files.max_offset + self.buffer.size_bytes

    def read(self, queue_offset: int, count: int) -> bytes:
        """Returns up to `count` units from a queue offset on, joined; fewer at the end."""
        return self._joined(queue_offset, count, MappedFile.read)

    def read_resident(self, queue_offset: int, count: int) -> bytes:
        """Returns units like `read`, without waiting for the disk.

        Errors   ColdRead: the units are not in memory
        """
        position, files = queue_offset * UNIT_SIZE, self.files.files
        last = files[-1] if files else None
        end = last.base + last.wrote if last is not None else 0
        is_hot = position >= max(end + self.buffer.size_bytes - HOT_SIZE, self.cold_below)
        read = MappedFile.read if is_hot else MappedFile.read_resident
        if last is not None and last.base <= position and position + count * UNIT_SIZE <= end:
            last.was_used = True
            last.open(read_only=self.files.read_only)
            return read(last, position - last.base, count * UNIT_SIZE)
        return self._joined(queue_offset, count, read)

    def _joined(
        self, queue_offset: int, count: int, read: Callable[[MappedFile, int, int], bytes]
    ) -> bytes:
        position = queue_offset * UNIT_SIZE
        written = self.files.max_offset
        end = position + count * UNIT_SIZE
        waiting = self.buffer.units.getvalue() if end > written else b""
        parts = []
        while position < min(end, written):
            file = self.files.file_at(position)
            if file is None:
                break
            upper = min(end, written, file.base + file.size)
            parts.append(read(file, position - file.base, upper - position))
            position = upper
        if waiting and position >= written:
            parts.append(waiting[position - written : max(end, position) - written])
        return b"".join(parts)

    def resident_at(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Returns (physical offset, size, tags code) of one message; None if there is none.

        Errors   ColdRead
        """
        found = self.read_resident(queue_offset, 1) if queue_offset >= 0 else b""
        return UNIT.unpack(found) if found else None

    def at(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Returns (physical offset, size, tags code) of one message; None if there is none."""
        found = self.read(queue_offset, 1) if queue_offset >= 0 else b""
        return UNIT.unpack(found) if found else None

    # -- searching -----------------------------------------------------------------------------
    def first_at_or_behind(self, physical_offset: int) -> int:
        """Returns the queue offset of the first unit whose record starts at or after an offset.

        Pre-blank units count as units before the offset. Returns max_offset if there is no such
        unit.
        Cost     one or two reads if the unit is among the last, else about 20; none if the search
                 is repeated; the first search after a start reads all leading pre-blank units
        """
        asked = (physical_offset, self.files.min_offset, self.end)
        if self._found[:3] != asked:
            self._found = (*asked, self._first_at_or_behind(physical_offset))
        return self._found[3]

    def forget_found(self) -> None:
        """Forgets the last search: units have changed."""
        self._found = _NOTHING

    def _first_at_or_behind(self, physical_offset: int) -> int:
        for count in TAILS:
            found = self._in_tail(physical_offset, count)
            if found is not None:
                return found
            if self.max_offset - count <= self._lowest:
                break
        found = self._search(physical_offset, self.max_offset)
        while True:
            # Because of pre-blank units between messages, the binary search may end too far right.
            before, unit = self.message_before(found)
            if unit is None:
                self.front = max(self.front, min(found, self.max_offset))
                return found
            if unit[0] < physical_offset:
                return found
            found = self._search(physical_offset, before)

    def first_from_front(self, physical_offset: int) -> tuple[int, tuple[int, int, int] | None]:
        """Returns the result of `first_at_or_behind`, and the unit there; None if there is none.

        Cost     one read if the result is the first unit that may be a message
        """
        found = self._lowest
        unit = self.at(found)
        if unit is not None and unit[1] != PRE_BLANK_SIZE and unit[0] >= physical_offset:
            return found, unit
        found = self.first_at_or_behind(physical_offset)
        return found, self.at(found)

    def _in_tail(self, physical_offset: int, count: int) -> int | None:
        begin = max(self.max_offset - count, self._lowest)
        units = np.frombuffer(self.read(begin, count), dtype=UNIT_TYPE)
        is_message = units["size"] != PRE_BLANK_SIZE
        is_behind = is_message & (units["physical_offset"] >= physical_offset)
        is_before = is_message & ~is_behind
        if not is_before.any():
            return None
        first = int(is_behind.argmax()) if is_behind.any() else len(units)
        if is_before[first:].any():  # A unit is damaged: most units decide.
            fits = np.cumsum(is_before, dtype=np.int64) - np.cumsum(is_behind, dtype=np.int64)
            if fits.max() <= 0:
                return None
            first = len(units) - int(fits[::-1].argmax())
        return begin + first

    def _search(self, physical_offset: int, upper: int) -> int:
        lower = self._lowest
        while lower < upper:
            middle = (lower + upper) // 2
            found = self.at(middle)
            if found is None or (found[1] != PRE_BLANK_SIZE and found[0] >= physical_offset):
                upper = middle
            else:
                lower = middle + 1
        return lower

    @property
    def _lowest(self) -> int:
        return max(self.files.min_offset // UNIT_SIZE, self.front)

    def message_before(self, queue_offset: int) -> tuple[int, tuple[int, int, int] | None]:
        """Returns (queue offset, unit) of the last message before an offset, else (-1, None)."""
        end, count = queue_offset, 1
        while end > self._lowest:
            begin = max(self._lowest, end - count)
            units = self.read(begin, end - begin)
            if units != PRE_BLANK * (end - begin):
                number = end - begin - 1
                while units[number * UNIT_SIZE : (number + 1) * UNIT_SIZE] == PRE_BLANK:
                    number -= 1
                return begin + number, UNIT.unpack_from(units, number * UNIT_SIZE)
            end, count = begin, FILL_UNITS
        return -1, None

    def end_before(self, queue_offset: int) -> int:
        """Returns the end of the last record with a unit before an offset; 0 if there is none."""
        last = self.message_before(queue_offset)[1]
        return 0 if last is None else last[0] + last[1]

    def last_end(self) -> int:
        """Returns the end of the last record that has a unit; 0 if there is none."""
        return self.end_before(self.max_offset)

    def start(self, queue_offset: int) -> int:
        """Creates the first file and fills it with pre-blank units up to the first message.

        Returns  the file's base
        Errors   DiskFull, AllocationFailed: no file was created
        """
        assert not self.files.files
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
        self.front = queue_offset
        return base

    # -- writing -------------------------------------------------------------------------------
    def append(self, units: bytes, *, is_doubtful: bool) -> None:
        """Writes units after the last one.

        is_doubtful   whether a crash may have left later files, which must be removed first
        Errors   DiskFull, AllocationFailed: some units may have been written
        """
        assert len(units) % UNIT_SIZE == 0
        self.write_out()
        self.buffer.room = 0
        file = self.files.files[-1]
        end = file.wrote + len(units)
        if end <= file.allocated and file.is_open:  # This is nearly always so.
            file.was_used = True
            file.write(file.wrote, units)
            file.wrote = end
            return
        begin = 0
        while begin < len(units):
            file = self.files.files[-1]
            if file.is_full:
                file = self._roll(file, is_doubtful)
            elif not file.is_open:
                file.open()
            end = min(begin + file.size - file.wrote, len(units))
            file.allocate(file.wrote + end - begin)
            file.write(file.wrote, units[begin:end])
            file.wrote += end - begin
            begin = end

    def accept(self) -> None:
        """Starts buffering further units, up to the allocated size of the last file."""
        file = self.files.files[-1]
        self.buffer.open(self.max_offset, max(file.allocated - file.wrote, 0))

    def write_out(self) -> None:
        """Writes the buffered units to the last file, which has blocks for them.

        Errors   DiskFull on copy-on-write file systems: the units stay buffered
        Cost     about 8 µs, and the opening of a closed file; none if the buffer is empty
        """
        buffer = self.buffer
        if not buffer.size_bytes:
            return
        units = buffer.units.getvalue()
        file = self.files.files[-1]
        assert file.wrote + len(units) <= file.allocated
        if not file.is_open:
            file.open()
        file.was_used = True
        file.write(file.wrote, units)
        file.wrote += len(units)
        buffer.clear()
        self.accept()

    def _roll(self, full: MappedFile, is_doubtful: bool) -> MappedFile:
        if is_doubtful:  # A crash may have left a file of the same name.
            self.files.unlink_from(full.base + 1)
        file = self.files.make_file(full.base + full.size)
        try:
            file.allocate(UNIT_SIZE)
        except BaseException:
            self.files.files.pop().remove()
            raise
        return file
