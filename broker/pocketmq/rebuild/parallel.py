"""Rebuilds consume queues and index by many workers: a driver plans, tasks write the files.

    files ─► ranges ─┬─► units, spooled by queue ─► groups of queues ─► consumequeue/
                     └─► entries, spooled ────────► counts ─► files ──► index/
             task                                   driver    task

Every file is written whole by one attempt at a task, as a draft, and renamed when it is complete.
The driver reads a few numbers of each range only. It
    1. checks that each range begins at the end of the previous range, and reports damage;
    2. divides the queues into groups; the task of a group joins the queues' units of all ranges,
       writes pre-blank units before the first message, and builds irregular queues unit by unit;
    3. adds up entry counts: entry g belongs in index file g div (M - 1), M being the maximum entry
       count, so files are built independently.
See ARCHITECTURE.md ("Parallel rebuild").
"""

import os
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from pocketmq.format.names import (
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    queue_directory,
)
from pocketmq.model.errors import BrokerError, Corruption, PlaceUnusable
from pocketmq.model.finding import ScanEnd
from pocketmq.rebuild.index_files import IndexTask, Spools, build_index_file, plan_index_files
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.rebuild.manifest import FileMark, mark_file, write_manifest
from pocketmq.rebuild.plan import Mapper, Range, plan_ranges
from pocketmq.rebuild.queue_groups import (
    GROUP_UNITS,
    HELD_FACTOR,
    GroupTask,
    build_group,
    group_borders,
)
from pocketmq.rebuild.range_pass import RangePass, RangeResult
from pocketmq.rebuild.sequential import Rebuilt, refuse_holes, summary
from pocketmq.rebuild.staging import (
    PartRows,
    Staging,
    new_writer,
    plan_document,
    range_document,
    range_mark,
    result_of,
)
from pocketmq.rebuild.unit_spool import UnitSpool
from pocketmq.walk.log_walk import NO_RECORD, Times, is_too_old, oldest_behind
from pocketmq.walk.reader import NO_FILE, Stop

QUEUE_FILE_PARTS: Final = (CONSUME_QUEUE_DIRECTORY, "topic", "queue id", "file")
"""Parts of a consume queue file's path below the store directory."""
PartTask = GroupTask | IndexTask


@dataclass(frozen=True, slots=True)
class RebuildJob:
    """Parameters of a rebuild, and how it is divided among workers.

    upto           physical offset; only records that start below it are read
    workers        concurrent tasks
    piece_size     approximate bytes of log in a range; 0: the number of files determines them
    group_units    approximate units of the queues that one task builds
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
    group_units: int = GROUP_UNITS
    accept_holes: bool = False
    keep_spool: bool = False
    expired: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeTask:
    """One range for a worker; `last_times` and `stop` are the walk's state at its begin."""

    part: Range
    settings: KnownShape
    out: str
    last_times: Times = ()
    stop: Stop = NO_FILE


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
    if unfinished:  # All parts may have units and entries of a range that is read again.
        staging.forget_parts()
    _run(staging, unfinished, mapper)
    results = [_result(staging, part) for part in ranges]
    _look_behind_holes(staging, tasks, results, mapper)
    _check_seams(ranges, results)
    if not job.accept_holes:
        refuse_holes(results)
    rebuilt = summary(results, accept_holes=job.accept_holes)
    index = _index_tasks(staging, job, ranges, results)
    rebuilt.index_names = [task.start.path.name for task in index]
    rows = _build(staging, [*index, *_group_tasks(staging, job, ranges, results, rebuilt)], mapper)
    for part in rows:
        rebuilt.queues |= {(topic, number): (a, b) for topic, number, a, b in part.queues}
        rebuilt.irregular += [(topic, number) for topic, number in part.irregular]
    rebuilt.irregular.sort()
    marks = [FileMark(*row) for part in rows for row in part.files]
    marks += mapper(mark_file, [(str(job.out), path) for path in _carry_expired(job, rebuilt)])
    write_manifest(staging, rebuilt, marks)
    staging.drop_scratch(with_spool=not job.keep_spool)
    return rebuilt


def _index_tasks(
    staging: Staging, job: RebuildJob, ranges: Sequence[Range], results: Sequence[RangeResult]
) -> list[IndexTask]:
    """Plans the index files, and removes files of an earlier run that have other names."""
    spools = Spools(
        [str(staging.spool(part.name)) for part in ranges],
        [result.entry_count for result in results],
    )
    tasks = plan_index_files(job.out, spools, job.settings)
    names = {task.start.path.name for task in tasks}
    directory = job.out / INDEX_DIRECTORY
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.name not in names:
            path.unlink()
    return tasks


def _group_tasks(
    staging: Staging, job: RebuildJob, ranges: Sequence[Range], results: Sequence[RangeResult],
    rebuilt: Rebuilt,
) -> list[GroupTask]:  # fmt: skip
    counts = [staging.read(staging.range_file(part.name))["units"] for part in ranges]
    paths = [
        str(staging.units(part.name)) for part, count in zip(ranges, counts, strict=True) if count
    ]
    gaps = [gap for result in results for gap in result.gaps]
    gaps = sorted(gaps + [(hole.begin, hole.end) for hole in rebuilt.holes])
    met = {key for result in results for key in result.left_over}
    whole = GroupTask(
        str(job.out), 0, 0, HELD_FACTOR * job.group_units, sum(counts), tuple(paths), job.settings,
        tuple(job.files) if job.settings.consume_queue_extension else (), tuple(gaps),
        tuple(sorted(met)),
    )  # fmt: skip
    borders = group_borders(whole.unit_count, job.workers, job.group_units)
    return [replace(whole, low=low, high=high) for low, high in pairwise(borders)]


