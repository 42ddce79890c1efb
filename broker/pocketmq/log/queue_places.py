"""Lists queues on disk and reads single units without opening a queue.

Callers need facts about queues before the queues are loaded, or without loading thousands of them.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.format.columns.units import valid_unit_count
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from pocketmq.format.multi_dispatch import offset_in_queue
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    OWN_DIRECTORY,
    offset_file_name,
    offset_from_file_name,
    queue_directory,
    queue_id_from_name,
)
from pocketmq.log.checkpoint import QueueEnds
from pocketmq.model.errors import IllegalTopic
from pocketmq.model.message import QueueKey
from pocketmq.model.names import check_queue_topic


def expired_queues(disk: Disk, directory: Path) -> Iterator[Path]:
    """Yields the last file of each queue whose messages have all left the log.

    Only these files still show the queue's next offset.
    Cost     reads the last file of each queue
    """
    log_begin = first_log_offset(disk, directory)
    for topic, queue_id in queue_keys(disk, directory) if log_begin else ():
        queue = queue_directory(directory / CONSUME_QUEUE_DIRECTORY, topic, queue_id)
        found = _last_unit(disk, queue)
        if found is not None and found[1] < log_begin:
            yield found[0]


def queue_keys(disk: Disk, directory: Path) -> Iterator[QueueKey]:
    """Yields the queues that have a directory."""
    root = directory / CONSUME_QUEUE_DIRECTORY
    for topic in disk.names(root):
        for name in disk.names(root / topic) if disk.is_directory(root / topic) else ():
            queue_id = queue_id_from_name(name)
            with suppress(IllegalTopic):
                check_queue_topic(topic)
                if queue_id is not None:
                    yield topic, queue_id


def _last_unit(disk: Disk, queue: Path) -> tuple[Path, int] | None:
    names = [name for name in disk.names(queue) if offset_from_file_name(name) is not None]
    for name in reversed(names):
        content = disk.read_file(queue / name)
        count = valid_unit_count(content[: len(content) // UNIT_SIZE * UNIT_SIZE])
        if count:
            place, size, _ = UNIT.unpack_from(content, (count - 1) * UNIT_SIZE)
            return (queue / name, place) if size != PRE_BLANK_SIZE else None
    return None


def first_unit(disk: Disk, queue: Path, log_begin: int) -> tuple[int, bytes]:
    """Returns (number, bytes) of a queue's first unit whose record the log still has.

    log_begin   physical offset of the log's first file
    Returns     b"" as bytes if there is no such unit
    """

    def is_old(position: int) -> bool:
        place, size, _ = UNIT.unpack(disk.read_at(file, position, UNIT_SIZE))
        return bool(size > 0 and place < log_begin)

    for name in disk.names(queue):
        base = offset_from_file_name(name)
        if base is None or disk.is_directory(queue / name):
            continue
        with disk.opened(queue / name) as file:
            count = disk.file_size(queue / name) // UNIT_SIZE
            found = bisect_left(range(count), True, key=lambda n: not is_old(n * UNIT_SIZE))
            if found < count:
                unit = disk.read_at(file, found * UNIT_SIZE, UNIT_SIZE)
                return base // UNIT_SIZE + found, unit if any(unit) else b""
    return 0, b""


def unit_at(disk: Disk, queue: Path, number: int) -> bytes:
    """Returns the bytes of a unit; b"" if the unit does not exist."""
    position = number * UNIT_SIZE
    bases = map(offset_from_file_name, disk.names(queue))
    base = max((base for base in bases if base is not None and base <= position), default=None)
    if base is None:
        return b""
    return disk.read_file(queue / offset_file_name(base), position - base, UNIT_SIZE)


def offset_of(
    disk: Disk, directory: Path, key: QueueKey, unit: bytes, log_file_bytes: int
) -> int | None:
    """Returns the queue offset in the record of a unit; None if the unit refers to no record."""
    place, size, _ = UNIT.unpack(unit)
    if place <= 0 or not 0 < size <= log_file_bytes:
        return None
    base = place - place % log_file_bytes
    log = directory / COMMIT_LOG_DIRECTORY / offset_file_name(base)
    try:
        record = disk.read_file(log, place - base, size)
    except OSError:
        return None
    return offset_in_queue(record, place, key)


def lost_starts(
    disk: Disk, directory: Path, checkpoint: bytes, there: Collection[QueueKey], log_file_bytes: int
) -> Iterator[tuple[QueueKey, int, int, int]]:
    """Yields the first message of each queue whose directory is lost.

    there    the queues that have a directory
    Yields   (queue, physical offset, number of its unit, queue offset in its record); nothing
             unless the table of queue ends was written for this checkpoint
    """
    ends = QueueEnds(disk, directory / OWN_DIRECTORY).load(checkpoint)
    for key, end in ends.items():
        if key in there or not end.min_place:
            continue
        base = end.min_place - end.min_place % log_file_bytes
        log = directory / COMMIT_LOG_DIRECTORY / offset_file_name(base)
        with suppress(OSError):
            size = int.from_bytes(disk.read_file(log, end.min_place - base, 4))
            unit = UNIT.pack(end.min_place, min(size, log_file_bytes), 0)
            said = offset_of(disk, directory, key, unit, log_file_bytes)
            if said is not None:
                yield key, end.min_place, end.min_offset, said


def first_log_offset(disk: Disk, directory: Path) -> int:
    """Returns the physical offset of the log's first file; 0 without files."""
    bases = map(offset_from_file_name, disk.names(directory / COMMIT_LOG_DIRECTORY))
    return min((base for base in bases if base is not None), default=0)
