"""Rebuilds consume queues and index in this process, one file of the log after the other.

    file 0 ─► file 1 ─► …      units to their files, entries directly into the open index file

The slot table of the open index file and the queues' ends are in memory, so no byte is written
twice. Irregular queues are rebuilt unit by unit at the end.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Numbers
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.records import decode, unit_rows
from pocketmq.format.consume_unit import PRE_BLANK, UNIT_SIZE
from pocketmq.format.deleted_topics import DRIFT_MAX, LeftOver, left_over_of
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from pocketmq.format.record import RECORD_SIZE_MIN
from pocketmq.model.errors import Corruption
from pocketmq.model.message import QueueKey
from pocketmq.rebuild.extension import extend_queues
from pocketmq.rebuild.index_builder import IndexBuilder
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.rebuild.plan import Range, map_here
from pocketmq.rebuild.range_pass import Advance, RangePass, RangeResult, no_advance
from pocketmq.rebuild.staging import Staging, boot_id, range_mark, result_document, result_of
from pocketmq.rebuild.unit_files import QueueFiles, QueueRun, UnitWriter
from pocketmq.walk.log_walk import Hole, holes_and_tail
from pocketmq.walk.reader import Chunk, LogReader

# -- resuming ----------------------------------------------------------------------------------
# Resumes a killed sequential rebuild after the last saved file of the log.
#
#     STATE/progress.json     the ranges read, the ends of queues, the state of the open index file
#     STATE/slots-N.npy       its slot table after N files; the valid one is named in progress.json
#
# A machine restart loses the page cache, so state from before the restart is not trusted.

PROGRESS_FILE: Final = "progress.json"
SAVED_EVERY_BYTES: Final = 1 << 30
"""Log bytes between two saved states: a state has a slot table, 20 MB with RocketMQ's sizes."""


class Resume:
    """Saves and restores the state of one rebuild in its own directory."""

    __slots__ = ("_directory", "_files", "_marks", "_saved_at", "_settings", "_upto")

    def __init__(
        self, directory: Path, files: Sequence[LogFile], settings: KnownShape, upto: int
    ) -> None:
        self._directory = directory
        self._files = files
        self._settings = asdict(settings)
        self._upto = upto
        self._marks: list[list[Any]] = []
        self._saved_at = files[0].base if files else 0

    def saved(self) -> dict[str, Any] | None:
        """Returns the saved state if log, settings and machine start are still the same."""
        found = Staging(self._directory).read(self._directory / PROGRESS_FILE)
        if found is None or (found["settings"], found["boot"]) != (self._settings, boot_id()):
            return None
        marks = [self._mark(file) for file in self._files[: len(found["marks"])]]
        return found if found["marks"] == marks else None

    def restore(self, units: UnitWriter, index: IndexBuilder) -> list[RangeResult]:
        """Restores the last saved state into `units` and `index`.

        Returns  results of the ranges that were read before; an empty list without usable state
        """
        saved = self.saved()
        if saved is None:
            return []
        self._marks = saved["marks"]
        for (topic, queue_id), run in zip(saved["keys"], saved["runs"], strict=True):
            number = units.queues.add(topic.encode(), queue_id)
            if run is not None:
                units.runs[number] = QueueRun(*run)
        slots = np.load(self._directory / saved["slots"]) if saved["slots"] else None
        index.restore(saved["index"], slots)
        results = [result_of(document) for document in saved["results"]]
        self._saved_at = results[-1].end
        return results

    def _mark(self, file: LogFile) -> list[Any]:
        return range_mark(Range(file, file.base, min(file.end, self._upto)))

    def finished(
        self, file: LogFile, results: Sequence[RangeResult], units: UnitWriter, index: IndexBuilder
    ) -> None:
        """Records that a file was read; saves the state every `SAVED_EVERY_BYTES`."""
        assert file.end > self._saved_at
        self._marks.append(self._mark(file))
        if file.end - self._saved_at < SAVED_EVERY_BYTES:
            return
        self._saved_at = file.end
        units.flush()
        self._directory.mkdir(parents=True, exist_ok=True)
        index_state, slots = index.state()
        slots_name = "" if slots is None else f"slots-{len(self._marks)}.npy"
        if slots is not None:
            np.save(self._directory / slots_name, slots)
        runs = [units.runs.get(number) for number in range(len(units.queues.keys))]
        document = {
            "settings": self._settings,
            "boot": boot_id(),
            "marks": self._marks,
            "keys": [list(key) for key in units.queues.keys],
            "runs": [run and [run.first, run.count, run.is_regular] for run in runs],
            "slots": slots_name,
            "index": index_state,
            "results": [result_document(result) for result in results],
        }
        Staging(self._directory).write(self._directory / PROGRESS_FILE, document)
        for path in self._directory.glob("slots-*.npy"):
            if path.name != slots_name:
                path.unlink()


