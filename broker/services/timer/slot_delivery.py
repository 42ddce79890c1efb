"""One slot whose second has passed: its messages, oldest first, put some at a time.

    chain, newest to oldest ──turned──► markers: what they take back
                                    └─► messages: read by their places, put

A step takes PUT_MAX messages; where it stands between steps is in memory alone: after a crash the
slot is delivered once more, without what stands at its real place already.
Source: TimerMessageStore.dequeue, TimerDequeueGetMessageService.
"""

import logging
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker.format.timed_records import taken_back
from broker.format.timer_layout import MAGIC_DELETE, MAGIC_ROLL, Units, due_times
from broker.model.due_time import DueTime
from broker.model.system_topics import TIMER_TOPIC
from broker.services.timer.arriving import OPEN_PAUSE_MS, IsDelivered, slot_behind
from broker.services.timer.counts import WaitingCounts
from broker.services.timer.moving import ahead_of, chain_of, move
from broker.services.timer.putting import Putting, TimedMessage
from broker.store.message_store import MessageStore
from broker.store.reading.patience import value_of

PUT_MAX: Final = 256
"""Messages of one put: some milliseconds of work."""

logger = logging.getLogger(__name__)


class SlotDelivery:
    """Delivers one slot of an open store.

    time_ms   its second, which is over
    """

    __slots__ = (
        "_at", "_counts", "_markers", "_putting", "_store", "_taken_back", "_units", "time_ms"
    )  # fmt: skip

    def __init__(
        self, store: MessageStore, putting: Putting, counts: WaitingCounts, time_ms: int
    ) -> None:
        self._store = store
        self._counts = counts
        self._putting = putting
        self.time_ms = time_ms
        self._units: Units | None = None
        self._markers = np.empty(0, np.bool_)
        self._taken_back: frozenset[bytes] = frozenset()
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether all of it was delivered."""
        return self._units is not None and self._at >= len(self._units)

    @property
    def left_count(self) -> int:
        """How many messages of it are not delivered, as far as is known."""
        return 0 if self._units is None else len(self._units) - self._at

    async def some(self, write_ms: int, due_time: DueTime, is_delivered: IsDelivered | None) -> int:
        """Deliver what comes next; returns how many messages it looked at.

        write_ms   the second of now
        Errors   StorageError, DiskSlow; those of a put: it is tried again
        """
        if self._units is None:
            await self._open(write_ms, due_time)
        units = self._units
        assert units is not None
        upper = self._upper(units)
        assert self._at <= upper <= len(units)
        some = units[self._at : upper]
        if not len(some):
            return 0
        records = await self._records(some)
        messages: list[TimedMessage] = []
        rolls = (some["magic"] & MAGIC_ROLL).astype(bool).tolist()
        times = some["write_time"].tolist()
        passed = self._markers[self._at : upper].tolist()
        for record, enqueued_ms, is_roll, is_passed in zip(
            records, times, rolls, passed, strict=True
        ):
            is_left_out = is_passed or not record
            if not is_left_out and is_delivered is not None:
                is_left_out = await is_delivered(record)
            if not is_left_out:
                messages.append(TimedMessage(record, enqueued_ms, is_roll))
        await self._putting.put(messages, self._taken_back)
        self._at = upper
        return len(some)

    def _upper(self, units: Units) -> int:
        """Return behind which unit the next put ends: not too many, not too long."""
        sizes = np.cumsum(units["record_size"][self._at : self._at + PUT_MAX], dtype=np.int64)
        count = int(np.searchsorted(sizes, self._putting.bytes_max, "right"))
        return min(self._at + max(count, 1), len(units))

    async def _open(self, write_ms: int, due_time: DueTime) -> None:
        """Follow the chain, read what it takes back, and move what is not due yet by its clock."""
        units, places = await chain_of(self._store, self.time_ms)
        is_here = due_times(units) == self.time_ms
        if not is_here.all():
            logger.warning("timer.damaged", extra={"slot_ms": self.time_ms})
            units, places = units[is_here], places[is_here]
        if due_time.is_jumpy:
            units = self._move_ahead(units, places, write_ms, due_time)
        units = self._without_journal(units, write_ms)
        self._counts.take(units)
        markers = (units["magic"] & (MAGIC_DELETE | MAGIC_ROLL)) == MAGIC_DELETE
        marking = units[markers]
        keys = [taken_back(record) for record in await self._records(marking) if record]
        self._taken_back = frozenset(filter(None, keys))
        self._markers = markers
        self._units = units

    def _without_journal(self, units: Units, write_ms: int) -> Units:
        """Return units but for those of the journal of leases: these wait on, or are over.

        Cost     about 1 µs for each of the journal: nearly all of it is settled by then
        """
        numbers = np.flatnonzero(units["topic_hash"] == self._putting.journal_hash).tolist()
        if not numbers:
            return units
        log, is_over = self._store.log, np.zeros(len(units), np.bool_)
        is_open = is_over.copy()
        for number in numbers:
            place, size = units["physical_offset"][number], units["record_size"][number]
            record = log.read(int(place), int(size))
            is_open[number] = self._putting.is_open(record)
            is_over[number] = not is_open[number] and self._putting.is_of_journal(record)
        if is_open.any():
            _, firsts = np.unique(units["physical_offset"][is_open], return_index=True)
            times_ms = np.full(len(firsts), write_ms + OPEN_PAUSE_MS, np.int64)
            move(self._store, units[is_open][firsts], times_ms)
        self._counts.take(units[is_over])
        self._putting.drop("settled", int(is_over.sum()))
        return units[~(is_over | is_open)]

    def _move_ahead(
        self, units: Units, places: NDArray[np.int64], write_ms: int, due_time: DueTime
    ) -> Units:
        """Let what came before the clock jumped wait as long as it has to; returns the others."""
        times_ms = slot_behind(self.time_ms + ahead_of(due_time, places))
        is_early = times_ms >= write_ms
        if is_early.any():
            move(self._store, units[is_early], times_ms[is_early])
            wheel = self._store.timer.wheel
            if wheel is not None and is_early.all():
                wheel.clear(self.time_ms)
        return units[~is_early]

    async def _records(self, units: Units) -> list[bytes]:
        """Return the records of units, empty for those that are not there."""
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
        if b"" in records:
            lost = records.count(b"")
            logger.warning("timer.discarded", extra={"reason": "no record there", "count": lost})
            self._putting.dropped.add(("discarded",), lost)
        return records