def _build(staging: Staging, tasks: Sequence[PartTask], mapper: Mapper) -> list[PartRows]:
    """Builds the parts that are not finished; returns the rows of all parts."""
    left = [task for task in tasks if staging.rows_of_part(task.name, task.mark) is None]
    hosts = list(mapper(build_part, left))
    found = [staging.rows_of_part(task.name, task.mark) for task in tasks]
    rows = [part for part in found if part is not None]
    if len(rows) < len(found):
        raise _unseen(staging, {host for host in hosts if host})
    return rows


def build_part(task: PartTask) -> str:
    """Builds a group of queues or an index file; returns the name of this machine."""
    if isinstance(task, IndexTask):
        build_index_file(task)
    else:
        build_group(task)
    return socket.gethostname()


def _unseen(staging: Staging, hosts: set[str]) -> PlaceUnusable:
    return PlaceUnusable(
        path=str(staging.out),
        why=f"tasks on {', '.join(sorted(hosts))} wrote results that are not there; mount the "
        "directory under the same path on every machine",
    )


def is_finished(staging: Staging, part: Range) -> bool:
    """Returns whether an earlier run finished this range, and its log file has not changed."""
    document = staging.read(staging.range_file(part.name))
    if document is None or "error" in document or document["range"] != range_mark(part):
        return False
    paths = (staging.spool(part.name), staging.units(part.name))
    sizes = [path.stat().st_size if path.exists() else -1 for path in paths]
    return bool(sizes == document["sizes"])


def _run(staging: Staging, tasks: Sequence[RangeTask], mapper: Mapper) -> None:
    """Reads ranges.

    Errors   Corruption: a range could not be read
    """
    hosts = list(mapper(read_range, tasks))
    for task, host in zip(tasks, hosts, strict=True):
        document, part = staging.read(staging.range_file(task.part.name)), task.part
        if document is None:
            raise _unseen(staging, {host})
        if "error" in document:
            raise Corruption(
                path=part.file.path, file_position=part.begin - part.file.base,
                physical_offset=part.begin, why=document["error"],
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
            again = replace(task, last_times=last_times, stop=before.stop)
            _run(staging, [again], mapper)
            results[number] = _result(staging, task.part)


def _is_stale(part: Range, last_times: Times) -> bool:
    with part.file.opened() as source:
        return is_too_old(source, part.begin, last_times)


def read_range(task: RangeTask, writer: str = "") -> str:
    """Reads one range: units and entries to its spools; returns the name of this machine.

    writer   name of this attempt; "": a new one
    Cost     about 2 µs of processor time a record, 150 MiB of memory
    """
    staging, part = Staging(Path(task.out), writer or new_writer()), task.part
    paths = (staging.spool(part.name), staging.units(part.name))
    drafts = [staging.draft(path) for path in paths]
    for draft in drafts:
        draft.parent.mkdir(parents=True, exist_ok=True)
    with drafts[0].open("wb") as spool, drafts[1].open("wb") as spooled:
        units = UnitSpool(spooled, task.settings.removed, task.settings.left_over)
        try:
            reading = RangePass(task.settings, units, lambda rows: rows.tofile(spool))
            reading.walk.resume(task.last_times, task.stop)
            result = reading.run(part.file, part.begin, part.end)
            units.finish()
        except BrokerError as error:  # In a file: a worker's traceback lacks the error's fields.
            staging.write(
                staging.range_file(part.name), {"range": range_mark(part), "error": str(error)}
            )
            return socket.gethostname()
        for file in (spool, spooled):
            file.flush()
            os.fsync(file.fileno())
    for draft, path in zip(drafts, paths, strict=True):
        draft.replace(path)
    document = range_document(part, result, units.unit_count)
    document["sizes"] = [path.stat().st_size for path in paths]
    staging.write(staging.range_file(part.name), document)
    return socket.gethostname()


def _check_seams(ranges: Sequence[Range], results: Sequence[RangeResult]) -> None:
    for part, result, following in zip(ranges, results, ranges[1:], strict=False):
        if following.file == part.file:
            is_met = result.stop.kind is ScanEnd.UPTO
            assert is_met, f"the range before {following.begin} ended elsewhere: {result.stop}"


def _carry_expired(job: RebuildJob, rebuilt: Rebuilt) -> list[str]:
    """Copies the files of queues whose messages have all expired; returns their paths."""
    built = {queue_directory(Path(CONSUME_QUEUE_DIRECTORY), *key) for key in rebuilt.queues}
    carried = []
    for path in job.expired:
        target = Path(*path.parts[-len(QUEUE_FILE_PARTS) :])
        if target.parent not in built:  # A rebuilt queue has messages in the log.
            (job.out / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, job.out / target)
            carried.append(str(target))
    return carried
