"""Finds the styles in which a store's index was written: RocketMQ indexes tags since 5.5.

A directory that an older broker began and a newer broker continued has both styles: the older one
up to some record. This module reads the first style of every file, and the last style of the newest
file. So it does not find two changes within one file.

A record with a tag but no key has no entry in the 5.3 style. Such a record without an entry, stored
between two records with valid entries, therefore shows the 5.3 style.
Source: IndexService.buildIndex.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.index_entries import ENTRY_TYPE, index_entries, unpacked
from pocketmq.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    STYLE_5_3,
    STYLE_5_5,
    IndexGeometry,
    IndexHeaderValues,
    StyleSpans,
    is_indexed,
)
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    INDEX_DIRECTORY,
    is_index_file_name,
)
from pocketmq.log.placed_records import PlacedRecords
from pocketmq.model.batch import Written

FILES_MAX: Final = 8
"""Upper limit of files at each end of the index that are sampled for the first and last style. If
they show no tag, hardly any record has a tag."""
ALL_FILES_MAX: Final = 100
"""Upper limit of files that are all sampled even if the first and last show the same style."""
FIRST_ENTRIES: Final = 4096
SAMPLE_COUNT: Final = 15
SAMPLE_ENTRIES: Final = 256
"""Number of samples after the first entries of a file, and number of entries of each sample."""
BETWEEN_MAX: Final = 64
"""Upper limit of records without entries that are read between two records with entries."""


def written_styles(
    disk: Disk, store: Path, *, log_file_bytes: int, geometry: IndexGeometry
) -> tuple[StyleSpans, str | None]:
    """Returns the older styles of a store's index, and the present style; None if it is unknown.

    Errors   ReadFailed; none for damaged files, which are treated as files without tags
    Cost     some milliseconds if messages have tags, at most two seconds if they have none
    """
    directory = store / INDEX_DIRECTORY
    names = [name for name in disk.names(directory) if is_index_file_name(name)]
    paths = [path for path in map(directory.joinpath, names) if not disk.is_directory(path)]
    log = PlacedRecords(disk, store / COMMIT_LOG_DIRECTORY, log_file_bytes)
    try:
        files = [path for path in paths if disk.file_size(path) == geometry.file_size]
        return _styles_of([_File(disk, path, geometry, log) for path in files])
    finally:
        log.close()


def _styles_of(files: Sequence["_File"]) -> tuple[StyleSpans, str | None]:
    first = next(filter(None, (file.first_style() for file in files[:FILES_MAX])), "")
    last = next(filter(None, (file.last_style() for file in files[: -FILES_MAX - 1 : -1])), "")
    if not first or (first == last and len(files) > ALL_FILES_MAX):
        return (), last or first or None
    spans: list[tuple[int, str]] = []
    style = first
    for file, following in pairwise([*files, None]):
        assert file is not None
        after = file.last_style() if following is None else following.first_style()
        if after and after != style:
            place = file.change(style, after)
            if place is None and following is not None:
                place = following.first_place
            spans.append((place or 0, style))
            style = after
    return tuple(spans), style


class _File:
    __slots__ = ("_disk", "_geometry", "_log", "_path")

    def __init__(self, disk: Disk, path: Path, geometry: IndexGeometry, log: PlacedRecords) -> None:
        self._disk = disk
        self._path = path
        self._geometry = geometry
        self._log = log

    @property
    def first_place(self) -> int:
        with self._opened() as entries:
            return entries.place(1)

    def first_style(self) -> str:
        with self._opened() as entries:
            samples = _samples(entries.first_from(self._log.min_offset), entries.upper)
            return self._shown(entries, samples)

    def last_style(self) -> str:
        """Returns the style of the last records that show a style; "" if no record does.

        If the last two records contradict each other, damage may have removed the entry of a tag:
        the result is STYLE_5_5.
        """
        with self._opened() as entries:
            first = entries.first_from(self._log.min_offset)
            tail = max(entries.upper - SAMPLE_ENTRIES, first)
            each = list(_record_styles(self._log, entries.part(tail, SAMPLE_ENTRIES)))
            is_cut = entries.is_cut(tail, SAMPLE_ENTRIES)
            styles = [style for _, style in (each[:-1] if is_cut else each) if style][-2:]
            if styles:
                return STYLE_5_5 if STYLE_5_5 in styles else STYLE_5_3
            return self._shown(entries, reversed(list(_samples(first, entries.upper))))

    def change(self, before: str, after: str) -> int | None:
        with self._opened() as entries:
            lower, upper = entries.first_from(self._log.min_offset), entries.upper
            while upper - lower > FIRST_ENTRIES:
                middle = (lower + upper) // 2
                if self._shown(entries, [(middle, SAMPLE_ENTRIES)]) == before:
                    lower = middle
                else:
                    upper = middle + SAMPLE_ENTRIES
            each = _record_styles(self._log, entries.part(lower, upper - lower))
            return _split([(place, style) for place, style in each if style], before, after)

    def _shown(self, entries: "_Entries", samples: Iterable[tuple[int, int]]) -> str:
        shown = (
            _style_shown(self._log, entries.part(number, count), entries.is_cut(number, count))
            for number, count in samples
        )
        return next(filter(None, shown), "")

    @contextmanager
    def _opened(self) -> Iterator["_Entries"]:
        with self._disk.opened(self._path) as descriptor:
            yield _Entries(self._disk, descriptor, self._geometry)


def _record_styles(log: PlacedRecords, entries: NDArray[Any]) -> Iterator[tuple[int, str | None]]:
    for place, hashes in _groups(entries):
        record = log.record_at(place)
        yield place, None if record is None else _style_of(record, hashes)


def _split(styles: Sequence[tuple[int, str]], before: str, after: str) -> int | None:
    """Returns the record at which the style changes: the one that the fewest records contradict.

    A record that lost an entry to damage shows the wrong style.
    """
    misfits = sum(style == before for _, style in styles)
    least, found = misfits, 0
    for number, (_, style) in enumerate(styles, 1):
        misfits += 1 if style == after else -1
        if misfits <= least:
            least, found = misfits, number
    assert 0 <= least <= len(styles)
    return styles[found][0] if found < len(styles) else None


class _Entries:
    """The entries of one index file, numbered from 1 up to `upper`, exclusive."""

    __slots__ = ("_descriptor", "_disk", "_geometry", "upper")

    def __init__(self, disk: Disk, descriptor: int, geometry: IndexGeometry) -> None:
        self._disk = disk
        self._descriptor = descriptor
        self._geometry = geometry
        header = IndexHeaderValues(*HEADER.unpack(disk.read_at(descriptor, 0, HEADER_SIZE)))
        is_possible = 1 <= header.index_count <= geometry.entry_count_max
        self.upper = header.index_count if is_possible else geometry.entry_count_max

    def part(self, number: int, count: int) -> NDArray[Any]:
        content = self._read(number, min(count, self.upper - number))
        return np.frombuffer(content, dtype=ENTRY_TYPE, count=len(content) // ENTRY_SIZE)

    def is_cut(self, number: int, count: int) -> bool:
        """Returns whether a part's last record may have more entries, in this or the next file."""
        return number + count < self.upper or self.upper == self._geometry.entry_count_max

    def first_from(self, physical_offset: int) -> int:
        if physical_offset == 0:
            return 1
        numbers = range(1, self.upper)
        return 1 + bisect_left(numbers, physical_offset, key=self.place)

    def place(self, number: int) -> int:
        return int(ENTRY.unpack(self._read(number, 1))[1])

    def _read(self, number: int, count: int) -> bytes:
        position = self._geometry.entries_position + ENTRY_SIZE * number
        return self._disk.read_at(self._descriptor, position, ENTRY_SIZE * count)


