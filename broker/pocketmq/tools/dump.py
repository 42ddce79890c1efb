"""Reads the views of a store: consume units, their records, and index entries."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from pocketmq.format.names import (
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    queue_directory,
    queue_id_from_name,
)
from pocketmq.format.record import BadRecord, check_record
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.walk.source import LogSource

# -- the views ---------------------------------------------------------------------------------
if TYPE_CHECKING:
    from pocketmq.log.consume_queue_table import ConsumeQueueTable
    from pocketmq.log.hash_index import HashIndex

UNITS_AT_ONCE: Final = 4_096


class Unit(NamedTuple):
    """A unit of a consume queue."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int


class IndexRow(NamedTuple):
    """An entry of an index file; `store_time_ms` has a resolution of one second."""

    file: str
    number: int
    slot: int
    key_hash: int
    physical_offset: int
    store_time_ms: int
    previous: int


def queue_ids(disk: Disk, directory: Path, topic: str) -> list[int]:
    """Returns the ids of a topic's queues that have a directory, ascending."""
    names = disk.names(directory / CONSUME_QUEUE_DIRECTORY / topic)
    ids = (queue_id_from_name(name) for name in names)
    return sorted(queue_id for queue_id in ids if queue_id is not None)


def queue_units(
    disk: Disk, directory: Path, sizes: KnownShape, topic: str, queue_id: int,
    begin: int = 0, count: int = OFFSET_MAX,
) -> Iterator[Unit]:  # fmt: skip
    """Yields the units of a queue in order, without pre-blank ones; nothing for an unknown queue.

    begin, count   limit the queue offsets to [begin, begin + count)

    Errors   IllegalTopic, WrongFileSize, StoreGap
    """
    place = queue_directory(directory / CONSUME_QUEUE_DIRECTORY, topic, queue_id)
    queue = ConsumeQueue(
        disk, place, sizes.consume_queue_file_size_bytes, topic=topic, queue_id=queue_id
    )
    queue.load(read_only=True)
    try:
        begin = max(begin, queue.files.min_offset // UNIT_SIZE)
        end = min(queue.max_offset, begin + count)
        for at in range(begin, end, UNITS_AT_ONCE):
            units = queue.units.read(at, min(UNITS_AT_ONCE, end - at))
            for number, unit in enumerate(UNIT.iter_unpack(units), at):
                if unit[1] != PRE_BLANK_SIZE:
                    yield Unit(number, *unit)
    finally:
        queue.files.close()


def index_rows(disk: Disk, directory: Path, sizes: KnownShape) -> Iterator[IndexRow]:
    """Yields the entries of all index files, oldest file first, in the order they were added.

    Errors   WrongFileSize
    """
    with loaded_index(disk, directory, sizes) as index:
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


@contextmanager
def loaded_queues(
    disk: Disk, directory: Path, sizes: KnownShape, *, log_begin: int
) -> "Iterator[ConsumeQueueTable]":
    """Yields all queues of a store, opened read-only, without units below the log's begin.

    Effects  queues with files that are missing or have a wrong length are in `damaged` alone
    Errors   WrongFileSize: no queue has files of the right length; NotAStore
    """
    from pocketmq.log.consume_queue_table import ConsumeQueueTable

    root = directory / CONSUME_QUEUE_DIRECTORY
    table = ConsumeQueueTable(disk, root, sizes.consume_queue_file_size_bytes)
    table.load(read_only=True, knows_size=True)
    if table.damaged and table.damaged >= table.queues.keys():
        table.close()  # Rather the expected length is wrong.
        table = ConsumeQueueTable(disk, root, sizes.consume_queue_file_size_bytes)
        table.load(read_only=True)
    try:
        for file in table.take(table.damaged):
            file.close()
        table.correct_min(log_begin)
        yield table
    finally:
        table.close()


@contextmanager
def loaded_index(disk: Disk, directory: Path, sizes: KnownShape) -> "Iterator[HashIndex]":
    """Yields the index of a store, opened read-only.

    Errors   WrongFileSize
    """
    from pocketmq.format.index_layout import STYLE_5_5
    from pocketmq.log.hash_index import (
        HashIndex,  # loads numpy, which dumping records does not need
    )

    index = HashIndex(disk, directory / INDEX_DIRECTORY, sizes.geometry, style=STYLE_5_5, zone=UTC)
    index.load(read_only=True)
    try:
        yield index
    finally:
        index.close()


# -- records of a queue ------------------------------------------------------------------------
class UnitRecord(NamedTuple):
    """A unit and its record; None in place of the record if the log has no valid one."""

    unit: Unit
    record: bytes | None


def records_of(files: Sequence[LogFile], units: Iterable[Unit]) -> Iterator[UnitRecord]:
    """Yields the record of each unit.

    files    the log's files, in order
    Cost     2 µs a record in the page cache; one file is mapped at a time
    """
    with ExitStack() as opened:
        source: LogSource | None = None
        for unit in units:
            place = unit.physical_offset
            if source is None or not source.base <= place < source.end:
                opened.close()
                file = next((file for file in files if file.base <= place < file.end), None)
                source = None if file is None else opened.enter_context(file.opened())
            yield UnitRecord(unit, None if source is None else _record_at(source, unit))


def _record_at(source: LogSource, unit: Unit) -> bytes | None:
    """Returns the record of a unit; None if the record is damaged, missing or of another size."""
    position = unit.physical_offset - source.base
    if unit.size <= 0 or position + unit.size > source.size:
        return None
    try:
        found = check_record(source.view, position, unit.physical_offset)
    except BadRecord:
        return None
    return bytes(source.view[position : position + unit.size]) if found == unit.size else None
