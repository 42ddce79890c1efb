"""Rebuilds consume queues and index by many workers: a driver plans, tasks write the files.

    files ─► ranges ─┬─► units in place ──────────────► consumequeue/
                     └─► entries, spooled ─► counts ─► pieces ─► index/
             task      driver: continuous?    driver     task

Tasks write disjoint bytes of the final files, and counts and offsets to small files. The driver
    1. checks that each range begins at the end of the previous range, and reports damage;
    2. checks that each queue's offsets are continuous over all ranges, and writes pre-blank units
       before the first message; it rebuilds other queues unit by unit;
    3. adds up entry counts: entry g belongs in index file g div (M - 1), M being the maximum entry
       count, so files and pieces of large files are built independently.
A task that runs twice, even concurrently, writes the same bytes to the same offsets. Extensions are
written queue by queue after all units. See ARCHITECTURE.md ("Parallel rebuild").
"""

import shutil
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.records import ENTRY_TYPE
from pocketmq.format.names import (
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    next_index_file_name,
    queue_directory,
    zone_from_name,
)
from pocketmq.model.errors import BrokerError, Corruption
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import QueueKey
from pocketmq.rebuild.extension import extend_queues
from pocketmq.rebuild.index_builder import (
    FileBuilder,
    FileStart,
    entries_per_file,
    overlay,
    put_numbers,
)
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.rebuild.manifest import write_manifest
from pocketmq.rebuild.plan import Mapper, Range, plan_ranges
from pocketmq.rebuild.range_pass import RangePass, RangeResult
from pocketmq.rebuild.sequential import Rebuilt, finish_queues, refuse_holes, summary
from pocketmq.rebuild.staging import (
    Runs,
    Staging,
    new_writer,
    plan_document,
    range_document,
    range_mark,
    result_of,
)
from pocketmq.rebuild.unit_files import QueueFiles, UnitWriter
from pocketmq.walk.log_walk import NO_RECORD, Times, is_too_old, oldest_behind
from pocketmq.walk.reader import NO_FILE, Stop

# -- index files from pieces -------------------------------------------------------------------
# Builds index files from spooled entries, files and pieces of files independently.
#
#     range 0: rows 0 … a-1 │ range 1: rows a … b-1 │ …      row g of all is entry g of the index
#
# Each range spools its entries to a file, 20 bytes each. Prefix sums of the row counts give the
# spool and row of entry g, so any worker can read any entries.
#
# entries   0 ───────────── M-2 │ M-1 ─────────── 2M-3 │ …
# file      ────── 0 ────────── │ ────── 1 ─────────── │
# piece     ─ 0 ─│─ 1 ─│─ 2 ─── │
#             table 0 ─┘    │         a table: newest entry of each slot in a piece
#             tables 0+1 ───┘         a piece starts from all tables before it, overlaid in order

PIECES_MAX: Final = 8
"""Upper limit of pieces of one file: each piece reads the tables of all earlier pieces."""
PIECES_PER_WORKER: Final = 2
"""Number of pieces for each worker, unless pieces would be below `piece_entries`."""

ROWS_AT_ONCE: Final = 400_000
"""Number of rows that are read at once: 8 MB."""


class Spools:
    """The spooled entries of all ranges, as one numbered sequence."""

    __slots__ = ("_begins", "_paths", "count")

    def __init__(self, paths: Sequence[str], counts: Sequence[int]) -> None:
        self._paths = list(paths)
        self._begins = [0, *accumulate(counts)]
        self.count = self._begins[-1]

    def segments(self, begin: int, end: int) -> list[tuple[str, int, int]]:
        """Returns the segments that contain entries [begin, end): (path, first row, row count)."""
        found = []
        number = bisect_right(self._begins, begin) - 1
        while begin < end:
            upper = min(end, self._begins[number + 1])
            if upper > begin:
                found.append((self._paths[number], begin - self._begins[number], upper - begin))
                begin = upper
            number += 1
        return found

    def row(self, number: int) -> tuple[int, int]:
        """Returns (physical offset, store time in ms) of one entry."""
        (rows,) = read_segments(self.segments(number, number + 1))
        return int(rows["physical_offset"][0]), int(rows["time_ms"][0])


