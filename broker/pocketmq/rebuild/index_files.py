"""Builds index files from spooled entries, each file by one task.

    range 0: rows 0 … a-1 │ range 1: rows a … b-1 │ …      row g of all is entry g of the index
    file 0:  entries 0 … M-2       │ file 1: entries M-1 … │ …

Each range spools its entries to a file, 20 bytes each. Prefix sums of the row counts give the
spool and row of entry g, so any worker can read any entries.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.records import ENTRY_TYPE
from pocketmq.format.names import INDEX_DIRECTORY, next_index_file_name, zone_from_name
from pocketmq.rebuild.index_builder import FileBuilder, FileStart, entries_per_file
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.manifest import publish
from pocketmq.rebuild.staging import PartRows, Staging, new_writer

ROWS_AT_ONCE: Final = 400_000
"""Number of rows that are read at once: 8 MB."""


class Spools:
    """The spooled entries of all ranges, as one numbered sequence."""

    __slots__ = ("_begins", "_paths", "count")

    def __init__(self, paths: Sequence[str], counts: Sequence[int]) -> None:
        self._paths = list(paths)
        self._begins = [0, *accumulate(counts)]
        self.count = self._begins[-1]

    def segments(self, begin: int, end: int) -> list[tuple[str, int, int]]:
        """Returns the segments that contain entries [begin, end): (path, first row, row count)."""
        found = []
        number = bisect_right(self._begins, begin) - 1
        while begin < end:
            upper = min(end, self._begins[number + 1])
            if upper > begin:
                found.append((self._paths[number], begin - self._begins[number], upper - begin))
                begin = upper
            number += 1
        return found

    def row(self, number: int) -> tuple[int, int]:
        """Returns (physical offset, store time in ms) of one entry."""
        (rows,) = read_segments(self.segments(number, number + 1))
        return int(rows["physical_offset"][0]), int(rows["time_ms"][0])


def read_segments(segments: Sequence[tuple[str, int, int]]) -> Iterator[NDArray[np.void]]:
    """Yields the entries of segments in order, up to `ROWS_AT_ONCE` at a time."""
    for path, first, count in segments:
        for begin in range(first, first + count, ROWS_AT_ONCE):
            size = min(ROWS_AT_ONCE, first + count - begin)
            rows = np.fromfile(path, ENTRY_TYPE, size, offset=begin * ENTRY_TYPE.itemsize)
            assert len(rows) == size, f"{path} ends before row {begin + size}"
            yield rows


@dataclass(frozen=True, slots=True)
class IndexTask:
    """One index file; `start.path` is its name, `first_entry` the number of its first entry."""

    out: str
    start: FileStart
    first_entry: int
    segments: list[tuple[str, int, int]]

    @property
    def name(self) -> str:
        """Name of the part."""
        return f"index-{self.start.path.name}"

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        return sum(count for _, _, count in self.segments)

    @property
    def mark(self) -> list[int]:
        """Numbers that identify the file's content in one plan."""
        return [self.first_entry, self.entry_count, self.start.begin_ms]


def plan_index_files(out: Path, spools: Spools, settings: KnownShape) -> list[IndexTask]:
    """Returns a task for each index file, in order.

    Cost     reads two entries of each file
    """
    zone, full = zone_from_name(settings.time_zone), entries_per_file(settings.geometry)
    tasks: list[IndexTask] = []
    name, ended_ms = "", 0
    for begin in range(0, spools.count, full):
        end = min(begin + full, spools.count)
        place, time_ms = spools.row(begin)
        name = next_index_file_name(time_ms, zone, name)
        start = FileStart(Path(name), settings.geometry, ended_ms, time_ms, place)
        tasks.append(IndexTask(str(out), start, begin, spools.segments(begin, end)))
        ended_ms = spools.row(end - 1)[1]
    return tasks


def build_index_file(task: IndexTask, writer: str = "") -> None:
    """Builds one index file and puts it in its place.

    writer   name of this attempt; "": a new one
    Cost     0.1 µs an entry
    """
    staging = Staging(Path(task.out), writer or new_writer())
    with staging.drafts() as drafts:
        path = f"{INDEX_DIRECTORY}/{task.start.path.name}"
        builder = FileBuilder(replace(task.start, path=drafts / path))
        try:
            for rows in read_segments(task.segments):
                builder.put(rows)
            builder.finish()
        finally:
            builder.close()
        files = publish(drafts, [path], staging.out)
    staging.finish_part(task.name, task.mark, task.entry_count, PartRows(files=files))
