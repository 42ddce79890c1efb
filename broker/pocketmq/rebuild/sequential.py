"""Rebuilds all views in this process, one file of the log after the other.

    file 0 ─► file 1 ─► …      units to their files, entries straight into the index being built

The slot table of the index file being built and the ends of queues are carried along; nothing is
written twice. Queues that turned out irregular are done once more at the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.records import decode, unit_rows
from pocketmq.format.deleted_topics import LeftOver, left_over_of
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from pocketmq.model.errors import Corruption
from pocketmq.model.message import QueueKey
from pocketmq.rebuild.extension import extend_queues
from pocketmq.rebuild.index_builder import IndexBuilder
from pocketmq.rebuild.irregular import IrregularQueue
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.rebuild.plan import map_here
from pocketmq.rebuild.range_pass import Advance, RangePass, RangeResult, no_advance
from pocketmq.rebuild.resume import Resume
from pocketmq.rebuild.unit_files import QueueFiles, UnitWriter
from pocketmq.walk.log_walk import Hole, holes_and_tail
from pocketmq.walk.reader import Chunk, LogReader


@dataclass(slots=True)
class Rebuilt:
    """Result of a rebuild.

    end       physical offset behind the last sound record
    holes     damage with sound records behind it
    tail      the bytes behind the last sound record, when it is no orderly end
    queues    first and end offset by queue
    irregular queues whose offsets do not follow on each other, or not on the earlier ones
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
    settings: KnownShape,
    out: Path,
    *,
    upto: int,
    accept_holes: bool = False,
    state: Path | None = None,
    advance: Advance = no_advance,
) -> Rebuilt:
    """Builds consumequeue/ and index/ below `out` from the records that start below `upto`.

    Of a store that writes extensions, consumequeue_ext/ too.

    state    a directory to keep the state in now and then; a later call with the same arguments
             goes on from it
    Errors   Corruption: sound records behind damage, unless these holes are accepted; IllegalTopic
    Cost     some 2 µs of processor time a record of 1 KiB with three entries, 100 MiB of memory
    """
    queue_files = QueueFiles(out / CONSUME_QUEUE_DIRECTORY, settings.consume_queue_file_size_bytes)
    units = UnitWriter(queue_files, settings.removed, settings.left_over)
    index = IndexBuilder(out / INDEX_DIRECTORY, settings.geometry, settings.time_zone)
    reading = RangePass(settings, units, index.add, advance)
    resume = Resume(state, files, settings, upto) if state is not None else None
    results = resume.restore(units, index) if resume is not None else []
    if results:
        reading.walk.resume(results[-1].last_times, results[-1].stop)
    advance(sum(file.size for file in files[: len(results)]))
    try:
        for file in files[len(results) :]:
            if file.base >= upto:
                break
            results.append(reading.run(file, file.base, upto))
            if not accept_holes:
                refuse_holes(results)
            if resume is not None:
                resume.finished(file, results, units, index)
        units.flush()
        index.finish()
        rebuilt = summary(results, accept_holes=accept_holes)
        rebuilt.index_names = index.names
        finish_queues(files, settings, queue_files, units.queue_runs(), results, rebuilt)
    finally:
        queue_files.close()
    extend_queues(out, files, settings, rebuilt.queues, map_here)
    return rebuilt


def refuse_holes(results: Sequence[RangeResult]) -> None:
    """Raises Corruption when sound records follow damage."""
    holes, _ = damage_of(results)
    if holes:
        hole = holes[0]
        size = next(r.begin for r in reversed(results) if r.begin <= hole.begin)
        raise Corruption(
            path=hole.path, file_position=hole.begin - size, physical_offset=hole.begin,
            why=f"{hole.reason}; {len(holes)} such places with sound records behind them",
        )  # fmt: skip


def damage_of(results: Sequence[RangeResult]) -> tuple[list[Hole], Hole | None]:
    """Returns the damage inside the log, and the bytes behind its last sound record."""
    end = max((result.end for result in results if result.record_count), default=0)
    return holes_and_tail([hole for result in results for hole in result.holes], end)


def summary(results: Sequence[RangeResult], *, accept_holes: bool) -> Rebuilt:
    """Adds up the results of ranges.

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
    settings: KnownShape,
    queue_files: QueueFiles,
    runs: dict[QueueKey, tuple[int, int, bool]],
    results: Sequence[RangeResult],
    rebuilt: Rebuilt,
) -> dict[QueueKey, IrregularQueue]:
    """Fills up the fronts of regular queues, and do others again by the rule.

    Others are irregular ones, and those of which records turned out to be left over.

    Returns  the results of the irregular ones
    """
    known = left_over_of(settings.left_over)
    left_over = known.with_empty({key for result in results for key in result.left_over}, runs)
    starts, empty = known.starts, left_over.places.keys() - known.places.keys()
    for key, (first, count, is_regular) in runs.items():
        if is_regular and key not in starts and key not in empty:
            queue_files.fill(key, first)
            rebuilt.queues[key] = (first, first + count)
        else:
            rebuilt.irregular.append(key)
            queue_files.forget(key)
    gaps = [gap for result in results for gap in result.gaps]
    gaps = sorted(gaps + [(hole.begin, hole.end) for hole in rebuilt.holes])
    redone = {
        key: IrregularQueue(queue_files, key, gaps, starts.get(key)) for key in rebuilt.irregular
    }
    if redone:
        _redo(files, settings, left_over, redone, results)
    rebuilt.queues |= {key: (queue.first, queue.end) for key, queue in redone.items() if queue.end}
    return redone


def _redo(
    files: Sequence[LogFile],
    settings: KnownShape,
    left_over: LeftOver,
    wanted: dict[QueueKey, IrregularQueue],
    results: Sequence[RangeResult],
) -> None:
    """Gives queues their units once more, one by one in log order.

    Cost     the log is read and decoded once more
    """
    queues = QueueTable(settings.removed, left_over)
    levels = settings.levels
    for chunk in _sound_chunks(files, results):
        decoded = decode(
            chunk.buffer, chunk.heads, queues, style=settings.index_style, levels=levels
        )
        rows = unit_rows(decoded)
        for number in np.unique(rows.queue).tolist():
            queue = wanted.get(queues.keys[number])
            if queue is not None:
                mine = np.flatnonzero(rows.queue == number)
                queue.put(rows.queue_offset[mine], rows.units[mine])
    for queue in wanted.values():
        queue.finish()


def _sound_chunks(files: Sequence[LogFile], results: Sequence[RangeResult]) -> Iterator[Chunk]:
    """Yields the stretches between the holes of all ranges, in order."""
    reader = LogReader()
    for result in results:
        file = next(file for file in files if file.base <= result.begin < file.end)
        borders = [result.begin]
        for hole in result.holes:
            borders += [hole.begin, hole.end]
        with file.opened() as source:
            for begin, end in zip(borders[::2], [*borders[1::2], result.end], strict=True):
                if begin < end:
                    yield from reader.chunks(source, begin, end)