def read_segments(segments: Sequence[tuple[str, int, int]]) -> Iterator[NDArray[np.void]]:
    """Yields the entries of segments in order, up to `ROWS_AT_ONCE` at a time."""
    for path, first, count in segments:
        for begin in range(first, first + count, ROWS_AT_ONCE):
            size = min(ROWS_AT_ONCE, first + count - begin)
            rows = np.fromfile(path, ENTRY_TYPE, size, offset=begin * ENTRY_TYPE.itemsize)
            assert len(rows) == size, f"{path} ends before row {begin + size}"
            yield rows


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of consecutive entries of one index file.

    start        start of the file; its `number` is that of the piece's first entry in the file
    order        index of the piece in the file
    first_entry  number of the piece's first entry in all spools
    segments     spool rows of the piece's entries
    earlier      paths of the slot tables of all earlier pieces of the file
    """

    out: str
    start: FileStart
    order: int
    is_last: bool
    first_entry: int
    segments: list[tuple[str, int, int]]
    earlier: list[str]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.start.path.name

    @property
    def mark(self) -> list[int]:
        """Numbers that identify the piece; `build_piece` stores them when the piece is finished."""
        count = sum(count for _, _, count in self.segments)
        return [self.first_entry, self.start.number, count, int(self.is_last)]


def build_index(
    staging: Staging, spools: Spools, settings: KnownShape, mapper: Mapper, *,
    workers: int, piece_entries: int,
) -> list[str]:  # fmt: skip
    """Builds all index files; returns their names in order."""
    pieces = plan_pieces(staging, spools, settings, workers=workers, piece_entries=piece_entries)
    _drop_others(staging, pieces)
    left = [piece for piece in pieces if not _is_finished(staging, piece)]
    unfinished = {piece.name for piece in left}
    tabled = [piece for piece in pieces if not piece.is_last and piece.name in unfinished]
    for _ in mapper(write_table, tabled):
        pass
    for _ in mapper(build_piece, left):
        pass
    return list(dict.fromkeys(piece.name for piece in pieces))


def plan_pieces(
    staging: Staging, spools: Spools, settings: KnownShape, *, workers: int, piece_entries: int
) -> list[Piece]:
    """Returns all pieces of all files, in order."""
    zone, full = zone_from_name(settings.time_zone), entries_per_file(settings.geometry)
    pieces: list[Piece] = []
    name, ended_ms = "", 0
    for begin in range(0, spools.count, full):
        end = min(begin + full, spools.count)
        place, time_ms = spools.row(begin)
        name = next_index_file_name(time_ms, zone, name)
        wanted = pieces_of(end - begin, spools.count, workers, piece_entries)
        start = FileStart(
            staging.out / INDEX_DIRECTORY / name, settings.geometry, ended_ms, time_ms, place
        )
        segments = spools.segments(begin, end)
        whole = Piece(str(staging.out), start, 0, True, begin, segments, [])
        pieces += _cut(whole, spools, end, wanted)
        ended_ms = spools.row(end - 1)[1]
    return pieces


def pieces_of(file_entries: int, entries: int, workers: int, piece_entries: int) -> int:
    """Returns the number of pieces into which an index file is divided.

    A single worker gets one piece. For several workers, the pieces of all files are about
    `PIECES_PER_WORKER` for each worker. Fewer pieces are cheaper: each piece but the last writes a
    slot table that all later pieces read.

    file_entries    entries of this file
    entries         entries of all files
    piece_entries   approximate minimum of entries in a piece
    """
    if workers == 1:
        return 1
    size = max(ceil(entries / (PIECES_PER_WORKER * workers)), piece_entries)
    return min(max(round(file_entries / size), 1), PIECES_MAX)


def _cut(whole: Piece, spools: Spools, end: int, count: int) -> list[Piece]:
    begin = whole.first_entry
    borders = [begin + (end - begin) * number // count for number in range(count + 1)]
    staging = Staging(Path(whole.out))
    tables = [str(staging.table(whole.name, number)) for number in range(count)]
    return [
        replace(
            whole,
            order=number,
            is_last=number == count - 1,
            start=replace(whole.start, number=1 + borders[number] - begin),
            first_entry=borders[number],
            segments=spools.segments(borders[number], borders[number + 1]),
            earlier=tables[:number],
        )
        for number in range(count)
    ]


def _is_finished(staging: Staging, piece: Piece) -> bool:
    return bool(staging.read(staging.piece_file(piece.name, piece.order)) == piece.mark)


def _drop_others(staging: Staging, pieces: Sequence[Piece]) -> None:
    """Removes an earlier run's index files whose pieces do not all match the current plan."""
    kept = {piece.name for piece in pieces}
    kept -= {piece.name for piece in pieces if not _is_finished(staging, piece)}
    directory = staging.out / INDEX_DIRECTORY
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.name not in kept:
            path.unlink()
            for marked in (staging.work / "pieces").glob(f"{path.name}-*.json"):
                marked.unlink()


