"""Delivers messages of the timer's topic, each at its second.

    rmq_sys_wheel_timer, queue 0 ──enqueue.py──► wheel and log ──dequeue.py──► real topics
                                                       │
                                   timercheck ◄────────┘ progress, each second

A slot is delivered when its second is over. As in RocketMQ, a message due at 12:00:05 enters the
slot of 12:00:04, and a message due a millisecond later enters the next slot. The wheel has its own
clock (wheel_clock.py), so that a change of the wall clock makes no message early.
Source: TimerMessageStore.
"""

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final

from pocketmq.format.timer_layout import PRECISION_MS, TimerProgress
from pocketmq.model.due_time import LEAD_MAX_MS
from pocketmq.model.errors import BrokerError, StoreFailed
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.stats import Gauge, LabelValues, Stat
from pocketmq.model.step import CLOSING_MS, Next, Now
from pocketmq.model.system_topics import TIMER_TOPIC, QueuePlace
from pocketmq.services.delay.deliver import IsOpen, TimerDelivery
from pocketmq.services.delay.dequeue import TimerDequeue
from pocketmq.services.delay.enqueue import TimerEnqueue, second_of, topic_range
from pocketmq.services.delay.handover import end_settled, mark_read
from pocketmq.services.delay.timer_counts import WaitingCounts
from pocketmq.services.delay.timer_resume import TimerResumption
from pocketmq.store.job import Job, Rounds, until_done
from pocketmq.store.message_store import MessageStore
from pocketmq.store.timer.wheel_clock import WheelClock

SAVE_INTERVAL_MS: Final = 1_000
IDLE_SAVE_INTERVAL_MS: Final = 10_000
"""Interval between saves while no message arrives or is delivered."""
ARRIVAL_PAUSE_MS: Final = 50
"""Pause between reads of new messages, so that they are read in batches."""
BOUNDS_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
"""Upper bounds of the remaining time in the metric of pending messages."""
RETRY_PAUSE_MS: Final = 1_000
"""Pause after a refused put, for example while the disk is full."""
CLOSING_READS_MAX: Final = 1_000
"""Upper limit of reads of new messages during a stop."""

logger = logging.getLogger(__name__)


