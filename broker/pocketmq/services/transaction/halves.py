"""States of half messages, by queue offset.

All half messages below `begin` are done. States from `base` on are kept, so that a repeated
decision gets the outcome of the first decision. The log is searched for older outcomes.
"""

from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

REMEMBERED_MAX: Final = 1 << 18
"""Number of done half messages whose states are kept; they are counted from `begin` down. Older
states are dropped when there are twice as many."""


class HalfState(IntEnum):
    """State of a half message; from COMMITTED on it is done."""

    OPEN = 0
    UNSURE = 1
    """Stored before the broker started; no op message was found."""
    TAKEN = 2
    COMMITTED = 3
    ROLLED_BACK = 4
    MOVED = 5
    GIVEN_UP = 6
    DONE = 7
    """Stored before the broker started, with an op message: the log contains the outcome."""
    LOST = 8
    """The record is damaged or missing."""


class Halves:
    """The half messages of one queue.

    open_count   number of half messages that are not done
    """

    __slots__ = ("_places", "_states", "base", "begin", "open_count")

    def __init__(self, begin: int) -> None:
        assert begin >= 0
        self.base = self.begin = begin
        self.open_count = 0
        self._states = bytearray()
        self._places = array("q")
        """State MOVED: queue offset of the copy. Other states: physical offset + 1; 0: unknown."""

    @property
    def end(self) -> int:
        """Queue offset after the last known half message."""
        return self.base + len(self._states)

    def grow(self, end: int, state: HalfState = HalfState.OPEN) -> int:
        """Adds half messages up to an offset; returns how many are new."""
        count = max(end - self.end, 0)
        self._states.extend(bytes((state,)) * count)
        self._places.frombytes(bytes(count * self._places.itemsize))
        self.open_count += count
        return count

    def put(self, queue_offset: int, places: Sequence[int]) -> None:
        """Adds half messages from a queue offset on; `places` are their physical offsets."""
        self.grow(queue_offset + len(places))
        for number, place in enumerate(places, queue_offset - self.base):
            assert self._states[number] == HalfState.OPEN, "half message is not new"
            self._places[number] = place + 1

    def is_open_at(self, queue_offset: int, physical_offset: int) -> bool:
        """Returns whether a half message is OPEN, and its known physical offset is this one."""
        place = queue_offset - self.base
        if not 0 <= place < len(self._states) or self._states[place]:
            return False
        return self._places[place] == physical_offset + 1

    def state(self, queue_offset: int) -> HalfState | None:
        """Returns the state of a half message; None if the state is not kept."""
        place = queue_offset - self.base
        return HalfState(self._states[place]) if 0 <= place < len(self._states) else None

    def believe(self, queue_offset: int) -> None:
        """Sets an UNSURE half message to OPEN."""
        assert self.state(queue_offset) is HalfState.UNSURE
        self._states[queue_offset - self.base] = HalfState.OPEN

    def is_open(self, queue_offset: int) -> bool:
        """Returns whether a half message is OPEN."""
        place = queue_offset - self.base
        return 0 <= place < len(self._states) and self._states[place] == HalfState.OPEN

    def may_be_open(self, queue_offset: int) -> bool:
        """Returns whether a half message is not known to be done."""
        place = queue_offset - self.base
        return place >= 0 and (queue_offset >= self.end or self._states[place] <= HalfState.TAKEN)

    def take(self, queue_offset: int) -> None:
        """Reserves an open half message for the caller, who puts its outcome."""
        assert self.is_open(queue_offset)
        self._states[queue_offset - self.base] = HalfState.TAKEN

    def give_back(self, queue_offset: int) -> None:
        """Makes a reserved half message open again."""
        assert self.state(queue_offset) is HalfState.TAKEN
        self._states[queue_offset - self.base] = HalfState.OPEN

    def finish(self, queue_offset: int, state: HalfState, moved_to: int = 0) -> None:
        """Records the outcome of a half message that was not done.

        moved_to   queue offset of the copy, for the state MOVED
        """
        assert state >= HalfState.COMMITTED
        assert (state is HalfState.MOVED) == (moved_to > queue_offset)
        place = queue_offset - self.base
        assert self._states[place] < HalfState.COMMITTED, "half message is done already"
        self._states[place] = state
        self._places[place] = moved_to
        self.open_count -= 1
        assert self.open_count >= 0
        if queue_offset == self.begin:
            self._advance()

    def know(self, queue_offset: int, state: HalfState, lies_at: int) -> None:
        """Replaces the state DONE by the outcome that was found in the log.

        lies_at   queue offset of the copy, for the state MOVED
        """
        place = queue_offset - self.base
        assert self._states[place] == HalfState.DONE, "the outcome is known already"
        self._states[place] = state
        self._places[place] = lies_at

    def finish_open(self, queue_offsets: Sequence[int], states: bytes) -> None:
        """Records the outcomes of open half messages; each byte of `states` is a HalfState."""
        assert len(queue_offsets) == len(states)
        known, places, base = self._states, self._places, self.base
        for queue_offset, state in zip(queue_offsets, states, strict=True):
            place = queue_offset - base
            assert not known[place], "half message is not open"
            known[place] = state
            places[place] = 0
        self.open_count -= len(states)
        assert self.open_count >= 0
        self._advance()

    def end_before(self, queue_offsets: Iterable[int]) -> None:
        """Sets the half messages of an op message to DONE if they are OPEN or UNSURE."""
        for queue_offset in queue_offsets:
            if self.state(queue_offset) in (HalfState.OPEN, HalfState.UNSURE):
                self.finish(queue_offset, HalfState.DONE)

    def _advance(self) -> None:
        states, place, count = self._states, self.begin - self.base, len(self._states)
        while place < count and states[place] >= HalfState.COMMITTED:
            place += 1
        self.begin = self.base + place
        if place > 2 * REMEMBERED_MAX:
            cut = place - REMEMBERED_MAX
            del self._states[:cut]
            del self._places[:cut]
            self.base += cut
        assert self.base <= self.begin <= self.end

    def moved_to(self, queue_offset: int) -> int:
        """Returns the queue offset of the copy of a half message in state MOVED."""
        assert self.state(queue_offset) is HalfState.MOVED
        return self._places[queue_offset - self.base]

    def open_in(self, begin: int, end: int) -> list[int]:
        """Returns the queue offsets in a range whose half messages are OPEN or UNSURE."""
        first, last = max(begin, self.begin), min(end, self.end)
        states, base = self._states, self.base
        return [at for at in range(first, last) if states[at - base] < HalfState.TAKEN]
