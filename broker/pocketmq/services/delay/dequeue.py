"""Delivers the messages of one slot of the timer wheel, a past second, oldest first, in batches.

The position in the slot is kept only in memory: after a crash the slot is delivered again, without
the messages that are already in their target topic. Entries of the lease journal whose leases are
open are moved to a later slot.
Source: TimerMessageStore.dequeue, TimerDequeueGetMessageService.
"""

import asyncio
import logging
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.timed_records import taken_back
from pocketmq.format.timer_layout import (
    LOG_UNIT_TYPE,
    MAGIC_DELETE,
    MAGIC_ROLL,
    NO_UNIT,
    Units,
    due_times,
)
from pocketmq.model.system_topics import TIMER_TOPIC, QueuePlace
from pocketmq.services.delay.deliver import TimedMessage, TimerDelivery
from pocketmq.services.delay.enqueue import OPEN_PAUSE_MS, IsDelivered
from pocketmq.services.delay.timer_counts import WaitingCounts
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

PUT_MAX: Final = 256
"""Upper limit of messages in one put: a few milliseconds of work."""
AGAIN: Final = QueuePlace(TIMER_TOPIC, 0)
"""Queue in which rolled messages are stored again."""
CHAIN_MAX: Final = 4_096
"""Number of units that are read or moved before yielding to the event loop."""
LOOK_MAX: Final = 256
"""Number of journal entries that are read before yielding to the event loop: one millisecond."""

logger = logging.getLogger(__name__)