class Timer:
    """The timer of an open store.

    store_host      packed address of this broker
    is_lease_open   returns whether a lease is open; journal entries of other leases are dropped
    """

    __slots__ = (
        "_arrive_at_ms",
        "_arrive_upto",
        "_arriving",
        "_checked_lead_ms",
        "_clock",
        "_count_at_ms",
        "_counted",
        "_counts",
        "_delivered_before",
        "_dispatched_before_ms",
        "_is_closing",
        "_now",
        "_putting",
        "_read_ms",
        "_resume_below_ms",
        "_resumption",
        "_retry_at_ms",
        "_rounds",
        "_save_at_ms",
        "_saved",
        "_saved_lead_ms",
        "_saving",
        "_slot",
        "_store",
        "_working",
        "stats",
    )  # fmt: skip

    def __init__(self, store: MessageStore, store_host: bytes, is_lease_open: IsOpen) -> None:
        self._store = store
        self._putting = TimerDelivery(store, store_host, is_lease_open)
        self._counts = WaitingCounts(
            [*store.tables.topics.names(), *store.tables.timer_counts.rows]
        )
        self._clock: WheelClock | None = None
        self._checked_lead_ms = self._saved_lead_ms = 0
        """Lead of the wheel's clock over the wall clock in ms: at the last check, as last saved."""
        self._arriving: TimerEnqueue | None = None
        self._resumption: TimerResumption | None = None
        self._resume_below_ms: int
        self._read_ms = 0
        """Time of the slot that is delivered next."""
        self._slot: TimerDequeue | None = None
        self._now = Now(0, 0)
        self._rounds = Rounds(self._endless_rounds)
        self._working: Job[None] | None = None
        self._saving: Job[None] | None = None
        self._saved: tuple[int, int, int] | None = None
        self._counted: dict[LabelValues, float] = {}
        self._count_at_ms = 0
        self._is_closing = False
        self._delivered_before: int
        """Physical offset below which the saved progress covers all deliveries."""
        self._retry_at_ms = 0
        self._save_at_ms = 0
        self._arrive_at_ms = 0
        self._dispatched_before_ms: int | None = None
        """Slot before whose delivery `_all_dispatched` was last called."""
        self._arrive_upto = (0, 0)
        """(slot, queue offset): messages below the offset are read before the slot is delivered."""
        self.stats: list[Stat] = [
            self._counts.enqueued,
            self._putting.dequeued,
            self._putting.dropped,
            Gauge(
                "rocketmq_timer_enqueue_lag", "Unread messages of the timer's topic.",
                lambda: float(self.lag),
            ),
            Gauge(
                "rocketmq_timer_dequeue_lag", "Messages that are due and not delivered.",
                lambda: float(self._slot.left_count if self._slot is not None else 0),
            ),
            Gauge(
                "rocketmq_timer_dequeue_latency_milliseconds", "Delay of the timer, in ms.",
                lambda: float(self._late_ms()),
            ),
            Gauge(
                "rocketmq_timing_messages", "Timed messages that are pending, by topic.",
                self._counts.by_topic, ("topic",),
            ),
            Gauge(
                "rocketmq_timer_message_snapshot",
                "Pending timed messages, by upper bound of the remaining time.",
                self._snapshot, ("timer_bound_s",),
            ),
        ]  # fmt: skip

    @property
    def is_on(self) -> bool:
        """Whether messages are delivered: a damaged store accepts no puts."""
        return self._store.damage is None

    @property
    def lag(self) -> int:
        """Number of unread messages of the timer's topic."""
        return self._arriving.lag if self._arriving is not None else 0

    @property
    def waiting_count(self) -> int:
        """Number of pending messages, including entries of the lease journal."""
        wheel = self._store.timer.wheel
        return self.lag + (wheel.waiting_count(self._read_ms) if wheel is not None else 0)

    def _snapshot(self) -> dict[LabelValues, float]:
        wheel = self._store.timer.wheel
        if wheel is None:
            return {}
        ends_ms = [self._write_ms + bound * PRECISION_MS for bound in BOUNDS_S]
        counts = wheel.counts_until(self._read_ms, ends_ms)
        return {(str(bound),): count for bound, count in zip(BOUNDS_S, counts, strict=True)}

    def _late_ms(self) -> int:
        return max(self._write_ms - self._read_ms, 0) if self._read_ms else 0

    def floor(self) -> int:
        """Returns the physical offset from which on the log must be kept for pending messages."""
        if not self.is_on:
            return OFFSET_MAX
        if self._arriving is None:
            return 0
        # After a power cut, messages that were delivered since the last save are read again.
        timer = self._store.timer
        lowest = timer.lowest_message(min(self._read_ms, timer.progress.read_ms))
        unread = self._arriving.unread_from
        return min(place for place in (lowest, unread, OFFSET_MAX) if place is not None)

    def step(self, now: Now) -> Next:
        """Starts or continues reading new messages or delivering due messages, without waiting.

        Errors   StorageError
        """
        assert now.monotonic_ms >= self._now.monotonic_ms, "monotonic time decreased"
        self._now = now
        if self._clock is not None:
            self._check_clock(self._clock)
        return self._rounds.go_on()

    async def close(self) -> None:
        """Saves the progress; `step` is not called any more."""
        for job in (self._working, self._saving):
            if job is not None:
                await job.reached()
        self._is_closing = True
        clock = self._store.clock
        self._store.look_at_clocks(Now(clock.monotonic_ms(), clock.wall_ms()))
        if self._arriving is not None:
            with suppress(BrokerError):  # The next start does not depend on this.
                await self._hand_over(self._arriving)
            with suppress(BrokerError):
                self._note_delivered()
                await self._save(self._read_ms)

    async def _hand_over(self, arriving: TimerEnqueue) -> None:
        """Prepares the files for a RocketMQ broker, see handover.py.

        Errors   StorageError, DiskSlow, FsyncFailed; errors of a put
        """
        # The last records are checkpoints of open leases, written when the consume service closed.
        await self._store.dispatch_below(self._store.appended)
        until_ms = self._store.clock.monotonic_ms() + CLOSING_MS
        for _ in range(0 if self._is_far_behind else CLOSING_READS_MAX):
            if not arriving.lag or self._store.clock.monotonic_ms() >= until_ms:
                break
            await arriving.read_some(self._write_ms, self._read_ms, self._is_delivered)
        await end_settled(self._store, self._putting, self._read_ms, until_ms)
        if not arriving.lag:
            await mark_read(self._store, arriving.queue_offset, self._read_ms)

    # -- rounds --------------------------------------------------------------------------------
    def _endless_rounds(self) -> Iterator[Next]:
        if self._arriving is None:
            yield from until_done(Job(self._begin()))
        assert self._arriving is not None
        while True:
            self._save_if_due()
            self._note_delivered()
            work: Coroutine[Any, Any, None] | None = None
            if self._now.monotonic_ms < self._retry_at_ms:
                yield Next(self._retry_at_ms)
                continue
            if self._saved_lead_ms != self._clock_of().ahead_ms:
                work = self._save_clock()
            elif self._read_ms < self._write_ms and not self._must_read_first:
                work = self._deliver()
            elif self._must_read_first or (
                self._arriving.lag and self._now.monotonic_ms >= self._arrive_at_ms
            ):
                work = self._read_new()
            if work is None:
                yield self._pause()
                continue
            self._working = Job(self._tried(work))
            yield from until_done(self._working)
            yield Next(self._now.monotonic_ms)

    def _pause(self) -> Next:
        assert self._arriving is not None
        now_ms = self._now.monotonic_ms
        at_ms = now_ms + PRECISION_MS - self._clock_of().now_ms % PRECISION_MS
        if self._arriving.lag:
            return Next(min(at_ms, self._arrive_at_ms))
        arrivals = self._store.reading.arrivals(TIMER_TOPIC, 0)
        return Next(at_ms, arrivals, self._arriving.queue_offset + 1)

    @property
    def _write_ms(self) -> int:
        """The present second by the wheel's clock; only earlier slots are delivered."""
        return second_of(self._clock.now_ms if self._clock is not None else self._now.wall_ms)

    def _clock_of(self) -> WheelClock:
        assert self._clock is not None
        return self._clock

    def _check_clock(self, clock: WheelClock) -> None:
        self._store.look_at_clocks(self._now)
        if clock.ahead_ms != self._checked_lead_ms:
            by_ms = self._checked_lead_ms - clock.ahead_ms
            self._checked_lead_ms = clock.ahead_ms
            logger.warning("timer.clock_set", extra={"by_ms": by_ms})
        if self._arriving is not None:
            clock.forget(self._arriving.queue_offset)

    async def _tried(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (StoreFailed, CancelledError):
            raise
        except BrokerError as error:
            self._retry_at_ms = self._now.monotonic_ms + RETRY_PAUSE_MS
            logger.warning("timer.refused", extra={"reason": str(error)})

    async def _begin(self) -> None:
        """Finds where reading and delivery resume.

        Errors   DiskFull, ReadFailed
        """
        store = self._store
        found = await store.timer.found()
        progress = store.timer.progress
        store.timer.observe_clock(self._now)
        clock = self._clock = store.timer.clock
        assert clock is not None
        self._checked_lead_ms = self._saved_lead_ms = progress.shifts[-1].ahead_ms
        read_ms = found.read_ms or self._write_ms
        wheel = store.timer.wheel
        if wheel is not None and not found.read_ms:
            read_ms = min([read_ms, *wheel.used_from(0)[:1].tolist()])
        self._resumption = TimerResumption(store, progress.delivered_before)
        # A change of the clock is saved at once, so all deliveries since the save used one clock.
        # `resume_below_ms` covers earlier processes, whose clocks may have been different.
        last_ms = min(store.marks.appended.time_ms, self._now.wall_ms + LEAD_MAX_MS)
        delivered_ms = max(last_ms + clock.ahead_ms, progress.wheel_ms)
        if self._went_back(progress):
            delivered_ms = max(delivered_ms, progress.wheel_ms + LEAD_MAX_MS)
        below_ms = second_of(delivered_ms) + PRECISION_MS
        self._resume_below_ms = max(below_ms, progress.resume_below_ms)
        self._delivered_before = progress.delivered_before
        arriving = TimerEnqueue(store, self._putting, self._counts, clock, found.queue_offset)
        arriving.skip_below_ms, arriving.skip_upto = found.read_ms, found.known_upto
        arriving.kept = found.kept
        await arriving.find_recalled(found.known_upto)
        for units in store.timer.waiting(read_ms):
            arriving.count_waiting(units)
            await asyncio.sleep(0)
        self._arriving, self._read_ms = arriving, read_ms

    def _went_back(self, progress: TimerProgress) -> bool:
        """Returns whether the clock was set back since the progress was saved.

        If it was, earlier deliveries may have later store times than the last record.
        """
        if self._resumption is None or self._resumption.is_over:
            return False
        written_ms = progress.wheel_ms - progress.shifts[-1].ahead_ms  # Wall time of the save.
        return self._store.marks.appended.time_ms + LEAD_MAX_MS // 2 < written_ms

    # -- work ----------------------------------------------------------------------------------
    @property
    def _must_read_first(self) -> bool:
        """Whether new messages must be read before the next slot, as they may be recall markers."""
        wheel, behind_ms = self._store.timer.wheel, self._write_ms - self._read_ms
        if self._slot is not None or wheel is None or self._arriving is None:
            return False
        if behind_ms <= 0 or self._is_far_behind:
            return False  # The wheel would mix new messages with messages of its previous lap.
        if self._arrive_upto[0] != self._read_ms:
            self._arrive_upto = self._read_ms, topic_range(self._store)[1]
        return self._arriving.queue_offset < self._arrive_upto[1]

    @property
    def _is_far_behind(self) -> bool:
        """Whether slots are delivered before new messages are read, as after a long stop."""
        wheel = self._store.timer.wheel
        return wheel is not None and self._write_ms - self._read_ms >= wheel.span_ms // 2

    async def _all_dispatched(self) -> None:
        """Waits until all records stored so far are dispatched: they may contain recall markers."""
        await self._store.all_dispatched()

    async def _read_new(self) -> None:
        assert self._arriving is not None
        await self._all_dispatched()
        upto = self._arrive_upto
        self._arrive_upto = self._read_ms, 0  # A failed read does not delay the slot.
        has_more = await self._arriving.read_some(self._write_ms, self._read_ms, self._is_delivered)
        if has_more:
            self._arrive_upto = upto
        self._arrive_at_ms = 0 if has_more else self._now.monotonic_ms + ARRIVAL_PAUSE_MS

    async def _deliver(self) -> None:
        write_ms, wheel = self._write_ms, self._store.timer.wheel
        if wheel is None:
            self._read_ms = write_ms
            return
        if self._slot is None:
            self._read_ms = wheel.next_used(self._read_ms, write_ms)
            if self._read_ms >= write_ms or wheel.slot(self._read_ms) is None:
                return
            if self._dispatched_before_ms != self._read_ms:
                self._dispatched_before_ms = self._read_ms
                await self._all_dispatched()
                self._arrive_upto = self._read_ms, topic_range(self._store)[1]
                if self._must_read_first:
                    return
            self._slot = TimerDequeue(
                self._store, self._putting, self._counts, self._read_ms,
                keeps_markers=self._is_far_behind,
            )  # fmt: skip
        await self._deliver_some(self._slot)

    async def _deliver_some(self, slot: TimerDequeue) -> None:
        is_old = slot.time_ms < self._resume_below_ms
        is_delivered = self._is_delivered if is_old else None
        await slot.deliver_some(self._write_ms, is_delivered)
        if slot.is_over:
            self._slot = None
            self._read_ms = slot.time_ms + PRECISION_MS

    async def _is_delivered(self, record: bytes, place: QueuePlace | None) -> bool:
        assert self._resumption is not None
        return await self._resumption.is_delivered(record, place)

    async def _save_clock(self) -> None:
        while self._saving is not None and not self._saving.is_done:
            await self._saving.reached()
        await self._save(self._read_ms)
        if self._saved_lead_ms != self._clock_of().ahead_ms:
            self._retry_at_ms = self._now.monotonic_ms + RETRY_PAUSE_MS

    # -- saving the progress -------------------------------------------------------------------
    def _note_delivered(self) -> None:
        assert self._arriving is not None
        is_resumed = self._read_ms >= self._resume_below_ms and self._arriving.is_resumed
        if is_resumed and self._slot is None and self._arriving.is_even:
            self._delivered_before = self._store.appended

    def _state(self) -> tuple[int, int, int]:
        """Returns numbers of which one changes when a message arrives or is delivered."""
        assert self._arriving is not None
        log = self._store.timer.log
        delivered = self._putting.count
        return self._arriving.queue_offset, 0 if log is None else log.end, delivered

    def _save_if_due(self) -> None:
        now_ms = self._now.monotonic_ms
        if self._saving is not None and self._saving.is_done:
            job, self._saving = self._saving, None
            job.result()
        is_changed = self._state() != self._saved
        pause_ms = SAVE_INTERVAL_MS if is_changed else IDLE_SAVE_INTERVAL_MS
        if self._saving is None and now_ms >= self._save_at_ms + pause_ms:
            self._save_at_ms = now_ms
            self._saving = Job(self._tried(self._save(self._read_ms)))

    async def _save(self, read_ms: int) -> None:
        """Saves the progress once all records that it covers are durable."""
        assert self._arriving is not None
        store, state, queue_offset = self._store, self._state(), self._arriving.queue_offset
        before, clock = store.timer.progress, self._clock_of()
        has_kept = self._arriving.has_kept
        progress = TimerProgress(
            read_ms, 0, queue_offset, queue_offset, before.state_version,
            self._now.wall_ms, before.version_counter + 1, self._delivered_before,
            clock.now_ms, self._resume_below_ms if read_ms < self._resume_below_ms else 0,
            clock.shifts,
        )  # fmt: skip
        flushed = await store.timer.flush()
        if has_kept:  # A start takes messages below this end as read, with all before them.
            flushed = min(flushed, before.log_flushed)
        if await store.writing.durable():
            await store.timer.write_down(progress._replace(log_flushed=flushed))
            self._saved, self._saved_lead_ms = state, progress.shifts[-1].ahead_ms
            await self._save_counts()

    async def _save_counts(self) -> None:
        """Saves the counts of pending messages, at long intervals: they are only for operators."""
        counts, now_ms = self._counts.by_topic(), self._now.monotonic_ms
        if counts != self._counted and (now_ms >= self._count_at_ms or self._is_closing):
            self._counted, self._count_at_ms = counts, now_ms + IDLE_SAVE_INTERVAL_MS
            await self._store.tables.timer_counts.replace(self._counts.rows(self._now.wall_ms))
