"""Index entries on their way from the ranges to the index files, 20 bytes each, in files.

    range 0: rows 0 … a-1 │ range 1: rows a … b-1 │ …      row g of all is entry g of the index

Prefix sums of the row counts tell where entry g lies, so any worker can read any stretch.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from broker.format.columns.records import ENTRY_TYPE

ROWS_AT_ONCE: Final = 400_000
"""Rows read at once: 8 MB."""


class SpoolWriter:
    """Writes one range's entries; a file of the same name is written anew."""

    __slots__ = ("_file", "count")

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("wb")
        self.count = 0

    def add(self, rows: NDArray[np.void]) -> None:
        """Append entries."""
        self._file.write(rows.view(np.uint8).data)
        self.count += len(rows)
        assert self._file.tell() == self.count * ENTRY_TYPE.itemsize

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Spools:
    """The entries of all ranges as one row of numbers."""

    __slots__ = ("_begins", "_paths", "count")

    def __init__(self, paths: Sequence[str], counts: Sequence[int]) -> None:
        self._paths = list(paths)
        self._begins = [0, *accumulate(counts)]
        self.count = self._begins[-1]

    def segments(self, begin: int, end: int) -> list[tuple[str, int, int]]:
        """Return where entries [begin, end) lie: (path, first row, rows)."""
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
        """Return (physical offset, store time in ms) of one entry."""
        (rows,) = read_segments(self.segments(number, number + 1))
        return int(rows["physical_offset"][0]), int(rows["time_ms"][0])


def read_segments(segments: Sequence[tuple[str, int, int]]) -> Iterator[NDArray[np.void]]:
    """Yield the entries of stretches in order, some hundred thousand at a time."""
    for path, first, count in segments:
        for begin in range(first, first + count, ROWS_AT_ONCE):
            size = min(ROWS_AT_ONCE, first + count - begin)
            rows = np.fromfile(path, ENTRY_TYPE, size, offset=begin * ENTRY_TYPE.itemsize)
            assert len(rows) == size, f"{path} ends before row {begin + size}"
            yield rows
