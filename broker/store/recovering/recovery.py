"""What a start finds, and what it does about it: a pure table, then a loop without opinions.

label        scan ended with   end vs flushed mark   log                  views
@no_log      no file           = 0                   nothing to do        removed
@clean       end of data       >=                    keep                 complete: keep
@behind      end of data       >=                    keep                 dispatch from their mark
@ahead       any               >=                    keep                 cut to the end
@torn_tail   torn | bad        >=                    cut, zero the rest   cut to the end
@lost_tail   end of data       <                     REFUSE: acknowledged bytes are missing
@hole        torn | bad        <                     REFUSE: damage below what was durable

Without a valid mark the flushed offset counts as 0; then a bad record whose size leads to a sound
one is a hole too, since a torn tail has nothing sound behind it.

After an unclean end the views are believed up to the checkpoint's `logics_physical_offset`; what
lies behind is dispatched again. Views that are missing or short are built from the log's minimum.
Source: CommitLog.recoverNormally, recoverAbnormally; DefaultMessageStore.recover.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from broker.files.disk import Disk
from broker.format.record import BadRecord, check_record
from broker.format.record_scan import dispatch_entry
from broker.log.commit_log import CommitLog, LogScan
from broker.log.consume_queue_table import ConsumeQueueTable
from broker.log.hash_index import HashIndex
from broker.log.view import View
from broker.model.delay_levels import DelayLevels
from broker.model.errors import Corruption
from broker.model.message import DispatchEntry
from broker.model.offsets import OFFSET_MAX
from broker.model.results import ScanEnd
from broker.store.recovering.recovery_numbers import RecoveryNumbers

BATCH: Final = 2_048
"""Records dispatched between two looks at the clock."""

logger = logging.getLogger(__name__)


class LogDecision(Enum):
    """What happens to the log."""

    KEEP = "keep"
    CUT = "cut"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Observation:
    """What the scan of the log and the loading of the views showed.

    mark is the flushed offset, None without a valid one; view_offsets are the views' marks.
    """

    has_log: bool
    end: int
    scan_end: ScanEnd
    mark: int | None
    view_offsets: tuple[int, ...]
    sound_behind: bool = False


@dataclass(frozen=True)
class Plan:
    """The row of the table that applies, and what it says."""

    label: str
    log: LogDecision


def decide(seen: Observation) -> Plan:
    """Return the row for an observation; pure."""
    if not seen.has_log and not seen.mark:
        return Plan("@no_log", LogDecision.KEEP)
    is_bad = seen.scan_end is not ScanEnd.END_OF_DATA
    if seen.mark is not None and seen.end < seen.mark:
        return Plan("@hole" if is_bad else "@lost_tail", LogDecision.REFUSE)
    if is_bad and seen.mark is None and seen.sound_behind:
        return Plan("@hole", LogDecision.REFUSE)
    if is_bad:
        return Plan("@torn_tail", LogDecision.CUT)
    if any(view > seen.end for view in seen.view_offsets):
        return Plan("@ahead", LogDecision.KEEP)
    if any(view < seen.end for view in seen.view_offsets):
        return Plan("@behind", LogDecision.KEEP)
    return Plan("@clean", LogDecision.KEEP)


class Recovery:
    """Performs a plan on one store's structures; `steps` yields progress between bounded pieces."""

    __slots__ = (
        "_disk",
        "_index",
        "_levels",
        "_log",
        "_queues",
        "last_record",
        "last_time",
        "numbers",
        "plan",
    )

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        queues: ConsumeQueueTable,
        index: HashIndex,
        levels: DelayLevels,
    ) -> None:
        self._disk = disk
        self._log = log
        self._queues = queues
        self._index = index
        self._levels = levels
        self.numbers = RecoveryNumbers()
        self.plan = Plan("@no_log", LogDecision.KEEP)
        self.last_record = 0
        """Start of the last sound record."""
        self.last_time = 0
        """Its store time, ms."""

    def steps(
        self,
        *,
        believed: int | None,
        sealed_time: int | None,
        mark: int | None,
        from_min: bool,
    ) -> Iterator[float]:
        """Recover, yielding the share done (0..1).

        believed   after an unclean end: the physical offset up to which views are durable; None
                   after an orderly one, when views are believed as far as they reach
        sealed_time  after an unclean end of another broker: index files that end later are
                   not believed, ms
        from_min   a consume queue is missing something: build from the log's minimum

        Errors   Corruption, where the table says REFUSE: nothing was changed
        """
        log, views = self._log, (self._queues, self._index)
        below = OFFSET_MAX if believed is None else believed
        marks = (self._queues.durable_below(below), self._index.durable_below(below, sealed_time))
        begin = min(log.min_offset if from_min else marks[0], marks[1], log.appended)
        self.numbers.enter("scan")
        scan = self._find_end(begin, crc=believed is not None)
        end = scan.position
        seen = Observation(
            has_log=bool(log.files.files),
            end=end,
            scan_end=scan.end,
            mark=mark,
            view_offsets=marks,
            sound_behind=self._is_sound_behind(scan),
        )
        self.plan = decide(seen)
        if self.plan.log is LogDecision.REFUSE:
            raise self._refusal(scan, mark)
        self._index.drop_doubtful(self._store_time, sealed_time)
        self._cut_views(below)
        if self.plan.log is LogDecision.CUT:
            logger.warning("log.cut", extra={"physical_offset": end, "reason": scan.reason})
            self.numbers.truncated_bytes = log.appended - end
            log.truncate(end)
        else:
            log.adopt_end(end)
        self._cut_views(end)
        starts = [view.durable_offset for view in views]
        if from_min:
            starts[0] = log.min_offset
        self.numbers.enter("dispatch")
        yield from self._dispatch(list(zip(views, starts, strict=True)), end)

    def _cut_views(self, physical_offset: int) -> None:
        self._queues.truncate(physical_offset, self._store_time)
        self._index.truncate(physical_offset, self._store_time)

    def _store_time(self, physical_offset: int) -> int:
        file = self._log.files.file_at(physical_offset)
        if file is None:
            return 0
        return dispatch_entry(file.view, physical_offset - file.base, self._levels)[3]

    def _find_end(self, begin: int, *, crc: bool) -> LogScan:
        """Walk from the start of the file that holds `begin` to the end of sound records."""
        size = self._log.file_size_bytes
        scan = self._log.scan(begin - begin % size, crc=crc)
        last = None
        for physical_offset, file, position, _ in scan:
            last = (physical_offset, file, position)
        if last is not None:
            physical_offset, file, position = last
            self.last_record = physical_offset
            self.last_time = dispatch_entry(file.view, position, self._levels)[3]
        return scan

    def _is_sound_behind(self, scan: LogScan) -> bool:
        """Return whether the bad record's size leads to a record that says it lies there."""
        file = self._log.files.file_at(scan.position)
        if scan.end is ScanEnd.END_OF_DATA or file is None:
            return False
        position = scan.position - file.base
        size = int.from_bytes(file.view[position : position + 4], signed=True)
        following = position + size
        if size <= 0 or following + 8 > file.size:
            return self._log.record_size_at(file.base + file.size) is not None
        try:
            return check_record(file.view, following, file.base + following) > 0
        except BadRecord:
            return False

    def _refusal(self, scan: LogScan, mark: int | None) -> Corruption:
        file_size = self._log.file_size_bytes
        why = scan.reason or "the log ends here"
        if mark is not None:
            why += f", but bytes up to {mark} were durable; bring the file back from a copy"
        else:
            why += ", but sound records follow it; bring the file back from a copy"
        path = scan.path or str(self._log.files.directory)
        return Corruption(
            path=path,
            file_position=scan.position % file_size,
            physical_offset=scan.position,
            why=why,
        )

    def _dispatch(self, starts: list[tuple[View, int]], end: int) -> Iterator[float]:
        begin = min(start for _, start in starts)
        size = self._log.file_size_bytes
        begin = max(begin - begin % size, self._log.min_offset)
        if begin >= end:
            return
        batch: list[DispatchEntry] = []
        lowest = min(start for _, start in starts)
        for physical_offset, file, position, _ in self._log.scan(begin, end):
            if physical_offset < lowest:
                continue
            batch.append(dispatch_entry(file.view, position, self._levels))
            if len(batch) == BATCH:
                _apply(starts, batch)
                batch = []
                yield (physical_offset - begin) / (end - begin)
        if batch:
            _apply(starts, batch)
        yield 1.0


def _apply(starts: list[tuple[View, int]], batch: list[DispatchEntry]) -> None:
    for view, start in starts:
        wanted = batch if batch[0][0] >= start else [e for e in batch if e[0] >= start]
        if wanted:
            view.apply(wanted)
