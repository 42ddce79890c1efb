"""Builds index files from spooled entries, files and pieces of files independently.

entries   0 ───────────── M-2 │ M-1 ─────────── 2M-3 │ …
file      ────── 0 ────────── │ ────── 1 ─────────── │
piece     ─ 0 ─│─ 1 ─│─ 2 ─── │
            table 0 ─┘    │         a table: newest entry of each slot in a piece
            tables 0+1 ───┘         a piece starts from the tables before it, laid on each other
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np

from broker.format.index_layout import IndexGeometry
from broker.format.names import INDEX_DIRECTORY, next_index_file_name, zone_from_name
from broker.rebuild.index_builder import (
    FileBuilder,
    FileStart,
    entries_per_file,
    overlay,
    slot_table_of,
)
from broker.rebuild.log_files import KnownShape
from broker.rebuild.plan import Mapper
from broker.rebuild.spool import Spools, read_segments
from broker.rebuild.staging import Staging

PIECES_MAX: Final = 8
"""Pieces of one file: every piece reads the tables of all before it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of entries of one index file.

    number   the entry number its first entry gets
    earlier  slot tables of the pieces before it in the file
    """

    name: str
    order: int
    is_last: bool
    number: int
    first_entry: int
    segments: list[tuple[str, int, int]]
    earlier: list[str]
    inherited_end_ms: int
    begin_ms: int
    begin_physical_offset: int
    geometry: IndexGeometry
    out: str


def build_index(
    staging: Staging, spools: Spools, settings: KnownShape, mapper: Mapper, *,
    workers: int, piece_entries: int,
) -> list[str]:  # fmt: skip
    """Build all index files; returns their names in order."""
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
    """Return all pieces of all files, in order."""
    zone, full = zone_from_name(settings.time_zone), entries_per_file(settings.geometry)
    file_count = ceil(spools.count / full)
    pieces: list[Piece] = []
    name, ended_ms = "", 0
    for begin in range(0, spools.count, full):
        end = min(begin + full, spools.count)
        place, time_ms = spools.row(begin)
        name = next_index_file_name(time_ms, zone, name)
        wanted = 1 if file_count >= 2 * workers else (end - begin) // piece_entries
        whole = Piece(
            name=name, order=0, is_last=True, number=1, first_entry=begin,
            segments=spools.segments(begin, end), earlier=[], inherited_end_ms=ended_ms,
            begin_ms=time_ms, begin_physical_offset=place, geometry=settings.geometry,
            out=str(staging.out),
        )  # fmt: skip
        pieces += _cut(whole, spools, end, min(max(wanted, 1), PIECES_MAX))
        ended_ms = spools.row(end - 1)[1]
    return pieces


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
            number=1 + borders[number] - begin,
            first_entry=borders[number],
            segments=spools.segments(borders[number], borders[number + 1]),
            earlier=tables[:number],
        )
        for number in range(count)
    ]


def _entry_count(piece: Piece) -> int:
    return sum(count for _, _, count in piece.segments)


def _mark(piece: Piece) -> list[int]:
    return [piece.first_entry, piece.number, _entry_count(piece), int(piece.is_last)]


def _is_finished(staging: Staging, piece: Piece) -> bool:
    return bool(staging.read(staging.piece_file(piece.name, piece.order)) == _mark(piece))


def _drop_others(staging: Staging, pieces: Sequence[Piece]) -> None:
    """Remove index files of an earlier run that are not wholly finished as planned now."""
    kept = {piece.name for piece in pieces}
    kept -= {piece.name for piece in pieces if not _is_finished(staging, piece)}
    directory = staging.out / INDEX_DIRECTORY
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.name not in kept:
            path.unlink()
            for marked in (staging.work / "pieces").glob(f"{path.name}-*.json"):
                marked.unlink()


def write_table(piece: Piece) -> str:
    """Write the slot table that a piece's own entries leave; returns the file's name.

    Cost     20 ns an entry, 4 bytes a slot
    """
    table = np.zeros(piece.geometry.slot_count, dtype=np.int32)
    number = piece.number
    for rows in read_segments(piece.segments):
        table = overlay(table, slot_table_of(rows["hash"], len(table), number))
        number += len(rows)
    path = Staging(Path(piece.out)).table(piece.name, piece.order)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, table)
    return str(path)


def build_piece(piece: Piece) -> str:
    """Write a piece's entries, the last one also slots and header; returns the file's name.

    Cost     0.1 µs an entry
    """
    staging = Staging(Path(piece.out))
    slots = np.zeros(piece.geometry.slot_count, dtype=np.int32)
    for path in piece.earlier:
        slots = overlay(slots, np.load(path))
    builder = FileBuilder(
        FileStart(
            path=staging.out / INDEX_DIRECTORY / piece.name,
            geometry=piece.geometry,
            inherited_end_ms=piece.inherited_end_ms,
            begin_ms=piece.begin_ms,
            begin_physical_offset=piece.begin_physical_offset,
            number=piece.number,
            slots=slots,
        )
    )
    try:
        for rows in read_segments(piece.segments):
            builder.put(rows)
        if piece.is_last:
            builder.finish()
    finally:
        builder.close()
    staging.write(staging.piece_file(piece.name, piece.order), _mark(piece))
    return piece.name
