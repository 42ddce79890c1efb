"""The clock of the timer wheel: it follows the wall clock, but jumps do not move it.

A due time is a wall time, by the clock of the message's arrival. It is translated once, when the
message enters the wheel; later settings of the clock move nothing in the wheel. Guarantees:

    1. No message is due early: the time from arrival to delivery passes by the monotonic clock.
    2. No message is stuck, or later than the second of its slot.
    3. Saved times hold after a start. A clock set while no broker ran is not noticed: the elapsed
       time is what it shows, but never below zero.
    4. The clock never goes back: a slot that was begun is over.

A put of a delayed message looks at the clocks first, so that no message comes between the setting
of a clock and its being seen. A slow drift is followed; where it leads back, the clock stops until
the wall clock is there again. ARCHITECTURE.md ("Clocks that are set") has an example.
"""

import numpy as np
from numpy.typing import NDArray

from pocketmq.model.due_time import JUMP_MS, LEAD_MAX_MS
from pocketmq.model.step import Now
from pocketmq.store.tables.timer_check import SHIFTS_MAX, ClockShift

Numbers = NDArray[np.int64]


class WheelClock:
    """The clock of one timer; `look` is called with each reading of the machine's clocks.

    shifts     as they were written down: how far it was ahead of the wall clock, from where on
    least_ms   its reading when that was saved
    unread     the queue offset of the first message that is not translated; `end`: of the next put
    last_ms    store time of the log's last record: far ahead of now the clock was ahead then, and
               untranslated messages go by it, as if no time had passed since
    """

    __slots__ = ("_skew_ms", "now_ms", "shifts")

    def __init__(
        self, shifts: tuple[ClockShift, ...], least_ms: int, now: Now, unread: int, end: int,
        last_ms: int = 0,
    ) -> None:  # fmt: skip
        assert shifts
        # A log that lost its end goes on with places that were given before.
        self.shifts = tuple(one._replace(first_place=min(one.first_place, end)) for one in shifts)
        self._skew_ms = now.wall_ms - now.monotonic_ms
        ahead_ms = max(least_ms - now.wall_ms, self.ahead_ms)
        place = max(min(unread, end), self.shifts[-1].first_place)
        if last_ms > now.wall_ms + LEAD_MAX_MS and place < end:
            self._add(ClockShift(place, now.wall_ms + ahead_ms - last_ms))
            self._add(ClockShift(end, ahead_ms))
        elif ahead_ms > self.ahead_ms:
            # Later unread messages go by the clock that makes nothing early.
            self._add(ClockShift(place, ahead_ms))
        self.now_ms = now.wall_ms + self.ahead_ms
        """Its reading, in ms like a wall time."""

    @property
    def ahead_ms(self) -> int:
        """How far it is ahead of the wall clock."""
        return self.shifts[-1].ahead_ms

    def look(self, now: Now, end: int) -> bool:
        """Takes in the time; returns whether the wall clock was set.

        end    the queue offset of the next put
        Cost   about 1 µs
        """
        assert end >= self.shifts[-1].first_place, "queue offsets grow"
        skew_ms = now.wall_ms - now.monotonic_ms
        jump_ms, self._skew_ms = skew_ms - self._skew_ms, skew_ms
        is_set = abs(jump_ms) > JUMP_MS
        if is_set:
            self._add(ClockShift(end, self.ahead_ms - jump_ms))
        self.now_ms = max(self.now_ms, now.wall_ms + self.ahead_ms)
        return is_set

    def ahead_of(self, places: Numbers) -> Numbers:
        """Returns how far it is ahead of the clocks that the messages' times belong to.

        places     their queue offsets
        """
        first, ahead_ms = np.array(self.shifts, np.int64).T
        at = np.searchsorted(first, places, "right") - 1
        found: Numbers = ahead_ms[np.maximum(at, 0)]
        return found

    def forget(self, place: int) -> None:
        """Drops shifts that matter only to messages before this place."""
        count = 0
        while count + 1 < len(self.shifts) and self.shifts[count + 1].first_place <= place:
            count += 1
        self.shifts = self.shifts[count:]

    def _add(self, shift: ClockShift) -> None:
        shifts = [*self.shifts, shift]
        if len(shifts) > SHIFTS_MAX:
            # Of the two that differ least the one holds that makes things later.
            pairs = range(len(shifts) - 2)
            at = min(pairs, key=lambda i: abs(shifts[i].ahead_ms - shifts[i + 1].ahead_ms))
            ahead_ms = max(shifts[at].ahead_ms, shifts[at + 1].ahead_ms)
            shifts[at : at + 2] = [shifts[at]._replace(ahead_ms=ahead_ms)]
        self.shifts = tuple(shifts)
        assert len(self.shifts) <= SHIFTS_MAX