def write_table(piece: Piece) -> str:
    """Writes the slot table of a piece's own entries; returns the table's path.

    Cost     20 ns an entry, 4 bytes a slot
    """
    table = np.zeros(piece.start.geometry.slot_count, dtype=np.int32)
    number = piece.start.number
    for rows in read_segments(piece.segments):
        put_numbers(table, rows["hash"], number)
        number += len(rows)
    path = Staging(Path(piece.out)).table(piece.name, piece.order)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, table)
    return str(path)


def build_piece(piece: Piece) -> str:
    """Writes a piece's entries, and slots and header if it is the last; returns the file's name.

    Cost     0.1 µs an entry
    """
    staging = Staging(Path(piece.out))
    slots = np.zeros(piece.start.geometry.slot_count, dtype=np.int32)
    for path in piece.earlier:
        overlay(slots, np.load(path))
    builder = FileBuilder(replace(piece.start, slots=slots))
    try:
        for rows in read_segments(piece.segments):
            builder.put(rows)
        if piece.is_last:
            builder.finish()
    finally:
        builder.close()
    staging.write(staging.piece_file(piece.name, piece.order), piece.mark)
    return piece.name


# -- the driver --------------------------------------------------------------------------------
QUEUE_FILE_PARTS: Final = (CONSUME_QUEUE_DIRECTORY, "topic", "queue id", "file")
"""Parts of a consume queue file's path below the store directory."""
PIECE_ENTRIES: Final = 400_000
"""Approximate minimum of entries in an index piece, as each piece is a separate task."""


@dataclass(frozen=True, slots=True)
class RebuildJob:
    """Parameters of a rebuild, and how it is divided among workers.

    upto           physical offset; only records that start below it are read
    workers        concurrent tasks
    piece_size     approximate bytes of log in a range; 0: the number of files determines them
    piece_entries  approximate minimum of entries in a piece of an index file
    accept_holes   whether to skip damage before valid records; else such damage is an error
    keep_spool     whether to keep the files with which a later run reads only new ranges
    expired        consume queue files whose messages have all expired: they are copied unchanged,
                   as only they contain the queue's next offset
    """

    files: list[LogFile]
    settings: KnownShape
    out: Path
    upto: int
    workers: int = 1
    piece_size: int = 0
    piece_entries: int = PIECE_ENTRIES
    accept_holes: bool = False
    keep_spool: bool = False
    expired: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeTask:
    """One range for a worker.

    last_times, stop     state of the walk at the end of the previous range
    retaken              queues for which an earlier, discarded pass over the range wrote units
    """

    part: Range
    settings: KnownShape
    out: str
    last_times: Times = ()
    stop: Stop = NO_FILE
    retaken: tuple[QueueKey, ...] = ()


