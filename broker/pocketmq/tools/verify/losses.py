"""Finds the messages that were lost by damage of the log.

Units of consume queues that refer to damaged bytes show lost messages. If the units are missing,
gaps between the queue offsets of the records around the damage show lost messages.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.columns.heads import Numbers
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT_SIZE
from pocketmq.format.names import (
    CONSUME_QUEUE_DIRECTORY,
    offset_file_name,
    offset_from_file_name,
    queue_directory,
    queue_id_from_name,
)
from pocketmq.log.quarantine import finished_reports
from pocketmq.model.errors import IllegalTopic
from pocketmq.model.finding import Loss
from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.rebuild.sequential import IrregularQueue, Rebuilt
from pocketmq.walk.log_walk import Hole

FILE_MISSING: Final = "the file is missing"
Span = tuple[int, int]
"""Bytes [begin, end) of the log, or messages [first, end) of a queue."""
RecordedRanges = Mapping[QueueKey, Sequence[Span]]
NO_RECORDS: Final[RecordedRanges] = MappingProxyType({})
Located = tuple[Numbers, Numbers]
"""Queue offsets and physical offsets of messages, by queue offset."""
NO_UNITS: Final[Located] = (np.empty(0, np.int64), np.empty(0, np.int64))
PIECE: Final = 3_200 * UNIT_SIZE


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
    disk: Disk, directory: Path, spans: Sequence[Span], recorded: RecordedRanges
) -> list[tuple[Loss, ...]]:
    """Returns the messages whose records begin in each span, according to the consume queues.

    directory   directory that contains consumequeue/
    recorded    ranges of each queue whose messages have a record in the log
    Cost        lists all queues, unless there are no spans
    """
    if not spans:
        return []
    witness = QueueWitness(disk, directory, recorded)
    return [witness.losses(begin, end) for begin, end in spans]


def recorded_ranges(rebuilt: Rebuilt, redone: Mapping[QueueKey, IrregularQueue]) -> RecordedRanges:
    """Returns the ranges of each queue whose messages have a record in the log, ascending."""
    found = {key: [bounds] for key, bounds in rebuilt.queues.items()}
    for key, queue in redone.items():
        if queue.end:
            gaps = [(run.first, run.first + run.messages) for run in queue.missing]
            begins = [queue.first, *(end for _, end in gaps)]
            ends = [*(begin for begin, _ in gaps), queue.end]
            found[key] = [pair for pair in zip(begins, ends, strict=True) if pair[0] < pair[1]]
    return found


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
    """The units of existing consume queues whose messages have no record in the log.

    A unit whose message has a record is damaged if it refers to another record. It shows no loss.
    """

    __slots__ = ("_disk", "_units")

    def __init__(self, disk: Disk, directory: Path, recorded: RecordedRanges = NO_RECORDS) -> None:
        """Reads the units outside of the recorded ranges.

        recorded   ranges of each queue whose messages have a record in the log
        Cost       a listing of each queue, and a read of each range between recorded ones
        """
        self._disk = disk
        root = directory / CONSUME_QUEUE_DIRECTORY
        self._units = {
            key: self._read_queue(queue_directory(root, *key), recorded.get(key, ()))
            for key in _queue_keys(disk, root)
        }

    def losses(self, begin: int, end: int) -> tuple[Loss, ...]:
        """Returns the messages whose records began in [begin, end)."""
        found: list[Loss] = []
        for key, (offsets, places) in self._units.items():
            lost = offsets[(places >= begin) & (places < end)]
            runs = np.split(lost, np.flatnonzero(np.diff(lost) != 1) + 1)
            found += [Loss(*key, int(run[0]), len(run)) for run in runs if len(run)]
        return tuple(found)

    def _read_queue(self, directory: Path, recorded: Sequence[Span]) -> Located:
        bases = [offset_from_file_name(name) for name in self._disk.names(directory)]
        files = [(base, directory / offset_file_name(base)) for base in bases if base is not None]
        begin, parts = files[0][0] // UNIT_SIZE if files else OFFSET_MAX, [NO_UNITS]
        for first, end in [*recorded, (OFFSET_MAX, OFFSET_MAX)]:
            if begin < first:
                parts.append(self._read_range(files, begin, first))
            begin = max(begin, end)
        offsets, places = zip(*parts, strict=True)
        return np.concatenate(offsets), np.concatenate(places)

    def _read_range(self, files: Sequence[tuple[int, Path]], begin: int, end: int) -> Located:
        """Returns the messages in [begin, end), up to the first unit after which no unit follows.

        Units before and after the range show which of its units are damaged.
        """
        first = max(begin - 1, files[0][0] // UNIT_SIZE)
        offsets, units = [NO_UNITS[0]], [np.empty(0, dtype=UNIT_TYPE)]
        for base, path in files:
            position = max(first * UNIT_SIZE, base)
            while position < (end + 1) * UNIT_SIZE:
                wanted = min(PIECE, (end + 1) * UNIT_SIZE - position)
                content = self._disk.read_file(path, position - base, wanted)
                count = len(content) // UNIT_SIZE
                piece = np.frombuffer(content, dtype=UNIT_TYPE, count=count)
                offsets.append(np.arange(position // UNIT_SIZE, position // UNIT_SIZE + count))
                units.append(piece)
                position += count * UNIT_SIZE
                if count * UNIT_SIZE < wanted or not content[-UNIT_SIZE:].strip(b"\0"):
                    break
        numbers, rows = np.concatenate(offsets), np.concatenate(units)
        is_message = (rows["size"] != PRE_BLANK_SIZE) & (rows["size"] != 0)
        numbers, places = (
            numbers[is_message],
            _without_outliers(rows["physical_offset"][is_message]),
        )
        is_inside = (numbers >= begin) & (numbers < end)
        return numbers[is_inside], places[is_inside]


def _without_outliers(places: NDArray[Any]) -> Numbers:
    """Returns physical offsets, each one that is not between its neighbours replaced by the first.

    Physical offsets ascend in a queue, so such a unit is damaged.
    """
    found = places.astype(np.int64)
    if len(found) > 2:
        before, after = found[:-2].copy(), found[2:].copy()
        is_damaged = (before < after) & ((found[1:-1] <= before) | (found[1:-1] >= after))
        found[1:-1][is_damaged] = before[is_damaged]
    return found


def _queue_keys(disk: Disk, root: Path) -> Iterator[QueueKey]:
    for topic in disk.names(root):
        ids = map(queue_id_from_name, disk.names(root / topic))
        with suppress(IllegalTopic):
            queue_directory(root, topic, 0)
            yield from [(topic, queue_id) for queue_id in ids if queue_id is not None]
