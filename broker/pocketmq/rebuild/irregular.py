"""Builds queues with gaps or repeats in their offsets, unit by unit, by RocketMQ's rule.

    offset = units so far     appended
    offset < units so far     dropped as a repeat, but 0 is appended
    offset > units so far     appended as well, so that unit n no longer is message n; if the log
                              lost records in between, pre-blank units replace them first

The first unit has the place of its record's offset, unless the existing queue shows a better one.
Source: ConsumeQueue.putMessagePositionInfo.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Numbers
from pocketmq.format.consume_unit import PRE_BLANK, UNIT_SIZE
from pocketmq.format.deleted_topics import DRIFT_MAX
from pocketmq.format.record import RECORD_SIZE_MIN
from pocketmq.model.message import QueueKey
from pocketmq.rebuild.unit_files import QueueFiles

Gaps = Sequence[tuple[int, int]]
"""Where records are gone from the log, as [begin, end), rising."""


class IrregularQueue:
    """One queue, given its units in log order."""

    __slots__ = (
        "_end", "_files", "_gaps", "_key", "_last_place", "_odd_run", "_start", "first",
        "is_disordered", "odd_count", "odd_place",
    )  # fmt: skip

    def __init__(
        self, files: QueueFiles, key: QueueKey, gaps: Gaps, start: tuple[int, int] | None = None
    ) -> None:
        """Begins a queue; `start`: physical offset and unit number of a message (`LeftOver`)."""
        self._files = files
        self._key = key
        self._gaps = gaps
        self._start = start
        self._end = -1
        self._last_place = -1
        self.first = -1
        self.odd_count = 0
        """Gaps and repeats, those where records are gone from the log left out."""
        self.odd_place = -1
        """Record of the first of these."""
        self.is_disordered = False
        """Whether some of them are none that RocketMQ 5.0.0 makes: it counts refused sends too, so
        that offsets stay above their units until it is started again."""
        self._odd_run = (-1, 0, 0)
        """Offset behind the last unit of an odd record, the number of such units in a row, and the
        distance of the last one's record above it."""

    @property
    def end(self) -> int:
        """Units written, pre-blank ones in front included."""
        return max(self._end, 0)

    def put(self, queue_offsets: Numbers, units: NDArray[np.void]) -> None:
        """Takes the next units of the queue."""
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
        """Notes whether an odd record is one of several that a broker counted further."""
        end, count, before = self._odd_run
        if self._end == self.first:  # Others, which have left the log, may precede it.
            end, count, before = self._end, 1, drift
        follows = end == self._end
        self.is_disordered |= is_repeat or not 0 < drift <= DRIFT_MAX
        self.is_disordered |= drift < before if follows else count == 1
        self._odd_run = (self._end + 1, count + 1 if follows else 1, drift)

    def finish(self) -> None:
        """Judges the last odd record: a single one with others behind it comes from no broker."""
        end, count, _ = self._odd_run
        self.is_disordered |= count == 1 and end != self._end

    def _is_repeat(self, wanted: int) -> bool:
        return 0 < wanted < self._end

    def _make_way(self, wanted: int, place: int) -> bool:
        """Begins the queue, or fill up to the offset wanted where records are gone.

        Returns whether the unit is then in its place.
        """
        if self._end < 0:
            place_there, unit = self._start or (-1, 0)
            self._end = self.first = unit if place_there == place else wanted
            self._files.fill(self._key, self.first)
            return wanted == self._end
        missing = wanted - self._end
        if 0 < missing <= self._room_for(place) // RECORD_SIZE_MIN:
            self._end = wanted
            self._write(PRE_BLANK * missing)
        return wanted == self._end

    def _room_for(self, place: int) -> int:
        """Returns the bytes gone from the log between the last unit's record and a place."""
        first = bisect_left(self._gaps, (self._last_place, 0))
        return sum(end - begin for begin, end in self._gaps[first:] if begin < place)

    def _write(self, units: bytes) -> None:
        """Writes units that end where the queue ends now."""
        if units:
            self._files.write(self._key, self._end - len(units) // UNIT_SIZE, memoryview(units))
