"""In which style the index of an existing store is written: since 5.5 a record's tag is indexed.

The entries of a record lie side by side: unique key, keys, then the tag. The first record with a
tag decides whose entries are sound, that is, those of one style or the other. Where the tag's is
missing the entries behind must be sound too, else it may have been damaged. Entries whose record is
no longer in the log tell nothing.

Of a record that has a tag and no key the 5.3 style knows nothing: one that lies in the log between
two whose entries are sound, and has none itself, tells the style as well.

Source: IndexService.buildIndex.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broker.files.disk import Disk
from broker.files.mapped_file import MappedFile
from broker.format.index_entries import ENTRY_TYPE, index_entries
from broker.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    STYLE_5_3,
    STYLE_5_5,
    IndexGeometry,
    IndexHeaderValues,
    is_indexed,
)
from broker.format.names import (
    COMMIT_LOG_DIRECTORY,
    INDEX_DIRECTORY,
    is_index_file_name,
    offset_from_file_name,
)
from broker.format.record import SIZE_AND_MAGIC, BadRecord, check_record
from broker.format.record_scan import RecordScan, written_at
from broker.model.batch import Written
from broker.model.store_shape import DEFAULT_DELAY_LEVELS, DelayLevels

FILES_MAX: Final = 8
"""Index files that are looked into; where these show no tag, hardly any record has one."""
FIRST_ENTRIES: Final = 4096
SAMPLE_COUNT: Final = 15
SAMPLE_ENTRIES: Final = 256
"""Behind the first entries, so many places of a file are looked at, and so much at each."""
BETWEEN_MAX: Final = 64
"""Records without entries that are looked at between two that have some."""
_LEVELS: Final = DelayLevels(DEFAULT_DELAY_LEVELS)
"""Any would do: what follows from them is not looked at."""


def writer_style(
    disk: Disk, store: Path, *, log_file_bytes: int, geometry: IndexGeometry
) -> str | None:
    """Return the style a store's index is written in, None where nothing shows it.

    Errors   none of damaged files: they tell nothing
    Cost     some milliseconds where messages have tags, at most a second where they have none
    """
    directory = store / INDEX_DIRECTORY
    names = [name for name in disk.names(directory) if is_index_file_name(name)]
    paths = [path for path in map(directory.joinpath, names) if not disk.is_directory(path)]
    log = _Log(disk, store / COMMIT_LOG_DIRECTORY, log_file_bytes)
    try:
        for path in paths[:FILES_MAX]:
            if disk.file_size(path) != geometry.file_size:
                continue
            style = _style_of_file(disk, path, geometry, log)
            if style:
                return style
    finally:
        log.close()
    return None


def _style_of_file(disk: Disk, path: Path, geometry: IndexGeometry, log: "_Log") -> str:
    with disk.opened(path) as descriptor:
        entries = _Entries(disk, descriptor, geometry)
        for number, count in _samples(entries.first_from(log.min_offset), entries.upper):
            style = _style_shown(log, entries.part(number, count), entries.is_cut(number, count))
            if style:
                return style
        return ""


class _Entries:
    """The entries of one index file, numbered 1 up to `upper`, exclusive."""

    __slots__ = ("_descriptor", "_disk", "_geometry", "upper")

    def __init__(self, disk: Disk, descriptor: int, geometry: IndexGeometry) -> None:
        self._disk = disk
        self._descriptor = descriptor
        self._geometry = geometry
        header = IndexHeaderValues(*HEADER.unpack(disk.read_at(descriptor, 0, HEADER_SIZE)))
        is_possible = 1 <= header.index_count <= geometry.entry_count_max
        self.upper = header.index_count if is_possible else geometry.entry_count_max

    def part(self, number: int, count: int) -> NDArray[Any]:
        """Return so many entries from one on, fewer at the end."""
        content = self._read(number, min(count, self.upper - number))
        return np.frombuffer(content, dtype=ENTRY_TYPE, count=len(content) // ENTRY_SIZE)

    def is_cut(self, number: int, count: int) -> bool:
        """Return whether a part's last record may have entries behind it, or in a later file."""
        return number + count < self.upper or self.upper == self._geometry.entry_count_max

    def first_from(self, physical_offset: int) -> int:
        """Return the number of the first entry of a record at or behind a physical offset."""
        if physical_offset == 0:
            return 1
        numbers = range(1, self.upper)
        return 1 + bisect_left(numbers, physical_offset, key=self._place)

    def _place(self, number: int) -> int:
        return int(ENTRY.unpack(self._read(number, 1))[1])

    def _read(self, number: int, count: int) -> bytes:
        position = self._geometry.entries_position + ENTRY_SIZE * number
        return self._disk.read_at(self._descriptor, position, ENTRY_SIZE * count)


