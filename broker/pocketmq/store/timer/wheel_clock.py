"""The clock of the timer wheel, which follows the wall clock but ignores its jumps.

A due time is a wall time of the clock at the message's arrival. It is translated once, when the
message enters the wheel; later changes of the clock move no message in the wheel. Guarantees:

    1. No message is early: the time from arrival to delivery is measured by the monotonic clock.
    2. No message is stuck, or later than the second of its slot.
    3. After a restart, the saved times are still valid. A clock change while no broker runs is not
       detected: the elapsed time is the wall clock's, but never below zero.
    4. The clock never goes back, so no slot is read twice.

A put of a delayed message first reads the clocks, so that no message is stored between a change and
its detection. The clock follows a slow drift; if the drift is backward, it stops until the wall
clock catches up. ARCHITECTURE.md ("Clocks that are set") has an example.
"""

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.timer_layout import SHIFTS_MAX, ClockShift
from pocketmq.model.due_time import JUMP_MS, LEAD_MAX_MS
from pocketmq.model.step import Now

Numbers = NDArray[np.int64]


class WheelClock:
    """The clock of one timer; `look` is called with each reading of the system's clocks.

    shifts     saved leads over the wall clock; each applies from its queue offset to the next one's
    least_ms   reading of this clock when the shifts were saved
    unread     queue offset of the first message that is not translated
    end        queue offset of the next put
    last_ms    store time of the log's last record; if it is far ahead of now, the wall clock was
               ahead then, and untranslated messages are measured from that time
    """

    __slots__ = ("_skew_ms", "now_ms", "shifts")

    def __init__(
        self, shifts: tuple[ClockShift, ...], least_ms: int, now: Now, unread: int, end: int,
        last_ms: int = 0,
    ) -> None:  # fmt: skip
        assert shifts
        # After a log has lost its end, queue offsets are assigned again.
        self.shifts = tuple(one._replace(first_place=min(one.first_place, end)) for one in shifts)
        self._skew_ms = now.wall_ms - now.monotonic_ms
        ahead_ms = max(least_ms - now.wall_ms, self.ahead_ms)
        place = max(min(unread, end), self.shifts[-1].first_place)
        if last_ms > now.wall_ms + LEAD_MAX_MS and place < end:
            self._add(ClockShift(place, now.wall_ms + ahead_ms - last_ms))
            self._add(ClockShift(end, ahead_ms))
        elif ahead_ms > self.ahead_ms:
            # Untranslated messages use the larger lead, so that none of them is early.
            self._add(ClockShift(place, ahead_ms))
        self.now_ms = now.wall_ms + self.ahead_ms
        """Reading of this clock, in ms like a wall time."""

    @property
    def ahead_ms(self) -> int:
        """Lead over the wall clock, ms."""
        return self.shifts[-1].ahead_ms

    def look(self, now: Now, end: int) -> bool:
        """Reads the time; returns whether the wall clock was changed.

        end    queue offset of the next put
        Cost   about 1 µs
        """
        assert end >= self.shifts[-1].first_place, "the next queue offset fell"
        skew_ms = now.wall_ms - now.monotonic_ms
        jump_ms, self._skew_ms = skew_ms - self._skew_ms, skew_ms
        is_set = abs(jump_ms) > JUMP_MS
        if is_set:
            self._add(ClockShift(end, self.ahead_ms - jump_ms))
        self.now_ms = max(self.now_ms, now.wall_ms + self.ahead_ms)
        return is_set

    def ahead_of(self, places: Numbers) -> Numbers:
        """Returns, for each message, the lead over the wall clock that applies to its due time.

        places     queue offsets of the messages
        """
        first, ahead_ms = np.array(self.shifts, np.int64).T
        at = np.searchsorted(first, places, "right") - 1
        found: Numbers = ahead_ms[np.maximum(at, 0)]
        return found

    def forget(self, place: int) -> None:
        """Drops shifts that apply only to messages before a queue offset."""
        count = 0
        while count + 1 < len(self.shifts) and self.shifts[count + 1].first_place <= place:
            count += 1
        self.shifts = self.shifts[count:]

    def _add(self, shift: ClockShift) -> None:
        shifts = [*self.shifts, shift]
        if len(shifts) > SHIFTS_MAX:
            # Merge the neighbours whose leads differ least; the larger lead makes no message early.
            pairs = range(len(shifts) - 2)
            at = min(pairs, key=lambda i: abs(shifts[i].ahead_ms - shifts[i + 1].ahead_ms))
            ahead_ms = max(shifts[at].ahead_ms, shifts[at + 1].ahead_ms)
            shifts[at : at + 2] = [shifts[at]._replace(ahead_ms=ahead_ms)]
        self.shifts = tuple(shifts)
        assert len(self.shifts) <= SHIFTS_MAX
