"""Tells up to which time messages are due, whatever is done to the wall clock.

A due time is a wall time, by the clock of the message's arrival. It is compared with that clock:
wall time at the arrival, and monotonic time since then. Guarantees:

    1. No message is due early: the time from its arrival to its due time passes by the monotonic
       clock, whatever jumps happen.
    2. No message is stuck or delayed by a jump: jumps after its arrival do not count.
    3. Messages that existed at the first look count as having arrived then.

A slow drift, of which no single look sees a jump, is followed. Places order arrivals: a place is
any number that grows with each arrival, as queue offsets do.

ARCHITECTURE.md ("Clocks that are set") has an example.
"""

from collections.abc import Sequence
from typing import Final

from pocketmq.model.step import Now

JUMP_MS: Final = 50
"""Two readings of both clocks differ by less where no clock was set."""
LEAD_MAX_MS: Final = 3_600_000
"""How far store times may be ahead of the wall clock before they follow it back."""
EPOCHS_MAX: Final = 64
"""Clocks that are remembered; of more, two that are next to each other become one."""


class DueTime:
    """Decides which messages are due; `look` is called with each reading of the clocks.

    An epoch lasts from one jump to the next: (place at its beginning, wall less monotonic ms).
    """

    __slots__ = ("_epochs", "_skew_ms")

    def __init__(self) -> None:
        self._epochs: list[tuple[int, int]] = []
        self._skew_ms = 0

    @property
    def written(self) -> list[tuple[int, int]]:
        """Its epochs as they are written down: (place at the beginning, ms the clock is ahead now).

        Ahead of the clock that held in each: by less than 0 where it was set back since.
        """
        newest_ms = self._epochs[-1][1] if self._epochs else 0
        return [(begin, newest_ms - skew_ms) for begin, skew_ms in self._epochs]

    def restore(self, written: Sequence[tuple[int, int]], now: Now, end: int) -> None:
        """Resumes from saved epochs, assuming that the clock was not set since.

        end   the place of the next arrival; a power cut may have taken arrivals behind it
        """
        assert not self._epochs, "nobody has looked at the clock"
        self._skew_ms = now.wall_ms - now.monotonic_ms
        self._epochs = [(min(begin, end), self._skew_ms - ahead_ms) for begin, ahead_ms in written]

    def look(self, now: Now, end: int) -> int:
        """Takes in the time, and that the next message has the place `end` at least.

        Returns  by how many ms the wall clock jumped since the last look; 0: it did not
        """
        skew_ms = now.wall_ms - now.monotonic_ms
        if not self._epochs:
            self._epochs = [(end, skew_ms)]
            self._skew_ms = skew_ms
            return 0
        assert end >= self._epochs[-1][0], "places grow"
        jump_ms, self._skew_ms = skew_ms - self._skew_ms, skew_ms
        if abs(jump_ms) <= JUMP_MS:
            begin, current_ms = self._epochs[-1]
            self._epochs[-1] = (begin, current_ms + jump_ms)
            return 0
        if self._epochs[-1][0] == end and len(self._epochs) > 1:
            self._epochs.pop()  # Nothing came in it.
        self._epochs.append((end, skew_ms))
        if len(self._epochs) > EPOCHS_MAX:
            self._merge()
        return jump_ms

    def upto_ms(self, now: Now, place: int) -> int:
        """Returns the wall time up to which a message at a place is due.

        Shape    `look` was called
        Cost     below 1 µs
        """
        return now.monotonic_ms + self._skew_of(place)

    def forget(self, place: int) -> None:
        """Drops shifts that matter only to places below this one."""
        while len(self._epochs) > 1 and self._epochs[1][0] <= place:
            del self._epochs[0]

    def _skew_of(self, place: int) -> int:
        epochs = self._epochs
        assert epochs, "nobody looked at the clock"
        for begin, skew_ms in reversed(epochs):
            if place >= begin:
                return skew_ms
        return epochs[0][1]

    def _merge(self) -> None:
        """Makes one epoch of the two that differ least; the slower clock holds: never early."""
        epochs = self._epochs
        pairs = range(len(epochs) - 2)  # The last one is the clock of now.
        at = min(pairs, key=lambda i: abs(epochs[i][1] - epochs[i + 1][1]))
        begin, skew_ms = epochs[at]
        epochs[at : at + 2] = [(begin, min(skew_ms, epochs[at + 1][1]))]
        assert len(epochs) <= EPOCHS_MAX
