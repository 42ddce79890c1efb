"""One delay level: its delivery progress, and the due time of its next message.

Messages of a level are due in queue order. A change of the wall clock while a message is delayed
has no effect (model/due_time.py).

A due time may be further away than the level's whole delay: the table of levels was changed, or the
clock was set back while the broker was down. Such a due time is ignored. The message is due when
the level's delay has passed since the broker noticed this.
Source: ScheduleMessageService.DeliverDelayedMessageTimerTask.
"""

from typing import Final

from pocketmq.model.due_time import DueTime
from pocketmq.model.step import Now

LOOK_INTERVAL_MS: Final = 5_000
"""Longest interval between two checks of a level."""
SEEN_LEAD_MS: Final = 50
"""If the newest store time is further ahead of the wall clock, store times are not used as arrival
times."""
SEEN_MAX: Final = 1_024
"""Upper limit of entries in `seen`."""


class Level:
    """One delay level.

    queue_offset  offset of the first message that is not delivered
    look_at_ms    monotonic time of the next check of this level
    kept_from     physical offset of the first message that retention keeps, as last known
    served        number of the level's last batch; the due level with the smallest number is next
    due_time      the level's clock (store/timer/level_clocks.py)
    seen          (queue offset, monotonic ms), ascending: all messages below the offset existed at
                  that time; used as arrival time of messages whose due time is ignored
    """

    __slots__ = (
        "_due_time", "delay_ms", "kept_from", "look_at_ms", "number", "queue_offset", "seen",
        "served",
    )  # fmt: skip

    def __init__(self, number: int, delay_ms: int, queue_offset: int, due_time: DueTime) -> None:
        assert number > 0
        self.number = number
        self.delay_ms = delay_ms
        self.queue_offset = queue_offset
        self.look_at_ms = 0
        self.kept_from = 0
        self.served = 0
        self.seen: list[tuple[int, int]] = []
        self._due_time = due_time

    def advance(self, queue_offset: int) -> None:
        """Records that all messages before this offset are delivered."""
        assert queue_offset >= self.queue_offset, "delivery progress decreased"
        self.queue_offset = queue_offset
        self._due_time.forget(queue_offset)
        while self.seen and self.seen[0][0] <= queue_offset:
            del self.seen[0]

    def see(self, now: Now, upper: int) -> None:
        """Records that all messages before `upper` exist now.

        While store times are ahead of the clock, this is called periodically: the recorded times
        then replace the arrival times of messages.
        """
        if upper > (self.seen[-1][0] if self.seen else self.queue_offset):
            self.seen.append((upper, now.monotonic_ms))
        if len(self.seen) > SEEN_MAX:
            del self.seen[:-1:2]  # Merged entries are due later, never earlier.

    def clock_set(self, now: Now, upper: int) -> None:
        """Makes the next check of the level due at once, after a change of the wall clock."""
        self.look_at_ms = min(self.look_at_ms, now.monotonic_ms)
        self._due_time.forget(self.queue_offset)
        self.see(now, upper)

    def due_count(self, due_ms: list[int], upper: int, now: Now) -> int:
        """Returns how many of the next messages are due; sets the time of the next check.

        due_ms   due times of messages from `queue_offset` on
        upper    max offset of the level's queue
        """
        count = 0
        for moment in due_ms:
            place = self.queue_offset + count
            wait_ms = moment - self._due_time.upto_ms(now, place)
            if wait_ms > self.delay_ms:
                wait_ms = self._believed(place, upper, now)
            if wait_ms > 0:
                self.look_at_ms = now.monotonic_ms + min(wait_ms, LOOK_INTERVAL_MS)
                return count
            count += 1
        # Messages that arrive from now on are due only after the level's whole delay.
        pause_ms = 0 if count else min(self.delay_ms, LOOK_INTERVAL_MS)
        self.look_at_ms = now.monotonic_ms + pause_ms
        return count

    def _believed(self, queue_offset: int, upper: int, now: Now) -> int:
        self.see(now, upper)
        at_ms = next(at_ms for place, at_ms in self.seen if queue_offset < place)
        return at_ms + self.delay_ms - now.monotonic_ms
