"""Finds views that lack records, for example because files were removed between two runs.

If PocketMQ closed the store, its manifest lists queues and index files. After a crash, the table of
queue ends and the records at the ends of index files show missing files. In any other store the
whole log is scanned. store/recovery/recovery_plan.py rebuilds missing parts.
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
from pocketmq.model.batch import Written
from pocketmq.model.message import QueueKey, has_queue_offset
from pocketmq.model.store_shape import DelayLevels


def missing_from_list(
    closed: ClosedState, queues: ConsumeQueueTable, index: HashIndex, log_begin: int = 0
) -> tuple[set[QueueKey], bool]:
    """Returns (queues to rebuild, whether the index lacks files), by the manifest of the last stop.

    Missing units of expired records do not count.
    """
    lacking: set[QueueKey] = set()
    for topic, ranges in closed.queues.items():
        for queue_id_text, (lower, upper) in ranges.items():
            key = (topic, int(queue_id_text))
            queue = queues.queues.get(key)
            if (
                queue is None
                or (queue.unit_min > lower and not _has_left(queue, lower, log_begin))
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
    """Returns (queues to rebuild, whether the index lacks files, left-over records), by the log.

    older_styles   earlier styles of the index's entries, each with the offset at which it ends
    left_over      records of deleted topics, as queues and topics show them
    Cost           5 µs a record
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
        if key_count := _key_count(record, physical_offset, index, older_styles):
            seams.look(physical_offset, key_count)
    left_over = left_over.with_empty(met, ranges)
    lacking = {
        key
        for key, found in ranges.items()
        if found.end > left_over.floor_of(*key) and _lacks(queues.queues.get(key), found)
    }
    return lacking, seams.has_gap, left_over


def index_lacks_file(
    log: CommitLog, index: HashIndex, levels: DelayLevels, older_styles: StyleSpans, below: int
) -> bool:
    """Returns whether an index file is missing, by the records at the ends of the other files.

    below    physical offset up to which the index is trusted after a crash
    Cost     a few records read for each index file
    """
    seams = _IndexSeams(index, are_sound=True)
    files = seams.files
    if not files:
        return False  # All records are dispatched again.
    begins = [log.min_offset, *(file.header.end_physical_offset for file in files)]
    limits = [*(file.header.begin_physical_offset + 1 for file in files), begins[-1] + 1]
    for begin, limit in zip(begins, limits, strict=True):
        for physical_offset, file, position, _ in log.scan(begin, min(limit, below)):
            record = written_at(file.view, position, levels)
            if key_count := _key_count(record, physical_offset, index, older_styles):
                seams.look(physical_offset, key_count)
            if seams.has_gap:
                return True
    return False


def _key_count(
    record: Written, physical_offset: int, index: HashIndex, older_styles: StyleSpans
) -> int:
    if not is_indexed(record.destination.transaction):
        return 0
    styles = (style for end, style in older_styles if physical_offset < end)
    style = next(styles, index.style)
    return len(entry_keys(record.unique_keys[0], record.keys[0], record.tags[0], style))


def _has_left(queue: ConsumeQueue, queue_offset: int, log_begin: int) -> bool:
    unit = queue.units.at(queue_offset)
    return unit is not None and unit[1] != PRE_BLANK_SIZE and 0 <= unit[0] < log_begin


class _Range(NamedTuple):
    """Queue and physical offset of a queue's first record; queue offset and end of its last."""

    first: int
    place: int
    last: int
    end: int


def _lacks(queue: ConsumeQueue | None, found: _Range) -> bool:
    """Returns whether a queue lacks units at either end, or the unit of its last record is damaged.

    Queue offsets in records may be too high (RocketMQ 5.0.0): physical offsets are also compared.
    Units of lost records may follow the last record's unit.
    """
    if queue is None:
        return True
    unit = queue.units.at(queue.unit_min)
    begins = queue.unit_min <= found.first or (unit is not None and unit[0] <= found.place)
    ends = queue.max_offset > found.last or queue.max_physical_offset >= found.end
    if not (begins and ends):
        return True
    return queue.units.end_before(queue.units.first_at_or_behind(found.end)) != found.end


class _IndexSeams:
    """Boundaries of index files, compared with the indexed records in log order.

    Records after the newest file are no gap: recovery dispatches them.
    """

    __slots__ = ("_due", "_ending", "files", "has_gap")

    def __init__(self, index: HashIndex, *, are_sound: bool = False) -> None:
        self.files = [
            file for file in index.files if file.entry_count and (file.is_sound() or not are_sound)
        ]
        self._ending: dict[int, list[int]] = {}
        """Numbers of the files whose last entry is of a record, by the record's physical offset."""
        for number, file in enumerate(self.files):
            self._ending.setdefault(file.header.end_physical_offset, []).append(number)
        self._due: int | None = 0
        """Number of the file that must begin with the next record; None if no file must."""
        self.has_gap = False

    def look(self, physical_offset: int, key_count: int) -> None:
        if self._due is not None:
            self._expect(self._due, physical_offset)
            self._due = None
        numbers = self._ending.get(physical_offset)
        if numbers is None:
            return
        following = numbers[-1] + 1
        if sum(self.files[number].last_record_count() for number in numbers) < key_count:
            self._expect(following, physical_offset)  # The record's other keys begin the next file.
        elif following < len(self.files):
            self._due = following

    def _expect(self, number: int, physical_offset: int) -> None:
        assert 0 <= number <= len(self.files)
        begins = [file.header.begin_physical_offset for file in self.files[number : number + 1]]
        if not begins or begins[0] > physical_offset:
            self.has_gap = True
