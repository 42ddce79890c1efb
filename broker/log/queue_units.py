"""The units of one consume queue as a row of files: reading, writing, finding places in the log.

    byte 20 * n  →  unit n  →  record in the log

Units before the first message are pre-blank, and so are those of messages that a repair took out of
the log; searches pass over them. Where the units end, a start reads from the last files:

    |- believed: records below the checkpoint's offset -|- doubtful: units, lost pages -| nothing
                                                                                        ^ data end

A power cut may keep a page and lose one before it, so doubtful units are looked at one by one.
Believed units were made durable before the checkpoint was written, and physical offsets rise: one
unit that leads below the believed offset vouches for all before it, whatever file they lie in.
Source: ConsumeQueue; its `recover` looks at all units of the last three files.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker.files.disk import Disk
from broker.files.mapped_file import Keeper, MappedFile
from broker.files.mapped_file_queue import MappedFileQueue
from broker.format.consume_unit import (
    PRE_BLANK,
    PRE_BLANK_SIZE,
    UNIT,
    UNIT_SIZE,
    UNIT_TYPE,
    first_file_position,
    valid_unit_count,
)
from broker.format.names import files_from

Units = NDArray[Any]
"""Elements are as on disk (UNIT_TYPE)."""
HOT_SIZE: Final = 64 * 1024
"""Bytes at the end of a queue that are in memory: they were written last."""
TAILS: Final = (64, 3_200)
"""Units at the end that a search looks at first: what is looked for is mostly new."""
FILL_UNITS: Final = 4096
"""Pre-blank units written, or looked at, in one piece."""
FILES_READ: Final = 3
"""Files that are read unit by unit where nothing is believed."""
READ_SIZE: Final = 3_200 * UNIT_SIZE
"""Bytes read at first from the end of the data: nearly 64 KiB, all there is in most queues."""
_GROWTH: Final = 4
_KEY_NAMES: Final = "mappedFileSizeConsumeQueue"
_NOTHING: Final = (-1, 0, 0, 0)


class QueueEnd(NamedTuple):
    """The end of one queue, and what else is known of it.

    begin, end            first byte of its first file, byte behind its last unit
    max_physical_offset   end of the record that the last unit leads to
    min_offset            queue offset of its first message
    min_place             physical offset of that message, 0: not known
    """

    begin: int
    end: int
    max_physical_offset: int
    min_offset: int
    min_place: int


class Written(NamedTuple):
    """What of a file holds units.

    end        byte behind the last unit before the first lost one
    has_more   whether anything but zeros lies behind: units that must not come back when the lost
               one before them is written again
    units      units that were read, those that end there
    """

    end: int
    has_more: bool
    units: bytes


class QueueUnits:
    """The units of a row of files."""

    __slots__ = ("_found", "cold_below", "files", "front")

    def __init__(
        self, disk: Disk, directory: Path | str, file_size_bytes: int, keeper: Keeper | None = None
    ) -> None:
        self.files = MappedFileQueue(
            disk, directory, file_size_bytes, _KEY_NAMES, keeper, is_mapped=False, is_view=True
        )
        self.cold_below = 0
        """Byte below which nobody has read or written since the start."""
        self.front = 0
        """Units below this one are pre-blank, as far as known; where searches begin."""
        self._found = _NOTHING
        """What was searched last, first and last byte of the queue then, and what was found."""

    @property
    def max_offset(self) -> int:
        """Queue offset the next message gets."""
        return self.files.max_offset // UNIT_SIZE

    def read(self, queue_offset: int, count: int) -> bytes:
        """Return up to `count` units from a queue offset on, joined; fewer at the end."""
        return self._joined(queue_offset, count, MappedFile.read)

    def read_resident(self, queue_offset: int, count: int) -> bytes:
        """Return the same without ever waiting for the disk.

        Errors   ColdRead: the units are not in memory
        """
        hot_from = max(self.files.max_offset - HOT_SIZE, self.cold_below)
        is_hot = queue_offset * UNIT_SIZE >= hot_from
        read = MappedFile.read if is_hot else MappedFile.read_resident
        return self._joined(queue_offset, count, read)

    def _joined(
        self, queue_offset: int, count: int, read: Callable[[MappedFile, int, int], bytes]
    ) -> bytes:
        position = queue_offset * UNIT_SIZE
        end = min(position + count * UNIT_SIZE, self.files.max_offset)
        parts = []
        while position < end:
            file = self.files.file_at(position)
            if file is None:
                break
            upper = min(end, file.base + file.size)
            parts.append(read(file, position - file.base, upper - position))
            position = upper
        return b"".join(parts)

    def resident_at(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Return (physical offset, size, tags code), None when there is none.

        Errors   ColdRead
        """
        found = self.read_resident(queue_offset, 1) if queue_offset >= 0 else b""
        return UNIT.unpack(found) if found else None

    def at(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Return (physical offset, size, tags code) of one message, None when there is none."""
        found = self.read(queue_offset, 1) if queue_offset >= 0 else b""
        return UNIT.unpack(found) if found else None

    # -- searching -----------------------------------------------------------------------------
    def first_at_or_behind(self, physical_offset: int) -> int:
        """Return the queue offset of the first unit whose record is not before an offset.

        Pre-blank units count as before everything. Returns max_offset when there is none.
        Cost     a look or two where it is among the last units, else some 20; none when the same is
                 asked again; once after a start all
                 pre-blank units at the front are read
        """
        asked = (physical_offset, self.files.min_offset, self.files.max_offset)
        if self._found[:3] != asked:
            self._found = (*asked, self._first_at_or_behind(physical_offset))
        return self._found[3]

    def forget_found(self) -> None:
        """Units have changed: what was searched last is to be searched again."""
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
            # Pre-blank units between messages may have led the search to their right.
            before, unit = self.message_before(found)
            if unit is None:
                self.front = max(self.front, min(found, self.max_offset))
                return found
            if unit[0] < physical_offset:
                return found
            found = self._search(physical_offset, before)

    def first_from_front(self, physical_offset: int) -> tuple[int, tuple[int, int, int] | None]:
        """Return the same and that unit; one look where it is the first one."""
        found = self._lowest
        unit = self.at(found)
        if unit is not None and unit[1] != PRE_BLANK_SIZE and unit[0] >= physical_offset:
            return found, unit
        found = self.first_at_or_behind(physical_offset)
        return found, self.at(found)

    def _in_tail(self, physical_offset: int, count: int) -> int | None:
        """Return the same where some of the last units lead below the offset, else None."""
        begin = max(self.max_offset - count, self._lowest)
        units = np.frombuffer(self.read(begin, count), dtype=UNIT_TYPE)
        is_message = units["size"] != PRE_BLANK_SIZE
        is_behind = is_message & (units["physical_offset"] >= physical_offset)
        if not (is_message & ~is_behind).any():
            return None
        return begin + (int(is_behind.argmax()) if is_behind.any() else len(units))

    def _search(self, physical_offset: int, upper: int) -> int:
        """Return where units before an offset go over into others, looking below `upper`."""
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
        """The first unit that may tell of a message."""
        return max(self.files.min_offset // UNIT_SIZE, self.front)

    def message_before(self, queue_offset: int) -> tuple[int, tuple[int, int, int] | None]:
        """Return (queue offset, unit) of the last message before, (-1, None) without one."""
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
        """Return the end of the last record whose unit lies before a queue offset, else 0."""
        last = self.message_before(queue_offset)[1]
        return 0 if last is None else last[0] + last[1]

    def last_end(self) -> int:
        """Return the end of the last record that has a unit, else 0."""
        return self.end_before(self.max_offset)

    def start(self, queue_offset: int) -> int:
        """Make the first file and fill it with pre-blank units up to the first message.

        Returns  the first byte of the file
        Errors   DiskFull, AllocationFailed: there is none
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
        """Write units behind the last one; `is_doubtful` where files may lie behind the last one.

        Errors   DiskFull, AllocationFailed: a part of them may have been written
        """
        assert len(units) % UNIT_SIZE == 0
        file = self.files.files[-1]
        end = file.wrote + len(units)
        if end <= file.allocated and file.is_open:  # As nearly always.
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


def first_doubtful(files: Sequence[MappedFile], believed_upto: int, *, read_only: bool) -> int:
    """Return which file is the first that has to be read; those before it are full and durable."""
    lowest = 0 if believed_upto else max(len(files) - FILES_READ, 0)
    number = len(files) - 1
    while number > lowest:
        first = files[number].open(read_only=read_only).read(0, UNIT_SIZE)
        if vouches(first, believed_upto):
            break
        number -= 1
    return max(number, 0)


def written_end(file: MappedFile, believed_upto: int, read_size: int = READ_SIZE) -> Written:
    """Return where the units of an open file end.

    Shape    read_size is of whole units
    Cost     one read where doubtful units are few, some 15 µs with all that is around it
    """
    end = -(-file.data_end() // UNIT_SIZE) * UNIT_SIZE
    while True:
        begin = max(end - read_size, 0) if believed_upto else 0
        units = file.read(begin, end - begin)
        if not begin or vouches(units, believed_upto):
            kept = valid_unit_count(units) * UNIT_SIZE
            return Written(begin + kept, units[kept:] != bytes(len(units) - kept), units[:kept])
        read_size *= _GROWTH


def vouches(units: bytes, believed_upto: int) -> bool:
    """Return whether the first of some units tells that all before it are durable.

    A pre-blank one tells nothing: it may have been written in front of any message.
    """
    physical_offset, size, _ = UNIT.unpack_from(units)
    return bool(0 < size < PRE_BLANK_SIZE and 0 <= physical_offset < believed_upto)


def find_end(row: MappedFileQueue, believed_upto: int, *, read_only: bool) -> bytes:
    """Leave out what is behind the last unit; returns units that were read before that end."""
    files = row.files
    units = b""
    number = first_doubtful(files, believed_upto, read_only=read_only)
    while number < len(files):
        file = files[number].open(read_only=read_only)
        file.wrote, has_more, units = written_end(file, believed_upto)
        if has_more and not read_only:
            file.zero_from(file.wrote)
            file.sync()
        if file.is_full:
            number += 1
            continue
        kept = number + 1 if file.wrote else number
        while len(files) > kept:
            leave_out_last(row, read_only=read_only)
        number = kept if file.wrote else max(number - 1, 0)
    return units


def leave_out_last(row: MappedFileQueue, *, read_only: bool) -> None:
    """Take the last file out of a row, and off the disk unless that is only read."""
    file = row.files.pop()
    if read_only:
        file.close()
    else:
        file.remove()


def is_clean_behind(disk: Disk, file: MappedFile) -> bool:
    """Return whether nothing lies behind the last unit, and no file behind the last one.

    For a thread, while units are appended on the loop: a unit that comes meanwhile may look like
    something that lay there, never the other way round. False too where the file is not there.
    Blocks   some 40 µs
    """
    path = file.path
    if files_from(disk.names(path.parent), file.base) != [path.name]:
        return False
    try:
        descriptor = disk.open(path, read_only=True)
    except FileNotFoundError:
        return False
    try:
        end = disk.data_end(descriptor)
        position = file.wrote
        while position < end:
            piece = disk.read_at(descriptor, position, READ_SIZE)
            appended = file.wrote - position
            if piece[max(appended, 0) :].strip(b"\0"):
                return False
            position += READ_SIZE
        return True
    finally:
        disk.close(descriptor)
