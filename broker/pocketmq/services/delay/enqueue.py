"""Reads the timer's topic, and adds its messages to the wheel.

A due message is delivered at once, but it enters the next slot while later messages are unread, as
one of them may be its recall marker. A message due beyond the wheel's window is a roll: it enters a
slot within the window, and is then stored in the timer's topic again. A recall marker enters each
slot in which its message may be. Times are converted from the wall clock to the wheel's clock
(store/timer/wheel_clock.py).

After a crash, reading resumes after the last message whose unit is certainly durable.
Source: TimerMessageStore.enqueue, TimerEnqueuePutService, doEnqueue.
"""

import asyncio
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
"""Messages due beyond this window are rolled (timerRollWindowSlot)."""
READ_MAX: Final = 512
"""Upper limit of messages read at once: two milliseconds of work."""
READ_BYTES_MAX: Final = 1024 * 1024
OPEN_PAUSE_MS: Final = 2 * PRECISION_MS
"""Interval between two checks of a journal entry whose lease is open."""
AT_ONCE_MAX: Final = 128
"""Upper limit of messages in one put of messages that were due on arrival."""

logger = logging.getLogger(__name__)


def second_of(time_ms: int) -> int:
    """Returns a time rounded down to a second, in ms."""
    return time_ms // PRECISION_MS * PRECISION_MS


