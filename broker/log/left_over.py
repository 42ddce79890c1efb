"""Finds what of a log belongs to no queue any more (format/left_over.py), and queues without one.

    config/topics.json, consumequeue/   the topics there are; without a table nobody says
    unit 0 of each queue                where its first message lies
    pocketmq/left_over.json             what a backup found, as its copy has no queues

A unit counts only where the record it leads to is the queue's, and the first one. A queue whose
directory was lost is no deleted one as long as its topic has a row. Where a queue begins above its
unit 0, the first one that still leads into the log tells how far its record's offset is above it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.format.checkpoint_layout import decode_checkpoint
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE, valid_unit_count
from broker.format.left_over import DRIFT_MAX, NOTHING_LEFT_OVER, LeftOver, left_over_of
from broker.format.names import (
    ABORT_FILE,
    BACKUP_SUFFIX,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    LEFT_OVER_FILE,
    OWN_DIRECTORY,
    TOPICS_FILE,
    offset_file_name,
    offset_from_file_name,
    queue_directory,
    queue_id_from_name,
)
from broker.format.record import RECORD_SIZE_MIN, BadRecord, split_record
from broker.format.table_json import decode_table
from broker.model.errors import IllegalTopic
from broker.model.message import OFFSET_MAX, QueueKey
from broker.model.names import check_queue_topic

_FIRST: Final = offset_file_name(0)


def find_left_over(
    disk: Disk, directory: Path, log_file_bytes: int, upto: int, known: Iterable[str] = ()
) -> LeftOver:
    """Return what is left over in a store.

    upto     physical offset below which queues and topics are durable: what lies behind it may be
             of a topic whose row a crash took
    known    further topics that there are
    Cost     a look into each queue
    """
    earlier = kept_left_over(disk, directory)
    topics, places = known_topics(disk, directory), dict(earlier.places)
    starts = dict(earlier.starts)
    log_begin = _log_begin(disk, directory)
    for key in queue_keys(disk, directory):
        place = _first_place(disk, directory, key, log_file_bytes)
        if place is not None:
            places[key] = max(place, places.get(key, 0))
        start = _start(disk, directory, key, log_begin, log_file_bytes) if log_begin else None
        if start is not None:
            starts[key] = start
    rules = earlier.topics
    if topics is not None:
        rules = ((upto, topics.union(known)), *(rule for rule in rules if rule[0] != upto))
    return LeftOver(rules, places, starts)


def left_over_now(disk: Disk, directory: Path, log_file_bytes: int) -> LeftOver:
    """Return the same for a tool: after a crash, or beside a broker, as far as its checkpoint."""
    upto = OFFSET_MAX
    if disk.exists(directory / ABORT_FILE):
        path = directory / CHECKPOINT_FILE
        content = disk.read_file(path) if disk.exists(path) else b""
        upto = decode_checkpoint(content).logics_physical_offset
    return find_left_over(disk, directory, log_file_bytes, upto)


def kept_left_over(disk: Disk, directory: Path) -> LeftOver:
    """Return what a store has written down; a file that cannot be read says nothing."""
    path = directory / OWN_DIRECTORY / LEFT_OVER_FILE
    with suppress(FileNotFoundError, ValueError):
        return left_over_of(disk.read_file(path).decode())
    return NOTHING_LEFT_OVER


def known_topics(disk: Disk, directory: Path) -> frozenset[str] | None:
    """Return the topics that have a row or a queue, None where no table of topics can be read."""
    path = directory / CONFIG_DIRECTORY / TOPICS_FILE
    for name in (path, path.with_name(path.name + BACKUP_SUFFIX)):
        with suppress(FileNotFoundError, ValueError):
            rows = decode_table(disk.read_file(name)).get("topicConfigTable")
            if isinstance(rows, dict):
                return frozenset(
                    [*map(str, rows), *disk.names(directory / CONSUME_QUEUE_DIRECTORY)]
                )
    return None


def _first_place(disk: Disk, directory: Path, key: QueueKey, log_file_bytes: int) -> int | None:
    """Return where the message of queue offset 0 lies, 0 where its unit does not lead to it.

    Returns  None for a queue without a unit
    """
    queue, unit = queue_directory(directory / CONSUME_QUEUE_DIRECTORY, *key), b""
    with suppress(OSError):
        unit = disk.read_file(queue / _FIRST, 0, UNIT_SIZE)
    if not any(unit):
        return 0 if any(map(offset_from_file_name, disk.names(queue))) else None
    is_whole = len(unit) == UNIT_SIZE
    if not is_whole or _offset_of(disk, directory, key, unit, log_file_bytes) != 0:
        return 0
    place: int = UNIT.unpack(unit)[0]
    return place


def _offset_of(
    disk: Disk, directory: Path, key: QueueKey, unit: bytes, log_file_bytes: int
) -> int | None:
    """Return what the record says that a unit leads to; None where it is not of the queue."""
    place, size, _ = UNIT.unpack(unit)
    if place <= 0 or not RECORD_SIZE_MIN <= size <= log_file_bytes:
        return None
    base = place - place % log_file_bytes
    log = directory / COMMIT_LOG_DIRECTORY / offset_file_name(base)
    try:
        record = disk.read_file(log, place - base, size)
        head, _, topic_begin, topic_end, _, _ = split_record(record, 0)
    except (OSError, BadRecord):
        return None
    is_own = (record[topic_begin:topic_end], head[3], head[6]) == (key[0].encode(), key[1], place)
    return int(head[5]) if is_own else None


def _start(
    disk: Disk, directory: Path, key: QueueKey, log_begin: int, log_file_bytes: int
) -> tuple[int, int] | None:
    """Return where the first message lies that a queue still has, and the number of its unit.

    Returns  None where its record says that number itself, or a unit leads there which does
    Cost     some 15 units read of each queue, and a record
    """
    queue = queue_directory(directory / CONSUME_QUEUE_DIRECTORY, *key)
    with suppress(OSError):  # Damaged otherwise, or a broker removes it meanwhile.
        number, unit = _first_unit(disk, queue, log_begin)
        wanted = _offset_of(disk, directory, key, unit, log_file_bytes) if unit else None
        if wanted is not None and number < wanted <= number + DRIFT_MAX:
            place: int = UNIT.unpack(unit)[0]
            return (place, number) if _unit_at(disk, queue, wanted) != unit else None
    return None


def _first_unit(disk: Disk, queue: Path, log_begin: int) -> tuple[int, bytes]:
    """Return number and bytes of the first unit that leads behind an offset; no bytes: none."""

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


def _unit_at(disk: Disk, queue: Path, number: int) -> bytes:
    """Return a unit of a queue, no bytes where there is none."""
    position = number * UNIT_SIZE
    bases = map(offset_from_file_name, disk.names(queue))
    base = max((base for base in bases if base is not None and base <= position), default=None)
    if base is None:
        return b""
    return disk.read_file(queue / offset_file_name(base), position - base, UNIT_SIZE)


def _log_begin(disk: Disk, directory: Path) -> int:
    """Return the physical offset of the log's first file, 0 without any."""
    bases = map(offset_from_file_name, disk.names(directory / COMMIT_LOG_DIRECTORY))
    return min((base for base in bases if base is not None), default=0)


