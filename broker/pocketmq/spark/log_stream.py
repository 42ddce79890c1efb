"""Streams a directory: each batch is a range of the log, up to its durable end.

    batch 1                  batch 2             batch 3
    ├────────────────────────┼───────────────────┼──── …  durable end ┤
    0                        physical offsets, in the checkpoint

One physical offset is the position in all queues, also in those that are created later. If
`startingOffsets` names queues, the checkpoint also has floors: each queue's least queue offset.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pocketmq.backfill.log_walk import Stretch
from pocketmq.backfill.row_filter import RowFilter
from pocketmq.backfill.source import StoreReader
from pocketmq.format.columns.queues import QueueTable
from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.rebuild.log_files import LogFile, may_hold
from pocketmq.rebuild.plan import Range, cut_points
from pocketmq.spark.durable_end import DurableLog, DurableLogs
from pocketmq.spark.queue_offsets import MessagesLost
from pocketmq.spark.stream_request import (
    EARLIEST_NUMBER,
    LATEST,
    BatchMinimum,
    StreamRequest,
    document_of,
    offsets_from,
)
from pocketmq.walk.log_walk import Hole, LogWalk
from pocketmq.walk.reader import Chunk, LogReader

PIECE_SIZE_MIN: Final = 16 * 1024 * 1024
"""Lower limit of the bytes of a partition, as each partition costs some 50 ms."""
WALK_MAX: Final = 1 << 30
"""Upper limit of the bytes of a batch that has an upper limit of messages."""
POINT_SIZE: Final = 1024 * 1024
"""Distance in bytes of the record starts that the plan of a batch keeps."""
PLACE: Final = "physical_offset"
FLOORS: Final = "floors"


# -- planning --------------------------------------------------------------------------------------
class PlannedBatch(NamedTuple):
    """The range [begin, end) of the log, and what a walk over it found.

    places   starts of records in it, at least POINT_SIZE bytes apart; None: nothing walked over it,
             or it has damage
    message_count   its wanted messages; 0 if nothing walked over it
    """

    begin: int
    end: int
    places: Sequence[int] | None = None
    message_count: int = 0


def end_of_batch(log: DurableLog, begin: int, wanted: RowFilter, count_max: int | None) -> int:
    """Returns the physical offset at which a batch that begins at `begin` ends."""
    return next_batch(log, begin, wanted, count_max).end


def next_batch(
    log: DurableLog, begin: int, wanted: RowFilter, count_max: int | None
) -> PlannedBatch:
    """Returns the batch that begins at `begin`.

    count_max   upper limit of wanted messages; None: no limit
    Cost        0.4 µs a record if there is a limit, or the durable end is a store time; else none
    """
    if count_max is None and log.before_ms is None:
        return PlannedBatch(begin, max(log.upto, begin))
    limit = OFFSET_MAX if count_max is None else count_max
    queues, left, end = QueueTable(), limit, begin
    places, bases = _Places(begin), {file.base for file in log.files}
    for chunk in _chunks(log.files, begin, log.upto):
        heads = chunk.heads
        places.note(heads.physical_offset, is_next=int(heads.physical_offset[0]) in {end, *bases})
        counts = _counts(chunk, wanted, queues)
        late = _first_late(heads.store_timestamp_ms, log.before_ms)
        fitting = min(int(np.searchsorted(counts, left)) + 1, late)
        if fitting < len(heads):
            count = limit - left + (int(counts[fitting - 1]) if fitting else 0)
            return PlannedBatch(begin, int(heads.physical_offset[fitting]), places.found, count)
        end, left = chunk.end, left - int(counts[-1])
        if left <= 0 or (count_max is not None and end - begin >= WALK_MAX):
            return PlannedBatch(begin, end, places.found, limit - left)
    end = end if log.before_ms is not None else max(log.upto, begin)
    return PlannedBatch(begin, end, places.found, limit - left)


class _Places:
    __slots__ = ("_following", "found")

    def __init__(self, begin: int) -> None:
        self._following = begin + POINT_SIZE
        self.found: list[int] | None = []

    def note(self, places: NDArray[np.int64], *, is_next: bool) -> None:
        if not is_next:
            self.found = None
        if self.found is None:
            return
        while (number := int(np.searchsorted(places, self._following))) < len(places):
            self.found.append(int(places[number]))
            assert self.found[-1] >= self._following, "starts of records are too near"
            self._following = self.found[-1] + POINT_SIZE


def _chunks(files: Sequence[LogFile], begin: int, upto: int) -> Iterator[Chunk]:
    walk = LogWalk(LogReader())
    for file in files:
        if file.end <= begin or file.base >= upto:
            continue
        with file.opened() as source:
            found = walk.over(source, max(file.base, begin), upto)
            yield from (chunk for chunk in found if not isinstance(chunk, Hole))


def _counts(chunk: Chunk, wanted: RowFilter, queues: QueueTable) -> NDArray[np.int64]:
    """Returns for each record the number of wanted records up to it."""
    if wanted.takes_every_queue:
        return np.arange(1, len(chunk.heads) + 1)
    numbers = queues.number(chunk.buffer, chunk.heads)
    kept = wanted.of_queues(queues.keys, numbers, chunk.heads.queue_offset)
    counts: NDArray[np.int64] = np.cumsum(np.ones(len(numbers), np.int64) if kept is None else kept)
    return counts


def _first_late(times_ms: NDArray[np.int64], before_ms: int | None) -> int:
    late = times_ms >= (OFFSET_MAX if before_ms is None else before_ms)
    return int(late.argmax()) if late.any() else len(times_ms)


def begin_at_time(log: DurableLog, time_ms: int) -> int:
    """Returns the physical offset of the first record stored at a time or later.

    Returns  the durable end if there is none
    Cost     two records of each file, and a walk over one or two files
    """
    held = may_hold(log.files, time_ms, OFFSET_MAX)
    late = [file for file, is_held in zip(log.files, held, strict=True) if is_held]
    end = late[0].base if late else log.begin
    for chunk in _chunks(late, end, log.upto):
        number = _first_late(chunk.heads.store_timestamp_ms, time_ms)
        if number < len(chunk.heads):
            return int(chunk.heads.physical_offset[number])
        end = chunk.end
    return end if log.before_ms is not None else log.upto


def stretches_between(
    files: Sequence[LogFile], batch: PlannedBatch, *, workers: int, piece_size: int = 0
) -> list[Stretch]:
    """Returns the ranges of a batch, whose ends are starts or ends of records.

    workers      number of concurrent tasks
    piece_size   approximate bytes of a range; 0: as many as there are workers, but not small
    Cost         0.3 µs a record of the files that are cut, unless a walk found starts of records
    """
    begin, end = batch.begin, batch.end
    piece = piece_size or max((end - begin) // workers, PIECE_SIZE_MIN)
    ranges: list[Range] = []
    for file in files:
        part = Range(file, max(file.base, begin), min(file.end, end))
        if part.begin >= part.end:
            continue
        is_long = part.end - part.begin > piece + piece // 2
        points = _points(part, piece, batch.places) if is_long else []
        ranges += [Range(file, *pair) for pair in pairwise([part.begin, *points, part.end])]
    # All bytes below the durable end were once records: unreadable bytes are damage.
    return [Stretch(part, 0, is_followed=True) for part in ranges]


def _points(part: Range, piece: int, places: Sequence[int] | None) -> list[int]:
    if places is None or piece < 2 * POINT_SIZE:
        return cut_points((part, piece))
    points: list[int] = []
    for place in places:
        if (points or [part.begin])[-1] + piece <= place < part.end:
            points.append(place)
    return points


# -- the reader ------------------------------------------------------------------------------------
class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log of a directory batch by batch."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._request = request
        self._reader = StoreReader(request.rows, schema)
        self._logs = DurableLogs(request.rows.store)
        self._minimum = BatchMinimum(request.count_min, request.delay_ms)
        self._next: PlannedBatch | None = None
        self._target: int | None = None
        self._last: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Returns the offset of a stream without a checkpoint."""
        request, log = self._request, self._logs.now()
        if request.starting_ms is not None:
            return offset_of(begin_at_time(log, request.starting_ms))
        if request.starting == LATEST:
            return offset_of(end_of_batch(log, log.begin, request.rows.wanted, None))
        floors = {} if isinstance(request.starting, str) else request.starting
        if any(number < 0 for number in floors.values() if number != EARLIEST_NUMBER):
            raise ValueError("-1 (latest) of one queue needs a broker; name its queue offset")
        return offset_of(log.begin, {key: at for key, at in floors.items() if at > 0})

    def latestOffset(  # noqa: N802 - the name is Spark's
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        """Returns the end of the next batch; `start` if there is none yet.

        Errors   MessagesLost
        """
        log, floors = self._logs.now(), _floors(start)
        begin = self._begin_in(log, start[PLACE])
        if self._target is not None:
            log = log._replace(upto=min(log.upto, self._target))
        elif not self._has_enough(log, begin, self._wanted(floors)):
            return start
        count_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._next = next_batch(log, begin, self._wanted(floors), count_max)
        end = self._next.end
        assert end >= begin, (begin, end)
        self._last = offset_of(end if log.before_ms is not None else max(log.upto, end), floors)
        return offset_of(end, floors)

    def _has_enough(self, log: DurableLog, begin: int, wanted: RowFilter) -> bool:
        """Returns whether a batch is due; one of WALK_MAX bytes is, regardless of its messages."""
        count_min = self._request.count_min
        if not count_min:
            return True
        found = next_batch(log, begin, wanted, count_min)
        count, is_long = found.message_count, found.end - begin >= WALK_MAX
        return self._minimum.is_due(max(count, count_min) if is_long else count)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """Returns the limit of a batch."""
        count_max = self._request.count_max
        return ReadAllAvailable() if count_max is None else ReadMaxRows(count_max)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        """Returns the durable end, for the progress that Spark reports."""
        return self._last

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """Limits the stream to the present durable end."""
        log = self._logs.now()
        self._target = end_of_batch(log, log.begin, self._request.rows.wanted, None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the ranges of a batch, one a partition.

        Errors   MessagesLost
        """
        rows, log = self._request.rows, self._logs.now()
        begin, floors = self._begin_in(log, start[PLACE]), _floors(end)
        batch = PlannedBatch(begin, end[PLACE])
        if self._next is not None and self._next[:2] == batch[:2]:
            batch = self._next
        parts = stretches_between(
            log.files, batch, workers=rows.workers, piece_size=rows.piece_size
        )
        return [InputPartition((part, floors)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of a partition as `pyarrow.RecordBatch`es.

        Errors   Corruption, unless damage is reported as rows; MessagesLost
        """
        part, floors = partition.value
        wanted = self._wanted(floors)
        try:
            yield from self._reader.rows_of([part], wanted)
        except FileNotFoundError as error:
            if self._request.fails_on_loss:
                raise MessagesLost(_lost(part.part.begin, part.part.end)) from error

    def _wanted(self, floors: Mapping[QueueKey, int]) -> RowFilter:
        return replace(self._request.rows.wanted, floors=floors)

    def _begin_in(self, log: DurableLog, begin: int) -> int:
        """Returns where a batch begins: after `begin` if retention removed messages.

        Errors   MessagesLost, unless the request tolerates it
        """
        is_beyond = log.before_ms is None and begin > log.upto
        if log.begin <= begin and not is_beyond:
            return begin
        if self._request.fails_on_loss:
            if is_beyond:
                raise MessagesLost(
                    f"the checkpoint is at physical offset {begin}, but the log ends at "
                    f"{log.upto}: it is another store's; use a new checkpoint, {_ADVICE}"
                )
            raise MessagesLost(_lost(begin, log.begin))
        return log.begin


_ADVICE: Final = "or set failOnDataLoss to false"


def _lost(begin: int, end: int) -> str:
    return (
        f"retention removed the log from physical offset {begin} to {end} before the stream read "
        f"it; keep the log longer (retention), {_ADVICE}"
    )


def offset_of(place: int, floors: Mapping[QueueKey, int] | None = None) -> dict[str, Any]:
    """Returns an offset as Spark stores it in the checkpoint."""
    return {PLACE: place} | ({FLOORS: document_of(floors)} if floors else {})


def _floors(document: Mapping[str, Any]) -> dict[QueueKey, int]:
    return offsets_from(document.get(FLOORS, {}))