# -- irregular queues --------------------------------------------------------------------------
# Builds queues with gaps or repeats in their offsets, unit by unit, by RocketMQ's rule.
#
#     offset = units so far     appended
#     offset < units so far     dropped as a repeat, but 0 is appended
#     offset > units so far     appended, so that unit n no longer is message n; if the log lost
#                               records in between, pre-blank units replace them first
#
# The first unit's number is its record's offset, unless the existing queue shows another number.
# Source: ConsumeQueue.putMessagePositionInfo.

Gaps = Sequence[tuple[int, int]]
"""Physical offsets [begin, end) where the log lost records, ascending."""


class Missing(NamedTuple):
    """Messages of a queue without a record, replaced by pre-blank units.

    first       queue offset of the first missing message
    begin, end  physical offsets of the records before and after the missing messages
    """

    first: int
    messages: int
    begin: int
    end: int


class IrregularQueue:
    """Builds one queue from its units in log order.

    A record is odd if its queue offset is a gap or a repeat that lost records do not explain.
    """

    __slots__ = (
        "_end", "_files", "_gaps", "_key", "_last_place", "_odd_run", "_start", "first",
        "is_disordered", "missing", "odd_count", "odd_place",
    )  # fmt: skip

    def __init__(
        self, files: QueueFiles, key: QueueKey, gaps: Gaps, start: tuple[int, int] | None = None
    ) -> None:
        """Begins a queue; `start` is the physical offset and unit number of its first message."""
        self._files = files
        self._key = key
        self._gaps = gaps
        self._start = start
        self._end = -1
        self._last_place = -1
        self.first = -1
        self.odd_count = 0
        """Number of odd records."""
        self.odd_place = -1
        """Physical offset of the first odd record."""
        self.missing: list[Missing] = []
        self.is_disordered = False
        """Whether RocketMQ 5.0.0 cannot have written some odd records. It increases a queue's
        next offset even for a refused send, so that the queue offsets in its records stay above the
        unit numbers until its next start."""
        self._odd_run = (-1, 0, 0)
        """(Unit number after the last odd unit, count of consecutive odd units, lead of the last
        odd record's queue offset over its unit number)."""

    @property
    def end(self) -> int:
        """Units of the queue, leading pre-blank units included."""
        return max(self._end, 0)

    def put(self, queue_offsets: Numbers, units: NDArray[np.void]) -> None:
        """Adds the next units of the queue."""
        content = units.tobytes()
        places: Iterable[int] = units["physical_offset"].tolist()
        begin = 0
        for number, (wanted, place) in enumerate(zip(queue_offsets.tolist(), places, strict=True)):
            if wanted != self._end or not wanted:
                self._write(content[begin * UNIT_SIZE : number * UNIT_SIZE])
                begin = number + 1 if self._is_repeat(wanted) else number
                is_odd = begin > number or not self._make_way(wanted, place)
                if is_odd:
                    self.odd_place = self.odd_place if self.odd_count else place
                    self.odd_count += 1
                    self._judge(wanted - self._end, is_repeat=begin > number)
            if begin <= number:
                self._end += 1
                self._last_place = place
        self._write(content[begin * UNIT_SIZE :])
        assert self._end >= self.first

    def _judge(self, drift: int, *, is_repeat: bool) -> None:
        """Checks whether RocketMQ may have written an odd record after the previous ones."""
        end, count, before = self._odd_run
        if self._end == self.first:  # Expired records may precede the first one.
            end, count, before = self._end, 1, drift
        follows = end == self._end
        self.is_disordered |= is_repeat or not 0 < drift <= DRIFT_MAX
        self.is_disordered |= drift < before if follows else count == 1
        self._odd_run = (self._end + 1, count + 1 if follows else 1, drift)

    def finish(self) -> None:
        """Checks the last odd record: a single odd record before regular records is disordered."""
        end, count, _ = self._odd_run
        self.is_disordered |= count == 1 and end != self._end

    def _is_repeat(self, wanted: int) -> bool:
        return 0 < wanted < self._end

    def _make_way(self, wanted: int, place: int) -> bool:
        """Begins the queue, or writes pre-blank units up to `wanted` if the log lost records.

        Returns  whether the queue then ends at `wanted`
        """
        if self._end < 0:
            place_there, unit = self._start or (-1, 0)
            self._end = self.first = unit if place_there == place else wanted
            self._files.fill(self._key, self.first)
            return wanted == self._end
        missing = wanted - self._end
        if 0 < missing <= self._room_for(place) // RECORD_SIZE_MIN:
            self.missing.append(Missing(self._end, missing, self._last_place, place))
            self._end = wanted
            self._write(PRE_BLANK * missing)
        return wanted == self._end

    def _room_for(self, place: int) -> int:
        first = bisect_left(self._gaps, (self._last_place, 0))
        return sum(end - begin for begin, end in self._gaps[first:] if begin < place)

    def _write(self, units: bytes) -> None:
        if units:
            self._files.write(self._key, self._end - len(units) // UNIT_SIZE, memoryview(units))


# -- the rebuild -------------------------------------------------------------------------------
@dataclass(slots=True)
class Rebuilt:
    """Result of a rebuild.

    end       physical offset after the last valid record
    holes     damage with valid records after it
    tail      bytes after the last valid record; None if the log ends in order
    queues    first and end offset by queue
    irregular queues that were rebuilt unit by unit, as their offsets are not continuous or they
              have left-over records
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

    If the store writes extensions, it also builds consumequeue_ext/.

    state    directory in which state is saved periodically; a later call with the same arguments
             resumes from it
    Errors   Corruption: valid records follow damage, unless holes are accepted; IllegalTopic
    Cost     about 2 µs of processor time a record of 1 KiB with three entries, 100 MiB of memory
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
    """Raises Corruption if valid records follow damage."""
    holes, _ = damage_of(results)
    if holes:
        hole = holes[0]
        size = next(r.begin for r in reversed(results) if r.begin <= hole.begin)
        raise Corruption(
            path=hole.path, file_position=hole.begin - size, physical_offset=hole.begin,
            why=f"{hole.reason}; valid records follow this and all {len(holes)} damaged areas",
        )  # fmt: skip


def damage_of(results: Sequence[RangeResult]) -> tuple[list[Hole], Hole | None]:
    """Returns the damage inside the log, and the bytes after the log's last valid record."""
    end = max((result.end for result in results if result.record_count), default=0)
    return holes_and_tail([hole for result in results for hole in result.holes], end)


def summary(results: Sequence[RangeResult], *, accept_holes: bool) -> Rebuilt:
    """Combines the results of ranges.

    Errors   Corruption: valid records after damage, unless holes are accepted
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
    """Writes the leading pre-blank units of regular queues, and rebuilds all others unit by unit.

    The others are irregular queues, and queues with left-over records (format/deleted_topics.py).

    Returns  the rebuilt queues
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
    rebuilt.irregular.sort()
    return redone


def _redo(
    files: Sequence[LogFile],
    settings: KnownShape,
    left_over: LeftOver,
    wanted: dict[QueueKey, IrregularQueue],
    results: Sequence[RangeResult],
) -> None:
    """Passes all units of irregular queues to them in log order.

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
