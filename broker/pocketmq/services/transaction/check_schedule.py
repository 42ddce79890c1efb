"""Schedule of checks of half messages: ranges of queue offsets by due time, rounded up.

Messages sent together are due together, so a million of them need only a few numbers.
"""

from array import array
from bisect import bisect_right
from heapq import heappop, heappush
from typing import Final

ROUND_MS: Final = 100


class CheckSchedule:
    """Ranges of queue offsets by the monotonic time at which they are due."""

    __slots__ = ("_order", "_ranges")

    def __init__(self) -> None:
        self._order: list[int] = []
        self._ranges: dict[int, array[int]] = {}

    def add(self, at_ms: int, begin: int, end: int) -> None:
        """Schedules a range at a time, or up to ROUND_MS later."""
        assert begin < end
        moment = -(-at_ms // ROUND_MS)
        found = self._ranges.get(moment)
        if found is None:
            found = self._ranges[moment] = array("q")
            heappush(self._order, moment)
        if found and found[-1] == begin:
            found[-1] = end
        else:
            found.extend((begin, end))

    def add_once(self, at_ms: int, queue_offset: int) -> None:
        """Schedules one offset, unless its range has it already.

        A schedule is filled by `add` or by `add_once`, never by both.
        """
        moment = -(-at_ms // ROUND_MS)
        found = self._ranges.get(moment)
        if found is None:
            self.add(at_ms, queue_offset, queue_offset + 1)
            return
        place = bisect_right(found, queue_offset)
        if place % 2:
            assert found[place - 1] <= queue_offset < found[place]
        elif place and found[place - 1] == queue_offset:
            found[place - 1] = queue_offset + 1
        else:
            found[place:place] = array("q", (queue_offset, queue_offset + 1))

    @property
    def next_ms(self) -> int | None:
        """When the first is due."""
        return self._order[0] * ROUND_MS if self._order else None

    def due(self, now_ms: int, count_max: int) -> tuple[int, int] | None:
        """Removes and returns a due range of at most `count_max` offsets; None: nothing is due."""
        if not self._order or self._order[0] * ROUND_MS > now_ms:
            return None
        found = self._ranges[self._order[0]]
        end = found.pop()
        begin = found.pop()
        assert begin < end
        if end - begin > count_max:
            found.extend((begin + count_max, end))
            end = begin + count_max
        if not found:
            del self._ranges[heappop(self._order)]
        return begin, end
