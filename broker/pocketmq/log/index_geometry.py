"""Finds the slot and entry counts of index files if no setting or manifest contains them.

Several pairs of numbers give the same file length. First, known pairs are tried: the configured
pair, RocketMQ's default, PocketMQ's default. The first pair that gives a file's length is used.
If no known pair gives a file's length, all pairs that do are compared with a file's header. A pair
fits if the first and the newest entry contain the header's begin and end physical offset, and the
newest entry's slot refers to that entry. If several pairs or none fit, the operator must set at
least one of the numbers.
"""

from collections.abc import Container
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.index_entries import ENTRY_TYPE
from pocketmq.format.index_layout import (
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT_SIZE,
    WELL_KNOWN,
    IndexGeometry,
    IndexHeaderValues,
)
from pocketmq.format.names import INDEX_DIRECTORY, is_index_file_name
from pocketmq.log.index_file import KEY_NAMES
from pocketmq.model.errors import UnknownGeometry
from pocketmq.model.store_shape import StoreShape

_LENGTH_MIN: Final = IndexGeometry(1, 1).file_size


def shown_geometry(
    disk: Disk, store: Path, shape: StoreShape, stated: Container[str]
) -> IndexGeometry | None:
    """Returns the geometry of a store's index.

    stated   fields of the shape that an operator set: they are not changed
    Returns  None if no number is stated and there are no files, or if one is stated and fits none
    Errors   UnknownGeometry: no number is stated, and no file determines the numbers
    """
    directory, given = store / INDEX_DIRECTORY, IndexGeometry.of(shape)
    has_slots, has_entries = "index_slot_count" in stated, "index_entry_count_max" in stated
    if has_slots and has_entries:
        return given
    if has_slots:
        return complete_geometry(disk, directory, slot_count=given.slot_count)
    if has_entries:
        return complete_geometry(disk, directory, entry_count_max=given.entry_count_max)
    return find_geometry(disk, directory, given)


def find_geometry(disk: Disk, directory: Path, stated: IndexGeometry) -> IndexGeometry | None:
    """Returns the geometry of the index files in a directory; None without files.

    stated   the pair to try first
    Errors   UnknownGeometry: no file determines the geometry
    Cost     reads the files' lengths; one pass over each file if no length fits a known pair
    """
    lengths = _lengths(disk, directory)
    for geometry in (stated, *WELL_KNOWN):
        if geometry.file_size in lengths.values():
            return geometry
    for path, length in lengths.items():
        found = _agreeing(_mapped(disk, path, length)) if length >= _LENGTH_MIN else []
        if len(found) == 1:
            return found[0]
    for path, length in lengths.items():
        why = f"{length} bytes do not show how many slots and entries an index file has"
        raise UnknownGeometry(path=str(path), why=why, key_names=KEY_NAMES)
    return None


def complete_geometry(
    disk: Disk, directory: Path, *, slot_count: int = 0, entry_count_max: int = 0
) -> IndexGeometry | None:
    """Returns the geometry with the given number; the other one follows from a file's length.

    Returns  None if no file in the directory has a length that fits
    """
    for length in _lengths(disk, directory).values():
        if slot_count:
            entry_count_max = (length - HEADER_SIZE - SLOT_SIZE * slot_count) // ENTRY_SIZE
        geometry = _geometry_of(length, entry_count_max)
        if geometry is not None and slot_count in (0, geometry.slot_count):
            return geometry
    return None


def _lengths(disk: Disk, directory: Path) -> dict[Path, int]:
    paths = [directory / name for name in disk.names(directory) if is_index_file_name(name)]
    return {path: disk.file_size(path) for path in paths if not disk.is_directory(path)}


def _mapped(disk: Disk, path: Path, length: int) -> NDArray[Any]:
    with disk.opened(path) as descriptor:
        return np.frombuffer(disk.map(descriptor, length, read_only=True), dtype=np.uint8)


def _geometry_of(length: int, entry_count_max: int) -> IndexGeometry | None:
    slots_size = length - HEADER_SIZE - ENTRY_SIZE * entry_count_max
    if entry_count_max < 1 or slots_size < SLOT_SIZE or slots_size % SLOT_SIZE:
        return None
    return IndexGeometry(slots_size // SLOT_SIZE, entry_count_max)


def _agreeing(octets: NDArray[Any]) -> list[IndexGeometry]:
    """Returns the pairs that fit a file's length and agree with its header.

    The end of the file is divided into `cell_count` cells of an entry's size. With any pair, each
    entry fills one cell: with room for `entries` entries, entry n is in cell
    cell_count - entries + n.
    """
    header = IndexHeaderValues(*HEADER.unpack(octets[:HEADER_SIZE].tobytes()))
    count, length = header.index_count, len(octets)
    cell_count = (length - HEADER_SIZE - SLOT_SIZE) // ENTRY_SIZE
    if not 1 < count <= cell_count:
        return []
    cells = octets[length - ENTRY_SIZE * cell_count :].view(ENTRY_TYPE)
    newest, last_base = cells[count - 1 :], cell_count - count + 1
    agrees = cells["physical"][1 : last_base + 1] == header.begin_physical_offset
    agrees &= newest["physical"] == header.end_physical_offset
    found = []
    for base in np.flatnonzero(agrees & (newest["hash"] >= 0)).tolist():
        geometry = _geometry_of(length, cell_count - base)
        if geometry is None:
            continue
        position = HEADER_SIZE + SLOT_SIZE * (int(newest["hash"][base]) % geometry.slot_count)
        if int.from_bytes(octets[position : position + SLOT_SIZE].tobytes()) == count - 1:
            found.append(geometry)
    return found
