"""Finds the messages that were lost by damage of the log.

Units of consume queues that refer to damaged bytes show lost messages. If the units are missing,
gaps between the queue offsets of the records around the damage show lost messages.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, round_file_size
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, queue_directory, queue_id_from_name
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.log.quarantine import finished_reports
from pocketmq.model.errors import IllegalTopic, StorageError
from pocketmq.model.finding import Loss
from pocketmq.model.message import QueueKey
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.sequential import IrregularQueue, Rebuilt
from pocketmq.walk.log_walk import Hole

FILE_MISSING: Final = "the file is missing"
Span = tuple[int, int]
"""Bytes [begin, end) of the log."""


def join_gaps(rebuilt: Rebuilt, gaps: Sequence[Hole]) -> list[Hole]:
    """Returns the gaps of a log, each joined with the damage directly before it.

    gaps     log files that are missing, and the missing ends of files that were cut short
    Effects  the joined gaps replace this damage in the holes of `rebuilt`
    """
    torn = {(hole.path, hole.end): hole.begin for hole in rebuilt.holes if not hole.is_followed}
    tail = rebuilt.tail
    if tail is not None:
        torn[tail.path, tail.end] = tail.begin
    joined = [replace(gap, begin=torn.get((gap.path, gap.begin), gap.begin)) for gap in gaps]
    begins = {gap.begin for gap in joined}
    if tail is not None and tail.begin in begins:
        rebuilt.tail = None
    holes = [hole for hole in rebuilt.holes if hole.begin not in begins]
    rebuilt.holes = sorted([*holes, *joined], key=lambda hole: hole.begin)
    return joined


def losses_in(
    disk: Disk, directory: Path, sizes: KnownShape, spans: Sequence[Span]
) -> list[tuple[Loss, ...]]:
    """Returns the messages whose records begin in each span, according to the consume queues.

    directory   directory that contains consumequeue/
    Cost        opens all queues, unless there are no spans
    """
    if not spans:
        return []
    witness = QueueWitness(disk, directory, sizes)
    try:
        return [witness.losses(begin, end) for begin, end in spans]
    finally:
        witness.close()


def attribute(
    redone: Mapping[QueueKey, IrregularQueue], spans: Sequence[Span],
    lost: list[tuple[Loss, ...]],
) -> list[Loss]:  # fmt: skip
    """Adds messages missing between two queue offsets to `lost` if no queue file shows them.

    Returns  missing messages that belong to no span: a repair replaced their records
    """
    earlier: list[Loss] = []
    for (topic, queue_id), queue in redone.items():
        for run in queue.missing:
            loss = Loss(topic, queue_id, run.first, run.messages)
            inside = [
                n for n, (begin, end) in enumerate(spans) if begin < run.end and run.begin < end
            ]
            if not inside:
                earlier.append(loss)
            elif not any(one[:2] == loss[:2] for n in inside for one in lost[n]):
                lost[inside[0]] += (loss,)
    return sorted(earlier)


def losses_reported(disk: Disk, directory: Path, log_begin: int) -> list[Loss]:
    """Returns the losses that finished repairs of this store reported.

    log_begin   a repair does not count if all the log that it repaired is below this offset
    """
    found: list[Loss] = []
    for report in finished_reports(disk, directory):
        with suppress(KeyError, TypeError, ValueError):
            ends = [row["end"] for row in report["log"]]
            head = report.get("oldest_files_missing")
            ends += [head[1] + 1] if head else []
            if not ends or max(ends) > log_begin:
                found += [Loss(**row) for row in report["lost"]]
    return found


def with_reported(seen: Sequence[Loss], reported: Sequence[Loss]) -> list[Loss]:
    """Returns all reported losses, and those gaps between queue offsets that no report names."""
    gaps = [gap for gap in seen if not any(_overlap(gap, loss) for loss in reported)]
    return sorted({*gaps, *reported})


def _overlap(one: Loss, other: Loss) -> bool:
    begin, end = (
        max(one.first, other.first),
        min(one.first + one.messages, other.first + other.messages),
    )
    return one[:2] == other[:2] and begin < end


class QueueWitness:
    """The existing consume queues of a store, without unreadable ones."""

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
        """Returns the messages whose records begin in [begin, end).

        Cost     some 40 reads for each queue
        """
        found = []
        for queue in self._queues:
            lower, upper = map(queue.units.first_at_or_behind, (begin, end))
            if lower < upper:
                units = queue.units.read(lower, upper - lower)
                count = sum(unit[1] != PRE_BLANK_SIZE for unit in UNIT.iter_unpack(units))
                found += [Loss(queue.topic, queue.queue_id, lower, count)] if count else []
        return tuple(found)

    def close(self) -> None:
        """Unmaps all files."""
        for queue in self._queues:
            queue.files.close()


def _queue_keys(disk: Disk, root: Path) -> Iterator[QueueKey]:
    for topic in disk.names(root):
        ids = map(queue_id_from_name, disk.names(root / topic))
        with suppress(IllegalTopic):
            queue_directory(root, topic, 0)
            yield from [(topic, queue_id) for queue_id in ids if queue_id is not None]
