"""Builds consume queues from spooled units, each group of queues by one task.

    spools of all ranges ─► the group's units, sorted by queue ─► drafts ─► consumequeue/T/0/…

A task writes every file of its queues alone and whole, as a draft, and renames it when it is
complete. So no two tasks write to one page of a file, which some network file systems would lose.
Irregular queues, left-over records and extensions are handled here too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np

from pocketmq.format.columns.heads import Numbers
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.deleted_topics import LeftOver, left_over_of
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY
from pocketmq.model.message import QueueKey
from pocketmq.rebuild.drafted_files import drafted_files, publish_tree
from pocketmq.rebuild.extension import ExtensionTask, extend_queue
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.rebuild.sequential import IrregularQueue
from pocketmq.rebuild.staging import PartRows, Staging, new_writer
from pocketmq.rebuild.unit_files import QueueFiles
from pocketmq.rebuild.unit_spool import DIGEST_END, SpooledQueue, read_queues

GROUP_UNITS: Final = 1_250_000
"""Approximate units of a group, which takes 100 to 200 MB of memory."""
GROUPS_PER_WORKER: Final = 2
HELD_FACTOR: Final = 3
"""A group is read run by run if it has more than this many times `group_units` units. Only a large
queue makes a group so large."""


@dataclass(frozen=True, slots=True)
class GroupTask:
    """The queues whose digests are in [low, high).

    held_max    number of units above which the group is read run by run
    spools      the units' spools, in the order of the log
    unit_count  units of all spools
    log         files of the log, if the queues have extensions
    gaps        physical offsets [begin, end) where the log lost records, ascending
    met         queues with left-over records
    """

    out: str
    low: int
    high: int
    held_max: int
    unit_count: int
    spools: tuple[str, ...]
    settings: KnownShape
    log: tuple[LogFile, ...]
    gaps: tuple[tuple[int, int], ...]
    met: tuple[QueueKey, ...]

    @property
    def name(self) -> str:
        """Name of the part."""
        return f"queues-{self.low:016x}"

    @property
    def mark(self) -> list[int]:
        """Numbers that identify the group in one plan."""
        return [self.low, self.high, self.unit_count]


def group_borders(unit_count: int, workers: int, group_units: int) -> list[int]:
    """Returns the digests that separate the groups, both ends included."""
    count = max(ceil(unit_count / group_units), 1)
    if workers > 1:  # Even groups of a fifth of the size take longer than the start of a task.
        count = max(count, min(GROUPS_PER_WORKER * workers, ceil(5 * unit_count / group_units)))
    return [DIGEST_END * number // count for number in range(count + 1)]


def build_group(task: GroupTask, writer: str = "") -> None:
    """Builds all files of a group of queues, and puts them in their places.

    writer   name of this attempt; "": a new one
    Cost     0.3 µs a unit, some 300 µs a file
    """
    staging, rows = Staging(Path(task.out), writer or new_writer()), PartRows()
    size_bytes = task.settings.consume_queue_file_size_bytes
    with staging.drafts() as drafts:
        if task.settings.consume_queue_extension:
            _build_extended(task, drafts, rows)
        else:
            with drafted_files(drafts, staging.out, size_bytes) as files:
                for _ in _built(task, files, rows):
                    pass
            rows.files = files.rows
    staging.finish_part(task.name, task.mark, 0, rows)


def _build_extended(task: GroupTask, drafts: Path, rows: PartRows) -> None:
    """Builds queues with extensions, which read and change files of queues."""
    files = QueueFiles(
        drafts / CONSUME_QUEUE_DIRECTORY, task.settings.consume_queue_file_size_bytes
    )
    keys = []
    for key in _built(task, files, rows):
        files.close()
        extend_queue(ExtensionTask(str(drafts), key, task.log, task.settings))
        keys.append(key)
    rows.files = publish_tree(drafts, keys, Path(task.out))


def _built(task: GroupTask, files: QueueFiles, rows: PartRows) -> Iterator[QueueKey]:
    """Writes the group's queues one after the other; yields each that has units."""
    known = left_over_of(task.settings.left_over)
    for queue in read_queues(task.spools, task.low, task.high, held_max=task.held_max):
        left_over = known.with_empty(task.met, [queue.key])
        begin, end = _build_queue(task, files, queue, known, left_over, rows)
        if end:
            rows.queues.append((*queue.key, begin, end))
            yield queue.key


def _build_queue(
    task: GroupTask, files: QueueFiles, queue: SpooledQueue, known: LeftOver, left_over: LeftOver,
    rows: PartRows,
) -> tuple[int, int]:  # fmt: skip
    """Writes a queue; returns its first and end offset, (_, 0) if it has no unit."""
    key = queue.key
    is_empty = key in left_over.places and key not in known.places
    if queue.is_regular and key not in known.starts and not is_empty:
        begin = end = int(queue.first[0])
        files.fill(key, begin)
        for _, _, units in queue.pieces():
            files.write(key, end, units.view(np.uint8).data)
            end += len(units)
        return begin, end
    rows.irregular.append(key)
    built = IrregularQueue(files, key, task.gaps, known.starts.get(key))
    floor = left_over.floor_of(*key) if is_empty else 0
    for first, count, units in queue.pieces():
        offsets, found = _offsets(first, count), units.view(UNIT_TYPE)
        if floor:
            is_kept = found["physical_offset"] >= floor
            offsets, found = offsets[is_kept], found[is_kept]
        if len(found):
            built.put(offsets, found)
    built.finish()
    return built.first, built.end


def _offsets(first: Numbers, count: Numbers) -> Numbers:
    begins = np.cumsum(count) - count
    return np.repeat(first - begins, count) + np.arange(int(count.sum()))
