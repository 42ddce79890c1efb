"""What a start finds, and what it does about it: a pure table, then a loop without opinions.

label          damage found                          mark    log                    views
@no_log        none: there is no file                0       nothing to do          removed
@clean         none                                  <= end  keep                   complete
@behind        none                                  <= end  keep                   dispatch
@ahead         none                                  <= end  keep                   cut to the end
@torn_tail     at the end, nothing sound behind      <= end  cut, zero the rest     cut to the end
@foreign_hole  with sound records behind             none    quarantine             built behind it
@hole          with sound records behind, or torn    > it    DAMAGED, or quarantine
@lost_tail     none: the log ends too early          > end   DAMAGED, or keep

DAMAGED: bytes that were durable are damaged or gone. Nothing is changed in the log, no message is
taken, everything sound is served, over the damage too. Who starts with `accept_damage` gives up
what is lost: holes are quarantined, and the store goes on.

Damage at or behind the mark was never acknowledged as durable; what lies behind it there is cut,
for a record that parses is a record. Without a valid mark (another broker wrote here) nothing tells
torn from damaged but what lies behind: RocketMQ cuts there, and loses what follows.

After an unclean end the views are believed up to the checkpoint's `logics_physical_offset`; what
lies behind is dispatched again. Views that are missing or short are built from the log's minimum.
Source: CommitLog.recoverNormally, recoverAbnormally; DefaultMessageStore.recover.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.format.record_scan import written_at
from broker.log.commit_log import CommitLog
from broker.log.consume_queue_table import ConsumeQueueTable
from broker.log.hash_index import HashIndex
from broker.log.view import View
from broker.model.batch import Destination, Written
from broker.model.delay_levels import DelayLevels
from broker.model.errors import StoreDamaged
from broker.model.message import TRANSACTION_ROLLBACK
from broker.model.offsets import OFFSET_MAX
from broker.model.results import ScanEnd
from broker.model.system_topics import QUARANTINE_TOPIC
from broker.store.starting.log_survey import Known, Survey, stretches, survey_log
from broker.store.starting.quick_dispatch import Lacking, QuickDispatch
from broker.store.starting.recovery_numbers import RecoveryNumbers
from broker.store.starting.stand_ins import mend_holes
from broker.walk.log_walk import Hole

QUICK_MIN: Final = 1024 * 1024
"""Bytes of log from which on dispatch by column is quicker."""
BATCH: Final = 2_048
"""Records dispatched between two looks at the clock."""
WALK_BACK: Final = 16 * 1024 * 1024
"""A walk begins with the file it has to begin in, where that costs no more than so many bytes:
what lies before is looked at for damage again."""

logger = logging.getLogger(__name__)


class LogDecision(Enum):
    """What happens to the log."""

    KEEP = "keep"
    CUT = "cut"
    MEND = "mend"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Observation:
    """What the walk over the log and the loading of the views showed.

    mark is the flushed offset, None without a valid one; view_offsets are the views' marks;
    has_holes: sound records lie behind damage.
    """

    has_log: bool
    end: int
    scan_end: ScanEnd
    mark: int | None
    view_offsets: tuple[int, ...]
    has_holes: bool = False
    accept_damage: bool = False


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
    is_short = seen.mark is not None and seen.end < seen.mark
    if seen.has_holes and seen.mark is None:
        return Plan("@foreign_hole", LogDecision.MEND)
    if seen.has_holes or is_short:
        label = "@hole" if seen.has_holes or is_bad else "@lost_tail"
        accepted = LogDecision.MEND if seen.has_holes or is_bad else LogDecision.KEEP
        return Plan(label, accepted if seen.accept_damage else LogDecision.DAMAGED)
    if is_bad:
        return Plan("@torn_tail", LogDecision.CUT)
    if any(view > seen.end for view in seen.view_offsets):
        return Plan("@ahead", LogDecision.KEEP)
    if any(view < seen.end for view in seen.view_offsets):
        return Plan("@behind", LogDecision.KEEP)
    return Plan("@clean", LogDecision.KEEP)


@dataclass(frozen=True)
class Beliefs:
    """What a start may believe before it has looked.

    views_upto     after an unclean end: the physical offset up to which views are durable; None
                   after an orderly one, when views are believed as far as they reach
    sealed_time    after an unclean end of another broker: index files that end later are not
                   believed, ms
    mark           the flushed offset, None without a valid one
    from_min       a consume queue is missing something: build from the log's minimum
    accept_damage  go on over damage
    now_ms         wall time, for the name of a quarantine
    """

    views_upto: int | None
    sealed_time: int | None
    mark: int | None
    from_min: bool = False
    accept_damage: bool = False
    now_ms: int = 0


class Recovery:
    """Performs a plan on one store's structures; `steps` yields progress between bounded pieces."""

    __slots__ = (
        "_directory", "_disk", "_index", "_levels", "_log", "_queues", "damage", "disbelieve",
        "holes", "last_record", "last_time", "numbers", "plan",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        log: CommitLog,
        queues: ConsumeQueueTable,
        index: HashIndex,
        levels: DelayLevels,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._log = log
        self._queues = queues
        self._index = index
        self._levels = levels
        self.numbers = RecoveryNumbers()
        self.plan = Plan("@no_log", LogDecision.KEEP)
        self.disbelieve: Callable[[int], None] = lambda physical_offset: None
        """Called before views are cut below what a crash would find believed, with where."""
        self.damage: StoreDamaged | None = None
        """Why the store takes no messages; None where it does."""
        self.holes: list[Hole] = []
        """Damage that the log has, with sound records behind it."""
        self.last_record = 0
        """Start of the last sound record."""
        self.last_time = 0
        """Its store time, ms."""

    def steps(self, beliefs: Beliefs) -> Iterator[float]:
        """Recover, yielding the share done (0..1).

        Effects  where the table says DAMAGED: `damage` is set, the log is as it was
        Errors   DiskFull, AllocationFailed, FsyncFailed while damage is quarantined
        """
        log = self._log
        below = OFFSET_MAX if beliefs.views_upto is None else beliefs.views_upto
        if beliefs.views_upto is not None and beliefs.mark is not None:
            self._index.mend(below, self._store_time)
        marks = (
            self._queues.durable_below(below),
            self._index.durable_below(below, beliefs.sealed_time),
        )
        begin = min(log.min_offset if beliefs.from_min else marks[0], marks[1], log.appended)
        self.numbers.enter("scan")
        survey = self._survey(self._begin_of_walk(begin), marks, beliefs)
        seen = Observation(
            has_log=bool(log.files.files),
            end=survey.end,
            scan_end=survey.scan_end,
            mark=beliefs.mark,
            view_offsets=tuple(self._complete(mark, survey.end) for mark in marks),
            has_holes=bool(survey.holes),
            accept_damage=beliefs.accept_damage,
        )
        self.plan = decide(seen)
        if self.plan.log is LogDecision.DAMAGED:
            self._refuse(survey, beliefs.mark)
            if beliefs.views_upto is not None:
                self._cut_views(below)
        else:
            self._settle_log(survey, beliefs, below)
        self.numbers.enter("dispatch")
        if self.damage is None or beliefs.views_upto is not None:
            yield from self._dispatch(survey.end, from_min=beliefs.from_min)
        yield 1.0

    def _survey(self, begin: int, marks: tuple[int, int], beliefs: Beliefs) -> Survey:
        view_end = max(marks) if beliefs.views_upto is None else None
        known = Known(beliefs.mark, view_end)
        survey = survey_log(self._log, self._disk, begin, known, crc=beliefs.views_upto is not None)
        self.last_record, self.last_time = survey.last_record, survey.last_time
        self.holes = survey.holes
        return survey

    def _complete(self, mark: int, end: int) -> int:
        """Return the log's end for a view that has the last record: its mark may lie inside it."""
        return end if self.last_record < mark <= end else mark

    def _begin_of_walk(self, physical_offset: int) -> int:
        """Return where to begin so that a record is known to start there."""
        position = physical_offset % self._log.file_size_bytes
        if position > WALK_BACK and self._log.record_size_at(physical_offset) is not None:
            return physical_offset
        return physical_offset - position

    # -- the log -------------------------------------------------------------------------------
    def _refuse(self, survey: Survey, mark: int | None) -> None:
        """Serve what is sound, and say why nothing is taken."""
        self._log.serve_upto(survey.end)
        first = survey.holes[0] if survey.holes else None
        begin = first.begin if first is not None else survey.end
        end = first.end if first is not None else max(mark or 0, survey.end)
        why = first.reason if first is not None else survey.reason or "the log ends here"
        if mark is not None:
            why += f", but bytes up to {mark} were durable"
        path = first.path if first is not None else survey.path
        self.damage = StoreDamaged(
            path=path or str(self._log.files.directory),
            file_position=begin % self._log.file_size_bytes,
            begin=begin,
            end=end,
            why=why,
        )
        for hole in survey.holes:
            _tell_damage(hole.path, hole.begin, hole.end, hole.reason)
        if first is None or (mark is not None and survey.end < mark):
            _tell_damage(self.damage.path, survey.end, max(mark or 0, survey.end), why)

    def _settle_log(self, survey: Survey, beliefs: Beliefs, below: int) -> None:
        """Make the log end with its last sound record, and the views not reach beyond it."""
        log, end = self._log, survey.end
        self._index.drop_doubtful(self._store_time, beliefs.sealed_time)
        upto = min(below, end, survey.holes[0].begin if survey.holes else end)
        if beliefs.views_upto is not None and upto < below:
            self.disbelieve(upto)
        self._cut_views(upto)
        if survey.holes:  # Views first: none may lead to what is no message any more.
            mend_holes(
                log, self._disk, self._directory, survey.holes,
                time_ms=self._time_before(survey), now_ms=beliefs.now_ms,
            )  # fmt: skip
            self.holes = []
        is_torn = survey.scan_end is not ScanEnd.END_OF_DATA
        if is_torn:
            logger.warning("log.cut", extra={"physical_offset": end, "reason": survey.reason})
            self.numbers.truncated_bytes = log.appended - end
        if is_torn or beliefs.views_upto is not None:
            log.truncate(end)  # A lost page may have left records behind it.
        else:
            log.adopt_end(end)
        self._cut_views(end)

    def _time_before(self, survey: Survey) -> int:
        """Return the store time of a record before the first hole, 0 without one."""
        file = self._log.files.file_at(survey.holes[0].begin)
        assert file is not None
        last = None
        for physical_offset, _, _, _ in self._log.scan(file.base, survey.holes[0].begin):
            last = physical_offset
        return 0 if last is None else self._store_time(last)

    # -- the views -----------------------------------------------------------------------------
    def _cut_views(self, physical_offset: int) -> None:
        self._queues.truncate(physical_offset, self._store_time)
        self._index.truncate(physical_offset, self._store_time)

    def _store_time(self, physical_offset: int) -> int:
        file = self._log.files.file_at(physical_offset)
        if file is None or self._log.record_size_at(physical_offset) is None:
            return 0
        written = written_at(file.view, physical_offset - file.base, self._levels)
        return written.store_time_ms

    def _dispatch(self, end: int, *, from_min: bool) -> Iterator[float]:
        """Give the views what they lack of the log below an offset."""
        views: tuple[View, ...] = (self._queues, self._index)
        starts = [view.durable_offset for view in views]
        if from_min:
            starts[0] = self._log.min_offset
        lowest = min(starts)
        if lowest > self.last_record:
            return
        begin = max(self._begin_of_walk(lowest), self._log.min_offset)
        if not self.holes and not self._queues.writes_extension and end - lowest >= QUICK_MIN:
            lacking = Lacking(self._queues, starts[0], self._index, starts[1])
            quick = QuickDispatch(self._log, self._disk, lacking, self._levels, begin, end)
            for place in quick.steps():
                yield (place - begin) / (end - begin)
            return
        for batch in self._batches(begin, lowest, end):
            for view, start in zip(views, starts, strict=True):
                wanted = [written for written in batch if written.begin >= start]
                if wanted:
                    view.apply(wanted)
            yield (batch[-1].begin - begin) / (end - begin)

    def _batches(self, begin: int, lowest: int, end: int) -> Iterator[list[Written]]:
        """Yield sound records from `lowest` on; a hole is one as well."""
        holes = [hole for hole in self.holes if hole.end > begin]
        batch: list[Written] = []
        for lower, upper in stretches(holes, begin, end):
            batch += _gaps(holes, lower)
            for physical_offset, file, position, _ in self._log.scan(lower, upper):
                if physical_offset < lowest:
                    continue
                batch.append(written_at(file.view, position, self._levels))
                if len(batch) >= BATCH:
                    yield batch
                    batch = []
        if batch:
            yield batch


def _gaps(holes: Sequence[Hole], end: int) -> list[Written]:
    """Return what views are told of holes that end at an offset: what a stand-in would tell."""
    return [
        Written(
            Destination(QUARANTINE_TOPIC, 0, system_flag=TRANSACTION_ROLLBACK),
            0,
            physical_offsets=[hole.begin],
            sizes=[hole.end - hole.begin],
            tags_codes=[0],
            store_time_ms=0,
            unique_keys=[""],
            keys=[""],
            tags=[""],
        )
        for hole in holes
        if hole.end == end
    ]


def _tell_damage(path: str, begin: int, end: int, reason: str) -> None:
    size = end - begin
    logger.error(
        "log.damaged",
        extra={"path": path, "physical_offset": begin, "bytes": size, "reason": reason},
    )
