"""Determines which messages are due, unaffected by changes of the wall clock.

From the arrival of a message to its due time, the full time passes by the monotonic clock, within 3
ms. Jumps of the wall clock after the arrival make the message neither early nor late; slow drift is
followed. Messages that exist at the first call of `look` count as having arrived then.

`place` is any number that grows with each arrival, such as the queue offset. ARCHITECTURE.md
("Clocks that are set") has an example.
"""

from collections.abc import Sequence
from typing import Final

from pocketmq.model.step import Now

JUMP_MS: Final = 50
"""The wall clock has jumped if the difference of the clocks has changed by more than this."""
LEAD_MAX_MS: Final = 3_600_000
"""Largest lead of store times over the wall clock; with a larger lead, store times go back."""
EPOCHS_MAX: Final = 64
"""Upper limit of epochs; if there are more, two adjacent epochs are merged."""


class DueTime:
    """Determines which messages are due; the caller passes each reading of the clocks to `look`.

    An epoch lasts from one jump to the next: (place at its begin, wall minus monotonic time in ms).
    """

    __slots__ = ("_epochs", "_skew_ms")

    def __init__(self) -> None:
        self._epochs: list[tuple[int, int]] = []
        self._skew_ms = 0

    @property
    def written(self) -> list[tuple[int, int]]:
        """Epochs to save: (place at the begin, ms by which the clock was set forward since).

        The ms are negative if the clock was set back.
        """
        newest_ms = self._epochs[-1][1] if self._epochs else 0
        return [(begin, newest_ms - skew_ms) for begin, skew_ms in self._epochs]

    def restore(self, written: Sequence[tuple[int, int]], now: Now, end: int) -> None:
        """Resumes from saved epochs; assumes that the clock was not set after they were saved.

        end   place of the next arrival; a power cut may have removed later arrivals
        """
        assert not self._epochs, "restore after look"
        self._skew_ms = now.wall_ms - now.monotonic_ms
        self._epochs = [(min(begin, end), self._skew_ms - ahead_ms) for begin, ahead_ms in written]

    def look(self, now: Now, end: int) -> int:
        """Records a reading of the clocks.

        end      lower limit of the next message's place
        Returns  ms by which the wall clock jumped since the last call; 0: no jump
        """
        skew_ms = now.wall_ms - now.monotonic_ms
        if not self._epochs:
            self._epochs = [(end, skew_ms)]
            self._skew_ms = skew_ms
            return 0
        assert end >= self._epochs[-1][0], "place decreased"
        jump_ms, self._skew_ms = skew_ms - self._skew_ms, skew_ms
        if abs(jump_ms) <= JUMP_MS:
            begin, current_ms = self._epochs[-1]
            self._epochs[-1] = (begin, current_ms + jump_ms)
            return 0
        if self._epochs[-1][0] == end and len(self._epochs) > 1:
            self._epochs.pop()  # No message arrived in this epoch.
        self._epochs.append((end, skew_ms))
        if len(self._epochs) > EPOCHS_MAX:
            self._merge()
        return jump_ms

    def upto_ms(self, now: Now, place: int) -> int:
        """Returns the present time by the clock of a message, which is due from its due time on.

        Requires an earlier call of `look`
        Cost     below 1 µs
        """
        return now.monotonic_ms + self._skew_of(place)

    def forget(self, place: int) -> None:
        """Drops epochs that only messages at lower places use."""
        while len(self._epochs) > 1 and self._epochs[1][0] <= place:
            del self._epochs[0]

    def _skew_of(self, place: int) -> int:
        epochs = self._epochs
        assert epochs, "look was not called"
        for begin, skew_ms in reversed(epochs):
            if place >= begin:
                return skew_ms
        return epochs[0][1]

    def _merge(self) -> None:
        """Merges the two most similar epochs; keeps the slower clock: no message is early."""
        epochs = self._epochs
        pairs = range(len(epochs) - 2)  # The last epoch is the current clock.
        at = min(pairs, key=lambda i: abs(epochs[i][1] - epochs[i + 1][1]))
        begin, skew_ms = epochs[at]
        epochs[at : at + 2] = [(begin, min(skew_ms, epochs[at + 1][1]))]
        assert len(epochs) <= EPOCHS_MAX
