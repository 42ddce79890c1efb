"""How many slots and entries the index files of a store have.

The length of an index file does not tell it: slots and entries are two unknowns. What does, in
this order:
    1. a file with another behind it is full, so its count is the maximum;
    2. a well-known pair that gives the length: as stated, RocketMQ's, ours;
    3. any pair that gives the length.
A pair counts when it lets nearly all of the newest entries be reached from their slots; one that
reads the file at the wrong places reaches next to none. A file that tells nothing is passed over.
Where no file tells, a well-known pair of the right length is taken unproven.

Files are mapped, not read: slots that are looked up and the newest entries are touched, for 3. all
of the file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broker.files.disk import Disk
from broker.format.index_layout import (
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_HEADER,
    SLOT_SIZE,
    IndexGeometry,
    IndexHeaderValues,
)
from broker.format.names import is_index_file_name
from broker.model.errors import UnknownGeometry

ROCKETMQ_GEOMETRY: Final = IndexGeometry(5_000_000, 20_000_000)
"""RocketMQ's default: files of 420 MB."""
OWN_GEOMETRY: Final = IndexGeometry(200_000, 1_000_000)
"""What our stores have unless told otherwise."""
REACHED_SHARE_MIN: Final = 0.9
"""Below it a pair does not count; what is lost with some pages of a long file stays above."""
NEWEST_MAX: Final = 1 << 16
"""How many of the newest entries are looked at: they lie in 1.3 MB."""

Words = NDArray[Any]
"""A whole index file as i32, the highest byte first."""

_WORD_SIZE: Final = 4
_HEADER_WORDS: Final = HEADER_SIZE // _WORD_SIZE
_ENTRY_WORDS: Final = ENTRY_SIZE // _WORD_SIZE
_LENGTH_MIN: Final = IndexGeometry(1, 1).file_size
_PROBE_DISTANCE_MAX: Final = 4096
"""How far from the newest entry probes are taken: farther than a lost page reaches."""
_PAIRS_AT_ONCE: Final = 1 << 18
_PAIRS_PROVEN_MAX: Final = 64
_KEY_NAMES: Final = "maxHashSlotNum and maxIndexNum"


def find_geometry(disk: Disk, directory: Path, stated: IndexGeometry) -> IndexGeometry | None:
    """Return the geometry that the index files in a directory show, None without files.

    stated   the pair to try first
    Errors   UnknownGeometry: no file tells, damaged or empty as they are
    Cost     some milliseconds; up to a second for 420 MB of an unknown geometry
    """
    known = list(dict.fromkeys((stated, ROCKETMQ_GEOMETRY, OWN_GEOMETRY)))
    paths = _index_paths(disk, directory)
    why = ""
    for number, path in enumerate(paths, 1):
        length = disk.file_size(path)
        if not _is_possible(length):
            why = why or f"{length} bytes are no index file"
            continue
        words = _mapped_words(disk, path, length)
        found = _shown_by(words, known, is_full=number < len(paths))
        if len(found) == 1:
            return found[0]
        why = why or f"{len(found) or 'no'} geometries fit its {length} bytes"
    lengths = {disk.file_size(path) for path in paths}
    for geometry in known:
        if geometry.file_size in lengths:
            return geometry
    if paths:
        raise UnknownGeometry(path=str(paths[0]), why=why, key_names=_KEY_NAMES)
    return None


def complete_geometry(
    disk: Disk, directory: Path, *, slot_count: int = 0, entry_count_max: int = 0
) -> IndexGeometry | None:
    """Return the geometry of which one number is known, the other following from a file's length.

    Returns  None when no file in the directory has a length that goes with the number
    """
    for path in _index_paths(disk, directory):
        length = disk.file_size(path)
        if slot_count:
            entry_count_max = (length - HEADER_SIZE - SLOT_SIZE * slot_count) // ENTRY_SIZE
        geometry = _geometry_of(length, entry_count_max)
        if geometry is not None and slot_count in (0, geometry.slot_count):
            return geometry
    return None


def reached_share(words: Words, index_count: int, geometry: IndexGeometry) -> float:
    """Return which share of the newest entries is reached: by its slot, or the entry behind it.

    Shape    words: a whole file; index_count: of its header
    Returns  0 to 1; 0 when the geometry gives another length or holds fewer entries
    Cost     0.2 µs for each of at most NEWEST_MAX entries
    """
    if not 1 < index_count <= geometry.entry_count_max:
        return 0.0
    if len(words) * _WORD_SIZE != geometry.file_size:
        return 0.0
    first = max(1, index_count - NEWEST_MAX)
    begin = _HEADER_WORDS + geometry.slot_count + _ENTRY_WORDS * first
    entries = words[begin:].reshape(-1, _ENTRY_WORDS)[: index_count - first]
    hashes = entries[:, 0].astype(np.int64)
    slots = hashes % geometry.slot_count
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    is_newest = np.ones(len(order), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_newest[:-1])
    named = np.empty(len(order), dtype=np.int64)
    named[:-1] = entries[order[1:], 4]
    named[is_newest] = words[_HEADER_WORDS + ordered[is_newest]]
    is_written = (hashes >= 0) & (entries != 0).any(axis=1)
    return float(np.mean((named == first + order) & is_written[order]))


