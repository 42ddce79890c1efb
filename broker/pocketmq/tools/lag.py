"""Computes the lag of consumer groups from committed offsets and the ends of queues.

The ends are read from the consume queues. If the store has none, they are computed from the log's
records.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.json_text import read_object
from pocketmq.format.names import (
    CONSUME_QUEUE_DIRECTORY,
    CONSUMER_OFFSETS_FILE,
    DELAY_OFFSETS_FILE,
    FLOORS_FILE,
    OWN_DIRECTORY,
)
from pocketmq.format.table_json import OFFSETS_MEMBER, offset_rows, queue_offsets
from pocketmq.log.table_files import read_table
from pocketmq.model.message import (
    FLAG_TRANSACTION_MASK,
    OFFSET_MAX,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    QueueKey,
    first_unread,
)
from pocketmq.model.topic import retry_topic
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.tools.dump import loaded_queues
from pocketmq.tools.selection import LogSearch

QueueRanges = dict[QueueKey, tuple[int, int]]
"""Range [first, end) of queue offsets of each queue."""


class GroupLag(NamedTuple):
    """Lag of a group in one queue.

    committed_offset   None: the group has no offset there, and begins at the first message
    end_offset         None: the queue has no messages
    """

    group: str
    topic: str
    queue_id: int
    committed_offset: int | None
    end_offset: int | None
    lag: int


def group_lags(disk: Disk, directory: Path, ranges: QueueRanges) -> list[GroupLag]:
    """Returns the lag of every group in the topics where it has offsets, and in its retry topics.

    The rows of a topic have the queues with an offset, and all others with messages: there a group
    begins at the first message, as with a broker. Purged messages are not counted.

    Errors   ValueError: neither config/consumerOffset.json nor its .bak can be read
    """
    offsets: dict[tuple[str, str], dict[int, int]] = {}
    for group, topic, queue_id, committed in offset_rows(
        read_table(disk, directory, CONSUMER_OFFSETS_FILE)
    ):
        offsets.setdefault((group, topic), {})[queue_id] = committed
    for group in {group for group, _ in offsets}:
        offsets.setdefault((group, retry_topic(group)), {})
    ranges = _unpurged(disk, directory, ranges)
    queues: dict[str, list[int]] = {}
    for topic, queue_id in ranges:
        queues.setdefault(topic, []).append(queue_id)
    return [
        _lag_of(group, topic, queue_id, committed.get(queue_id), ranges)
        for (group, topic), committed in sorted(offsets.items())
        for queue_id in sorted({*committed, *queues.get(topic, ())})
    ]


def _unpurged(disk: Disk, directory: Path, ranges: QueueRanges) -> QueueRanges:
    file = TableFile(disk, directory / OWN_DIRECTORY / FLOORS_FILE)
    try:
        floors = file.read(read_object) or {}
    except ValueError:  # Verification reports the table; all messages then count.
        return ranges
    of_topics = {topic: queue_offsets(floors.get(topic)) for topic, _ in ranges}
    return {
        (topic, queue_id): (min(max(lower, of_topics[topic].get(queue_id, 0)), upper), upper)
        for (topic, queue_id), (lower, upper) in ranges.items()
    }


def _lag_of(
    group: str, topic: str, queue_id: int, committed: int | None, ranges: QueueRanges
) -> GroupLag:
    lower, upper = ranges.get((topic, queue_id), (0, 0))
    unread = lower if committed is None else first_unread(committed, lower, upper)
    return GroupLag(group, topic, queue_id, committed, upper or None, upper - unread)


def committed_of(disk: Disk, directory: Path, group: str, topic: str) -> dict[int, int]:
    """Returns the offsets a group committed in a topic, by queue.

    Errors   ValueError: neither config/consumerOffset.json nor its .bak can be read
    """
    rows = offset_rows(read_table(disk, directory, CONSUMER_OFFSETS_FILE))
    return {queue_id: committed for *of, queue_id, committed in rows if of == [group, topic]}


def delivered_levels(disk: Disk, directory: Path) -> dict[int, int]:
    """Returns the queue offset below which each delay level was delivered; empty if unknown."""
    try:
        return queue_offsets(read_table(disk, directory, DELAY_OFFSETS_FILE).get(OFFSETS_MEMBER))
    except ValueError:  # Verification reports the table; all messages then count as pending.
        return {}


def queue_ranges(disk: Disk, directory: Path, sizes: KnownShape, search: LogSearch) -> QueueRanges:
    """Returns the range of each queue.

    The ranges are read from the consume queues, or from the log if the store has no queues.

    Errors   WrongFileSize, StoreGap
    """
    if not disk.names(directory / CONSUME_QUEUE_DIRECTORY):
        return ranges_in_log(search)
    with loaded_queues(disk, directory, sizes, log_begin=search.log_begin) as table:
        found = {key: (queue.min_offset, queue.max_offset) for key, queue in table.queues.items()}
    return {key: ends for key, ends in found.items() if ends[1]}


def ranges_in_log(search: LogSearch) -> QueueRanges:
    """Returns the range of queue offsets that the log's records have in each queue."""
    begins, ends = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for picked in search:
        more = len(search.queues.keys) - len(ends)
        begins = np.append(begins, np.full(more, OFFSET_MAX))
        ends = np.append(ends, np.zeros(more, dtype=np.int64))
        kind = picked.heads.system_flag & FLAG_TRANSACTION_MASK
        is_queued = (kind == TRANSACTION_NONE) | (kind == TRANSACTION_COMMIT)
        queue, queue_offset = picked.queue[is_queued], picked.heads.queue_offset[is_queued]
        np.minimum.at(begins, queue, queue_offset)
        np.maximum.at(ends, queue, queue_offset + 1)
    found = zip(search.queues.keys, begins.tolist(), ends.tolist(), strict=False)
    return {key: (begin, end) for key, begin, end in found if end}
