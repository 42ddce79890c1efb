"""Finds records by key through the index files, without reading the log.

    log      ├── not indexed ──┤──────── index files ────────┤── not indexed yet ──┤
                              begin                          end

A key costs reads of one slot and its chain in each file. The caller walks the parts of the log that
no index file covers.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from pocketmq.backfill.arrow_views import find_index_files
from pocketmq.format.columns.heads import BEHIND, FRONT, Heads, read_heads
from pocketmq.format.index_entries import searched_hash
from pocketmq.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT,
    SLOT_SIZE,
    WELL_KNOWN,
    IndexGeometry,
    IndexHeaderValues,
)
from pocketmq.format.record import RECORD_SIZE_MIN, BadRecord, check_record
from pocketmq.rebuild.log_files import LogFile

_SIZE_BYTES: Final = 4


class KeyPlaces(NamedTuple):
    """Physical offsets of records that may match, in the indexed part [begin, end) of the log.

    places   ascending; the hashes of keys match, the keys are not compared
    """

    places: list[int]
    begin: int
    end: int


class RecordPlaces(NamedTuple):
    """A task: the records at some physical offsets, the `places`, ascending."""

    files: list[LogFile]
    places: list[int]

    def read(self) -> tuple[bytearray, Heads]:
        """Returns the records and their heads; offsets without a valid record are left out."""
        records = [record for file in self.files for record in self._of(file)]
        begins = np.cumsum([FRONT, *map(len, records)][:-1] if records else [], dtype=np.int64)
        buffer = bytearray(FRONT) + b"".join(records) + bytes(BEHIND)
        return buffer, read_heads(buffer, begins)

    def _of(self, file: LogFile) -> Iterator[bytes]:
        places = [place for place in self.places if file.base <= place < file.end]
        if not places:
            return
        with Path(file.path).open("rb") as opened:
            for place in places:
                opened.seek(place - file.base)
                size = int.from_bytes(opened.read(_SIZE_BYTES))
                opened.seek(place - file.base)
                record = opened.read(min(size, file.end - place))
                if _is_sound(record, place):
                    yield record


def _is_sound(record: bytes, place: int) -> bool:
    if len(record) < RECORD_SIZE_MIN:
        return False
    try:
        return check_record(record, 0, place) == len(record)
    except BadRecord:
        return False


def find_key_places(
    store: Path, topics: Collection[str], keys: Collection[str], geometry: IndexGeometry | None
) -> KeyPlaces | None:
    """Returns where records with one of the keys may begin, by the hashes of topic and key.

    geometry   None: the files' lengths determine it
    Returns    None if there is no index, or a file has an unknown length
    Errors     StrayFile, OSError
    Cost       10 µs for each entry in a key's chains, in each index file
    """
    wanted = {searched_hash(topic, key) for topic in topics for key in keys}
    begin, end, places = -1, -1, set[int]()
    for path in find_index_files(store):
        with Path(path).open("rb", buffering=0) as opened:
            size = os.fstat(opened.fileno()).st_size
            known = geometry or next((one for one in WELL_KNOWN if one.file_size == size), None)
            if known is None or known.file_size != size:
                return None
            descriptor = opened.fileno()
            header = IndexHeaderValues(*HEADER.unpack(os.pread(descriptor, HEADER_SIZE, 0)))
            if header.index_count <= 1:
                continue
            for key_hash in wanted:
                places.update(_chain(descriptor, known, header, key_hash))
        begin = header.begin_physical_offset if begin < 0 else begin
        end = max(end, header.end_physical_offset)
    # The last indexed record itself is read with the part after it.
    covered = sorted(place for place in places if begin <= place < end)
    return None if end < 0 else KeyPlaces(covered, begin, end)


def _chain(
    descriptor: int, geometry: IndexGeometry, header: IndexHeaderValues, key_hash: int
) -> Iterator[int]:
    slot = key_hash % geometry.slot_count
    (number,) = SLOT.unpack(os.pread(descriptor, SLOT_SIZE, HEADER_SIZE + SLOT_SIZE * slot))
    while 0 < number < geometry.entry_count_max:
        position = geometry.entries_position + ENTRY_SIZE * number
        found, place, _, previous = ENTRY.unpack(os.pread(descriptor, ENTRY_SIZE, position))
        if found == key_hash and number < header.index_count:
            yield place
        if previous >= number:
            return
        number = previous