def slot_behind(times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns times rounded up to a second, in ms."""
    behind: NDArray[np.int64] = -(-times_ms // PRECISION_MS) * PRECISION_MS
    return behind


def slot_times(
    due_ms: NDArray[np.int64], write_ms: int, window_ms: int = WINDOW_MS
) -> tuple[NDArray[np.int64], Units]:
    """Returns the slot of each message, and whether the message is rolled."""
    left_ms = due_ms - write_ms - window_ms
    is_later = left_ms >= 0
    ahead_ms = np.where(left_ms < window_ms // 3, window_ms // 2, window_ms)
    return np.where(is_later, write_ms + ahead_ms, due_ms), is_later


def topic_range(store: MessageStore) -> tuple[int, int]:
    """Returns the min and max queue offset of the timer's topic."""
    return store.reading.queue_range(TIMER_TOPIC, 0)


IsDelivered = Callable[[bytes, QueuePlace | None], Awaitable[bool]]
"""(record, queue) -> whether the queue contains a copy of the record; None: the target queue."""


class TimerEnqueue:
    """Reads the timer's topic.

    queue_offset   offset of the next message
    skip_upto, skip_below_ms
                   messages before queue offset `skip_upto` that were due before `skip_below_ms` are
                   skipped: they were delivered, and are read again as files were lost
    kept           messages in the wheel that are read again after a crash
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
        """Shift between due time and slot -> last slot that has messages with this shift."""
        self._held_at_ms: int | None = None
        """Slot that due messages enter while later messages are unread."""
        lower, upper = topic_range(store)
        self.queue_offset = min(max(queue_offset, lower), upper)
        self._put_already: set[int] = set()
        """Queue offsets of messages that were put before an error: they are read again."""
        self._last_place = store.min_offset if self.queue_offset < upper else store.appended
        self.skip_below_ms: int
        self.skip_upto: int
        self.kept = Kept()
        self._old_upto = upper

    @property
    def lag(self) -> int:
        """Number of unread messages."""
        return max(topic_range(self._store)[1] - self.queue_offset, 0)

    @property
    def is_resumed(self) -> bool:
        """Whether all messages that existed when the broker started are read."""
        return self.queue_offset >= self._old_upto

    @property
    def has_kept(self) -> bool:
        """Whether a message is unread whose unit, or a later one, was added before a crash."""
        return self.queue_offset < self.kept.upto

    @property
    def is_even(self) -> bool:
        """Whether no message that was put will be read again."""
        return not self._put_already

    @property
    def unread_from(self) -> int | None:
        """Physical offset below which all messages are read; None: all messages are read."""
        return self._last_place if self.lag else None

    async def find_recalled(self, begin: int) -> None:
        """Finds the recall markers from a queue offset on, for `TimerDelivery.is_recalled`.

        Errors   StorageError, DiskSlow
        Cost     4 µs a message
        """
        lower, upper = topic_range(self._store)
        at, recalled = max(begin, lower), self._putting.recalled
        while at < upper:
            wanted = ReadRange(TIMER_TOPIC, 0, at, min(upper - at, READ_MAX), READ_BYTES_MAX)
            try:
                found = await value_of(self._store.reading.pull(wanted))
            except MessageDamaged as error:
                at = error.next_begin_offset
                continue
            facts = TimedFacts()
            for content in found.records:
                facts.add(content)
            for number in np.flatnonzero(facts.markers).tolist():
                gone = taken_back(facts.record(number))
                recalled.setdefault(facts.out_ms[number], set()).add(gone)
            assert found.next_begin_offset > at, "the offset does not advance"
            at = found.next_begin_offset
            await asyncio.sleep(0)

    async def read_some(self, write_ms: int, read_ms: int, is_delivered: IsDelivered) -> bool:
        """Handles the next messages; returns whether there may be more.

        write_ms       the present second by the wheel's clock
        read_ms        the slot that is delivered next: messages enter this slot or later slots
        is_delivered   returns whether the target queue already contains a copy of a due message
        Errors         StorageError, DiskSlow, errors of a put: the next call handles the remaining
                       messages again
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
                    record = facts.record(number)
                    is_passed = self._putting.is_recalled(record)
                    is_there[number] = not is_passed and not await is_delivered(record, None)
        else:
            await self._put_due(facts, np.flatnonzero(is_due & ~is_over).tolist(), is_delivered)
        for shift_ms in self._shifts:  # A recalled message may be in a slot with another shift.
            is_there |= np.array(facts.markers) & (shifts_ms != shift_ms) & ~is_kept
        waiting = np.flatnonzero(is_there)
        if len(waiting):
            await self._store.timer.make()
            self._wait(facts, waiting, np.maximum(due_ms, read_ms), shifts_ms, write_ms, read_ms)

    def _know_kept(
        self, facts: TimedFacts, due_ms: NDArray[np.int64], before_ms: int
    ) -> NDArray[np.bool_]:
        """Returns which messages are already in the wheel.

        Effects   lowers due times to `before_ms` for messages read again that are not in the wheel:
                  they were due when they arrived
        """
        if facts.queue_offsets[0] >= self.kept.upto:
            return np.zeros(len(facts), np.bool_)
        is_kept: NDArray[np.bool_] = np.isin(facts.physical_offsets, self.kept.places)
        was_due = ~is_kept & (np.array(facts.queue_offsets) < self.kept.upto)
        due_ms[was_due] = np.minimum(due_ms[was_due], before_ms)
        return is_kept

    def _translated(self, facts: TimedFacts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the shift and the slot of each message."""
        ahead_ms = self._clock.ahead_of(np.array(facts.queue_offsets, np.int64))
        due_ms = np.array(facts.due_ms, np.int64) + ahead_ms
        return due_ms - np.array(facts.out_ms, np.int64), slot_behind(due_ms)

    async def _put_due(
        self, facts: TimedFacts, numbers: list[int], is_delivered: IsDelivered | None
    ) -> None:
        """Puts due messages, except messages that were put before an error.

        After a long stop, a message and its recall marker may both be due: neither is put.
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
                is_passed = self._putting.is_recalled(record) or await is_delivered(record, None)
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
        """Adds messages to their slots.

        waiting   indexes of the messages in `facts`, `due_ms` and `shifts_ms`
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
            # After an error, reading continues at the first message that was not added.
            self.queue_offset = int(queue_offsets[0])
            count = self._store.timer.add(units)
            self._counts.arrive(units[:count])
            units, queue_offsets = units[count:], queue_offsets[count:]

    def count_waiting(self, units: Units) -> None:
        """Counts units that were in the wheel when the broker started."""
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
        """Returns copies of recall markers for other shifts: indexes in `facts`, shifts, slots."""
        others = np.array([*self._shifts], np.int64)
        numbers = np.repeat(marking, len(others))
        shifts = np.tile(others, len(marking))
        is_other = shifts != shifts_ms[numbers]
        numbers, shifts = numbers[is_other], shifts[is_other]
        return numbers, shifts, slot_behind(np.array(facts.out_ms, np.int64)[numbers] + shifts)
