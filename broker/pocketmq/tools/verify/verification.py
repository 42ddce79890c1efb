"""Verifies a store in one walk over its log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.body_codec import plain_body
from pocketmq.format.columns.heads import Heads, is_marked
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.records import Decoded
from pocketmq.format.layout import is_zero
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    ORDER_INFO_FILE,
    ORDER_JOURNAL_FILE,
    OWN_DIRECTORY,
    offset_file_name,
)
from pocketmq.format.order_changes import lost_rows_at, version_of
from pocketmq.format.record import BLANK_SIZE, PROPERTY_CRC_SIZE, encode_blank
from pocketmq.log.deleted_topics import is_unstarted_copy
from pocketmq.log.table_files import read_table
from pocketmq.model.errors import IllegalTopic
from pocketmq.model.finding import ABSENT, Doubt, Finding, Loss
from pocketmq.model.message import FLAG_COMPRESSED, OFFSET_MAX, QueueKey
from pocketmq.model.names import check_queue_topic
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile, records_end
from pocketmq.rebuild.plan import whole_files
from pocketmq.rebuild.range_pass import RangePass, RangeResult, no_advance
from pocketmq.rebuild.sequential import IrregularQueue, Rebuilt, finish_queues, summary
from pocketmq.rebuild.unit_files import UnitWriter
from pocketmq.tools.durable import flushed_upto, index_time_ms, left_in_order, views_upto
from pocketmq.tools.store_access import is_live
from pocketmq.tools.verify.collector import FINDINGS_MAX, LOST_RECORDS, RECORD, Collector, Fold
from pocketmq.tools.verify.doubts import doubts_of, tell_earlier_doubts
from pocketmq.tools.verify.head import lost_head, report_head, tell_unknown_head
from pocketmq.tools.verify.index_files import (
    IndexCheck,
    OpenIndexFile,
    open_index_files,
)
from pocketmq.tools.verify.listing import LogListing
from pocketmq.tools.verify.losses import (
    FILE_MISSING,
    NO_RECORDS,
    RecordedRanges,
    Span,
    attribute,
    join_gaps,
    losses_in,
    losses_reported,
    recorded_ranges,
    with_reported,
)
from pocketmq.tools.verify.pending import WaitingCheck
from pocketmq.tools.verify.tables import TableCheck
from pocketmq.tools.verify.units import (
    NO_TOPICS,
    ComparedFiles,
    ExtensionVerification,
    SkippedChecks,
)
from pocketmq.walk.log_walk import ORDERLY_END, TOO_OLD, Hole
from pocketmq.walk.reader import Chunk

# -- records -----------------------------------------------------------------------------------
TIME_MIN_MS: Final = 1_262_304_000_000
"""Earliest possible store time, in 2010: no RocketMQ is older."""
FUTURE_MS: Final = 24 * 3_600_000
"""Upper limit by which a store time may be ahead of this machine's clock, ms."""
STORE_TIME: Final = "store_time"
"""Kind of finding: an impossible store time."""
NOT_AHEAD: Final = "a time up to a day after this machine's"
BORN_FUTURE_MS: Final = 10 * 365 * FUTURE_MS
"""Upper limit by which a producer's born time may be ahead of this machine's clock, ms."""
MARKED_SHARE: Final = 0.9
"""If this share of the first chunk's records has a property CRC, all records must have one."""


