"""Records of recent puts that wait for dispatch, so that the log is not read again."""

from collections.abc import Callable, Sequence
from typing import Final, final

from pocketmq.model.batch import Written

REMEMBERED_MAX: Final = 65_536
_SPENT_MAX: Final = 1_024


@final
class DispatchBuffer:
    """Queue of appended runs in log order; `count` is the number of their records."""

    __slots__ = ("_count_max", "_first", "_followed", "_listener", "_runs", "count")

    def __init__(self, count_max: int = REMEMBERED_MAX) -> None:
        self._count_max = count_max
        self._runs: list[Written] = []
        self._first = 0
        self._followed = ""
        self._listener: Callable[[Written], None] | None = None
        self.count = 0

    def follow(self, topic: str, listener: Callable[[Written], None]) -> None:
        """Calls `listener`, under the put-lock, with each run that is put to a topic."""
        assert topic
        self._followed, self._listener = topic, listener

    def add(self, written: Sequence[Written]) -> None:
        """Adds the runs of a put; called in log order.

        Effects  if `count_max` records wait already, drops them; dispatch then reads the log
        """
        if self.count >= self._count_max:
            self._runs = []
            self._first = self.count = 0
        runs = self._runs
        last = runs[-1].physical_offsets[0] if runs else -1
        for run in written:
            begin = run.physical_offsets[0]
            assert last < begin
            last = begin
            runs.append(run)
            self.count += len(run.sizes)
            if self._listener is not None and run.destination.topic == self._followed:
                self._listener(run)

    def first_from(self, physical_offset: int) -> int:
        """Drops runs before an offset; returns the physical offset of the next run, -1 for none."""
        runs = self._runs
        while self._first < len(runs):
            run = runs[self._first]
            begin = run.physical_offsets[0]
            if begin >= physical_offset:
                return begin
            self._first += 1
            self.count -= len(run.sizes)
        self._shorten()
        return -1

    def take(self, visible: int, count_max: int) -> list[Written]:
        """Removes and returns the first runs below a physical offset.

        No further run is added once the runs have `count_max` records.
        """
        runs = self._runs
        number = self._first
        count = 0
        while number < len(runs) and count < count_max:
            run = runs[number]
            if run.physical_offsets[0] >= visible:
                break
            count += len(run.sizes)
            number += 1
        taken = runs[self._first : number]
        self._first = number
        self.count -= count
        assert self.count >= 0
        self._shorten()
        return taken

    def _shorten(self) -> None:
        if self._first == len(self._runs) or self._first > _SPENT_MAX:
            del self._runs[: self._first]
            self._first = 0
