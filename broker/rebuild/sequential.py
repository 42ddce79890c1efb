"""Rebuilds all views in this process, one file of the log after the other.

    file 0 ─► file 1 ─► …      units to their files, entries straight into the index being built

The slot table of the index file being built and the ends of queues are carried along; nothing is
written twice. Queues that turned out irregular are done once more at the end.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from broker.format.columns.queues import QueueTable
from broker.format.columns.records import Decoded, decode, units_of
from broker.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY, queue_directory
from broker.model.errors import Corruption
from broker.model.message import QueueKey
from broker.model.store_shape import DelayLevels
from broker.rebuild.index_builder import IndexBuilder
from broker.rebuild.irregular import Gaps, IrregularQueue
from broker.rebuild.log_files import LogFile, ViewSettings
from broker.rebuild.range_pass import Advance, RangePass, RangeResult, no_advance, queue_runs
from broker.rebuild.resume import Resume
from broker.rebuild.unit_files import QueueFiles, UnitWriter
from broker.walk.log_walk import Hole, holes_and_tail
from broker.walk.reader import LogReader


@dataclass(slots=True)
class Rebuilt:
    """What a rebuild read and made.

    end       physical offset behind the last sound record
    holes     damage with sound records behind it
    tail      what stands behind the last sound record, when it is no orderly end
    queues    first and end offset by queue
    irregular queues whose offsets do not follow on each other
    """

    begin: int
    end: int
    record_count: int
    entry_count: int
    holes: list[Hole]
    tail: Hole | None
    queues: dict[QueueKey, tuple[int, int]] = field(default_factory=dict)
    irregular: list[QueueKey] = field(default_factory=list)
    index_names: list[str] = field(default_factory=list)


def rebuild(
    files: Sequence[LogFile],
    settings: ViewSettings,
    out: Path,
    *,
    upto: int,
    accept_holes: bool = False,
    state: Path | None = None,
    advance: Advance = no_advance,
) -> Rebuilt:
    """Build consumequeue/ and index/ below `out` from the records that start below `upto`.

    state    a directory to keep the state in now and then; a later call with the same arguments
             goes on from it
    Errors   Corruption: sound records behind damage, unless these holes are accepted; IllegalTopic
    Cost     some 2 µs of processor time a record of 1 KiB with three entries, 100 MiB of memory
    """
    queues = QueueTable(settings.removed)
    queue_files = QueueFiles(out / CONSUME_QUEUE_DIRECTORY, settings.consume_queue_file_bytes)
    units = UnitWriter(queue_files, queues.keys)
    index = IndexBuilder(out / INDEX_DIRECTORY, settings.geometry, settings.time_zone)
    reading = RangePass(settings, queues, units, index.add, advance)
    resume = Resume(state, files, settings, upto) if state is not None else None
    results = resume.restore(queues, units, index) if resume is not None else []
    if results:
        reading.walk.resume(results[-1].last_time_ms, results[-1].stop)
    advance(sum(file.size for file in files[: len(results)]))
    try:
        for file in files[len(results) :]:
            if file.base >= upto:
                break
            results.append(reading.run(file, file.base, upto))
            if not accept_holes:
                refuse_holes(results)
            if resume is not None:
                resume.finished(file, results, queues, units, index)
        units.flush()
        index.finish()
        rebuilt = summary(results, accept_holes=accept_holes)
        rebuilt.index_names = index.names
        finish_queues(
            files, settings, queue_files, queue_runs(units, queues.keys), results, rebuilt
        )
    finally:
        queue_files.close()
    return rebuilt


def refuse_holes(results: Sequence[RangeResult]) -> None:
    """Raise Corruption when sound records lie behind damage."""
    holes, _ = damage_of(results)
    if holes:
        hole = holes[0]
        size = next(r.begin for r in reversed(results) if r.begin <= hole.begin)
        raise Corruption(
            path=hole.path, file_position=hole.begin - size, physical_offset=hole.begin,
            why=f"{hole.reason}; {len(holes)} such places with sound records behind them",
        )  # fmt: skip


def damage_of(results: Sequence[RangeResult]) -> tuple[list[Hole], Hole | None]:
    """Return the damage inside the log, and what stands behind its last sound record."""
    end = max((result.end for result in results if result.record_count), default=0)
    return holes_and_tail([hole for result in results for hole in result.holes], end)


def summary(results: Sequence[RangeResult], *, accept_holes: bool) -> Rebuilt:
    """Add up what ranges held.

    Errors   Corruption, as `refuse_holes`, unless holes are accepted
    """
    if not accept_holes:
        refuse_holes(results)
    holes, tail = damage_of(results)
    begin = results[0].begin if results else 0
    return Rebuilt(
        begin=begin,
        end=max((result.end for result in results if result.record_count), default=begin),
        record_count=sum(result.record_count for result in results),
        entry_count=sum(result.entry_count for result in results),
        holes=holes,
        tail=tail,
    )


def finish_queues(
    files: Sequence[LogFile],
    settings: ViewSettings,
    queue_files: QueueFiles,
    runs: dict[QueueKey, tuple[int, int, bool]],
    results: Sequence[RangeResult],
    rebuilt: Rebuilt,
) -> None:
    """Fill up the fronts of regular queues and do irregular ones again, by the rule."""
    for key, (first, count, is_regular) in runs.items():
        if is_regular:
            queue_files.fill(key, first)
            rebuilt.queues[key] = (first, first + count)
        else:
            rebuilt.irregular.append(key)
    if not rebuilt.irregular:
        return
    queue_files.close()
    for key in rebuilt.irregular:
        shutil.rmtree(queue_directory(queue_files.directory, *key), ignore_errors=True)
    gaps = sorted(
        [gap for result in results for gap in result.gaps]
        + [(hole.begin, hole.end) for hole in rebuilt.holes]
    )
    redone = redo_irregular(files, settings, queue_files, rebuilt.irregular, results, gaps)
    rebuilt.queues |= {key: (queue.first, queue.end) for key, queue in redone.items() if queue.end}


def redo_irregular(
    files: Sequence[LogFile],
    settings: ViewSettings,
    queue_files: QueueFiles,
    keys: Iterable[QueueKey],
    results: Sequence[RangeResult],
    gaps: Gaps,
) -> dict[QueueKey, IrregularQueue]:
    """Give queues their units once more, one by one in log order; returns them.

    Cost     the log is read and decoded once more
    """
    wanted = {key: IrregularQueue(queue_files, key, gaps) for key in keys}
    queues, levels = QueueTable(settings.removed), DelayLevels(settings.delay_levels)
    reader = LogReader()
    for file, begin, end in sound_stretches(files, results):
        with file.opened() as source:
            for chunk in reader.chunks(source, begin, end):
                decoded = decode(
                    chunk.buffer, chunk.heads, queues, style=settings.style, levels=levels
                )
                _put_irregular(decoded, queues, wanted)
    return wanted


def _put_irregular(
    decoded: Decoded, queues: QueueTable, wanted: dict[QueueKey, IrregularQueue]
) -> None:
    units = units_of(decoded)
    for number in np.unique(decoded.queue[decoded.is_queued]).tolist():
        queue = wanted.get(queues.keys[number])
        if queue is not None:
            mine = np.flatnonzero((decoded.queue == number) & decoded.is_queued)
            queue.put(decoded.heads.queue_offset[mine], units[mine])


def sound_stretches(
    files: Sequence[LogFile], results: Sequence[RangeResult]
) -> Iterable[tuple[LogFile, int, int]]:
    """Yield (file, begin, end) of the stretches of sound records, in order."""
    for result in results:
        file = next(file for file in files if file.base <= result.begin < file.end)
        begin = result.begin
        for hole in result.holes:
            if begin < hole.begin:
                yield file, begin, hole.begin
            begin = hole.end
        if begin < result.end:
            yield file, begin, result.end
