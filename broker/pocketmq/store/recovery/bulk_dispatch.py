"""Dispatches records that the views lack at a start, in column batches.

    chunks ─► units ────────┬─(put)──► queues: one write for each queue
        └───► index entries ┘    └───► index

Chunks before the first damage come from the walk that searches the log's end. They are dispatched
when the walk has found the end. This module reads records after damage itself.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.records import Decoded, UnitRows, decode, unit_rows
from pocketmq.format.index_entries import packed
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import QueueKey
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.log_survey import CHUNK_SIZE, log_sources
from pocketmq.walk.reader import Chunk, LogReader, Stop

COLLECTED_MAX: Final = 262_144
"""Number of records collected before a put, so that a queue is written once for many chunks."""
AHEAD_MAX: Final = 1_048_576
"""Upper limit of records collected before the end of the log is known: 100 MB."""


class BulkDispatch:
    """One run over valid records of the log, in log order.

    only     queues that get units; None: all queues
    queues   numbers of the queues; None: new ones, which leave out records of deleted topics
    """

    __slots__ = (
        "_count", "_entries", "_gap_queues", "_gaps", "_looked_at", "_only", "_parts", "_reader",
        "_units", "begin", "end", "queues",
    )  # fmt: skip

    def __init__(
        self, parts: StoreComponents, *, begin: int = 0, chunk_size: int = CHUNK_SIZE,
        only: Container[object] | None = None, queues: QueueTable | None = None,
    ) -> None:  # fmt: skip
        self._parts = parts
        self.begin = begin
        """Physical offset from which on records are collected."""
        self._only = only
        self._reader = LogReader(chunk_size=chunk_size)
        self.queues = queues or QueueTable(left_over=parts.left_over)
        self._gap_queues: list[int] = []
        self._looked_at = 0
        self._count = 0
        self._gaps: list[tuple[int, int]] = []
        self._units: list[tuple[NDArray[Any], ...]] = []
        self._entries: list[tuple[NDArray[Any], ...]] = []
        self.end = -1

    @property
    def has_units(self) -> bool:
        """Whether queues wait for units of the collected records."""
        return bool(self._units)

    def queues_waiting(self) -> list[QueueKey]:
        """Returns the queues that wait for units of the collected records."""
        numbers = {number for row in self._units for number in np.unique(row[0]).tolist()}
        return [self.queues.keys[number] for number in sorted(numbers)]

    @property
    def is_full(self) -> bool:
        """Whether the records must be put before more are collected."""
        return self._count >= AHEAD_MAX

    def steps(
        self, stretches: Iterable[tuple[int, int]], *, queues_from: int, index_from: int
    ) -> Iterator[int]:
        """Dispatches records in ranges of the log; yields the physical offset after each chunk.

        stretches                 ascending ranges [begin, end) of physical offsets
        queues_from, index_from   physical offsets from which on queues and index lack records
        Errors   DiskFull, AllocationFailed
        Cost     2 µs a record with three keys, and 6 µs for each queue and 262,144 records
        """
        for chunk in self.chunks(stretches):
            self.take(chunk)
            if self._count >= COLLECTED_MAX:
                self.put(queues_from=queues_from, index_from=index_from, upto=self.end)
            yield chunk.end
        self.put(queues_from=queues_from, index_from=index_from, upto=self.end)

    @property
    def stop(self) -> Stop:
        """Cause of the end of the records in the file that was read last."""
        return self._reader.stop

    def chunks(self, stretches: Iterable[tuple[int, int]]) -> Iterator[Chunk]:
        """Yields the records in ranges of the log for `take`."""
        for begin, end in stretches:
            for source in log_sources(self._parts.log, self._parts.disk, begin):
                if source.base >= end:
                    break
                yield from self._reader.chunks(source, max(begin, source.base), end)
                if self._reader.stop.kind is not ScanEnd.FILE_FULL:
                    break

    def take(self, chunk: Chunk) -> None:
        """Collects the columns of a chunk that the views need, for the next `put`."""
        parts = self._parts
        decoded = decode(
            chunk.buffer, chunk.heads, self.queues, style=parts.index.style, levels=parts.levels
        )
        self._find_gaps(decoded)
        heads, entries = decoded.heads, decoded.entries
        self._entries.append(
            (
                entries.hash.astype(np.int64),
                heads.physical_offset[entries.record],
                heads.store_timestamp_ms[entries.record],
            )
        )
        record, *columns = rows = unit_rows(decoded)
        self._begin_queues(rows)
        self._units.append((*columns, heads.store_timestamp_ms[record]))
        assert chunk.end > self.end
        self.end = chunk.end
        self._count += len(heads)

    def put(self, *, queues_from: int, index_from: int, upto: int) -> None:
        """Writes the collected records that start below `upto` to the views; drops later records.

        Errors   DiskFull, AllocationFailed: the same call continues where it stopped
        """
        index = self._parts.index
        self._parts.queues.note_gaps(gap for gap in self._gaps if gap[0] < upto)
        self._put_units(queues_from, upto)
        self._gaps, self._units = [], []
        while self._entries:
            hashes, places, times = self._entries.pop(0)
            chosen = slice(*np.searchsorted(places, (index_from, upto)).tolist())
            if chosen.start < chosen.stop:
                index.put(packed(hashes[chosen], places[chosen], times[chosen]))
        index.put(b"")  # The entries that a full disk left over.
        self._count = 0

    def _begin_queues(self, rows: UnitRows) -> None:
        """Corrects the queue offsets of records at which queues start (`left_over.starts`)."""
        starts = self._parts.left_over.starts
        if starts:
            places, keys = rows.units["physical_offset"], self.queues.keys
            for at in np.flatnonzero(np.isin(places, [place for place, _ in starts.values()])):
                place, unit = starts.get(keys[rows.queue[at]], (-1, 0))
                if place == places[at]:
                    rows.queue_offset[at] = unit

    def _find_gaps(self, decoded: Decoded) -> None:
        keys, seen = self.queues.keys, self._looked_at
        self._gap_queues += [n for n in range(seen, len(keys)) if keys[n][0] == QUARANTINE_TOPIC]
        self._looked_at = len(keys)
        if self._gap_queues:
            is_gap = np.isin(decoded.queue, self._gap_queues) & ~decoded.is_queued
            found = decoded.heads.take(is_gap)
            ends = found.physical_offset + found.size
            self._gaps += zip(found.physical_offset.tolist(), ends.tolist(), strict=True)

    def _put_units(self, begin: int, upto: int) -> None:
        if not self._units:
            return
        queue, *rows = (np.concatenate(parts) for parts in zip(*self._units, strict=True))
        assert all(len(row) == len(queue) for row in rows)
        places = rows[1]["physical_offset"]  # Ascending.
        chosen: Any = slice(*np.searchsorted(places, (begin, upto)).tolist())
        queue, rows = queue[chosen], [row[chosen] for row in rows]
        if self._only is not None:
            keys = self.queues.keys
            chosen = np.isin(queue, [n for n, key in enumerate(keys) if key in self._only])
            queue, rows = queue[chosen], [row[chosen] for row in rows]
        if len(queue):
            self._parts.queues.apply_units(self.queues.keys, queue, *rows)