class RecordCheck:
    """Verifies the fields of valid records, chunk by chunk."""

    __slots__ = (
        "_checked_topics", "_collector", "_deep", "_marked_from", "_now_ms", "_queues", "count",
    )  # fmt: skip

    def __init__(
        self, collector: Collector, queues: QueueTable, *,
        marked_from: int | None, now_ms: int, deep: bool = False,
    ) -> None:  # fmt: skip
        self._collector = collector
        self._queues = queues
        self._marked_from = marked_from
        self._now_ms = now_ms
        self._deep = deep
        self._checked_topics = 0
        self.count = 0

    def look(self, chunk: Chunk, decoded: Decoded) -> None:
        """Verifies the records of a chunk."""
        heads = decoded.heads
        self.count += len(heads)
        store_ms, born_ms = heads.store_timestamp_ms, heads.born_timestamp_ms
        self._report(heads, STORE_TIME, store_ms < TIME_MIN_MS, store_ms)
        is_ahead = store_ms > self._now_ms + FUTURE_MS
        self._report(heads, STORE_TIME, is_ahead, store_ms, NOT_AHEAD)
        is_odd = (born_ms < 0) | (born_ms > self._now_ms + BORN_FUTURE_MS)
        self._report(heads, "born_time", is_odd, born_ms, repairable=False)
        self._report(heads, "queue_id", heads.queue_id < 0, heads.queue_id)
        self._report(heads, "queue_offset", heads.queue_offset < 0, heads.queue_offset)
        self._look_at_marks(chunk, heads)
        self._look_at_topics(decoded)
        if self._deep:
            self._unfold(chunk, heads)

    def _unfold(self, chunk: Chunk, heads: Heads) -> None:
        """Checks that bodies flagged as compressed can be decompressed."""
        folded = (heads.system_flag & FLAG_COMPRESSED != 0) & (heads.body_size > 0)
        for record in np.flatnonzero(folded).tolist():
            begin = int(heads.body_begin[record])
            body = bytes(chunk.buffer[begin : begin + int(heads.body_size[record])])
            if plain_body(body, int(heads.system_flag[record])) is body:
                place = int(heads.physical_offset[record])
                texts = ("a valid compressed body", "an invalid one")
                self._add("compressed_body", place, *texts, repairable=False)

    def _look_at_marks(self, chunk: Chunk, heads: Heads) -> None:
        begins = heads.block_begin + heads.block_size - PROPERTY_CRC_SIZE
        marked = is_marked(chunk.buffer, begins) & (heads.block_size >= PROPERTY_CRC_SIZE)
        if self._marked_from is None:
            self._marked_from = 0 if np.mean(marked) >= MARKED_SHARE else OFFSET_MAX
        lacks = ~marked & (heads.physical_offset >= self._marked_from)
        self._report(heads, "property_crc", lacks, heads.block_size, "a record with its CRC")

    def _look_at_topics(self, decoded: Decoded) -> None:
        assert self._checked_topics <= len(self._queues.keys)
        for number in range(self._checked_topics, len(self._queues.keys)):
            topic = self._queues.keys[number][0]
            try:
                check_queue_topic(topic)
            except IllegalTopic as error:
                # A record may only be dispatched to the queue in addition to its own queue.
                own = np.flatnonzero(decoded.queue == number)
                first = int(own[0]) if len(own) else 0
                self._add("topic", int(decoded.heads.physical_offset[first]), "a topic", str(error))
        self._checked_topics = len(self._queues.keys)

    def _report(
        self, heads: Heads, kind: str, is_bad: NDArray[np.bool_], values: NDArray[np.int64],
        expected: str = "a possible value", *, repairable: bool = True,
    ) -> None:  # fmt: skip
        if is_bad.any():
            for record in np.flatnonzero(is_bad).tolist():
                place = int(heads.physical_offset[record])
                shown = f"{int(values[record])}"
                self._add(kind, place, expected, shown, repairable=repairable)

    def _add(
        self, kind: str, place: int, expected: str, found: str, *, repairable: bool = True
    ) -> None:
        self._collector.add_record(
            kind, place, expected=expected, found=found, repairable=repairable
        )


# ----------------------------------------------------------------------------------------------
# -- the journal of FIFO leases ----------------------------------------------------------------
def look_at_order_journal(disk: Disk, directory: Path, collector: Collector) -> None:
    """Reports a damaged row of the journal that valid rows follow: a broker ignores the valid rows.

    If the table that the journal continues cannot be read, the rows are not checked.
    """
    path = directory / OWN_DIRECTORY / ORDER_JOURNAL_FILE
    if not disk.exists(path):
        return
    try:
        version = version_of(read_table(disk, directory, ORDER_INFO_FILE))
    except ValueError:  # TableCheck reports the table.
        return
    position = lost_rows_at(disk.read_file(path), version) if version else None
    if position is not None:
        collector.add(
            "table", path, position, expected="a row, as valid rows follow",
            found="none; messages that these rows settle are delivered again", repairable=False,
        )  # fmt: skip


