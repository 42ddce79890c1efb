"""One delay level: its delivery progress, and the due time of its next message.

Messages of a level are due in the order of their queue, so only the first is examined. A change of
the wall clock while a message waits has no effect (model/due_time.py). A message due later than its
level allows waits for the level's delay from when that was found. The cause may be changed levels,
or a clock set back while the broker was down.
Source: ScheduleMessageService.DeliverDelayedMessageTimerTask.
"""

from typing import Final

from pocketmq.model.due_time import DueTime
from pocketmq.model.step import Now

LOOK_INTERVAL_MS: Final = 5_000
"""Longest interval between two looks at a level."""
SEEN_LEAD_MS: Final = 50
"""Store times so far ahead of the clock are not those at which messages came."""
SEEN_MAX: Final = 1_024
"""Times at which messages were seen that are kept."""


class Level:
    """One delay level.

    queue_offset  of the first message that is not delivered
    look_at_ms    monotonic time at which it is looked at again
    served        how many batches all levels were given when it got its last: of levels that are
                  due, the one that waits longest is next
    due_time      the clocks that the messages' times belong to (store/timer/level_clocks.py)
    seen          (queue offset, monotonic ms), rising: messages before that one were there at that
                  time, for those whose own time is not believed
    """

    __slots__ = (
        "_due_time", "delay_ms", "look_at_ms", "number", "queue_offset", "seen", "served",
    )  # fmt: skip

    def __init__(self, number: int, delay_ms: int, queue_offset: int, due_time: DueTime) -> None:
        assert number > 0
        self.number = number
        self.delay_ms = delay_ms
        self.queue_offset = queue_offset
        self.look_at_ms = 0
        self.served = 0
        self.seen: list[tuple[int, int]] = []
        self._due_time = due_time

    def advance(self, queue_offset: int) -> None:
        """Everything before this message is delivered."""
        assert queue_offset >= self.queue_offset, "a level never goes back"
        self.queue_offset = queue_offset
        self._due_time.forget(queue_offset)
        while self.seen and self.seen[0][0] <= queue_offset:
            del self.seen[0]

    def see(self, now: Now, upper: int) -> None:
        """Notes that all messages before `upper` are there.

        Called now and then while store times are ahead of the clock: each message waits once from
        when it was seen, and none waits for those before it.
        """
        if upper > (self.seen[-1][0] if self.seen else self.queue_offset):
            self.seen.append((upper, now.monotonic_ms))
        if len(self.seen) > SEEN_MAX:
            del self.seen[:-1:2]  # Merged entries are due later, never earlier.

    def clock_set(self, now: Now, upper: int) -> None:
        """Re-examines the level after a change of the wall clock, which voids stored times."""
        self.look_at_ms = min(self.look_at_ms, now.monotonic_ms)
        self._due_time.forget(self.queue_offset)
        self.see(now, upper)

    def due_count(self, due_ms: list[int], upper: int, now: Now) -> int:
        """Returns how many of its first messages are due, and sets when to look again.

        due_ms   their times, from the first that is not delivered on
        upper    queue offset behind the last message there is
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
        # Messages from now on wait the whole delay.
        pause_ms = 0 if count else min(self.delay_ms, LOOK_INTERVAL_MS)
        self.look_at_ms = now.monotonic_ms + pause_ms
        return count

    def _believed(self, queue_offset: int, upper: int, now: Now) -> int:
        """Returns how long a message waits whose time is impossible."""
        self.see(now, upper)
        at_ms = next(at_ms for place, at_ms in self.seen if queue_offset < place)
        return at_ms + self.delay_ms - now.monotonic_ms
