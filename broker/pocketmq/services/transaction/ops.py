"""Computes which op messages a start has to read again.

An op message is over when all half messages it names are below the first open one. The offset of
their queue advances over adjacent ones that are over, and never past another.
Source: TransactionalMessageServiceImpl.calculateOpOffset.
"""

from array import array
from collections.abc import Iterable
from typing import Final

from pocketmq.model.message import OFFSET_MAX

CUT_ABOVE: Final = 65_536
NAMES_NOTHING: Final = -1


class Ops:
    """The highest half message that each names, from the first on that is not over."""

    __slots__ = ("_highest", "_passed", "base")

    def __init__(self, begin: int) -> None:
        assert begin >= 0
        self.base = begin
        self._highest = array("q")
        self._passed = 0

    @property
    def begin(self) -> int:
        """Queue offset of the first that is not over."""
        return self.base + self._passed

    @property
    def end(self) -> int:
        """Queue offset behind the last one known."""
        return self.base + len(self._highest)

    def add(self, queue_offset: int, named: Iterable[int]) -> None:
        """Adds an op message; earlier ones may be added later."""
        place = queue_offset - self.base
        assert place >= self._passed, "what is over is known"
        while len(self._highest) <= place:
            self._highest.append(OFFSET_MAX)
        self._highest[place] = max(named, default=NAMES_NOTHING)

    def advance(self, half_begin: int) -> int:
        """Passes those that are over; returns the offset of the first that is not.

        half_begin   everything below is done
        """
        while self._passed < len(self._highest) and self._highest[self._passed] < half_begin:
            self._passed += 1
        if self._passed > CUT_ABOVE:
            del self._highest[: self._passed]
            self.base += self._passed
            self._passed = 0
        assert self.begin <= self.end
        return self.begin
