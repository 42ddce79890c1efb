"""Finds which log records are left over from deleted topics (format/deleted_topics.py).

    source                              fact
    config/topics.json, consumequeue/   existing topics; without the table they are unknown
    unit 0 of each queue                physical offset of its first message
    table of queue ends                 the same of queues whose directory is lost
    pocketmq/left_over.json             findings of a backup, whose copy has no queues

Unit 0 is used only if it refers to a record that is of this queue and has queue offset 0.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.format.consume_unit import UNIT, UNIT_SIZE
from pocketmq.format.deleted_topics import (
    NOTHING_LEFT_OVER,
    LeftOver,
    is_numbered_otherwise,
    left_over_of,
)
from pocketmq.format.names import (
    ABORT_FILE,
    CONSUME_QUEUE_DIRECTORY,
    LEFT_OVER_FILE,
    OWN_DIRECTORY,
    offset_file_name,
    offset_from_file_name,
    queue_directory,
)
from pocketmq.log.checkpoint import read_checkpoint
from pocketmq.log.queue_places import (
    first_log_offset,
    first_unit,
    lost_starts,
    offset_of,
    queue_keys,
    unit_at,
)
from pocketmq.log.table_files import read_topics
from pocketmq.model.message import OFFSET_MAX, QueueKey

_FIRST: Final = offset_file_name(0)


def find_left_over(
    disk: Disk, directory: Path, log_file_bytes: int, upto: int, known: Iterable[str] = ()
) -> LeftOver:
    """Returns the left-over records of a store.

    upto     physical offset below which queues and topics are durable; a topic with later records
             may have lost its row in a crash
    known    topics that exist in addition to those found
    Cost     a few reads of each queue; about 15 more if the log's first records have expired
    """
    earlier = kept_left_over(disk, directory)
    topics, places = known_topics(disk, directory), dict(earlier.places)
    starts = dict(earlier.starts)
    log_begin = first_log_offset(disk, directory)
    there = set(queue_keys(disk, directory))
    for key in there:
        place = _first_place(disk, directory, key, log_file_bytes)
        if place is not None:
            places[key] = max(place, places.get(key, 0))
        start = _start(disk, directory, key, log_begin, log_file_bytes) if log_begin else None
        if start is not None:
            starts[key] = start
    checkpoint = encode_checkpoint(read_checkpoint(disk, directory))
    for key, place, number, said in lost_starts(disk, directory, checkpoint, there, log_file_bytes):
        if is_numbered_otherwise(number, said):
            starts[key] = (place, number)
        elif number == said == 0:
            places[key] = max(place, places.get(key, 0))
    rules = earlier.topics
    if topics is not None:
        rules = ((upto, topics.union(known)), *(rule for rule in rules if rule[0] != upto))
    return LeftOver(rules, places, starts)


def left_over_now(disk: Disk, directory: Path, log_file_bytes: int) -> LeftOver:
    """Returns left-over records for a tool.

    After a crash, topics without a row are known only for records below the checkpoint.
    """
    upto = OFFSET_MAX
    if disk.exists(directory / ABORT_FILE):
        upto = read_checkpoint(disk, directory).logics_physical_offset
    return find_left_over(disk, directory, log_file_bytes, upto)


def kept_left_over(disk: Disk, directory: Path) -> LeftOver:
    """Returns the findings in left_over.json; NOTHING_LEFT_OVER if there is no valid file."""
    path = directory / OWN_DIRECTORY / LEFT_OVER_FILE
    with suppress(FileNotFoundError, ValueError):
        return left_over_of(disk.read_file(path).decode())
    return NOTHING_LEFT_OVER


def is_unstarted_copy(disk: Disk, directory: Path) -> bool:
    """Returns whether a store is a copy by a backup whose first start has built no queues yet."""
    is_copy = disk.exists(directory / OWN_DIRECTORY / LEFT_OVER_FILE)
    return is_copy and not disk.names(directory / CONSUME_QUEUE_DIRECTORY)


def known_topics(disk: Disk, directory: Path) -> frozenset[str] | None:
    """Returns the topics with a row or a queue; None if no topic table can be parsed.

    A queue without files does not count, as RocketMQ may leave an empty directory when it deletes a
    topic.
    """
    rows = read_topics(disk, directory)
    if rows is None:
        return None
    queues = directory / CONSUME_QUEUE_DIRECTORY
    others = (topic for topic in disk.names(queues) if topic not in rows)
    return frozenset(rows).union(topic for topic in others if _has_file(disk, queues / topic))


def _has_file(disk: Disk, topic: Path) -> bool:
    files = (name for queue in disk.names(topic) for name in disk.names(topic / queue))
    return any(offset_from_file_name(name) is not None for name in files)


def _first_place(disk: Disk, directory: Path, key: QueueKey, log_file_bytes: int) -> int | None:
    """Returns the physical offset of the message of queue offset 0; 0 if its unit is invalid.

    Returns  None for a queue without units
    """
    queue, unit = queue_directory(directory / CONSUME_QUEUE_DIRECTORY, *key), b""
    with suppress(OSError):
        unit = disk.read_file(queue / _FIRST, 0, UNIT_SIZE)
    if not any(unit):
        return 0 if any(map(offset_from_file_name, disk.names(queue))) else None
    is_whole = len(unit) == UNIT_SIZE
    if not is_whole or offset_of(disk, directory, key, unit, log_file_bytes) != 0:
        return 0
    place: int = UNIT.unpack(unit)[0]
    return place


def _start(
    disk: Disk, directory: Path, key: QueueKey, log_begin: int, log_file_bytes: int
) -> tuple[int, int] | None:
    """Returns (physical offset, unit number) of a queue's first remaining message.

    Returns  None if the record's queue offset equals the unit number, or if the unit at the
             record's queue offset also refers to the record
    Cost     reads about 15 units of each queue, and a record
    """
    queue = queue_directory(directory / CONSUME_QUEUE_DIRECTORY, *key)
    with suppress(OSError):  # Damaged, or removed by a running broker.
        number, unit = first_unit(disk, queue, log_begin)
        wanted = offset_of(disk, directory, key, unit, log_file_bytes) if unit else None
        if wanted is not None and is_numbered_otherwise(number, wanted):
            place: int = UNIT.unpack(unit)[0]
            return (place, number) if unit_at(disk, queue, wanted) != unit else None
    return None
