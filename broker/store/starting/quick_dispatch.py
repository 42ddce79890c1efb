"""Giving the views what they lack of the log, by column, at a start.

    chunks ─► units ──(collected)──► every queue once
        └───► index entries ───────► index

The views end as they would if each record had been dispatched alone.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broker.format.columns.queues import QueueTable
from broker.format.columns.records import Decoded, UnitRows, decode, unit_rows
from broker.format.index_entries import packed
from broker.model.finding import ScanEnd
from broker.model.topic import QUARANTINE_TOPIC
from broker.store.starting.log_survey import CHUNK_SIZE, log_sources
from broker.store.starting.structures import Structures
from broker.walk.reader import Chunk, LogReader

COLLECTED_MAX: Final = 262_144
"""Units kept until queues get theirs: one write for each queue, not one for each chunk."""


class QuickDispatch:
    """One run over stretches of the log without damage.

    queues_from, index_from   physical offsets from which on each lacks records
    only                      queues that are to get units; None: all
    """

    __slots__ = (
        "_collected", "_gap_queues", "_index_from", "_looked_at", "_only", "_parts",
        "_queues_from", "_reader", "_stretches", "queues",
    )  # fmt: skip

    def __init__(
        self, parts: Structures, stretches: Iterable[tuple[int, int]], *, queues_from: int,
        index_from: int, chunk_size: int = CHUNK_SIZE, only: Container[object] | None = None,
    ) -> None:  # fmt: skip
        self._parts = parts
        self._stretches = stretches
        self._queues_from = queues_from
        self._index_from = index_from
        self._only = only
        self._reader = LogReader(chunk_size=chunk_size)
        self.queues = QueueTable(left_over=parts.left_over)
        """Those met."""
        self._gap_queues: list[int] = []
        """Numbers of the queues whose records tell of gaps, among the first `_looked_at`."""
        self._looked_at = 0
        self._collected: list[tuple[NDArray[Any], ...]] = []

    def steps(self) -> Iterator[int]:
        """Dispatch, yielding the physical offset up to which records were looked at.

        Errors   DiskFull, AllocationFailed
        Cost     about 2 µs a record with three keys, and 6 µs for each queue and 262,144 records
        """
        count = 0
        for chunk in self._chunks():
            count += self._take(chunk)
            if count >= COLLECTED_MAX:
                self._put_units()
                count = 0
            yield chunk.end
        self._put_units()

    def _chunks(self) -> Iterator[Chunk]:
        for begin, end in self._stretches:
            for source in log_sources(self._parts.log, self._parts.disk, begin):
                if source.base >= end:
                    break
                yield from self._reader.chunks(source, max(begin, source.base), end)
                if self._reader.stop.kind is not ScanEnd.FILE_FULL:
                    break

    def _take(self, chunk: Chunk) -> int:
        """Index the records of a chunk and keep their units; returns how many these are."""
        parts = self._parts
        decoded = decode(
            chunk.buffer, chunk.heads, self.queues, style=parts.index.style, levels=parts.levels
        )
        self._note_gaps(decoded)
        self._put_entries(decoded)
        heads = decoded.heads
        record, *columns = rows = unit_rows(decoded)
        self._begin_queues(rows)
        times = heads.store_timestamp_ms[record]
        chosen = heads.physical_offset[record] >= self._queues_from
        if self._only is not None:
            keys = self.queues.keys
            chosen &= np.isin(rows.queue, [n for n, key in enumerate(keys) if key in self._only])
        self._collected.append(tuple(column[chosen] for column in (*columns, times)))
        return int(chosen.sum())

    def _begin_queues(self, rows: UnitRows) -> None:
        """Give first messages the numbers of their units, where their offsets are above these."""
        starts = self._parts.left_over.starts
        if starts:
            places, keys = rows.units["physical_offset"], self.queues.keys
            for at in np.flatnonzero(np.isin(places, [place for place, _ in starts.values()])):
                place, unit = starts.get(keys[rows.queue[at]], (-1, 0))
                if place == places[at]:
                    rows.queue_offset[at] = unit

    def _note_gaps(self, decoded: Decoded) -> None:
        keys, seen = self.queues.keys, self._looked_at
        self._gap_queues += [n for n in range(seen, len(keys)) if keys[n][0] == QUARANTINE_TOPIC]
        self._looked_at = len(keys)
        if self._gap_queues:
            is_gap = np.isin(decoded.queue, self._gap_queues) & ~decoded.is_queued
            found = decoded.heads.take(is_gap)
            ends = found.physical_offset + found.size
            gaps = zip(found.physical_offset.tolist(), ends.tolist(), strict=True)
            self._parts.queues.note_gaps(gaps)

    def _put_entries(self, decoded: Decoded) -> None:
        heads, entries = decoded.heads, decoded.entries
        places = heads.physical_offset[entries.record]
        chosen = slice(int(np.searchsorted(places, self._index_from)), None)
        hashes = entries.hash[chosen].astype(np.int64)
        times = heads.store_timestamp_ms[entries.record[chosen]]
        if len(hashes):
            self._parts.index.put(packed(hashes, places[chosen], times))

    def _put_units(self) -> None:
        if self._collected:
            columns = zip(*self._collected, strict=True)
            queue, *rows = (np.concatenate(parts) for parts in columns)
            self._collected = []
            assert all(len(row) == len(queue) for row in rows)
            if len(queue):
                self._parts.queues.apply_units(self.queues.keys, queue, *rows)
