"""Reads the timer's topic, and adds its messages to the wheel.

    queue 0 ──read by column──► due already: put at once
                                due within the window: into the slot of its second
                                due later: into a slot within the window, which re-adds it
                                recalls another one: into each slot where that may wait

Times are converted here, once, from the wall clocks of their brokers to the clock of the wheel
(store/timer/wheel_clock.py). A message that is due while more is unread goes into the slot that is
read next, as its recall may be unread. No slot is read before everything stored before its turn.

After a crash, reading resumes behind the last message whose unit is certainly durable. Of the
messages that follow, those that wait already are skipped; the rest were due on arrival.
Source: TimerMessageStore.enqueue, TimerEnqueuePutService, doEnqueue.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.timed_records import AT_ONCE_ENQUEUED, TimedFacts, taken_back
from pocketmq.format.timer_layout import (
    LOG_UNIT_TYPE,
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    PRECISION_MS,
    Units,
    due_times,
)
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.reading import PullStatus, ReadRange
from pocketmq.model.system_topics import TIMER_TOPIC, QueuePlace
from pocketmq.services.delay.deliver import TimedMessage, TimerDelivery
from pocketmq.services.delay.timer_counts import WaitingCounts
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.timer.recovery import Kept
from pocketmq.store.timer.wheel_clock import WheelClock

WINDOW_MS: Final = 172_800 * PRECISION_MS
"""Messages that wait for longer go back to the topic (timerRollWindowSlot)."""
READ_MAX: Final = 512
"""Messages that are taken in before others get their turn: two milliseconds of work."""
READ_BYTES_MAX: Final = 1024 * 1024
OPEN_PAUSE_MS: Final = 2 * PRECISION_MS
"""When it is looked again whether a lease of the journal is open."""
AT_ONCE_MAX: Final = 128
"""Messages that are due when they come, by one put."""

logger = logging.getLogger(__name__)


def second_of(time_ms: int) -> int:
    """Returns the beginning of the second of a time, ms."""
    return time_ms // PRECISION_MS * PRECISION_MS


def slot_behind(times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the slots that are delivered no earlier than slots of these times would be."""
    behind: NDArray[np.int64] = -(-times_ms // PRECISION_MS) * PRECISION_MS
    return behind


def slot_times(
    due_ms: NDArray[np.int64], write_ms: int, window_ms: int = WINDOW_MS
) -> tuple[NDArray[np.int64], Units]:
    """Returns the times of slots for due times, and which of the messages return (bools)."""
    left_ms = due_ms - write_ms - window_ms
    is_later = left_ms >= 0
    ahead_ms = np.where(left_ms < window_ms // 3, window_ms // 2, window_ms)
    return np.where(is_later, write_ms + ahead_ms, due_ms), is_later


def topic_range(store: MessageStore) -> tuple[int, int]:
    """Returns the queue offsets of the timer topic's first message and behind its last."""
    return store.reading.queue_range(TIMER_TOPIC, 0)


IsDelivered = Callable[[bytes, QueuePlace | None], Awaitable[bool]]
"""Whether a copy of a record is at a position already, None: at its real one."""


class TimerEnqueue:
    """Reads the timer's topic.

    queue_offset   of the next message
    skip_upto      of messages before this queue offset, read once more after files were lost,
    skip_below_ms  those due before this time were delivered
    kept           of messages that wait already, though they are read once more after a crash
    """

    __slots__ = (
        "_clock", "_counts", "_held_at_ms", "_last_place", "_old_upto", "_put_already", "_putting",
        "_shifts", "_store", "kept", "queue_offset", "skip_below_ms", "skip_upto",
    )  # fmt: skip

    def __init__(
        self, store: MessageStore, putting: TimerDelivery, counts: WaitingCounts, clock: WheelClock,
        queue_offset: int,
    ) -> None:  # fmt: skip
        self._store = store
        self._counts = counts
        self._putting = putting
        self._clock = clock
        self._shifts: dict[int, int] = {}
        """Shifts of the times of waiting messages, and up to which slot each was used."""
        self._held_at_ms: int | None = None
        """The slot that due messages already went into."""
        lower, upper = topic_range(store)
        self.queue_offset = min(max(queue_offset, lower), upper)
        self._put_already: set[int] = set()
        """Queue offsets of due messages that were put before an error: they are read again."""
        self._last_place = store.min_offset if self.queue_offset < upper else store.appended
        self.skip_below_ms: int
        self.skip_upto: int
        self.kept = Kept()
        self._old_upto = upper

    @property
    def lag(self) -> int:
        """How many messages it has not read."""
        return max(topic_range(self._store)[1] - self.queue_offset, 0)

    @property
    def is_resumed(self) -> bool:
        """Whether it has read all there was at the start."""
        return self.queue_offset >= self._old_upto

    @property
    def is_even(self) -> bool:
        """Whether nothing was put that it will read once more."""
        return not self._put_already

    @property
    def unread_from(self) -> int | None:
        """A physical offset below which everything is read, None where all was read."""
        return self._last_place if self.lag else None

    async def some(self, write_ms: int, read_ms: int, is_delivered: IsDelivered) -> bool:
        """Takes in the next messages; returns whether there may be more.

        write_ms       the second of now, or as far ahead as the wheel reaches
        read_ms        the slot that is read next: new messages go into no earlier one, and those
                       that are due before it are put at once
        is_delivered   whether the target queue already has a copy of a message that is due
        Errors         StorageError, DiskSlow; those of a put: messages not taken in come again
        """
        lower, upper = topic_range(self._store)
        begin = max(lower, self.queue_offset)
        if begin >= upper:
            self.queue_offset = begin
            return False
        wanted = ReadRange(TIMER_TOPIC, 0, begin, READ_MAX, READ_BYTES_MAX)
        try:
            found = await value_of(self._store.reading.pull(wanted, joined=True))
        except MessageDamaged as error:
            logger.warning("timer.discarded", extra={"reason": str(error), "count": 1})
            self.queue_offset = error.next_begin_offset
            return True
        facts = TimedFacts()
        for content in found.records:
            facts.add(content)
        for topic, topic_hash in facts.topics.items():
            if not self._counts.knows(topic_hash):
                self._counts.know(topic_hash, topic.decode("utf-8", "replace"))
        self._shifts = {s: upto for s, upto in self._shifts.items() if upto >= read_ms}
        if len(facts):
            is_old = begin < self._old_upto
            if found.next_begin_offset < upper:
                self._held_at_ms = read_ms
            await self._take_in(facts, write_ms, read_ms, is_delivered if is_old else None)
            self._last_place = facts.physical_offsets[-1]
        self._put_already.clear()
        assert found.next_begin_offset >= begin
        self.queue_offset = found.next_begin_offset
        return found.status is not PullStatus.NO_NEW_MESSAGE and self.queue_offset < upper

    async def _take_in(
        self, facts: TimedFacts, write_ms: int, read_ms: int, is_delivered: IsDelivered | None
    ) -> None:
        shifts_ms, due_ms = self._translated(facts)
        is_kept = self._know_kept(facts, due_ms, min(write_ms, read_ms) - PRECISION_MS)
        is_due = (due_ms < min(write_ms, read_ms)) & ~is_kept
        for number in np.flatnonzero(
            is_due & (np.array(facts.topic_hashes) == self._putting.journal_hash)
        ).tolist():
            if self._putting.is_open(facts.record(number)):
                due_ms[number], is_due[number] = write_ms + OPEN_PAUSE_MS, False
        is_over = due_ms < self.skip_below_ms
        is_over &= np.array(facts.queue_offsets) < self.skip_upto
        is_there = ~is_due & ~is_kept
        if self._held_at_ms == read_ms:
            is_there |= ~is_over & ~is_kept
            if is_delivered is not None:
                for number in np.flatnonzero(is_due & ~is_over & ~np.array(facts.markers)).tolist():
                    is_there[number] = not await is_delivered(facts.record(number), None)
        else:
            await self._put_due(facts, np.flatnonzero(is_due & ~is_over).tolist(), is_delivered)
        for shift_ms in self._shifts:  # A recalled message may wait by another clock.
            is_there |= np.array(facts.markers) & (shifts_ms != shift_ms) & ~is_kept
        waiting = np.flatnonzero(is_there)
        if len(waiting):
            await self._store.timer.make()
            self._wait(facts, waiting, np.maximum(due_ms, read_ms), shifts_ms, write_ms, read_ms)

    def _know_kept(
        self, facts: TimedFacts, due_ms: NDArray[np.int64], before_ms: int
    ) -> NDArray[np.bool_]:
        """Returns which messages wait already; those between them are due by `before_ms`.

        Effects   times of those that were due when they came, by whatever clock, are no later
        """
        if facts.queue_offsets[0] >= self.kept.upto:
            return np.zeros(len(facts), np.bool_)
        is_kept: NDArray[np.bool_] = np.isin(facts.physical_offsets, self.kept.places)
        was_due = ~is_kept & (np.array(facts.queue_offsets) < self.kept.upto)
        due_ms[was_due] = np.minimum(due_ms[was_due], before_ms)
        return is_kept

    def _translated(self, facts: TimedFacts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns by how much times were shifted, and the slots these lead to."""
        ahead_ms = self._clock.ahead_of(np.array(facts.queue_offsets, np.int64))
        due_ms = np.array(facts.due_ms, np.int64) + ahead_ms
        return due_ms - np.array(facts.out_ms, np.int64), slot_behind(due_ms)

    async def _put_due(
        self, facts: TimedFacts, numbers: list[int], is_delivered: IsDelivered | None
    ) -> None:
        """Puts due messages, except those that were put before an error.

        A recalled message stays away even if both came too late for a slot: after a long stop.
        """
        marking = (facts.record(number) for number in numbers if facts.markers[number])
        gone = frozenset(filter(None, map(taken_back, marking)))
        messages: list[TimedMessage] = []
        looked_at: list[int] = []
        size = 0
        for number in numbers:
            at = facts.queue_offsets[number]
            if at in self._put_already:
                continue
            looked_at.append(at)
            record = facts.record(number)
            is_passed = facts.markers[number]
            if not is_passed and is_delivered is not None:
                is_passed = await is_delivered(record, None)
            if not is_passed:
                messages.append(TimedMessage(record, AT_ONCE_ENQUEUED))
                size += len(record)
            if len(messages) == AT_ONCE_MAX or size >= self._putting.bytes_max:
                await self._putting.put(messages, gone)
                self._put_already.update(looked_at)
                messages, size, looked_at = [], 0, []
        await self._putting.put(messages, gone)
        self._put_already.update(looked_at)

    def _wait(
        self, facts: TimedFacts, waiting: NDArray[np.int64], due_ms: NDArray[np.int64],
        shifts_ms: NDArray[np.int64], write_ms: int, read_ms: int,
    ) -> None:  # fmt: skip
        """Adds messages to their slots, as many at a time as a file of the log takes.

        waiting   numbers of facts; the other columns are of all facts
        """
        marking = waiting[np.array(facts.markers)[waiting]]
        self._note_shifts(shifts_ms[waiting], due_ms[waiting])
        if len(self._shifts) > 1 and len(marking):
            copies = self._copied(facts, marking, shifts_ms)
            numbers = np.concatenate((waiting, copies[0]))
            order = np.argsort(numbers, kind="stable")
            copied_due_ms = np.maximum(copies[2], read_ms)
            columns = ((shifts_ms, copies[1]), (due_ms, copied_due_ms))
            shifts_ms, due_ms = (np.concatenate((a[waiting], b))[order] for a, b in columns)
            waiting = numbers[order]
        else:
            shifts_ms, due_ms = shifts_ms[waiting], due_ms[waiting]
        wheel = self._store.timer.wheel
        assert wheel is not None
        window_ms = min(WINDOW_MS, second_of(wheel.span_ms // 4))
        times_ms, is_later = slot_times(due_ms, write_ms, window_ms)
        units = np.zeros(len(waiting), LOG_UNIT_TYPE)
        is_marker = np.array(facts.markers)[waiting]
        magic = np.where(is_marker, MAGIC_DEFAULT | MAGIC_DELETE, MAGIC_DEFAULT)
        units["magic"] = np.where(is_later, magic | MAGIC_ROLL, magic)
        units["write_time"] = np.minimum(times_ms, write_ms)
        units["delay"] = times_ms - units["write_time"]
        units["physical_offset"] = np.array(facts.physical_offsets, np.int64)[waiting]
        units["record_size"] = np.array(facts.sizes)[waiting]
        units["topic_hash"] = np.array(facts.topic_hashes)[waiting]
        units["shift_ms"] = shifts_ms
        queue_offsets = np.array(facts.queue_offsets, np.int64)[waiting]
        while len(units):
            # Behind an error it goes on with the first that does not wait yet.
            self.queue_offset = int(queue_offsets[0])
            count = self._store.timer.add(units)
            self._counts.arrive(units[:count])
            units, queue_offsets = units[count:], queue_offsets[count:]

    def know(self, units: Units) -> None:
        """Adds units that waited before the start."""
        self._counts.add(units)
        self._note_shifts(units["shift_ms"].astype(np.int64), due_times(units))

    def _note_shifts(self, shifts_ms: NDArray[np.int64], due_ms: NDArray[np.int64]) -> None:
        values, at = np.unique(shifts_ms, return_inverse=True)
        upto_ms = np.zeros(len(values), np.int64)
        np.maximum.at(upto_ms, at, due_ms)
        for shift_ms, time_ms in zip(values.tolist(), upto_ms.tolist(), strict=True):
            self._shifts[shift_ms] = max(self._shifts.get(shift_ms, 0), time_ms)

    def _copied(
        self, facts: TimedFacts, marking: NDArray[np.int64], shifts_ms: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns copies of recalls for the slots where older clocks put their messages.

        Returns   (numbers of facts, by how much their times are shifted, their slots)
        """
        others = np.array([*self._shifts], np.int64)
        numbers = np.repeat(marking, len(others))
        shifts = np.tile(others, len(marking))
        is_other = shifts != shifts_ms[numbers]
        numbers, shifts = numbers[is_other], shifts[is_other]
        return numbers, shifts, slot_behind(np.array(facts.out_ms, np.int64)[numbers] + shifts)
