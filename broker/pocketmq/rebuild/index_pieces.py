"""Builds index files from spooled entries, files and pieces of files independently.

    range 0: rows 0 … a-1 │ range 1: rows a … b-1 │ …      row g of all is entry g of the index

Each range spools its entries to a file, 20 bytes each. Prefix sums of the row counts give the place
of entry g, so any worker can read any stretch.

entries   0 ───────────── M-2 │ M-1 ─────────── 2M-3 │ …
file      ────── 0 ────────── │ ────── 1 ─────────── │
piece     ─ 0 ─│─ 1 ─│─ 2 ─── │
            table 0 ─┘    │         a table: newest entry of each slot in a piece
            tables 0+1 ───┘         a piece starts from the tables before it, laid on each other
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.records import ENTRY_TYPE
from pocketmq.format.names import INDEX_DIRECTORY, next_index_file_name, zone_from_name
from pocketmq.rebuild.index_builder import (
    FileBuilder,
    FileStart,
    entries_per_file,
    overlay,
    put_numbers,
)
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.plan import Mapper
from pocketmq.rebuild.staging import Staging

PIECES_MAX: Final = 8
"""Pieces of one file: every piece reads the tables of all before it."""
PIECES_PER_WORKER: Final = 2
"""How many pieces of the whole index each worker gets at least, where they are large enough."""

ROWS_AT_ONCE: Final = 400_000
"""Rows read at once: 8 MB."""


class Spools:
    """The entries of all ranges as one row of numbers."""

    __slots__ = ("_begins", "_paths", "count")

    def __init__(self, paths: Sequence[str], counts: Sequence[int]) -> None:
        self._paths = list(paths)
        self._begins = [0, *accumulate(counts)]
        self.count = self._begins[-1]

    def segments(self, begin: int, end: int) -> list[tuple[str, int, int]]:
        """Returns the places of entries [begin, end): (path, first row, rows)."""
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
    """Yields the entries of stretches in order, some hundred thousand at a time."""
    for path, first, count in segments:
        for begin in range(first, first + count, ROWS_AT_ONCE):
            size = min(ROWS_AT_ONCE, first + count - begin)
            rows = np.fromfile(path, ENTRY_TYPE, size, offset=begin * ENTRY_TYPE.itemsize)
            assert len(rows) == size, f"{path} ends before row {begin + size}"
            yield rows


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of entries of one index file.

    start    of the file, with the number the piece's first entry gets
    earlier  slot tables of the pieces before it in the file
    """

    out: str
    start: FileStart
    order: int
    is_last: bool
    first_entry: int
    segments: list[tuple[str, int, int]]
    earlier: list[str]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.start.path.name

    @property
    def mark(self) -> list[int]:
        """A key that identifies a finished piece."""
        count = sum(count for _, _, count in self.segments)
        return [self.first_entry, self.start.number, count, int(self.is_last)]


def build_index(
    staging: Staging, spools: Spools, settings: KnownShape, mapper: Mapper, *,
    workers: int, piece_entries: int,
) -> list[str]:  # fmt: skip
    """Builds all index files; returns their names in order."""
    pieces = plan_pieces(staging, spools, settings, workers=workers, piece_entries=piece_entries)
    _drop_others(staging, pieces)
    left = [piece for piece in pieces if not _is_finished(staging, piece)]
    unfinished = {piece.name for piece in left}
    tabled = [piece for piece in pieces if not piece.is_last and piece.name in unfinished]
    for _ in mapper(write_table, tabled):
        pass
    for _ in mapper(build_piece, left):
        pass
    return list(dict.fromkeys(piece.name for piece in pieces))


def plan_pieces(
    staging: Staging, spools: Spools, settings: KnownShape, *, workers: int, piece_entries: int
) -> list[Piece]:
    """Returns all pieces of all files, in order."""
    zone, full = zone_from_name(settings.time_zone), entries_per_file(settings.geometry)
    pieces: list[Piece] = []
    name, ended_ms = "", 0
    for begin in range(0, spools.count, full):
        end = min(begin + full, spools.count)
        place, time_ms = spools.row(begin)
        name = next_index_file_name(time_ms, zone, name)
        wanted = pieces_of(end - begin, spools.count, workers, piece_entries)
        start = FileStart(
            staging.out / INDEX_DIRECTORY / name, settings.geometry, ended_ms, time_ms, place
        )
        segments = spools.segments(begin, end)
        whole = Piece(str(staging.out), start, 0, True, begin, segments, [])
        pieces += _cut(whole, spools, end, wanted)
        ended_ms = spools.row(end - 1)[1]
    return pieces


def pieces_of(file_entries: int, entries: int, workers: int, piece_entries: int) -> int:
    """Returns the number of pieces of a file, from its own entries and those of all files.

    One worker alone gains nothing by pieces. Else they are as large as keeps all workers busy: each
    but the last costs a slot table written, and read by all pieces behind it.
    """
    if workers == 1:
        return 1
    size = max(ceil(entries / (PIECES_PER_WORKER * workers)), piece_entries)
    return min(max(round(file_entries / size), 1), PIECES_MAX)


def _cut(whole: Piece, spools: Spools, end: int, count: int) -> list[Piece]:
    begin = whole.first_entry
    borders = [begin + (end - begin) * number // count for number in range(count + 1)]
    staging = Staging(Path(whole.out))
    tables = [str(staging.table(whole.name, number)) for number in range(count)]
    return [
        replace(
            whole,
            order=number,
            is_last=number == count - 1,
            start=replace(whole.start, number=1 + borders[number] - begin),
            first_entry=borders[number],
            segments=spools.segments(borders[number], borders[number + 1]),
            earlier=tables[:number],
        )
        for number in range(count)
    ]


def _is_finished(staging: Staging, piece: Piece) -> bool:
    return bool(staging.read(staging.piece_file(piece.name, piece.order)) == piece.mark)


def _drop_others(staging: Staging, pieces: Sequence[Piece]) -> None:
    """Removes index files of an earlier run that are not wholly finished as planned now."""
    kept = {piece.name for piece in pieces}
    kept -= {piece.name for piece in pieces if not _is_finished(staging, piece)}
    directory = staging.out / INDEX_DIRECTORY
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.name not in kept:
            path.unlink()
            for marked in (staging.work / "pieces").glob(f"{path.name}-*.json"):
                marked.unlink()


def write_table(piece: Piece) -> str:
    """Writes the slot table that a piece's own entries leave; returns the file's name.

    Cost     20 ns an entry, 4 bytes a slot
    """
    table = np.zeros(piece.start.geometry.slot_count, dtype=np.int32)
    number = piece.start.number
    for rows in read_segments(piece.segments):
        put_numbers(table, rows["hash"], number)
        number += len(rows)
    path = Staging(Path(piece.out)).table(piece.name, piece.order)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, table)
    return str(path)


def build_piece(piece: Piece) -> str:
    """Writes a piece's entries, the last one also slots and header; returns the file's name.

    Cost     0.1 µs an entry
    """
    staging = Staging(Path(piece.out))
    slots = np.zeros(piece.start.geometry.slot_count, dtype=np.int32)
    for path in piece.earlier:
        overlay(slots, np.load(path))
    builder = FileBuilder(replace(piece.start, slots=slots))
    try:
        for rows in read_segments(piece.segments):
            builder.put(rows)
        if piece.is_last:
            builder.finish()
    finally:
        builder.close()
    staging.write(staging.piece_file(piece.name, piece.order), piece.mark)
    return piece.name
