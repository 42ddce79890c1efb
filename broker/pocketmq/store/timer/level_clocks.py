"""The clocks that the end times of messages with delay levels belong to, for all levels.

A put of such a message looks at the clocks first, as with the wheel's (wheel_clock.py). So no
message comes between the setting of a clock and its being seen, and a clock set twice between two
looks of the levels' service counts twice. Clocks are saved with the delivered offsets of levels.
"""

from collections.abc import Mapping
from typing import Final

from pocketmq.model.due_time import JUMP_MS, DueTime
from pocketmq.model.message import QueueKey
from pocketmq.model.step import Now
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.store.tables.delay_offsets import Epochs

DRIFT_MS: Final = 2
"""Two readings of both clocks differ by as much though nothing happened: they are in ms."""


class LevelClocks:
    """One `DueTime` a level, counted from 1; places are queue offsets.

    set_count      how often the wall clock was set since the store was opened
    next_offsets   of the next put in each queue
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
        """Returns that of a level."""
        assert number > 0, "levels are counted from 1"
        return self._due_times[number - 1]

    def look(self, now: Now) -> None:
        """Takes in the time.

        Cost   below 1 µs, some 20 µs when a clock was set
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
        """The epochs to save: of each level whose messages have times by more than one clock."""
        found = {n: tuple(one.written) for n, one in enumerate(self._due_times, start=1)}
        return {number: epochs for number, epochs in found.items() if len(epochs) > 1}

    def _end(self, number: int) -> int:
        return self._next_offsets.get((SCHEDULE_TOPIC, number - 1), 0)
