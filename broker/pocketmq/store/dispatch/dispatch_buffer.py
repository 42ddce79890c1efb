"""Runs of fresh puts that wait for dispatch, so that the log need not be read again."""

from collections.abc import Callable, Sequence
from typing import Final, final

from pocketmq.model.batch import Written

REMEMBERED_MAX: Final = 65_536
"""Records kept for dispatch; beyond that the log is read instead."""
_SPENT_MAX: Final = 1_024


@final
class DispatchBuffer:
    """Runs in log order; `count` of their records wait."""

    __slots__ = ("_count_max", "_first", "_followed", "_runs", "_tell", "count")

    def __init__(self, count_max: int = REMEMBERED_MAX) -> None:
        self._count_max = count_max
        self._runs: list[Written] = []
        self._first = 0
        self._followed = ""
        self._tell: Callable[[Written], None] | None = None
        self.count = 0

    def follow(self, topic: str, tell: Callable[[Written], None]) -> None:
        """Calls `tell` with each run of one topic as it is put, under the put-lock."""
        assert topic
        self._followed, self._tell = topic, tell

    def add(self, written: Sequence[Written]) -> None:
        """Keeps the runs of a put; called in log order.

        Effects  at `count_max` records the waiting ones are dropped
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
            if self._tell is not None and run.destination.topic == self._followed:
                self._tell(run)

    def first_from(self, physical_offset: int) -> int:
        """Drops runs before an offset; returns where the first one left begins, -1 for none."""
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
        """Returns the first runs that begin below an offset, until `count_max` is reached.

        A put becomes visible whole, so its runs are taken whole.
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
