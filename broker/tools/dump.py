"""What lies in the files of a store: records, units of a queue, entries of the index.

Damage in the log does not end a dump: behind a record that is not sound it goes on where that
record's size leads, if a sound one stands there, else with the next file. What was passed over is
told afterwards. Files of the log are mapped one at a time, so that a log of any size can be dumped.
"""

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.files.mapped_file import MappedFile
from broker.files.mapped_file_queue import MappedFileQueue
from broker.format.buffers import Buffer
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from broker.format.index_layout import STYLE_5_5
from broker.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    queue_directory,
)
from broker.format.record import SIZE_AND_MAGIC, BadRecord, check_record, decode_record
from broker.format.record_scan import RecordScan
from broker.log.consume_queue import ConsumeQueue
from broker.model.message import StoredMessage
from broker.model.results import ScanEnd
from broker.tools.store_access import Sizes

UNITS_AT_ONCE: Final = 4_096
_COMMIT_LOG_KEYS: Final = "mappedFileSizeCommitLog"


class Damage(NamedTuple):
    """Bytes of the log that are no sound record, from an offset on."""

    path: str
    physical_offset: int
    reason: str


class Unit(NamedTuple):
    """A unit of a consume queue."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int


class IndexRow(NamedTuple):
    """An entry of an index file; store_time_ms is exact to the second, as the entry is."""

    file: str
    number: int
    slot: int
    key_hash: int
    physical_offset: int
    store_time_ms: int
    previous: int


class LogDump:
    """One walk over a whole commit log; iterating yields its sound records, decoded.

    Afterwards `end` is where the last sound record ends, and `holes` and `tail` tell what was
    passed over before and behind it.
    """

    __slots__ = ("_damages", "_gaps", "_queue", "end")

    def __init__(self, disk: Disk, directory: Path, sizes: Sizes) -> None:
        self._queue = MappedFileQueue(
            disk, directory / COMMIT_LOG_DIRECTORY, sizes.commit_log_file_bytes, _COMMIT_LOG_KEYS
        )
        self._queue.load(read_only=True)
        self._damages: list[Damage] = []
        self._gaps: list[Damage] = []
        self.end = self._queue.min_offset

    @property
    def holes(self) -> list[Damage]:
        """Damage with sound records behind it."""
        found = [*self._damages, *self._gaps]
        return sorted(hole for hole in found if hole.physical_offset < self.end)

    @property
    def tail(self) -> Damage | None:
        """What a crash left behind the last sound record, if anything."""
        behind = [damage for damage in self._damages if damage.physical_offset >= self.end]
        return behind[0] if behind else None

    def __iter__(self) -> Iterator[StoredMessage]:
        for file in self._queue.files:
            file.open(read_only=True)
            try:
                yield from self._records(file)
            finally:
                file.close()

    def _records(self, file: MappedFile) -> Iterator[StoredMessage]:
        position: int | None = 0
        while position is not None:
            scan = RecordScan(file.view, file.base, position, crc=True)
            for record_position, size in scan:
                self.end = file.base + record_position + size
                yield decode_record(file.view, record_position)
            position = self._go_on(file, scan)

    def _go_on(self, file: MappedFile, scan: RecordScan) -> int | None:
        """Note why a scan stopped, and return where in the file to go on, if anywhere."""
        if scan.blank or scan.position + SIZE_AND_MAGIC.size > file.size:
            return None
        offset = file.base + scan.position
        if scan.end is ScanEnd.END_OF_DATA:
            # The end of the log, unless a record is found in a later file.
            self._gaps.append(Damage(str(file.path), offset, "no record up to the file's end"))
            return None
        self._damages.append(Damage(str(file.path), offset, scan.reason))
        return _sound_behind(file.view, file.base, scan.position)


def _sound_behind(buffer: Buffer, base: int, position: int) -> int | None:
    """Return where the record at a position says it ends, None unless a sound one starts there."""
    size, _ = SIZE_AND_MAGIC.unpack_from(buffer, position)
    following: int = position + size
    if size <= 0 or following + SIZE_AND_MAGIC.size > len(buffer):
        return None
    try:
        check_record(buffer, following, base + following)
    except BadRecord:
        return None
    return following


def queue_units(
    disk: Disk, directory: Path, sizes: Sizes, *, topic: str, queue_id: int
) -> Iterator[Unit]:
    """Yield the units of a queue in order, pre-blank ones left out; none of an unknown queue.

    Errors   IllegalTopic, WrongFileSize, StoreGap
    """
    place = queue_directory(directory / CONSUME_QUEUE_DIRECTORY, topic, queue_id)
    queue = ConsumeQueue(
        disk, place, sizes.consume_queue_file_bytes, topic=topic, queue_id=queue_id
    )
    queue.load(read_only=True)
    try:
        begin = queue.files.min_offset // UNIT_SIZE
        for at in range(begin, queue.max_offset, UNITS_AT_ONCE):
            for number, unit in enumerate(UNIT.iter_unpack(queue.units(at, UNITS_AT_ONCE)), at):
                if unit[1] != PRE_BLANK_SIZE:
                    yield Unit(number, *unit)
    finally:
        queue.files.close()


def index_rows(disk: Disk, directory: Path, sizes: Sizes) -> Iterator[IndexRow]:
    """Yield the entries of all index files, oldest file first, in the order they were added.

    Errors   WrongFileSize
    """
    from broker.log.hash_index import HashIndex  # loads numpy, which dumping records does not need

    index = HashIndex(disk, directory / INDEX_DIRECTORY, sizes.geometry, style=STYLE_5_5, zone=UTC)
    index.load(read_only=True)
    try:
        for file in index.files:
            begin_ms = file.header.begin_timestamp
            for number in range(1, min(file.header.index_count, sizes.geometry.entry_count_max)):
                key_hash, place, seconds, previous = file.entry(number)
                yield IndexRow(
                    file=file.path.name,
                    number=number,
                    slot=key_hash % sizes.geometry.slot_count,
                    key_hash=key_hash,
                    physical_offset=place,
                    store_time_ms=begin_ms + seconds * 1000,
                    previous=previous,
                )
    finally:
        index.close()
