"""Finds where a queue's units end, from its last files.

    |- believed: records below the checkpoint's offset -|- doubtful: units, lost pages -| empty
                                                                                        ^ data end

A power cut may keep a page and lose an earlier one, so doubtful units are checked one by one.
Believed units were durable before the checkpoint was written, and physical offsets ascend. So one
unit with a physical offset below the checkpoint's proves that all units before it are durable, in
any file.
Source: ConsumeQueue; its `recover` reads all units of the last three files.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile
from pocketmq.files.mapped_file_queue import MappedFileQueue
from pocketmq.format.columns.units import valid_unit_count
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from pocketmq.format.names import files_from

FILES_READ: Final = 3
"""Number of last files that are read unit by unit if it is unknown which units are durable."""
READ_SIZE: Final = 3_200 * UNIT_SIZE
"""Size of the first read before the end of the data: nearly 64 KiB, enough for most queues."""
_GROWTH: Final = 4


class QueueEnd(NamedTuple):
    """A row of the table of queue ends (log/checkpoint.py).

    begin, end            position of the queue's first file, position after its last unit
    max_physical_offset   end of the last unit's record
    min_offset            queue offset of the first message
    min_place             physical offset of the first message; 0: unknown
    """

    begin: int
    end: int
    max_physical_offset: int
    min_offset: int
    min_place: int


class WrittenUnits(NamedTuple):
    """The part of a file that contains units.

    end        byte after the last unit that precedes the first lost unit
    has_more   whether non-zero bytes follow: units that must not reappear when the lost unit is
               written again
    units      the units read last, up to `end`
    """

    end: int
    has_more: bool
    units: bytes


def first_doubtful(files: Sequence[MappedFile], believed_upto: int, *, read_only: bool) -> int:
    """Returns the index of the first file to read; all earlier files count as full and durable."""
    lowest = 0 if believed_upto else max(len(files) - FILES_READ, 0)
    number = len(files) - 1
    while number > lowest:
        first = files[number].open(read_only=read_only).read(0, UNIT_SIZE)
        if vouches(first, believed_upto):
            break
        number -= 1
    return max(number, 0)


def written_end(file: MappedFile, believed_upto: int, read_size: int = READ_SIZE) -> WrittenUnits:
    """Returns where the units of an open file end.

    Shape    read_size is a multiple of UNIT_SIZE
    Cost     one read if few units are doubtful: some 15 µs in total
    """
    end = -(-file.data_end() // UNIT_SIZE) * UNIT_SIZE
    while True:
        begin = max(end - read_size, 0) if believed_upto else 0
        units = file.read(begin, end - begin)
        if not begin or vouches(units, believed_upto):
            kept = valid_unit_count(units) * UNIT_SIZE
            return WrittenUnits(
                begin + kept, units[kept:] != bytes(len(units) - kept), units[:kept]
            )
        read_size *= _GROWTH


def vouches(units: bytes, believed_upto: int) -> bool:
    """Returns whether the first of these units proves that all units before it are durable.

    A pre-blank unit proves nothing: it may precede any message.
    """
    physical_offset, size, _ = UNIT.unpack_from(units)
    return bool(0 < size < PRE_BLANK_SIZE and 0 <= physical_offset < believed_upto)


def find_end(row: MappedFileQueue, believed_upto: int, *, read_only: bool) -> bytes:
    """Ends a queue after its last valid unit; returns the units that were read last.

    Effects  unless `read_only`, zeroes bytes after that unit and removes later files
    """
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
    """Removes the last file from the queue, and from disk unless `read_only`."""
    file = row.files.pop()
    if read_only:
        file.close()
    else:
        file.remove()


def is_clean_behind(disk: Disk, file: MappedFile) -> bool:
    """Returns whether all bytes after the last unit are zero and no later file exists.

    Threads call it while the event loop appends units. New units may then count as old bytes, but
    old bytes never count as new units. Returns False if the file does not exist.
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