def _samples(first: int, upper: int) -> Iterator[tuple[int, int]]:
    """Yield (entry number, entries) of what is looked at of a file, in order."""
    if first < upper:
        yield first, FIRST_ENTRIES
    behind = first + FIRST_ENTRIES
    step = max((upper - behind) // SAMPLE_COUNT, SAMPLE_ENTRIES)
    for number in range(behind, upper, step):
        yield number, SAMPLE_ENTRIES


def _groups(entries: NDArray[Any]) -> Iterator[tuple[int, list[int]]]:
    """Yield (physical offset, key hashes) of entries side by side that are of one record."""
    places = entries["physical"].astype(np.int64)
    hashes = entries["hash"].tolist()
    ends = [*(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), len(hashes)]
    begin = 0
    for end in ends if hashes else ():
        yield int(places[begin]), hashes[begin:end]
        begin = end


def _style_shown(log: "_Log", entries: NDArray[Any], is_cut: bool) -> str:
    """Return the style that the first telling record shows, "" when none tells."""
    groups = list(_groups(entries))
    sound_end, likely = -1, ""
    for place, hashes in groups[:-1] if is_cut else groups:
        record = log.record_at(place)
        style = None if record is None else _style_told(record, hashes)
        if record is None or style is None:
            sound_end, likely = -1, ""
            continue
        if sound_end >= 0 and _is_tag_left_out(log.records_between(sound_end, place)):
            likely = STYLE_5_3
        if likely or style == STYLE_5_5:
            return likely or style
        sound_end, likely = record.end, style
    return "" if is_cut else likely


def _style_told(record: Written, hashes: list[int]) -> str | None:
    """Return the style of a record's entries, "" when they are the same in both, None of others."""
    with_tag, without = (_key_hashes(record, style) for style in (STYLE_5_5, STYLE_5_3))
    if hashes == with_tag:
        return STYLE_5_5 if with_tag != without else ""
    return STYLE_5_3 if hashes == without else None


def _key_hashes(record: Written, style: str) -> list[int]:
    return [*map(int, index_entries([record], style).hashes)]


def _is_tag_left_out(records: Iterator[Written]) -> bool:
    """Return whether records without entries have none because of the style, and not by damage."""
    keyless = [
        record
        for record in islice(records, BETWEEN_MAX)
        if is_indexed(record.destination.transaction)
    ]
    if any(_key_hashes(record, STYLE_5_3) for record in keyless):
        return False
    return any(_key_hashes(record, STYLE_5_5) for record in keyless)


class _Log:
    """Records of a log by their places; files that are missing or cut short hold none.

    One file at a time is mapped, so that a log of any size can be read here and there.
    """

    __slots__ = ("_bases", "_file", "_files", "min_offset")

    def __init__(self, disk: Disk, directory: Path, file_bytes: int) -> None:
        found = []
        for name in disk.names(directory):
            base = offset_from_file_name(name)
            if base is not None and disk.file_size(directory / name) == file_bytes:
                found.append(MappedFile(disk, directory / name, base, file_bytes))
        self._files = sorted(found, key=lambda file: file.base)
        self._bases = [file.base for file in self._files]
        self._file: MappedFile | None = None
        self.min_offset = self._bases[0] if self._bases else 0

    def record_at(self, physical_offset: int) -> Written | None:
        """Return what stands at an offset, None unless a sound record starts there."""
        file = self._file_at(physical_offset)
        if file is None or physical_offset + SIZE_AND_MAGIC.size > file.base + file.size:
            return None
        position = physical_offset - file.base
        try:
            is_record = check_record(file.view, position, physical_offset, crc=False)
            return written_at(file.view, position, _LEVELS) if is_record else None
        except BadRecord:
            return None

    def records_between(self, begin: int, end: int) -> Iterator[Written]:
        """Yield the records from one's start up to an offset, or up to the first damage."""
        while begin < end:
            file = self._file_at(begin)
            if file is None:
                return
            scan = RecordScan(file.view, file.base, begin - file.base)
            for position, _ in scan:
                if file.base + position >= end:
                    return
                yield written_at(file.view, position, _LEVELS)
            if not scan.blank and scan.position + SIZE_AND_MAGIC.size <= file.size:
                return
            begin = file.base + file.size

    def close(self) -> None:
        """Unmap what is mapped."""
        if self._file is not None:
            self._file.close()

    def _file_at(self, physical_offset: int) -> MappedFile | None:
        number = bisect_right(self._bases, physical_offset) - 1
        file = self._files[number] if number >= 0 else None
        if file is None or physical_offset >= file.base + file.size:
            return None
        if file is not self._file:
            self.close()
            self._file = file.open(read_only=True)
        assert file.base <= physical_offset
        return file
