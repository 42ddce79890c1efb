"""The timer log: one unit for each delayed message, in order of arrival.

    |---- file ----BLANK|---- file ----BLANK|---- file --.......|
    base of first                                        end

The units of one slot form a chain from the newest to the oldest unit. Written units change only in
an orderly stop (store/timer/timer_files.py). Files whose messages were all delivered are removed.

Invariants
    1. Every file but the last is full, so the position of unit n can be computed.
    2. `end` only grows, except in `truncate`.
Source: TimerLog.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile
from pocketmq.files.mapped_file_queue import MappedFileQueue
from pocketmq.format.names import offset_from_file_name
from pocketmq.format.timer_layout import (
    LOG_UNIT_SIZE,
    LOG_UNIT_TYPE,
    NO_UNIT,
    Units,
    encode_log_blank,
    judged_units,
    sound_units,
    units_per_file,
)

KEY_NAMES: Final = "mappedFileSizeTimerLog"
PIECE_COUNT: Final = 65_536
"""Upper limit of units in one piece of a scan, which takes some MiB."""
_PREVIOUS: Final = slice(4, 12)


def found_file_size(disk: Disk, directory: Path) -> int | None:
    """Returns the file size of an existing timer log; None if there is none."""
    for name in disk.names(directory):
        size = disk.file_size(directory / name)
        if offset_from_file_name(name) is not None and units_per_file(size):
            return size
    return None


class TimerLog:
    """The timer log of one store, as a mapped file queue."""

    __slots__ = ("end", "files")

    def __init__(self, disk: Disk, directory: Path, file_size_bytes: int) -> None:
        size = found_file_size(disk, directory) or file_size_bytes
        assert units_per_file(size), "file size is below one unit"
        self.files = MappedFileQueue(disk, directory, size, KEY_NAMES)
        self.end = 0
        """Position of the next unit, or base of the next file."""

    def load(self) -> None:
        """Finds the files; `truncate` must follow once recovery knows where units end.

        Errors   NotAStore, WrongFileSize, StoreGap; no file is changed
        """
        self.files.load()
        self.end = self.files.max_offset

    @property
    def begin(self) -> int:
        """Base of the oldest file."""
        return self.files.min_offset

    @property
    def _used_per_file(self) -> int:
        return units_per_file(self.files.file_size) * LOG_UNIT_SIZE

    # -- appending -----------------------------------------------------------------------------
    def room(self) -> int:
        """Returns the number of further units that fit into the last file: at least one.

        Effects  creates the next file if the last one is full
        Errors   DiskFull, AllocationFailed: nothing has changed
        """
        files = self.files
        if self.end == files.max_offset and (not files.files or files.files[-1].is_full):
            base = self.end
            if files.files:
                assert base == files.files[-1].base + files.file_size
            files.make_file(base)
        return (files.files[-1].base + self._used_per_file - self.end) // LOG_UNIT_SIZE

    def places(self, count: int) -> NDArray[np.int64]:
        """Returns the positions of the next `count` units, which must fit into the last file."""
        places: NDArray[np.int64] = self.end + np.arange(count, dtype=np.int64) * LOG_UNIT_SIZE
        return places

    def append(self, units: Units) -> None:
        """Adds units to the last file, which must have `room` for them.

        Errors   DiskFull, AllocationFailed: no unit was added
        """
        file = self.files.files[-1].open()
        position = self.end - file.base
        content = units.tobytes()
        upper = position + len(content)
        is_full = upper == self._used_per_file
        file.allocate(file.size if is_full else upper)
        file.write(position, content)
        if is_full:
            file.write(upper, encode_log_blank(file.size - upper))
            upper = file.size
        file.wrote = upper
        self.end = file.base + upper
        assert self.end == self.files.max_offset

    def overwrite(self, place: int, position: int, content: bytes) -> MappedFile:
        """Overwrites a unit's bytes from `position` on; returns the file for the caller to sync."""
        file = self.files.file_at(place)
        assert file is not None
        assert position + len(content) <= LOG_UNIT_SIZE
        file.write(place - file.base + position, content)
        return file

    # -- reading -------------------------------------------------------------------------------
    def pieces(self, begin: int) -> Iterator[tuple[int, Units]]:
        """Yields (position, contiguous valid units from it on) up to the first invalid unit.

        begin    position of a unit, or base of a file
        Shape    at most PIECE_COUNT units a piece; they are copies
        """
        for place, content in self._contents(begin):
            units = sound_units(content, place)
            yield place, units
            if len(units) < len(content) // LOG_UNIT_SIZE:
                return

    def beyond_damage(self, begin: int) -> Iterator[tuple[NDArray[np.int64], Units]]:
        """Yields (positions, valid units) from a position to the end; skips invalid units.

        begin    position of a unit, or base of a file
        Shape    at most PIECE_COUNT units a piece; they are copies
        """
        for place, content in self._contents(begin):
            units, is_sound = judged_units(content, place)
            places = place + np.arange(len(units), dtype=np.int64) * LOG_UNIT_SIZE
            yield places[is_sound], units[is_sound]

    def _contents(self, begin: int) -> Iterator[tuple[int, bytes]]:
        for file in self._files_from(begin):
            position = max(begin - file.base, 0)
            used = min(file.wrote, self._used_per_file)
            file.open()
            while position < used:
                upper = min(used, position + PIECE_COUNT * LOG_UNIT_SIZE)
                yield file.base + position, bytes(file.view[position:upper])
                position = upper

    def behind(self, place: int) -> int:
        """Returns the position of the next unit after one that ends at `place`."""
        base = place - place % self.files.file_size
        return base + self.files.file_size if place - base >= self._used_per_file else place

    def _files_from(self, position: int) -> Iterator[MappedFile]:
        for file in self.files.files:
            if file.base + file.size > position:
                yield file

    @property
    def last_message(self) -> int:
        """Physical offset of the last unit's message; -1 without units."""
        base = self.end - 1 - (self.end - 1) % self.files.file_size if self.end > self.begin else 0
        last = min(self.end - base, self._used_per_file) - LOG_UNIT_SIZE
        file = self.files.file_at(base) if self.end > self.begin else None
        if file is None or last < 0:
            return -1
        unit = np.frombuffer(bytes(file.view[last : last + LOG_UNIT_SIZE]), LOG_UNIT_TYPE)
        return int(unit["physical_offset"][0])

    def chain(self, last: int, count_max: int) -> tuple[list[int], Units]:
        """Returns (positions, units) of one slot's chain, newest unit first.

        Shape    at most `count_max` units; the chain is complete if its last `previous` is NO_UNIT
                 or refers to no unit of this log
        Cost     about 0.6 µs a unit
        """
        places: list[int] = []
        parts: list[bytes] = []
        file: MappedFile | None = None
        place = last
        while len(parts) < count_max and 0 <= place <= self.end - LOG_UNIT_SIZE:
            if file is None or not file.base <= place < file.base + file.size:
                file = self.files.file_at(place)
                if file is None:
                    break
            position = place - file.base
            unit = bytes(file.view[position : position + LOG_UNIT_SIZE])
            places.append(place)
            parts.append(unit)
            before = int.from_bytes(unit[_PREVIOUS], signed=True)
            if not NO_UNIT < before < place:
                break
            place = before
        return places, np.frombuffer(b"".join(parts), LOG_UNIT_TYPE)

    # -- durability, cutting -------------------------------------------------------------------
    def dirty_files(self, begin: int) -> list[MappedFile]:
        """Returns the open files that end after a position."""
        return [file for file in self._files_from(begin) if file.is_open]

    def truncate(self, end: int) -> None:
        """Truncates the log at a position; bytes after it are removed or zeroed."""
        self.files.cut(end + 1 if end % self.files.file_size else end)
        self.files.remove_empty()
        last = self.files.files[-1] if self.files.files else None
        if last is not None and end < last.base + last.size:
            last.open()
            last.wrote = end - last.base
            last.allocated = last.wrote - last.wrote % 4096
            last.zero_from(last.wrote)
            if last.wrote == self._used_per_file:  # Only the blank at the file's end was lost.
                last.allocate(last.size)
                last.write(last.wrote, encode_log_blank(last.size - last.wrote))
                last.wrote = last.size
                end = last.base + last.size
        self.end = end
        assert end == (self.files.max_offset if last is not None else end)

    def drop_before(self, position: int) -> int:
        """Removes files, except the last, that end at or before a position; returns their count."""
        count = 0
        while len(self.files.files) > 1 and self.files.files[1].base <= position:
            self.files.drop_first().remove()
            count += 1
        return count

    def close(self) -> None:
        """Closes all files."""
        self.files.close()