def fitting_geometries(words: Words, index_count: int) -> list[IndexGeometry]:
    """Return the pairs that give a file's length and reach most of its newest entries.

    Shape    words: a whole file; index_count: of its header
    Returns  the one that reaches most, several where nothing tells which is right, none where even
             the best reaches less than REACHED_SHARE_MIN
    Cost     one pass over the file
    """
    proven = []
    for geometry in _likely_geometries(words, index_count):
        share = reached_share(words, index_count, geometry)
        if share >= REACHED_SHARE_MIN:
            proven.append(((share, _header_agreement(words, index_count, geometry)), geometry))
    best = max((merit for merit, _ in proven), default=None)
    return [geometry for merit, geometry in proven if merit == best]


def _index_paths(disk: Disk, directory: Path) -> list[Path]:
    paths = [directory / name for name in disk.names(directory) if is_index_file_name(name)]
    return [path for path in paths if not disk.is_directory(path)]


def _is_possible(length: int) -> bool:
    return length >= _LENGTH_MIN and length % _WORD_SIZE == 0


def _mapped_words(disk: Disk, path: Path, length: int) -> Words:
    """Map a file; it is unmapped when the array and all views of it are gone."""
    descriptor = disk.open_read_only(path)
    try:
        return np.frombuffer(disk.map_read_only(descriptor, length), dtype=">i4")
    finally:
        disk.close(descriptor)


def _shown_by(words: Words, known: list[IndexGeometry], *, is_full: bool) -> list[IndexGeometry]:
    """Return the geometry one file shows, several or none where it does not tell."""
    index_count = _header(words).index_count
    if index_count <= 1:
        return []
    full = _geometry_of(len(words) * _WORD_SIZE, index_count) if is_full else None
    for geometry in [full, *known] if full else known:
        if reached_share(words, index_count, geometry) >= REACHED_SHARE_MIN:
            return [geometry]
    return fitting_geometries(words, index_count)


def _header(words: Words) -> IndexHeaderValues:
    return IndexHeaderValues(*INDEX_HEADER.struct.unpack(words[:_HEADER_WORDS].tobytes()))


def _geometry_of(length: int, entry_count_max: int) -> IndexGeometry | None:
    slots_size = length - HEADER_SIZE - ENTRY_SIZE * entry_count_max
    if entry_count_max < 1 or slots_size < SLOT_SIZE or slots_size % SLOT_SIZE:
        return None
    return IndexGeometry(slots_size // SLOT_SIZE, entry_count_max)


def _likely_geometries(words: Words, index_count: int) -> list[IndexGeometry]:
    """Return pairs under which a slot names at least one of some newest entries, best first."""
    cell_count = (len(words) - _HEADER_WORDS - 1) // _ENTRY_WORDS
    if not 1 < index_count <= cell_count:
        return []
    found = [pair for part in _probed_parts(words, index_count, cell_count) for pair in part]
    found.sort(reverse=True)
    return [
        IndexGeometry(len(words) - _HEADER_WORDS - _ENTRY_WORDS * entries, entries)
        for _, entries in found[:_PAIRS_PROVEN_MAX]
    ]


def _probed_parts(
    words: Words, index_count: int, cell_count: int
) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of (probes that a slot names, entry count), for all pairs with such a probe.

    Entries lie in cells counted from the file's end, whatever the pair: entry n of so many is in
    cell cell_count - entries + n.
    """
    cells = words[len(words) - _ENTRY_WORDS * cell_count :].reshape(-1, _ENTRY_WORDS)
    distances = [1 << power for power in range(_PROBE_DISTANCE_MAX.bit_length())]
    numbers = [index_count - distance for distance in distances if distance < index_count]
    first, upper = numbers[-1], cell_count - index_count + 1
    for begin in range(0, upper, _PAIRS_AT_ONCE):
        end = min(begin + _PAIRS_AT_ONCE, upper)
        is_written = (cells[begin + first : end + numbers[0]] != 0).any(axis=1)
        if not is_written.any():
            continue
        hits = np.zeros(end - begin, dtype=np.int64)
        for number in numbers:
            bases = begin + np.flatnonzero(is_written[number - first :][: end - begin])
            hits[bases - begin] += _are_named(words, cells, bases, number)
        places = np.flatnonzero(hits)
        yield list(zip(hits[places].tolist(), (cell_count - begin - places).tolist(), strict=True))


def _are_named(words: Words, cells: Words, bases: NDArray[Any], number: int) -> NDArray[np.bool_]:
    """Return for each place where entry 0 might lie whether a slot names the entry `number`."""
    hashes = cells[bases + number, 0].astype(np.int64)
    slot_counts = len(words) - _HEADER_WORDS - _ENTRY_WORDS * (len(cells) - bases)
    heads = words[_HEADER_WORDS + np.maximum(hashes, 0) % slot_counts]
    named: NDArray[np.bool_] = (hashes >= 0) & (heads == number)
    return named


def _header_agreement(words: Words, index_count: int, geometry: IndexGeometry) -> int:
    """Return how many of first and newest entry are of the record that the header names."""
    header, begin = _header(words), _HEADER_WORDS + geometry.slot_count
    entries = words[begin:].reshape(-1, _ENTRY_WORDS)
    wanted = ((1, header.begin_physical_offset), (index_count - 1, header.end_physical_offset))
    return sum(_physical_offset(entries[number]) == place for number, place in wanted)


def _physical_offset(entry: Words) -> int:
    return int.from_bytes(entry[1:3].tobytes(), signed=True)