def plan(job: RebuildJob, mapper: Mapper) -> list[Range]:
    """Cuts the log into ranges and writes `plan.json`; returns the ranges.

    Finished ranges of an earlier run are kept if that run's plan is compatible (`can_go_on`).
    """
    ranges = plan_ranges(
        job.files, job.upto, mapper, workers=job.workers, piece_size=job.piece_size
    )
    Staging(job.out).prepare(plan_document(ranges, job.settings, job.upto, job.expired))
    return ranges


def rebuild_parallel(job: RebuildJob, mapper: Mapper) -> Rebuilt:
    """Builds all views below `job.out` and their manifest.

    Errors   Corruption: valid records follow damage, unless the job accepts holes; or a range
             cannot be read, for example because a topic's name is illegal
    """
    ranges = plan(job, mapper)
    staging = Staging(job.out)
    tasks = [RangeTask(part, job.settings, str(job.out)) for part in ranges]
    tasks[:1] = [replace(task, last_times=NO_RECORD) for task in tasks[:1]]
    unfinished = [task for task in tasks if not is_finished(staging, task.part)]
    if unfinished:  # A reread range may have other entries, which invalidates finished pieces.
        staging.forget_pieces()
    _run(staging, unfinished, mapper)
    results = [_result(staging, part) for part in ranges]
    _look_behind_holes(staging, tasks, results, mapper)
    _check_seams(ranges, results)
    if not job.accept_holes:
        refuse_holes(results)
    rebuilt = summary(results, accept_holes=job.accept_holes)
    runs = [staging.read(staging.range_file(part.name))["runs"] for part in ranges]
    _finish(job, runs, results, rebuilt)
    extend_queues(job.out, job.files, job.settings, rebuilt.queues, mapper)
    spools = Spools(
        [str(staging.spool(part.name)) for part in ranges],
        [result.entry_count for result in results],
    )
    rebuilt.index_names = build_index(
        staging, spools, job.settings, mapper,
        workers=job.workers, piece_entries=job.piece_entries,
    )  # fmt: skip
    _carry_expired(job, rebuilt)
    write_manifest(staging, rebuilt, mapper)
    staging.drop_scratch(with_spool=not job.keep_spool)
    return rebuilt


def is_finished(staging: Staging, part: Range) -> bool:
    """Returns whether an earlier run finished this range, and its log file has not changed."""
    document = staging.read(staging.range_file(part.name))
    if document is None or "error" in document or document["range"] != range_mark(part):
        return False
    return staging.spool(part.name).exists()


def _run(staging: Staging, tasks: Sequence[RangeTask], mapper: Mapper) -> None:
    """Reads ranges.

    Errors   Corruption: a range could not be read
    """
    for _ in mapper(read_range, tasks):
        pass
    for task in tasks:
        document, part = staging.read(staging.range_file(task.part.name)), task.part
        if document is None or "error" in document:
            why = document["error"] if document else "its range was not finished"
            raise Corruption(
                path=part.file.path, file_position=part.begin - part.file.base,
                physical_offset=part.begin, why=why,
            )  # fmt: skip


def _result(staging: Staging, part: Range) -> RangeResult:
    return result_of(staging.read(staging.range_file(part.name))["result"])


def _look_behind_holes(
    staging: Staging, tasks: list[RangeTask], results: list[RangeResult], mapper: Mapper
) -> None:
    """Rereads ranges after damage, if their result depends on store times before the damage.

    These times are known only once all ranges have been read.
    """
    last_times: Times = ()
    for number, task in enumerate(tasks[1:], 1):
        before, result = results[number - 1], results[number]
        last_times = (*last_times, *before.last_times)[-len(NO_RECORD) :]
        joined = (*last_times, *result.last_times)[-len(NO_RECORD) :]
        is_otherwise = oldest_behind(joined) != oldest_behind(result.last_times)
        is_unsearched = bool(result.holes) and is_otherwise
        is_stale = not before.stop.is_orderly and _is_stale(task.part, last_times)
        if is_unsearched or is_stale:
            runs: Runs = staging.read(staging.range_file(task.part.name))["runs"]
            retaken = tuple((topic, queue_id) for topic, queue_id, *_ in runs if is_stale)
            again = replace(task, last_times=last_times, stop=before.stop, retaken=retaken)
            _run(staging, [again], mapper)
            results[number] = _result(staging, task.part)


