"""Lists the messages of a stopped store that are not delivered yet, with their due times."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_readable_files
from pocketmq.tools.dump import queue_ids, queue_units, records_of
from pocketmq.tools.lag import delivered_levels
from pocketmq.tools.pending.timers import LEVEL, PendingMessage, pending_timers, shown_record


def pending_messages(disk: Disk, directory: Path, sizes: KnownShape) -> Iterator[PendingMessage]:
    """Yields a store's pending messages: timers, then delay levels, each in put order.

    Errors   NotAStore, WrongFileSize, StoreGap
    Cost     some 12 µs a record in the topics of timers and delay levels; the ids of recalled
             messages are in memory
    """
    files, _ = find_readable_files(directory, sizes.commit_log_file_size_bytes)
    yield from pending_timers(disk, directory, sizes, files)
    yield from _in_levels(disk, directory, sizes, files)


def _in_levels(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile]
) -> Iterator[PendingMessage]:
    """Yields the pending messages of the delay levels, in order of level."""
    delivered = delivered_levels(disk, directory)
    for queue_id in queue_ids(disk, directory, SCHEDULE_TOPIC):
        begin = delivered.get(queue_id + 1, 0)
        units = queue_units(disk, directory, sizes, SCHEDULE_TOPIC, queue_id)
        left = (unit for unit in units if unit.queue_offset >= begin)
        for unit, record in records_of(files, left):
            if record is not None:
                yield shown_record(record, LEVEL, unit.tags_code, unit[:2])
