"""Finds views that lack records, so that files removed between two runs are noticed.

A store that this broker closed lists its queues and index files. In any other store the whole log
is walked: the first and last message of each queue are compared with its units, and the first
record and the last one's keys of each index file with its entries.
store/recovery/recovery_plan.py rebuilds missing parts.
"""

from typing import NamedTuple

from pocketmq.format.consume_unit import PRE_BLANK_SIZE
from pocketmq.format.deleted_topics import NOTHING_LEFT_OVER, LeftOver
from pocketmq.format.index_layout import StyleSpans, entry_keys, is_indexed
from pocketmq.format.record_scan import written_at
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.log.consume_queue_table import ConsumeQueueTable
from pocketmq.log.hash_index import HashIndex
from pocketmq.log.store_directory import ClosedState
from pocketmq.model.message import QueueKey, has_queue_offset
from pocketmq.model.store_shape import DelayLevels


def missing_from_list(
    closed: ClosedState, queues: ConsumeQueueTable, index: HashIndex, log_begin: int = 0
) -> tuple[set[QueueKey], bool]:
    """Returns (queues that lack units, whether the index lacks files), by the last stop's list.

    A queue that lacks units in front or behind is named, and one whose last unit leads elsewhere:
    they are to be built again whole. Units of records before the log's begin are no lack.
    """
    lacking: set[QueueKey] = set()
    for topic, ranges in closed.queues.items():
        for queue_id_text, (lower, upper) in ranges.items():
            key = (topic, int(queue_id_text))
            queue = queues.queues.get(key)
            if (
                queue is None
                or (queue.min_offset > lower and not _has_left(queue, lower, log_begin))
                or queue.max_offset != upper
                or queue.max_physical_offset > closed.log_end
            ):
                lacking.add(key)
    names = [file.path.name for file in index.files]
    return lacking, names[: len(closed.index_files)] != closed.index_files


def missing_from_log(
    log: CommitLog, queues: ConsumeQueueTable, index: HashIndex, levels: DelayLevels,
    older_styles: StyleSpans = (), left_over: LeftOver = NOTHING_LEFT_OVER,
) -> tuple[set[QueueKey], bool, LeftOver]:  # fmt: skip
    """Returns the same by walking the whole log, and the left-over records.

    older_styles   of the index, before its present one
    left_over      as queues and topics show
    Cost     about 5 µs a record
    """
    ranges: dict[QueueKey, _Range] = {}
    met: set[QueueKey] = set()
    seams = _IndexSeams(index)
    for physical_offset, file, position, _ in log.scan(0):
        record = written_at(file.view, position, levels)
        key, queue_offset = record.destination.queue, record.queue_offset
        is_removed = queue_offset < queues.removed.get(key, 0)
        if physical_offset < left_over.floor_of(*key):
            met.add(key)
            is_removed = True
        if has_queue_offset(record.destination.system_flag) and not is_removed:
            found = ranges.get(key) or _Range(queue_offset, physical_offset, 0, 0)
            ranges[key] = found._replace(last=queue_offset, end=record.end)
        if is_indexed(record.destination.transaction):
            styles = (style for end, style in older_styles if physical_offset < end)
            style = next(styles, index.style)
            keys = entry_keys(record.unique_keys[0], record.keys[0], record.tags[0], style)
            if keys:
                seams.look(physical_offset, len(keys))
    left_over = left_over.with_empty(met, ranges)
    lacking = {
        key
        for key, found in ranges.items()
        if found.end > left_over.floor_of(*key) and _lacks(queues.queues.get(key), found)
    }
    return lacking, seams.has_gap, left_over


def _has_left(queue: ConsumeQueue, queue_offset: int, log_begin: int) -> bool:
    """Returns whether a message has left the log since."""
    unit = queue.units.at(queue_offset)
    return unit is not None and unit[1] != PRE_BLANK_SIZE and 0 <= unit[0] < log_begin


class _Range(NamedTuple):
    """The records of a queue: offset and place of the first, offset and end of the last one."""

    first: int
    place: int
    last: int
    end: int


def _lacks(queue: ConsumeQueue | None, found: _Range) -> bool:
    """Returns whether a queue lacks units in front or behind.

    Records may carry offsets above their units (RocketMQ 5.0.0), so places count as well.
    """
    if queue is None:
        return True
    unit = queue.units.at(queue.min_offset)
    begins = queue.min_offset <= found.first or (unit is not None and unit[0] <= found.place)
    ends = queue.max_offset > found.last or queue.max_physical_offset >= found.end
    return not (begins and ends)


class _IndexSeams:
    """Where index files meet, compared with the indexed records as they come in log order.

    Records behind the newest file are no gap: recovery dispatches them.
    """

    __slots__ = ("_due", "_files", "_numbers", "has_gap")

    def __init__(self, index: HashIndex) -> None:
        self._files = [file for file in index.files if file.entry_count]
        ends = [file.header.end_physical_offset for file in self._files]
        self._numbers = {end: number for number, end in enumerate(ends)}
        self._due: int | None = 0
        """Number of the file that has to begin with the next record."""
        self.has_gap = False

    def look(self, physical_offset: int, key_count: int) -> None:
        """Takes the next record that has keys."""
        if self._due is not None:
            self._expect(self._due, physical_offset)
            self._due = None
        number = self._numbers.get(physical_offset)
        if number is None:
            return
        following = number + 1
        if self._files[number].last_record_count() < key_count:
            self._expect(following, physical_offset)  # The others begin the next file.
        elif following < len(self._files):
            self._due = following

    def _expect(self, number: int, physical_offset: int) -> None:
        assert 0 <= number <= len(self._files)
        begins = [file.header.begin_physical_offset for file in self._files[number : number + 1]]
        if not begins or begins[0] > physical_offset:
            self.has_gap = True