# -- verification ------------------------------------------------------------------------------
TAIL_PIECE: Final = 16 * 1024 * 1024
_PENDING_TOPICS: Final = frozenset({TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC})


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Options of a verification.

    check_crc      compares CRCs
    crc_share      share of the log whose CRCs are compared
    deep           decompresses compressed bodies
    log_only       verifies only the log
    views          directory of the consumequeue/ and index/ to verify; None: the store's own
    upto           physical offset from which on records are not verified
    is_live        whether a broker is writing to the store
    findings_max   upper limit of kept rows
    fold           which similar findings become one row
    now_ms         current time, for the check of store and born times
    """

    check_crc: bool = True
    crc_share: float = 1.0
    deep: bool = False
    log_only: bool = False
    views: Path | None = None
    upto: int = OFFSET_MAX
    is_live: bool = False
    findings_max: int = FINDINGS_MAX
    fold: Fold = Fold.ALL
    now_ms: int = OFFSET_MAX // 2


@dataclass(slots=True)
class Verification:
    """Result of a verification.

    findings    the kept rows, the gravest first
    counts      number of all findings by kind
    is_cut      whether there are more findings than `findings` contains
    records     number of verified records
    units       number of verified consume units
    entries     number of verified index entries
    log_begin   physical offset of the log's first byte
    log_end     physical offset after the last valid record
    holes       damage that valid records follow
    tail        damage after the last valid record
    gaps        missing files of the log, and missing ends of files
    head        the missing oldest files of the log; None: they expired, or nothing shows it
    doubts      messages whose tag, keys or id differ from queue or index
    recorded    ranges of each queue whose messages have a record in the log
    files       files of the log that were walked, without missing ends
    lost_earlier   messages that a repair replaced by fillers
    is_copy     whether the store is a copy without views that was never started
    is_unread   whether the records begin at `upto` or later, at most the first one excepted
    """

    findings: list[Finding]
    counts: dict[str, int]
    notes: list[str]
    is_cut: bool
    records: int = 0
    units: int = 0
    entries: int = 0
    log_begin: int = 0
    log_end: int = 0
    holes: list[Hole] = field(default_factory=list)
    tail: Hole | None = None
    gaps: list[Hole] = field(default_factory=list)
    files: list[LogFile] = field(default_factory=list)
    lost_earlier: tuple[Loss, ...] = ()
    is_copy: bool = False
    head: Hole | None = None
    doubts: tuple[Doubt, ...] = ()
    recorded: RecordedRanges = field(default_factory=dict)
    is_unread: bool = False

    @property
    def lacks_topics(self) -> bool:
        """Whether the topic table is absent, though the log has messages of topics."""
        return any(note.startswith(NO_TOPICS) for note in self.notes)

    @property
    def lost_count(self) -> int:
        """Number of messages that are known to be lost by the found damage."""
        return sum(finding.lost_count for finding in self.findings)

    @property
    def is_sound(self) -> bool:
        """Whether records were checked without damage; absent views count as none."""
        return set(self.counts) <= {ABSENT} and not self.is_unread


def verify(
    disk: Disk,
    directory: Path,
    sizes: KnownShape,
    options: VerifyOptions | None = None,
    advance: Callable[[int], None] = no_advance,
) -> Verification:
    """Verifies a store; changes nothing.

    Cost     about 3 µs a record of 1 KiB with three index entries; some 100 MiB of memory
    """
    options = options or VerifyOptions()
    found = _Walk(disk, directory, sizes, options).run(advance)
    if options.upto <= found.log_begin + 1:  # 1: the checkpoint has the first record, or no offset.
        found.is_unread = records_end(found.files) > max(found.log_begin, found.log_end)
    return found


class _Walk:
    """One verification in progress."""

    def __init__(
        self, disk: Disk, directory: Path, sizes: KnownShape, options: VerifyOptions
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._sizes = sizes
        self._options = options
        self._views = options.views or directory
        self._is_copy = is_unstarted_copy(disk, directory)
        self._collector = Collector(
            directory, sizes.commit_log_file_size_bytes, options.findings_max, options.fold,
            is_copy=self._is_copy, has_other_views=options.views is not None,
        )  # fmt: skip
        self._gaps: list[Hole] = []
        self._recorded = NO_RECORDS
        self._waiting = WaitingCheck(disk, directory, sizes, self._views, self._collector)
        self._unjudged = SkippedChecks(disk, directory)
        self._flushed = flushed_upto(disk, directory)
        self._settings = replace(sizes, check_crc=options.check_crc, crc_share=options.crc_share)
        is_running = options.is_live or is_live(directory)
        self._was_killed = not (
            self._is_copy
            or is_running
            or left_in_order(disk, directory, sizes.commit_log_file_size_bytes)
        )
        if self._was_killed and self._flushed is not None and options.views is None:
            self._collector.unbuilt = range(views_upto(disk, directory), OFFSET_MAX)

    def run(self, advance: Callable[[int], None]) -> Verification:
        collector, sizes = self._collector, self._sizes
        listing = LogListing(
            self._disk, self._directory, sizes.commit_log_file_size_bytes, collector
        )
        files, self._gaps, (log_begin, log_end) = listing.files, listing.gaps, listing.bounds
        queues = self._views / CONSUME_QUEUE_DIRECTORY
        extension = ExtensionVerification(
            self._views / CONSUME_QUEUE_EXTENSION_DIRECTORY, queues, collector
        )
        compared = ComparedFiles(
            queues, sizes.consume_queue_file_size_bytes, collector, extension, self._unjudged,
            log_begin=log_begin, upto=self._options.upto,
        )  # fmt: skip
        index_files = [] if self._options.log_only else self._index_files()
        index = IndexCheck(
            self._views / INDEX_DIRECTORY, index_files, collector,
            log_begin=log_begin, log_end=log_end, may_end=self._may_lack_entries(index_files),
        )  # fmt: skip
        units = UnitWriter(compared, sizes.removed, sizes.left_over)
        records = RecordCheck(
            collector, units.queues, marked_from=sizes.property_crc_from,
            now_ms=self._options.now_ms, deep=self._options.deep,
        )  # fmt: skip

        def look(chunk: Chunk, decoded: Decoded) -> None:
            records.look(chunk, decoded)
            self._waiting.look(chunk)

        take_entries = (lambda rows: None) if self._options.log_only else index.take
        reading = RangePass(self._settings, units, take_entries, advance, look)
        parts = whole_files(files, self._options.upto)
        results = [reading.run(part.file, part.begin, self._options.upto) for part in parts]
        units.flush()
        rebuilt = summary(results, accept_holes=True)
        self._gaps = join_gaps(rebuilt, self._gaps)
        assert all(gap.begin < gap.end for gap in self._gaps)
        redone = self._finish_queues(files, units, compared, results, rebuilt)
        if not self._options.log_only:
            compared.judge([*rebuilt.holes, *([rebuilt.tail] if rebuilt.tail else [])])
            extension.look()
            compared.look_beyond(rebuilt.queues, rebuilt.holes)
            holes = [(hole.begin, hole.end) for hole in rebuilt.holes]
            index.finish(holes, self._options.upto)
            self._unjudged.meet(topic for topic, _ in units.queues.keys)
            self._unjudged.tell(collector)
            self._look_at_tables(files, self._behind_blank(files, rebuilt.end), results)
        head = self._look_at_head(files, log_begin, compared.old_count)
        lost_earlier = self._report_damage(files, rebuilt, redone)
        if rebuilt.tail is None and results and self._options.upto == OFFSET_MAX:
            self._look_behind(files, max([rebuilt.end, *(hole.end for hole in rebuilt.holes)]))
        return Verification(
            collector.findings, dict(collector.counts), collector.notes, collector.is_cut,
            records.count, compared.units, index.entries, log_begin,
            rebuilt.end if results else log_begin,
            [hole for hole in rebuilt.holes if hole not in self._gaps], rebuilt.tail, self._gaps,
            files, lost_earlier, self._is_copy, head,
            doubts_of(files, compared.doubted | index.doubted), self._recorded,
        )  # fmt: skip

    def _may_lack_entries(self, index_files: Sequence[OpenIndexFile]) -> bool:
        """Returns whether records may have no index entries, because another broker wrote last.

        That broker may have been configured not to index. But if index files are missing, and the
        checkpoint has an index timestamp, the files were lost.
        """
        if self._flushed is not None:
            return False
        return bool(index_files) or not index_time_ms(self._disk, self._directory)

    def _look_at_tables(
        self, files: Sequence[LogFile], log_end: int, results: Sequence[RangeResult]
    ) -> None:
        """Verifies small files and, unless only a part of the log was read, pending messages."""
        last_time_ms = max((max(result.last_times) for result in results), default=0)
        flushed, is_part = self._flushed, self._options.upto < OFFSET_MAX
        if flushed is not None:
            flushed = min(flushed, self._options.upto)
        TableCheck(self._disk, self._directory, self._collector).look(
            log_end=log_end, last_time_ms=last_time_ms, flushed=flushed, is_part=is_part
        )
        look_at_order_journal(self._disk, self._directory, self._collector)
        tell_earlier_doubts(self._disk, self._directory, files, self._collector)
        log_file_bytes = self._sizes.commit_log_file_size_bytes
        is_orderly = left_in_order(self._disk, self._directory, log_file_bytes)
        if self._was_killed:
            self._collector.remark("the last broker here did not stop in order (abort mark)")
        if self._collector.unbuilt_count:
            self._collector.remark(
                f"queues and index lack {self._collector.unbuilt_count} units and entries of the "
                "log's last records, as after every kill: the next start builds them"
            )
        if self._collector.unbuilt:
            self._collector.unbuilt = range(self._collector.unbuilt.start, log_end)
        absent = [*filter(_is_of_pending, self._collector.absent)]
        if absent and not self._is_copy:
            self._collector.remark(
                "timers and transactions were not verified: some of their queues are absent"
            )
        if not is_part and not absent:
            self._waiting.finish(files, last_time_ms=last_time_ms, is_orderly=is_orderly)

    def _index_files(self) -> list[OpenIndexFile]:
        files = open_index_files(
            self._views / INDEX_DIRECTORY, self._sizes.geometry, self._collector
        )
        for number, file in enumerate(files, 1):
            file.is_growing = self._options.is_live and number == len(files)
            file.check(is_newest=number == len(files))
        return files

    def _report_damage(
        self, files: Sequence[LogFile], rebuilt: Rebuilt, redone: dict[QueueKey, IrregularQueue]
    ) -> tuple[Loss, ...]:
        """Reports damage of the log with its lost messages; returns messages lost earlier."""
        holes, tail = rebuilt.holes, rebuilt.tail
        end = self._behind_blank(files, rebuilt.end)
        spans = [(hole.begin, hole.end) for hole in holes]
        durable = OFFSET_MAX if self._flushed is None else self._flushed
        is_short = self._flushed is not None and min(durable, self._options.upto) > end
        behind = max([end, *(hole.end for hole in holes)])
        lost_begin = behind if tail is None else tail.begin
        is_beyond = tail is not None or "dangling_unit" in self._collector.counts or is_short
        # Records after the mark were never acknowledged as durable.
        if is_beyond and lost_begin < durable and self._options.upto == OFFSET_MAX:
            spans.append((lost_begin, OFFSET_MAX))
        lost = self._losses(spans)
        lost_earlier = attribute(redone, spans, lost)
        for hole, losses in zip(holes, lost, strict=False):
            self._report_hole(RECORD, hole, losses)
        lost_behind = lost[len(holes)] if len(spans) > len(holes) else ()
        if tail is not None:
            self._report_hole("torn_tail", tail, lost_behind)
        elif lost_behind or (is_short and min(durable, self._options.upto) > behind):
            self._report_short(rebuilt.end, behind, lost_behind)
        begin = files[0].base if files else 0
        reported = losses_reported(self._disk, self._directory, begin)
        lost_earlier = with_reported(lost_earlier, reported)
        return tuple(loss for loss in lost_earlier if not self._unjudged.has(loss.topic))

    def _losses(self, spans: Sequence[Span]) -> list[tuple[Loss, ...]]:
        return losses_in(self._disk, self._views, spans, self._recorded)

    def _look_at_head(
        self, files: Sequence[LogFile], log_begin: int, old_count: int
    ) -> Hole | None:
        """Reports missing oldest files, or that nothing shows whether older messages expired."""
        head = lost_head(self._disk, self._directory, files)
        if head is not None:
            (lost,) = self._losses([(head.begin, head.end)])
            report_head(head, lost, self._sizes.commit_log_file_size_bytes, self._collector)
        elif not self._options.log_only:
            tell_unknown_head(self._disk, self._directory, log_begin, old_count, self._collector)
        return head

    def _report_hole(self, kind: str, hole: Hole, lost: tuple[Loss, ...]) -> None:
        if hole in self._gaps:
            is_missing = hole.reason == FILE_MISSING
            size = self._sizes.commit_log_file_size_bytes
            self._collector.add(
                "missing_file" if is_missing else "file_size", hole.path, hole.begin % size,
                expected="a file of the log" if is_missing else f"{size} bytes",
                found="no file" if is_missing else hole.reason, lost=lost,
            )  # fmt: skip
            return
        what = "no valid record" if hole.reason == ORDERLY_END else hole.reason
        hides_records = kind == RECORD and hole.reason == TOO_OLD and not hole.is_followed
        self._collector.add_record(
            kind, hole.begin, expected="a valid record", lost=lost,
            found=f"{what}, {hole.end - hole.begin} bytes", repairable=not hides_records,
        )  # fmt: skip

    def _report_short(self, end: int, behind: int, lost: tuple[Loss, ...]) -> None:
        """Reports that the log ends before records to which the flushed mark or queues refer.

        behind   physical offset of the first missing record
        """
        expected, size = "the records to which queues refer", self._sizes.commit_log_file_size_bytes
        if self._flushed is not None and self._flushed > behind:
            expected = f"valid records up to {min(self._flushed, self._options.upto)}"
        base = behind - behind % size
        path = self._directory / COMMIT_LOG_DIRECTORY / offset_file_name(base)
        what = "no record from here on" if self._disk.exists(path) else "no file"
        self._collector.add(
            LOST_RECORDS, path, behind - base, expected=expected,
            found=f"{what}; the last record ends at {end}", repairable=False, lost=lost,
        )  # fmt: skip

    def _look_behind(self, files: Sequence[LogFile], end: int) -> None:
        """Adds notes on bytes after the last record: RocketMQ does not erase truncated records."""
        end = self._behind_blank(files, end)
        for file in files:
            if file.end > end and not _is_zero_from(file, max(end, file.base)):
                path = self._collector.shown(file.path)
                self._collector.remark(f"{path}: bytes of truncated records follow the log's end")

    def _behind_blank(self, files: Sequence[LogFile], end: int) -> int:
        """Returns the end of the log: the file's end if a BLANK follows the last record."""
        for file in files:
            if file.base < end <= file.end - BLANK_SIZE:
                with file.opened() as source:
                    closing = source.read(end - file.base, BLANK_SIZE)
                if closing == encode_blank(file.end - end):
                    return file.end
        return end

    def _finish_queues(
        self, files: Sequence[LogFile], units: UnitWriter, compared: ComparedFiles,
        results: Sequence[RangeResult], rebuilt: Rebuilt,
    ) -> dict[QueueKey, IrregularQueue]:  # fmt: skip
        redone = finish_queues(
            files, self._settings, compared, units.queue_runs(), results, rebuilt
        )
        for (topic, queue_id), queue in redone.items():
            is_damage = queue.is_disordered or compared.leads_elsewhere((topic, queue_id))
            if queue.odd_count and not is_damage and not self._unjudged.has(topic):
                self._collector.remark(
                    f"{topic}:{queue_id}: {queue.odd_count} records contain a higher offset than "
                    "their unit, as RocketMQ 5.0.0 counts refused sends too"
                )
            elif queue.odd_count and not self._unjudged.has(topic):
                self._collector.add_record(
                    "queue_offset", queue.odd_place, repairable=False, count=queue.odd_count,
                    expected=f"the next offset of {topic}:{queue_id}", found="a gap or a repeat",
                )  # fmt: skip
        self._recorded = recorded_ranges(rebuilt, redone)
        return redone


def _is_of_pending(view: str) -> bool:
    """Returns whether an absent view has units of timers or transactions."""
    *_, topic, name = ("", "", *Path(view).parts)
    return name == CONSUME_QUEUE_DIRECTORY or topic in _PENDING_TOPICS


def _is_zero_from(file: LogFile, physical_offset: int) -> bool:
    begin = physical_offset - file.base
    with file.opened() as source:
        pieces = (source.read(at, TAIL_PIECE) for at in range(begin, file.size, TAIL_PIECE))
        return all(is_zero(piece, 0, len(piece)) for piece in pieces)