class TimerDequeue:
    """Delivers one slot of an open store.

    time_ms         the slot's second, which has passed
    keeps_markers   whether recall markers are stored in the timer's topic again, as messages that
                    they recall may be unread there, as may markers of this slot
    """

    __slots__ = (
        "_at", "_counts", "_keeps_markers", "_markers", "_putting", "_store", "_units",
        "taken_back", "time_ms",
    )  # fmt: skip

    def __init__(
        self, store: MessageStore, putting: TimerDelivery, counts: WaitingCounts, time_ms: int,
        *, keeps_markers: bool = False,
    ) -> None:  # fmt: skip
        self._store = store
        self._counts = counts
        self._putting = putting
        self.time_ms = time_ms
        self._keeps_markers = keeps_markers
        self._units: Units | None = None
        self._markers = np.empty(0, np.bool_)
        self.taken_back: frozenset[bytes] = frozenset()
        """Messages that recall markers of the slot recall; known once the slot is read."""
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether the slot is delivered."""
        return self._units is not None and self._at >= len(self._units)

    @property
    def left_count(self) -> int:
        """Number of messages that are not delivered yet; 0 before the slot is read."""
        return 0 if self._units is None else len(self._units) - self._at

    async def deliver_some(self, write_ms: int, is_delivered: IsDelivered | None) -> int:
        """Delivers the next messages, PUT_MAX at most; returns how many units were handled.

        write_ms       the present second by the wheel's clock
        is_delivered   checks whether a target queue already contains a copy; None: no check, as no
                       message of the slot can have been delivered before
        Errors         StorageError, DiskSlow, errors of a put: the next call retries
        """
        if self._units is None:
            await self._open(write_ms)
        units = self._units
        assert units is not None
        upper = self._upper(units)
        assert self._at <= upper <= len(units)
        some = units[self._at : upper]
        if not len(some):
            return 0
        records = await self._found(some)
        messages: list[TimedMessage] = []
        rolls = (some["magic"] & MAGIC_ROLL).astype(bool).tolist()
        times = some["write_time"].tolist()
        markers = self._markers[self._at : upper].tolist()
        shifts_ms = some["shift_ms"].tolist()
        for record, enqueued_ms, is_rolled, is_marker, shift_ms in zip(
            records, times, rolls, markers, shifts_ms, strict=True
        ):
            is_roll = is_rolled or is_marker
            is_left_out = not record or (is_marker and not self._keeps_markers)
            if self._keeps_markers and not (is_left_out or is_roll):
                is_left_out = self._putting.is_recalled(record)
            if not is_left_out and is_delivered is not None:
                is_left_out = await is_delivered(record, AGAIN if is_roll else None)
            if not is_left_out:
                messages.append(TimedMessage(record, enqueued_ms, is_roll, shift_ms))
        clock = self._store.timer.clock
        assert clock is not None
        if any(
            one.is_roll for one in messages
        ):  # The wall clock may have been set during the reads.
            messages = [one._replace(moved_ms=one.moved_ms - clock.ahead_ms) for one in messages]
        await self._putting.put(messages, self.taken_back)
        self._at = upper
        self._drop_lost(records.count(b""))
        return len(some)

    def _upper(self, units: Units) -> int:
        sizes = np.cumsum(units["record_size"][self._at : self._at + PUT_MAX], dtype=np.int64)
        count = int(np.searchsorted(sizes, self._putting.bytes_max, "right"))
        return min(self._at + max(count, 1), len(units))

    async def _open(self, write_ms: int) -> None:
        units = await _chain_of(self._store, self.time_ms)
        is_here = due_times(units) == self.time_ms
        if not is_here.all():
            logger.warning("timer.damaged", extra={"slot_ms": self.time_ms})
            units = units[is_here]
        is_open, is_over = await self._journal_of(units)
        waiting = units[~(is_over | is_open)]
        markers = (waiting["magic"] & (MAGIC_DELETE | MAGIC_ROLL)) == MAGIC_DELETE
        records = await self._found(waiting[markers])
        # A failed call is repeated: counters change only after all reads, to count nothing twice.
        await self._move_on(units[is_open], write_ms)
        self._putting.drop("settled", int(is_over.sum()))
        self._counts.take(units[~is_open])
        keys = [taken_back(record) for record in records if record]
        self.taken_back = frozenset(filter(None, keys))
        self._markers = markers
        self._units = waiting

    async def _journal_of(self, units: Units) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns which units are journal entries of open leases, and which of settled leases.

        Cost     about 3 µs for each entry; nearly all leases are settled
        Errors   StorageError, DiskSlow
        """
        numbers = np.flatnonzero(units["topic_hash"] == self._putting.journal_hash)
        is_over = np.zeros(len(units), np.bool_)
        is_open = is_over.copy()
        for begin in range(0, len(numbers), LOOK_MAX):
            some = numbers[begin : begin + LOOK_MAX]
            for number, record in zip(some.tolist(), await self._found(units[some]), strict=True):
                is_open[number] = self._putting.is_open(record)
                is_over[number] = not is_open[number] and self._putting.is_of_journal(record)
            await asyncio.sleep(0)
        return is_open, is_over

    async def _move_on(self, units: Units, write_ms: int) -> None:
        """Moves journal entries of open leases to a later slot, each entry once.

        Errors   DiskFull: some entries were moved; the next call moves them again
        """
        wheel = self._store.timer.wheel
        assert wheel is not None
        # After a stop of more than a lap, a later slot may contain undelivered messages.
        slot_ms = min(write_ms + OPEN_PAUSE_MS, self.time_ms + wheel.span_ms // 4)
        _, firsts = np.unique(units["physical_offset"], return_index=True)
        for begin in range(0, len(firsts), CHAIN_MAX):
            some = units[firsts[begin : begin + CHAIN_MAX]]
            times_ms = np.full(len(some), slot_ms, np.int64)
            _move(self._store, some, times_ms)
            await asyncio.sleep(0)

    def _drop_lost(self, count: int) -> None:
        if count:
            logger.warning("timer.discarded", extra={"reason": "no record found", "count": count})
            self._putting.drop("discarded", count)

    async def _found(self, units: Units) -> list[bytes]:
        """Returns the records of units, b"" for a missing record.

        Errors   StorageError, DiskSlow
        """
        wanted = list(
            zip(units["physical_offset"].tolist(), units["record_size"].tolist(), strict=True)
        )
        order = sorted(range(len(wanted)), key=wanted.__getitem__)
        found = await value_of(
            self._store.reading.placed(TIMER_TOPIC, 0, [wanted[number] for number in order])
        )
        records = [b""] * len(wanted)
        for number, record in zip(order, found, strict=True):
            records[number] = record
        return records


async def _chain_of(store: MessageStore, time_ms: int) -> Units:
    """Returns the units of a slot, oldest first."""
    log, wheel = store.timer.log, store.timer.wheel
    assert log is not None
    assert wheel is not None
    slot = wheel.slot(time_ms)
    place = NO_UNIT if slot is None else slot.last
    parts: list[Units] = []
    while place != NO_UNIT:
        places, some = log.chain(place, CHAIN_MAX)
        if not places:
            logger.warning("timer.damaged", extra={"slot_ms": time_ms})
            break
        parts.append(some)
        place = int(some["previous"][-1])
        if place != NO_UNIT:
            await asyncio.sleep(0)
    units = np.concatenate(parts, dtype=LOG_UNIT_TYPE) if parts else np.empty(0, LOG_UNIT_TYPE)
    return units[::-1]


def _move(store: MessageStore, units: Units, times_ms: NDArray[np.int64]) -> None:
    """Moves messages to other slots.

    Errors   DiskFull: only some messages were moved
    """
    units = units.copy()
    write_ms = units["write_time"].astype(np.int64)
    # The delay is an i32: instead of a larger one, 0 is stored, with the slot's time as write time.
    base_ms = np.where(np.abs(times_ms - write_ms) < 2**31, write_ms, times_ms)
    units["write_time"] = base_ms
    units["delay"] = times_ms - base_ms
    while len(units):
        count = store.timer.add(units, is_move=True)
        units = units[count:]