def _samples(first: int, upper: int) -> Iterator[tuple[int, int]]:
    if first < upper:
        yield first, FIRST_ENTRIES
    behind = first + FIRST_ENTRIES
    step = max((upper - behind) // SAMPLE_COUNT, SAMPLE_ENTRIES)
    for number in range(behind, upper, step):
        yield number, SAMPLE_ENTRIES


def _groups(entries: NDArray[Any]) -> Iterator[tuple[int, list[int]]]:
    places = entries["physical"].astype(np.int64)
    hashes = entries["hash"].tolist()
    ends = [*(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), len(hashes)]
    begin = 0
    for end in ends if hashes else ():
        yield int(places[begin]), hashes[begin:end]
        begin = end


def _style_shown(log: PlacedRecords, entries: NDArray[Any], is_cut: bool) -> str:
    groups = list(_groups(entries))
    sound_end, likely = -1, ""
    for place, hashes in groups[:-1] if is_cut else groups:
        record = log.record_at(place)
        style = None if record is None else _style_of(record, hashes)
        if record is None or style is None:
            sound_end, likely = -1, ""
            continue
        if sound_end >= 0 and _is_tag_left_out(log.records_between(sound_end, place)):
            likely = STYLE_5_3
        if likely or style == STYLE_5_5:
            return likely or style
        sound_end, likely = record.end, style
    return "" if is_cut else likely


def _style_of(record: Written, hashes: list[int]) -> str | None:
    """Returns the style of a record's entries; "" if they fit both styles, None if neither."""
    with_tag, without = (_key_hashes(record, style) for style in (STYLE_5_5, STYLE_5_3))
    if hashes == with_tag:
        return STYLE_5_5 if with_tag != without else ""
    return STYLE_5_3 if hashes == without else None


def _key_hashes(record: Written, style: str) -> list[int]:
    return [*map(int, unpacked(index_entries([record], style))[0])]


def _is_tag_left_out(records: Iterator[Written]) -> bool:
    """Returns whether records lack entries because of the style, and not because of damage."""
    keyless = [
        record
        for record in islice(records, BETWEEN_MAX)
        if is_indexed(record.destination.transaction)
    ]
    if any(_key_hashes(record, STYLE_5_3) for record in keyless):
        return False
    return any(_key_hashes(record, STYLE_5_5) for record in keyless)
