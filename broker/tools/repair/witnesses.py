"""What tells of damaged records: the sound ones beside them, and units that lead there."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.format.addresses import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT, round_file_size
from broker.format.names import CONSUME_QUEUE_DIRECTORY, queue_directory, queue_id_from_name
from broker.format.record import (
    BLANK_SIZE,
    RECORD_HEAD,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
    ends_with_crc,
)
from broker.log.consume_queue import ConsumeQueue
from broker.model.errors import IllegalTopic, StorageError
from broker.model.message import FLAG_BORN_HOST_V6, QueueKey
from broker.model.names import check_topic
from broker.rebuild.log_files import KnownShape, LogFile
from broker.tools.repair.actions import Loss
from broker.walk.log_walk import LogWalk
from broker.walk.reader import Chunk, LogReader
from broker.walk.search import store_time_at

TIME_SIZE: Final = 8
"""Bytes of a store time."""


class Neighbour(NamedTuple):
    """A sound record."""

    physical_offset: int
    size: int
    time_ms: int
    property_crc: bool

    @property
    def end(self) -> int:
        """Physical offset behind it."""
        return self.physical_offset + self.size


class Neighbours:
    """Finds sound records in a log that is damaged.

    Cost     about a µs a record of the file that is walked
    """

    __slots__ = ("_files", "_property_crc")

    def __init__(self, files: Sequence[LogFile], *, property_crc: bool = False) -> None:
        self._files = files
        self._property_crc = property_crc

    def at(self, physical_offset: int) -> Neighbour | None:
        """Return the record that starts at an offset."""
        for file in self._files:
            if file.base <= physical_offset <= file.end - BLANK_SIZE:
                return _read(file, physical_offset)
        return None

    def before(self, physical_offset: int) -> Neighbour | None:
        """Return the last record that starts below an offset."""
        for file in reversed(self._files):
            last = None
            for chunk in self._chunks(file, file.base, physical_offset):
                last = int(chunk.heads.physical_offset[-1])
            if last is not None:
                return _read(file, last)
        return None

    def after(self, physical_offset: int) -> Neighbour | None:
        """Return the first record behind an offset at which a record, or damage, begins."""
        for file in self._files:
            for chunk in self._chunks(file, max(physical_offset, file.base), file.end):
                return _read(file, int(chunk.heads.physical_offset[0]))
        return None

    def _chunks(self, file: LogFile, begin: int, upto: int) -> Iterator[Chunk]:
        """Yield the records of a file that start in [begin, upto), over damage."""
        if begin < min(upto, file.end):
            walk = LogWalk(LogReader(check_crc=True, property_crc=self._property_crc))
            with file.opened() as source:
                for found in walk.over(source, begin, upto):
                    if isinstance(found, Chunk):
                        yield found


def _read(file: LogFile, physical_offset: int) -> Neighbour | None:
    with file.opened() as source:
        time_ms = store_time_at(source, physical_offset)
        if time_ms is None:
            return None
        position = physical_offset - file.base
        size: int = SIZE_AND_MAGIC.unpack_from(source.view, position)[0]
        has_crc = ends_with_crc(source.view, position + size)
    return Neighbour(physical_offset, size, time_ms, has_crc)


def store_time_position(record: bytes) -> int:
    """Return at which byte of a record its store time stands."""
    (flag,) = SYSTEM_FLAG.unpack_from(record, SYSTEM_FLAG_POSITION)
    wider = IPV6_HOST_SIZE - IPV4_HOST_SIZE if flag & FLAG_BORN_HOST_V6 else 0
    return RECORD_HEAD.positions["store_timestamp"] + wider


class QueueWitness:
    """The consume queues of a store as they are; queues that cannot be read say nothing."""

    __slots__ = ("_queues",)

    def __init__(self, disk: Disk, directory: Path, sizes: KnownShape) -> None:
        root = directory / CONSUME_QUEUE_DIRECTORY
        file_size = round_file_size(sizes.consume_queue_file_size_bytes)
        self._queues: list[ConsumeQueue] = []
        for topic, queue_id in _queue_keys(disk, root):
            place = queue_directory(root, topic, queue_id)
            queue = ConsumeQueue(disk, place, file_size, topic=topic, queue_id=queue_id)
            try:
                queue.load(read_only=True)
            except StorageError:
                queue.files.close()
            else:
                self._queues.append(queue)

    def losses(self, begin: int, end: int) -> tuple[Loss, ...]:
        """Return the messages whose records begin in [begin, end).

        Cost     some 40 looks for each queue
        """
        found = []
        for queue in self._queues:
            lower, upper = map(queue.units.first_at_or_behind, (begin, end))
            if lower < upper:
                units = queue.units.read(lower, upper - lower)
                count = sum(unit[1] != PRE_BLANK_SIZE for unit in UNIT.iter_unpack(units))
                found.append(Loss(queue.topic, queue.queue_id, lower, count))
        return tuple(found)

    def close(self) -> None:
        """Unmap all files."""
        for queue in self._queues:
            queue.files.close()


def _queue_keys(disk: Disk, root: Path) -> Iterator[QueueKey]:
    for topic in disk.names(root):
        with suppress(IllegalTopic):
            check_topic(topic)
            ids = map(queue_id_from_name, disk.names(root / topic))
            yield from [(topic, queue_id) for queue_id in ids if queue_id is not None]
