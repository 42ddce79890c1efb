"""Reads one range of the log: writes consume units to files, passes index entries to a caller."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Numbers
from pocketmq.format.columns.records import Decoded, decode, spooled, unit_rows
from pocketmq.model.message import QueueKey
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.rebuild.unit_files import HeldUnits
from pocketmq.walk.log_walk import NO_RECORD, Hole, LogWalk, Times
from pocketmq.walk.reader import Chunk, LogReader, Stop

Advance = Callable[[int], None]
"""Callback of progress: receives the number of log bytes read since the last call."""


def no_advance(byte_count: int) -> None:
    """Ignores progress."""


@dataclass(slots=True)
class RangeResult:
    """Result of reading one range of the log.

    end      physical offset after the range's last valid record
    holes    bytes that are not records; the last hole may be the end of the log
    last_times   `LogWalk.last_times` at the range's end
    gaps     physical offsets [begin, end) of fillers, with which a repair replaced damage
    left_over   queues with left-over records (format/deleted_topics.py) in this or an earlier range
    """

    begin: int
    end: int
    stop: Stop
    record_count: int = 0
    entry_count: int = 0
    last_times: Times = NO_RECORD
    holes: list[Hole] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    left_over: list[QueueKey] = field(default_factory=list)


class RangePass:
    """Reads ranges one after the other, with one walk and one table of queues.

    units          receives the consume units
    take_entries   called with index entries (`columns.records.ENTRY_TYPE`)
    look           called with each chunk of records and their decoded columns; None: not called
    """

    __slots__ = (
        "_advance", "_levels", "_look", "_older_styles", "_quarantined", "_seen_count", "_settings",
        "_take_entries", "_units", "walk",
    )  # fmt: skip

    def __init__(
        self,
        settings: KnownShape,
        units: HeldUnits,
        take_entries: Callable[[NDArray[np.void]], None],
        advance: Advance = no_advance,
        look: Callable[[Chunk, Decoded], None] | None = None,
    ) -> None:
        self._look = look
        self._settings = settings
        self._levels = settings.levels
        self._older_styles = settings.style_spans
        self._units = units
        self._take_entries = take_entries
        self._advance = advance
        self._quarantined: list[int] = []
        self._seen_count = 0
        reader = LogReader(
            check_crc=settings.check_crc,
            property_crc=settings.property_crc,
            crc_share=settings.crc_share,
        )
        self.walk = LogWalk(reader)

    def run(self, file: LogFile, begin: int, upto: int) -> RangeResult:
        """Reads the records of a file that start in [begin, upto), and skips holes.

        Errors   IllegalTopic: a record's topic is not a valid directory name
        """
        result = RangeResult(begin, begin, self.walk.stop)
        with file.opened() as source:
            for found in self.walk.over(source, begin, upto):
                if isinstance(found, Hole):
                    result.holes.append(found)
                else:
                    self._take(found, result)
        result.stop = self.walk.stop
        result.last_times = self.walk.last_times
        queues = self._units.queues
        result.left_over = [queues.keys[number] for number in sorted(queues.met)]
        return result

    def _take(self, chunk: Chunk, result: RangeResult) -> None:
        heads = chunk.heads
        decoded = decode(
            chunk.buffer,
            heads,
            self._units.queues,
            style=self._settings.index_style,
            levels=self._levels,
            older_styles=self._older_styles,
        )  # fmt: skip
        if self._look is not None:
            self._look(chunk, decoded)
        self._put_units(decoded)
        if len(decoded.entries.record):
            self._take_entries(spooled(decoded))
        self._collect_gaps(decoded, result)
        result.record_count += len(heads)
        result.entry_count += len(decoded.entries.record)
        result.end = chunk.end
        self._advance(chunk.end - int(heads.physical_offset[0]))

    def _put_units(self, decoded: Decoded) -> None:
        _, queue, queue_offset, units = unit_rows(decoded)
        self._units.add(queue, queue_offset, units)

    def _collect_gaps(self, decoded: Decoded, result: RangeResult) -> None:
        keys = self._units.queues.keys
        assert self._seen_count <= len(keys)
        new = range(self._seen_count, len(keys))
        self._seen_count = len(keys)
        self._quarantined += [number for number in new if keys[number][0] == QUARANTINE_TOPIC]
        if self._quarantined:
            found = np.flatnonzero(np.isin(decoded.queue, self._quarantined))
            result.gaps += spans(decoded.heads.physical_offset[found], decoded.heads.size[found])


def spans(begins: Numbers, sizes: Numbers) -> list[tuple[int, int]]:
    """Returns [begin, end) of each record."""
    return list(zip(begins.tolist(), (begins + sizes).tolist(), strict=True))
