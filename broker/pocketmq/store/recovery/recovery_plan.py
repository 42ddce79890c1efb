"""Makes log and views consistent, by the tables of store/recovery/decisions.py.

    walk the log to its end ─► decide ─► cut, quarantine or refuse ─► dispatch missing records

Views are cut before the log is changed, so that no unit refers to removed records.
Source: CommitLog.recoverNormally, recoverAbnormally; DefaultMessageStore.recover.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.filler_record import Style, size_min, stand_in, stand_in_to_file_end
from pocketmq.format.layout import is_zero
from pocketmq.format.names import offset_file_name
from pocketmq.format.record import BLANK_SIZE, ends_with_crc
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.quarantine import new_quarantine
from pocketmq.model.errors import StoreDamaged
from pocketmq.model.finding import ScanEnd
from pocketmq.store.recovery.accepted_loss import AcceptedLoss, losses_of, record_losses
from pocketmq.store.recovery.bulk_dispatch import BulkDispatch
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.decisions import LogDecision, Observation, Plan, ViewPlan, decide
from pocketmq.store.recovery.log_survey import (
    Known,
    Survey,
    first_file_holes,
    stretches,
    survey_log,
)
from pocketmq.store.recovery.progress import Starting
from pocketmq.walk.log_walk import Hole
from pocketmq.walk.reader import Chunk

# -- fillers -----------------------------------------------------------------------------------
_PIECE: Final = 1024 * 1024


def fill_holes(
    log: CommitLog, disk: Disk, store: Path, holes: Sequence[Hole], time_ms: int, now_ms: int
) -> list[Hole]:
    """Replaces damage with filler records; returns the replaced ranges.

    Shape    holes are in log order; a hole too short for a filler is extended by the next records
    time_ms  store time of the fillers; no later record may have an earlier store time
    Errors   DiskFull, AllocationFailed, FsyncFailed: the next start continues
    """
    quarantine = new_quarantine(disk, store, now_ms)
    filled: list[Hole] = []
    for hole in holes:
        file = log.files.file_at(hole.begin)
        assert file is not None
        style = Style(time_ms, log.property_crc or ends_with_crc(file.view, hole.begin - file.base))
        end = _widened(log, file, hole, size_min(style))
        note = {"reason": hole.reason, "begin": hole.begin, "end": end}
        quarantine.keep(file.path, hole.begin, end, base=file.base, note=note)
        _write(disk, file, hole.begin, _replacement(file, hole, end, style))
        filled.append(Hole(hole.path, hole.begin, end, hole.reason, hole.is_followed))
        logger.warning(
            "log.quarantined",
            extra={
                "path": hole.path, "physical_offset": hole.begin, "bytes": end - hole.begin,
                "reason": hole.reason, "copy": str(quarantine.directory),
            },
        )  # fmt: skip
    return filled


def _widened(log: CommitLog, file: MappedFile, hole: Hole, least: int) -> int:
    """Returns the end of a hole, extended by the next records until a filler fits."""
    end, file_end = hole.end, file.base + file.size
    while end < file_end and end - hole.begin < least:
        end += log.record_size_at(end) or file_end - end
    return end


def _replacement(file: MappedFile, hole: Hole, end: int, style: Style) -> Iterable[bytes]:
    if end < file.base + file.size or hole.is_followed:
        return stand_in(hole.begin, end, style)
    is_blank = _is_damaged_blank(file, hole.begin - file.base)
    return stand_in_to_file_end(hole.begin, end, style, holds_records=not is_blank)


def _is_damaged_blank(file: MappedFile, position: int) -> bool:
    """Returns whether the hole can only be a BLANK: zeros after 8 other bytes."""
    if is_zero(file.view, position, min(position + BLANK_SIZE, file.size)):
        return False
    begins = range(position + BLANK_SIZE, file.size, _PIECE)
    return all(is_zero(file.view, begin, min(begin + _PIECE, file.size)) for begin in begins)


def _write(disk: Disk, file: MappedFile, begin: int, contents: Iterable[bytes]) -> None:
    descriptor = disk.open(file.path)
    try:
        position = begin - file.base
        for content in contents:
            disk.allocate(descriptor, position, len(content), file.path)
            disk.write_at(descriptor, position, content)
            position += len(content)
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)


# -- the plan ----------------------------------------------------------------------------------
WALK_BACK: Final = 16 * 1024 * 1024
"""A walk that would begin at most this far after the start of a file begins at the file's start,
and so checks the earlier records for damage again."""

LOST_ENDS: Final = frozenset({"@lost_tail", "@foreign_lost_tail"})

logger = logging.getLogger(__name__)


class TrustedOffsets(NamedTuple):
    """The offsets that a start trusts before it walks the log.

    views          row of the views' table that applies
    mark           flushed offset; None without a valid mark
    from_min       whether queues are rebuilt from the log's minimum offset
    accept_damage  whether to continue despite damage
    now_ms         wall time, for the name of the quarantine
    """

    views: ViewPlan
    mark: int | None
    from_min: bool = False
    accept_damage: bool = False
    now_ms: int = 0

    @property
    def is_aborted(self) -> bool:
        """Whether the last run did not end in order."""
        return self.views.believed_upto is not None


class StoreRecovery:
    """Recovers one store; `steps` yields the progress between bounded pieces.

    distrust   called with the physical offset at which views will be cut: a start after a crash
               must not trust later units
    """

    __slots__ = (
        "_distrust", "_parts", "_progress", "accepted", "damage", "holes", "last_record",
        "last_time", "plan",
    )  # fmt: skip

    def __init__(
        self, parts: StoreComponents, progress: Starting, distrust: Callable[[int], None]
    ) -> None:
        self._parts = parts
        self._progress = progress
        self._distrust = distrust
        self.plan = Plan("@no_log", LogDecision.KEEP)
        self.damage: StoreDamaged | None = None
        """Damage for which the store refuses messages, else None."""
        self.holes: list[Hole] = []
        """Damage in the log that valid records follow."""
        self.accepted: list[AcceptedLoss] = []
        """Missing parts of the log without which the store goes on."""
        self.last_record = 0
        """Physical offset of the last valid record."""
        self.last_time = 0
        """Store time of the last valid record, ms."""

    def steps(self, beliefs: TrustedOffsets) -> Iterator[float]:
        """Recovers the store; yields the finished share (0..1).

        Effects  for DAMAGED, `damage` is set and the log stays unchanged
        Errors   DiskFull, AllocationFailed, WriteFailed, FsyncFailed
        """
        log = self._parts.log
        below = beliefs.views.below
        if beliefs.is_aborted and beliefs.mark is not None:
            self._parts.index.repair(below, self._parts.log.store_time_at)
        marks = (
            self._parts.queues.durable_below(below),
            self._parts.index.durable_below(below, beliefs.views.sealed_time),
        )
        begin = min(log.min_offset if beliefs.from_min else marks[0], marks[1], log.appended)
        self._progress.enter("scan")
        quick = BulkDispatch(self._parts, begin=begin)
        survey = yield from self._survey(marks, beliefs, quick)
        is_short = beliefs.mark is None and self._is_short(survey, beliefs)
        # If no record can be read, this may be no log: nothing is cut.
        is_unknown = is_short and survey.end == log.min_offset
        lost_head = self._lost_head(beliefs.mark)
        self._parts.queues.note_gaps((hole.begin, hole.end) for hole in lost_head)
        is_copied = self._parts.settings.is_bounded
        seen = Observation(
            has_log=bool(log.files.files),
            end=survey.end,
            scan_end=ScanEnd.END_OF_DATA if is_unknown else survey.scan_end,
            mark=beliefs.mark,
            view_offsets=tuple(self._complete(mark, survey.end) for mark in marks),
            has_holes=bool(survey.holes),
            is_headless=bool(lost_head) and is_copied,
            is_short=is_short,
            accept_damage=beliefs.accept_damage,
        )
        self.plan = decide(seen)
        # Without a mark, only the views show which records the log lost.
        is_rebuilt = beliefs.is_aborted and beliefs.mark is not None
        if self.plan.log is LogDecision.DAMAGED:
            found = [*lost_head, *survey.holes] if is_copied else survey.holes
            self._refuse(survey, found, beliefs.mark)
            if is_rebuilt:
                self._cut_views(below)
        else:
            self._accept(lost_head, survey.end, beliefs.mark)
            self._end_log(survey, beliefs, below)
        self._progress.enter("dispatch")
        if self.damage is None or is_rebuilt:
            yield from self._dispatch(survey.end, quick, from_min=beliefs.from_min)
        yield 1.0

    def _survey(
        self, marks: tuple[int, int], beliefs: TrustedOffsets, quick: BulkDispatch
    ) -> Generator[float, None, Survey]:
        log, begin = self._parts.log, self._begin_of_walk(quick.begin)
        is_copied = self._parts.settings.is_bounded
        view_end = max(marks) if not beliefs.is_aborted else None

        def take(chunk: Chunk) -> None:
            if chunk.end > quick.begin and not quick.is_full:
                quick.take(chunk)

        survey = yield from survey_log(
            log, self._parts.disk, begin, Known(beliefs.mark, view_end),
            crc=beliefs.is_aborted or is_copied, take=take,
        )  # fmt: skip
        if is_copied and begin >= log.min_offset + log.file_size_bytes:
            survey.holes[:0] = yield from first_file_holes(log, self._parts.disk)
        self.last_record, self.last_time = survey.last_record, survey.last_time
        self.holes = survey.holes
        assert self.last_record <= survey.end
        return survey

    def _lost_head(self, mark: int | None) -> list[Hole]:
        """Returns the range of the oldest files if they are missing, and have not expired.

        It is damage only of a log that other brokers have: of another one, a user may have removed
        the files.
        """
        parts = self._parts
        log, begin = parts.log, parts.mark.oldest_base
        if mark is None or begin >= min(log.min_offset, mark):
            return []
        path = log.files.directory / offset_file_name(begin)
        why = "the oldest files are missing, and have not expired"
        return [Hole(str(path), begin, log.min_offset, why, is_followed=True)]

    def _complete(self, mark: int, end: int) -> int:
        """Returns the log's end if a view has the last record, else the view's durable offset."""
        return end if self.last_record < mark <= end else mark

    def _is_short(self, survey: Survey, beliefs: TrustedOffsets) -> bool:
        """Returns whether a log that RocketMQ wrote lacks durable records at its end.

        After a crash, units may refer beyond the end to records that were never flushed. RocketMQ's
        checkpoint then shows the store time of the last durable record.
        """
        if self._parts.queues.durable_offset <= survey.end:
            return False
        durable_ms = self._parts.checkpoint.values.physic_msg_timestamp
        return not beliefs.is_aborted or self._time_before(survey.end) < durable_ms

    def _begin_of_walk(self, physical_offset: int) -> int:
        position = physical_offset % self._parts.log.file_size_bytes
        if position > WALK_BACK and self._parts.log.record_size_at(physical_offset) is not None:
            return physical_offset
        return physical_offset - position

    # -- the log -------------------------------------------------------------------------------
    def _refuse(self, survey: Survey, found: Sequence[Hole], mark: int | None) -> None:
        self._parts.log.serve_upto(survey.end)
        first = found[0] if found else None
        durable = self._parts.queues.durable_offset if mark is None else mark
        begin = first.begin if first is not None else survey.end
        end = first.end if first is not None else max(durable, survey.end)
        why = first.reason if first is not None else survey.reason or "the log ends here"
        if mark is not None:
            why += f", but bytes up to {mark} were durable"
        else:
            count = self._count_behind(survey.end)
            why += f", but queues refer to {count} messages after it, up to {durable}"
        path = first.path if first is not None else survey.path
        self.damage = StoreDamaged(
            path=path or self._path_behind(begin, end),
            file_position=begin % self._parts.log.file_size_bytes,
            begin=begin,
            end=end,
            why=why,
        )
        for hole in found:
            _report_damage(hole.path, hole.begin, hole.end, hole.reason)
        if first is None or survey.end < durable:
            _report_damage(self.damage.path, survey.end, max(durable, survey.end), why)

    def record_losses(self, now_ms: int) -> None:
        """Logs the missing parts that were accepted, and writes their report; see its errors."""
        record_losses(self._parts, self.accepted, now_ms)

    def _accept(self, lost_head: Sequence[Hole], end: int, mark: int | None) -> None:
        """Notes the missing begin and end of the log, before the views are cut."""
        queues = self._parts.queues
        for head in lost_head:
            lost = losses_of(queues, head.begin, head.end)
            self.accepted.append(AcceptedLoss(head.path, head.begin, head.end, lost, is_head=True))
        if self.plan.label in LOST_ENDS:
            durable = queues.durable_offset if mark is None else mark
            path, lost = self._path_behind(end, durable), losses_of(queues, end)
            self.accepted.append(AcceptedLoss(path, end, durable, lost, is_head=False))

    def _path_behind(self, begin: int, end: int) -> str:
        """Returns the path of the first missing file below `end`, else of the file at `begin`."""
        files = self._parts.log.files
        last = files.files[-1] if files.files else None
        if last is not None and end > last.base + last.size:
            return str(files.directory / offset_file_name(last.base + last.size))
        return self._parts.log.place_of(begin)[0] if files.files else str(files.directory)

    def _count_behind(self, physical_offset: int) -> int:
        return sum(
            queue.max_offset - queue.units.first_at_or_behind(physical_offset)
            for queue in self._parts.queues.queues.values()
            if queue.max_physical_offset > physical_offset
        )

    def _end_log(self, survey: Survey, beliefs: TrustedOffsets, below: int) -> None:
        log, end = self._parts.log, survey.end
        if self.plan.label == "@ahead" and (count := self._count_behind(end)):
            logger.warning("views.ahead", extra={"physical_offset": end, "messages": count})
        self._parts.index.drop_doubtful(self._parts.log.store_time_at, beliefs.views.sealed_time)
        upto = min(below, end, survey.holes[0].begin if survey.holes else end)
        if beliefs.is_aborted and upto < below:
            self._distrust(upto)
        self._cut_views(upto)
        if survey.holes:  # The views are cut before, so that no unit refers to a replaced record.
            fill_holes(
                log, self._parts.disk, self._parts.settings.directory, survey.holes,
                time_ms=self._time_before(survey.holes[0].begin), now_ms=beliefs.now_ms,
            )  # fmt: skip
            self.holes = []
        if survey.is_torn:
            logger.warning("log.cut", extra={"physical_offset": end, "reason": survey.reason})
            self._progress.truncated_bytes = log.appended - end
        if survey.is_torn or beliefs.is_aborted:
            log.truncate(end)  # Valid records may follow a lost page.
        else:
            log.adopt_end(end)
        assert log.appended == end
        self._cut_views(end)

    def _time_before(self, place: int) -> int:
        log = self._parts.log
        file = log.files.file_at(place - 1)
        last = None
        for physical_offset, _, _, _ in log.scan(file.base, place) if file is not None else ():
            last = physical_offset
        return 0 if last is None else log.store_time_at(last)

    # -- the views -----------------------------------------------------------------------------
    def _cut_views(self, physical_offset: int) -> None:
        self._parts.queues.truncate(physical_offset, self._parts.log.store_time_at)
        self._parts.index.truncate(physical_offset, self._parts.log.store_time_at)

    def _dispatch(self, end: int, quick: BulkDispatch, *, from_min: bool) -> Iterator[float]:
        parts = self._parts
        queues_from, index_from = parts.queues.durable_offset, parts.index.durable_offset
        if from_min:
            queues_from = parts.log.min_offset
        lowest = min(queues_from, index_from)
        if lowest > self.last_record:
            return
        if quick.begin > lowest or self.holes:
            quick = BulkDispatch(parts)
        begin = max(self._begin_of_walk(lowest), parts.log.min_offset)
        holes = [hole for hole in self.holes if hole.end > begin]
        parts.queues.note_gaps((hole.begin, hole.end) for hole in holes)
        parts_of_log = [*stretches(holes, begin, end)]
        quick.put(queues_from=queues_from, index_from=index_from, upto=end)
        untaken = stretches(holes, max(begin, quick.end), end)
        for place in quick.steps(untaken, queues_from=queues_from, index_from=index_from):
            yield (place - begin) / (end - begin)
        left_over = quick.queues.left_over
        if left_over == parts.left_over:
            return
        empty = left_over.places.keys() - parts.left_over.places.keys()
        parts.left_over = left_over
        parts.queues.remove(empty)
        quick = BulkDispatch(parts, only=empty)
        for place in quick.steps(parts_of_log, queues_from=queues_from, index_from=end):
            yield (place - begin) / (end - begin)


def _report_damage(path: str, begin: int, end: int, reason: str) -> None:
    size = end - begin
    logger.error(
        "log.damaged",
        extra={"path": path, "physical_offset": begin, "bytes": size, "reason": reason},
    )