def expired_queues(disk: Disk, directory: Path) -> Iterator[Path]:
    """Yield the last file of each queue whose messages have all left the log.

    No record tells any more which offset the queue's next message gets: these files do.
    Cost     reads the last file of each queue
    """
    log_begin = _log_begin(disk, directory)
    for topic, queue_id in queue_keys(disk, directory) if log_begin else ():
        queue = queue_directory(directory / CONSUME_QUEUE_DIRECTORY, topic, queue_id)
        found = _last_unit(disk, queue)
        if found is not None and found[1] < log_begin:
            yield found[0]


def queue_keys(disk: Disk, directory: Path) -> Iterator[QueueKey]:
    """Yield the queues that have a directory."""
    root = directory / CONSUME_QUEUE_DIRECTORY
    for topic in disk.names(root):
        for name in disk.names(root / topic) if disk.is_directory(root / topic) else ():
            queue_id = queue_id_from_name(name)
            with suppress(IllegalTopic):
                check_queue_topic(topic)
                if queue_id is not None:
                    yield topic, queue_id


def _last_unit(disk: Disk, queue: Path) -> tuple[Path, int] | None:
    """Return the file that holds a queue's last unit, and where that leads."""
    names = [name for name in disk.names(queue) if offset_from_file_name(name) is not None]
    for name in reversed(names):
        content = disk.read_file(queue / name)
        count = valid_unit_count(content[: len(content) // UNIT_SIZE * UNIT_SIZE])
        if count:
            place, size, _ = UNIT.unpack_from(content, (count - 1) * UNIT_SIZE)
            return (queue / name, place) if size != PRE_BLANK_SIZE else None
    return None
