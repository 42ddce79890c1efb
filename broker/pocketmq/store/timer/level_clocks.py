"""The clocks by which the due times of messages with delay levels are measured.

The clocks are read before each put of such a message, so that no message is stored between a change
of the wall clock and its detection. `written` is saved with the levels' delivered offsets.
"""

from collections.abc import Mapping
from typing import Final

from pocketmq.model.due_time import JUMP_MS, DueTime
from pocketmq.model.message import QueueKey
from pocketmq.model.step import Now
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.store.tables.delay_offsets import Epochs

DRIFT_MS: Final = 2
"""Upper limit of a change of `wall_ms - monotonic_ms` that rounding to ms alone can cause."""


class LevelClocks:
    """A `DueTime` for each level; levels are counted from 1.

    set_count      number of the wall clock's jumps by more than JUMP_MS since the store was opened
    next_offsets   queue offset of each queue's next message
    """

    __slots__ = ("_due_times", "_next_offsets", "_skew_ms", "set_count")

    def __init__(
        self, level_count: int, written: Epochs, now: Now, next_offsets: Mapping[QueueKey, int]
    ) -> None:
        self.set_count = 0
        self._next_offsets = next_offsets
        self._skew_ms = now.wall_ms - now.monotonic_ms
        self._due_times = [DueTime() for _ in range(level_count)]
        for number, due_time in enumerate(self._due_times, start=1):
            end = self._end(number)
            if number in written:
                due_time.restore(written[number], now, end)
            due_time.look(now, end)

    def of(self, number: int) -> DueTime:
        """Returns the `DueTime` of a level."""
        assert number > 0, "levels are counted from 1"
        return self._due_times[number - 1]

    def look(self, now: Now) -> None:
        """Detects a change of the wall clock from the present time.

        Cost   below 1 µs, some 20 µs after a change
        """
        skew_ms = now.wall_ms - now.monotonic_ms
        jump_ms = skew_ms - self._skew_ms
        if abs(jump_ms) <= DRIFT_MS:
            return
        self._skew_ms = skew_ms
        self.set_count += abs(jump_ms) > JUMP_MS
        for number, due_time in enumerate(self._due_times, start=1):
            due_time.look(now, self._end(number))

    @property
    def written(self) -> Epochs:
        """Epochs to save: of levels whose clock was changed while messages waited."""
        found = {n: tuple(one.written) for n, one in enumerate(self._due_times, start=1)}
        return {number: epochs for number, epochs in found.items() if len(epochs) > 1}

    def _end(self, number: int) -> int:
        return self._next_offsets.get((SCHEDULE_TOPIC, number - 1), 0)
