"""How far consumer groups are behind: what they committed, and where queues end.

Queues end where their consume queues do, or, where a store has none, where the log says so.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import CONFIG_DIRECTORY, CONSUME_QUEUE_DIRECTORY, CONSUMER_OFFSETS_FILE
from broker.format.table_json import decode_table, offset_rows
from broker.log.consume_queue_table import ConsumeQueueTable
from broker.model.message import FLAG_TRANSACTION_MASK, TRANSACTION_COMMIT, TRANSACTION_NONE
from broker.model.offsets import QueueKey
from broker.tools.selection import LogSearch
from broker.tools.store_access import Sizes


class GroupLag(NamedTuple):
    """How far a group is behind in one queue; end_offset is None for a queue without messages."""

    group: str
    topic: str
    queue_id: int
    committed_offset: int
    end_offset: int | None
    lag: int


def group_lags(disk: Disk, directory: Path, ends: dict[QueueKey, int]) -> list[GroupLag]:
    """Return the lag of every group in every queue it committed an offset of, by name.

    Errors   ValueError: neither config/consumerOffset.json nor its .bak can be read
    """
    path = directory / CONFIG_DIRECTORY / CONSUMER_OFFSETS_FILE
    table = TableFile(disk, path).read(decode_table) or {}
    lags = []
    for group, topic, queue_id, committed in offset_rows(table):
        end = ends.get((topic, queue_id))
        lag = max((end or 0) - committed, 0)
        lags.append(GroupLag(group, topic, queue_id, committed, end, lag))
    return lags


def has_queues(disk: Disk, directory: Path) -> bool:
    """Return whether a store has consume queues."""
    return bool(disk.names(directory / CONSUME_QUEUE_DIRECTORY))


def queue_ends(disk: Disk, directory: Path, sizes: Sizes) -> dict[QueueKey, int]:
    """Return where each consume queue ends, as queue offsets; the log is not read.

    Errors   WrongFileSize, StoreGap
    """
    table = ConsumeQueueTable(
        disk, directory / CONSUME_QUEUE_DIRECTORY, sizes.consume_queue_file_bytes
    )
    table.load(read_only=True)
    try:
        return {key: queue.max_offset for key, queue in table.queues.items() if queue.max_offset}
    finally:
        table.close()


def ends_in_log(search: LogSearch) -> dict[QueueKey, int]:
    """Return the same of the messages that a search finds: the highest queue offset and one."""
    ends = np.zeros(0, dtype=np.int64)
    for picked in search:
        ends = np.append(ends, np.zeros(len(search.queues.keys) - len(ends), dtype=np.int64))
        kind = picked.heads.system_flag & FLAG_TRANSACTION_MASK
        is_queued = (kind == TRANSACTION_NONE) | (kind == TRANSACTION_COMMIT)
        queue = picked.queue[is_queued]
        np.maximum.at(ends, queue, picked.heads.queue_offset[is_queued] + 1)
    found: Iterable[int] = ends.tolist()
    return {key: end for key, end in zip(search.queues.keys, found, strict=False) if end}
