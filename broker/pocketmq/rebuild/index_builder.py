"""Builds index files from entries in log order.

    entry g (from 0)  ─►  file g div (M - 1), number 1 + g mod (M - 1)      M = entry_count_max

The entry number alone determines the file, so files can be built in any order.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.index_entries import ENTRY_TYPE, link_entries, second_differences
from pocketmq.format.index_layout import (
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    IndexGeometry,
    IndexHeaderValues,
)
from pocketmq.format.names import next_index_file_name, zone_from_name

BLOCK: int = 20_000
"""Number of entries that are linked at once; this many fit the processor's caches."""


def entries_per_file(geometry: IndexGeometry) -> int:
    """Returns the number of entries in a full file; entry number 0 is never used."""
    return geometry.entry_count_max - 1


@dataclass(slots=True)
class FileStart:
    """State from which a file, or a piece of it, is built.

    inherited_end_ms   end timestamp of the previous file
    begin_ms, begin_physical_offset   store time and physical offset of the file's first entry
    number   entry number of the first entry to write; above 1 in a later piece
    slots    slot table of all earlier pieces; None: empty
    """

    path: Path
    geometry: IndexGeometry
    inherited_end_ms: int = 0
    begin_ms: int = 0
    begin_physical_offset: int = 0
    number: int = 1
    slots: NDArray[np.int32] | None = None


class FileBuilder:
    """Builds one file, or one piece of it."""

    __slots__ = ("_descriptor", "_geometry", "begin", "last", "number", "path", "slots")

    def __init__(self, start: FileStart) -> None:
        geometry = start.geometry
        self.path = start.path
        self._geometry = geometry
        self.number = start.number
        slots = start.slots
        self.slots = np.zeros(geometry.slot_count, dtype=np.int32) if slots is None else slots
        first = (start.begin_ms, start.begin_physical_offset)
        # (Store time in ms, physical offset): `begin` of the first entry, `last` of the newest.
        # Before the first entry is put, `begin` has the end timestamp of the previous file.
        self.begin = (max(start.inherited_end_ms, 0), 0) if start.number == 1 else first
        self.last = (0, 0)
        start.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(start.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if os.fstat(self._descriptor).st_size != geometry.file_size:
            os.ftruncate(self._descriptor, geometry.file_size)

    @property
    def room(self) -> int:
        """Number of entries that still fit."""
        return self._geometry.entry_count_max - self.number

    def put(self, rows: NDArray[np.void]) -> None:
        """Adds entries (`columns.records.ENTRY_TYPE`), at most `room`.

        Cost     0.1 µs an entry
        """
        for begin in range(0, len(rows), BLOCK):
            self._put_block(rows[begin : begin + BLOCK])

    def _put_block(self, rows: NDArray[np.void]) -> None:
        first = self.number
        assert len(rows) <= self.room
        entries = np.empty(len(rows), dtype=ENTRY_TYPE)
        entries["previous"], _ = link_entries(rows["hash"], self.slots, first)
        entries["hash"] = rows["hash"]
        entries["physical"] = rows["physical_offset"]
        times: NDArray[np.int64] = rows["time_ms"]
        if first == 1:
            # The seconds of the first entry count from the end of the previous file, those of all
            # others from the first entry.
            inherited = self.begin[0]
            self.begin = (int(times[0]), int(rows["physical_offset"][0]))
            entries["second"] = second_differences(times, self.begin[0])
            entries["second"][:1] = second_differences(times[:1], inherited)
        else:
            entries["second"] = second_differences(times, self.begin[0])
        position = self._geometry.entries_position + ENTRY_SIZE * first
        os.pwrite(self._descriptor, entries.view(np.uint8).data, position)
        self.number += len(rows)
        self.last = (int(times[-1]), int(rows["physical_offset"][-1]))

    def finish(self) -> IndexHeaderValues:
        """Writes slots and header, which completes the file.

        Cost     20 ms for five million slots
        """
        header = IndexHeaderValues(
            begin_timestamp=self.begin[0],
            end_timestamp=self.last[0],
            begin_physical_offset=self.begin[1],
            end_physical_offset=self.last[1],
            hash_slot_count=int(np.count_nonzero(self.slots)),
            index_count=self.number,
        )
        os.pwrite(self._descriptor, self.slots.astype(">i4").view(np.uint8).data, HEADER_SIZE)
        os.pwrite(self._descriptor, HEADER.pack(*header), 0)
        self.close()
        return header

    def close(self) -> None:
        """Closes the file; it is a valid index file only after `finish`."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class IndexBuilder:
    """Builds all files of an index one after the other."""

    __slots__ = ("_directory", "_ended_ms", "_file", "_geometry", "_zone", "names")

    def __init__(self, directory: Path, geometry: IndexGeometry, time_zone: str) -> None:
        self._directory = directory
        self._geometry = geometry
        self._zone = zone_from_name(time_zone)
        self._file: FileBuilder | None = None
        self._ended_ms = 0
        self.names: list[str] = []

    def add(self, rows: NDArray[np.void]) -> None:
        """Adds entries in log order."""
        while len(rows):
            file = self._file
            if file is None or not file.room:
                file = self._roll(int(rows["time_ms"][0]))
            count = min(file.room, len(rows))
            assert count > 0
            file.put(rows[:count])
            rows = rows[count:]

    def _roll(self, time_ms: int) -> FileBuilder:
        if self._file is not None:
            self._ended_ms = self._file.finish().end_timestamp
        previous = self.names[-1] if self.names else ""
        self.names.append(next_index_file_name(time_ms, self._zone, previous))
        path = self._directory / self.names[-1]
        self._file = FileBuilder(FileStart(path, self._geometry, self._ended_ms))
        return self._file

    def state(self) -> tuple[dict[str, Any], NDArray[np.int32] | None]:
        """Returns the state for `restore`, and the slot table, None if no file is open."""
        file = self._file
        document: dict[str, Any] = {
            "names": list(self.names),
            "ended_ms": self._ended_ms,
            "file": None,
        }
        if file is None:
            return document, None
        document["file"] = [file.number, *file.begin, *file.last]
        return document, file.slots.copy()

    def restore(self, document: dict[str, Any], slots: NDArray[np.int32] | None) -> None:
        """Resumes from a saved `state`; the caller adds all later entries once more."""
        self.names, self._ended_ms = document["names"], document["ended_ms"]
        if slots is None:
            return
        number, begin_ms, begin_place, *last = document["file"]
        path = self._directory / self.names[-1]
        start = FileStart(
            path, self._geometry, self._ended_ms, begin_ms, begin_place, number, slots
        )
        self._file = FileBuilder(start)
        self._file.last = (last[0], last[1])

    def finish(self) -> None:
        """Completes the newest file."""
        if self._file is not None:
            self._file.finish()
            self._file = None
