"""Makes a map of a log: parts of equal length with their most frequent topics, and damage."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from pocketmq.rebuild.log_files import LogFile, find_readable_files
from pocketmq.tools.selection import LogSearch
from pocketmq.walk.log_walk import Hole

SAMPLES: Final = 256


class MapCell(NamedTuple):
    """One of the equally long parts of a log.

    topic     topic with the most bytes of records that begin in the part; if none begins there, the
              topic of the previous part; "": none
    records   number of records that begin in the part
    """

    begin: int
    end: int
    topic: str
    records: int
    first_ms: int


class LogMap(NamedTuple):
    """The whole log in cells, and its damage; `topics` has the largest topic first."""

    cells: list[MapCell]
    holes: list[Hole]
    topics: list[tuple[str, int]]
    begin: int
    end: int
    records: int


def log_map(
    directory: Path, file_size_bytes: int, count: int, advance: Callable[[int], None]
) -> LogMap:
    """Reads the whole log, and returns it as at most `count` cells of equal length.

    advance   gets the bytes read since its last call
    Cost      about 1 s/GiB
    """
    readable = find_readable_files(directory, file_size_bytes)
    files = readable.files
    begin = files[0].base if files else 0
    search = LogSearch(files, advance=advance, gaps=readable.gaps)
    step = max((_upper(files) - begin) // max(count, 1), 1)
    cells = _Cells(begin, step)
    for picked in search:
        places = picked.heads.physical_offset
        topics = search.topics(picked)
        cells.add(places, picked.heads.size, topics, picked.heads.store_timestamp_ms)
    names = [topic for topic, _ in search.queues.keys]
    tail = [search.tail] if search.tail is not None else []
    return LogMap(
        cells.cells(names, search.end), [*search.holes, *tail], cells.topics(names),
        begin, search.end, cells.records,
    )  # fmt: skip


def _upper(files: list[LogFile]) -> int:
    """Returns an offset near the end of the records, from 256 samples of the last file."""
    if not files:
        return 0
    last = files[-1]
    step = max(last.size // SAMPLES, 1)
    with last.opened() as source:
        used = [at for at in range(SAMPLES) if any(source.view[at * step : at * step + 64])]
    return last.base + min((max(used, default=0) + 1) * step, last.size)


class _Cells:
    """Sums of records by cell and topic."""

    def __init__(self, begin: int, step: int) -> None:
        assert step > 0, "cells have no length"
        self._begin, self._step = begin, step
        self._bytes: dict[tuple[int, int], int] = {}
        self._records: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self.records = 0

    def add(self, places: Any, sizes: Any, topics: Any, times: Any) -> None:
        """Adds records, in the order of the log."""
        self.records += len(places)
        cells = (places - self._begin) // self._step
        keys = cells * (1 << 32) + topics
        for key in np.unique(keys).tolist():
            cell, topic = divmod(key, 1 << 32)
            hits = keys == key
            where = (int(cell), int(topic))
            self._bytes[where] = self._bytes.get(where, 0) + int(sizes[hits].sum())
            self._records[where[0]] = self._records.get(where[0], 0) + int(hits.sum())
            first = int(times[int(np.argmax(hits))])
            self._first[where[0]] = min(self._first.get(where[0], first), first)

    def cells(self, names: list[str], end: int) -> list[MapCell]:
        """Returns all cells up to an offset; `names` are the topics by number."""
        best: dict[int, tuple[int, int]] = {}
        for (cell, topic), size in self._bytes.items():
            best[cell] = max(best.get(cell, (0, 0)), (size, topic))
        count = max(-(-(end - self._begin) // self._step), 0)
        found: list[MapCell] = []
        name = ""
        for cell in range(count):
            begin = self._begin + cell * self._step
            # A part in which no record begins belongs to a record that began before it.
            name = names[best[cell][1]] if cell in best else name
            records, first_ms = self._records.get(cell, 0), self._first.get(cell, 0)
            found.append(MapCell(begin, min(begin + self._step, end), name, records, first_ms))
        return found

    def topics(self, names: list[str]) -> list[tuple[str, int]]:
        """Returns topics and the bytes of their records, the largest first."""
        sums: dict[str, int] = {}
        for (_, topic), size in self._bytes.items():
            sums[names[topic]] = sums.get(names[topic], 0) + size
        return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