def _is_stale(part: Range, last_times: Times) -> bool:
    with part.file.opened() as source:
        return is_too_old(source, part.begin, last_times)


def read_range(task: RangeTask, writer: str = "") -> str:
    """Reads one range: units to their files, entries to its spool; returns its name.

    writer   name of this attempt; "": a new one
    Cost     about 2 µs of processor time a record, 150 MiB of memory
    """
    staging, part = Staging(Path(task.out), writer or new_writer()), task.part
    queue_files = QueueFiles(
        staging.out / CONSUME_QUEUE_DIRECTORY, task.settings.consume_queue_file_size_bytes
    )
    units = UnitWriter(queue_files, task.settings.removed, task.settings.left_over)
    draft = staging.draft(staging.spool(part.name))
    draft.parent.mkdir(parents=True, exist_ok=True)
    spool = draft.open("wb")
    try:
        reading = RangePass(task.settings, units, lambda rows: rows.tofile(spool))
        reading.walk.resume(task.last_times, task.stop)
        result = reading.run(part.file, part.begin, part.end)
        units.flush()
    except BrokerError as error:  # In a file: a worker's traceback lacks the error's fields.
        staging.write(
            staging.range_file(part.name), {"range": range_mark(part), "error": str(error)}
        )
        return part.name
    finally:
        spool.close()
        queue_files.close()
    draft.replace(staging.spool(part.name))
    runs: Runs = [(*key, *run) for key, run in units.queue_runs().items()]
    runs += [(*key, 0, 0, False) for key in task.retaken]
    staging.write(staging.range_file(part.name), range_document(part, result, runs))
    return part.name


def _check_seams(ranges: Sequence[Range], results: Sequence[RangeResult]) -> None:
    for part, result, following in zip(ranges, results, ranges[1:], strict=False):
        if following.file == part.file:
            is_met = result.stop.kind is ScanEnd.UPTO
            assert is_met, f"the range before {following.begin} ended elsewhere: {result.stop}"


def _finish(
    job: RebuildJob, runs_by_range: list[Runs], results: list[RangeResult], rebuilt: Rebuilt
) -> None:
    queue_files = QueueFiles(
        job.out / CONSUME_QUEUE_DIRECTORY, job.settings.consume_queue_file_size_bytes
    )
    try:
        runs = _joined_runs(runs_by_range)
        finish_queues(job.files, job.settings, queue_files, runs, results, rebuilt)
    finally:
        queue_files.close()


def _carry_expired(job: RebuildJob, rebuilt: Rebuilt) -> None:
    if not job.expired:
        return
    built = {queue_directory(job.out / CONSUME_QUEUE_DIRECTORY, *key) for key in rebuilt.queues}
    for path in job.expired:
        target = job.out / Path(*path.parts[-len(QUEUE_FILE_PARTS) :])
        if target.parent not in built:  # A rebuilt queue has messages in the log.
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def _joined_runs(runs_by_range: list[Runs]) -> dict[QueueKey, tuple[int, int, bool]]:
    joined: dict[QueueKey, tuple[int, int, bool]] = {}
    for topic, queue_id, first, count, is_regular in _rows(runs_by_range):
        begin, known, was_regular = joined.get((topic, queue_id), (first, 0, True))
        follows = first == begin + known
        joined[topic, queue_id] = (begin, known + count, was_regular and is_regular and follows)
    return joined


def _rows(runs_by_range: list[Runs]) -> Iterator[tuple[str, int, int, int, bool]]:
    for runs in runs_by_range:
        yield from runs
