"""Transactions of an open store: half messages, decided by their producers.

Decisions are applied by end_transaction.py. Undecided half messages are checked by checking.py,
which sends checks to producers. When the broker starts, the state of half messages (half_table.py)
is rebuilt from the log.
Source: TransactionalMessageServiceImpl, TransactionalMessageCheckService.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pocketmq.format.half_message import Half, resumed
from pocketmq.format.transaction_id import HalfPlace, transaction_id
from pocketmq.model.errors import BrokerError, TransactionDecided, TransactionUnknown
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.stats import Gauge, Stat
from pocketmq.model.step import Next, Now
from pocketmq.model.topic import HALF_TOPIC
from pocketmq.model.transaction import Check, Decided, Decision
from pocketmq.services.transaction.checking import (
    LOOK_AFTER_MS,
    LOOK_MAX,
    Checking,
    CheckRules,
)
from pocketmq.services.transaction.end_transaction import FIRST, EndTransactions
from pocketmq.services.transaction.fast_end import PlainEnd
from pocketmq.services.transaction.finding import HalfSearch
from pocketmq.services.transaction.half_counts import HalfCounts
from pocketmq.services.transaction.half_table import HalfTable
from pocketmq.services.transaction.halves import HalfState
from pocketmq.services.transaction.producers import Offer, Producer, Producers, Room, plenty
from pocketmq.services.transaction.unresolved import UnresolvedHalves
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore
from pocketmq.store.watermark import Watermark
from pocketmq.store.write.flush_group import FlushGroup

STEP_INTERVAL_MS: Final = 500
"""Longest interval between two steps."""
SAVE_INTERVAL_MS: Final = 5_000
"""Interval between saves of the progress (flushConsumerOffsetInterval)."""


class HalfPage(NamedTuple):
    """A page of undecided half messages; `next_offset` is 0 on the last page."""

    halves: list[Half]
    next_offset: int


def no_half(place: HalfPlace) -> TransactionUnknown:
    """Returns the error for a transaction id to which no half message belongs."""
    why = "no half message has these offsets and key"
    return TransactionUnknown(transaction_id=transaction_id(place), group="", why=why)


def _anything(check: Check) -> bool:
    return True


class Transactions:
    """All transactions of a broker.

    store_host   packed address of this broker
    """

    __slots__ = (
        "_alarm", "_checking", "_counts", "_deciding", "_floor", "_job", "_ledger", "_now",
        "_producers", "_resuming", "_save_at_ms", "_saving", "_scheduled", "_store", "plain",
        "stats",
    )  # fmt: skip

    def __init__(self, store: MessageStore, store_host: bytes, rules: CheckRules) -> None:
        self._store = store
        self._counts = counts = HalfCounts(store.clock)
        self._ledger = HalfTable(store, store_host, counts)
        self._producers = Producers()
        finding = HalfSearch(store)
        doubts = UnresolvedHalves(self._ledger, finding)
        self._checking = Checking(store, self._ledger, doubts, self._producers, counts, rules)
        self._deciding = EndTransactions(
            self._ledger, finding, doubts, counts.end, store.tables.is_removed, self._queue_count
        )
        self.plain = PlainEnd(store, self._ledger, counts)
        """Fast path of plain decisions."""
        self._resuming = asyncio.Lock()
        self._alarm = Watermark()
        self._now = Now(0, 0)
        self._job: Job[bool] | None = None
        self._saving: Job[None] | None = None
        self._save_at_ms = 0
        self._scheduled = 0
        self._floor = 0
        producers = Gauge(
            "pocketmq_transaction_producers",
            "Producers that can be sent transaction checks.",
            lambda: float(self._producers.total),
        )
        self.stats: list[Stat] = [*counts.all, self._checking.checks, producers]

    def take(self, rules: CheckRules) -> None:
        """Replaces the rules for later checks."""
        if self._checking.take(rules, self._store.clock.monotonic_ms()):
            self._alarm.advance(self._alarm.value + 1)

    async def recover(self) -> None:
        """Loads the undecided half messages of the store; called once, before all other methods.

        Errors   StorageError, DiskSlow
        """
        await self._ledger.recover()

    def _queue_count(self, topic: str) -> int:
        config = self._store.tables.topics.find(topic)
        return 0 if config is None else config.write_queue_count

    # -- deciding ------------------------------------------------------------------------------
    async def decide(self, group: str, decisions: Sequence[Decision]) -> list[Decided]:
        """Applies decisions of a producer group; durable when this returns.

        Errors   errors of reads and puts: the caller may repeat all decisions
        """
        return await self._deciding.decide(group, decisions)

    async def durable(self) -> None:
        """Waits until all decisions so far are as durable as the flush mode promises.

        Errors   StoreFailed, such as FsyncFailed
        """
        await self._ledger.durable()

    def flush_group(self) -> FlushGroup:
        """Returns the flush group of all decisions so far; its future is False on a timeout.

        With followers in sync, it ends as `durable`, and is never False.
        Errors   StoreFailed, such as FsyncFailed
        """
        if not self._store.settings.is_replicated:
            return self._store.writing.flush_group()
        return self._store.writing.group_of(self._is_durable())

    async def _is_durable(self) -> bool:
        await self._ledger.durable()
        return True

    @property
    def is_durable(self) -> bool:
        """Whether decisions are answered without waiting for a flush or for followers."""
        return self._ledger.is_durable

    def join(self, group: str, offer: Offer, room: Room = plenty) -> Callable[[], None]:
        """Registers a producer of a group; the returned function, called once, removes it."""
        leave = self._producers.join(group, Producer(offer, room))
        if self._checking.wake(group, self._store.clock.monotonic_ms()):
            self._alarm.advance(self._alarm.value + 1)
        return leave

    async def asked(
        self, group: str, count_max: int, wait_ms: int, takes: Callable[[Check], bool] = _anything
    ) -> list[Check]:
        """Waits up to `wait_ms` for checks for a producer of a group; returns [] after a timeout.

        If the caller loses a check, the check is repeated after the usual interval.

        takes   returns whether the producer may receive a check
        """
        deadline_ms = self._store.clock.monotonic_ms() + wait_ms
        listener = self._producers.listen(count_max, deadline_ms)
        leave = self.join(group, lambda one: takes(one) and listener.offer(one), listener.room)
        try:
            await listener.done
        finally:
            leave()
        return listener.checks

    def drain(self) -> None:
        """Ends all waits for checks."""
        self._producers.drain()

    @property
    def waiter_count(self) -> int:
        """Number of calls that wait for checks."""
        return self._producers.waiter_count

    # -- background steps -----------------------------------------------------------------------
    def step(self, now: Now) -> Next:
        """Starts due checks and saves of the progress, without waiting for them."""
        assert now.monotonic_ms >= self._now.monotonic_ms, "monotonic time decreased"
        self._now = now
        self._producers.end_waits(now.monotonic_ms)
        if self._store.damage is not None:
            return Next(now.monotonic_ms + STEP_INTERVAL_MS)
        _, end = self._ledger.see()
        checking = self._checking
        begin = max(self._scheduled, self._ledger.halves.begin)
        if begin < end:
            checking.first_looks.add(now.monotonic_ms + LOOK_AFTER_MS, begin, end)
        self._scheduled = end
        self._save_if_due(now)
        if self._job is not None and self._job.is_done:
            job, self._job = self._job, None
            job.result()
        next_ms = checking.next_ms
        if self._job is None and next_ms is not None and next_ms <= now.monotonic_ms:
            self._job = Job(checking.look_at_some(now))
        at_ms = now.monotonic_ms + STEP_INTERVAL_MS
        if self._job is not None:
            return Next(at_ms, self._job, 1)
        if next_ms is not None:
            at_ms = max(min(at_ms, next_ms), now.monotonic_ms + 1)
        return Next(at_ms, self._alarm, self._alarm.value + 1)

    def _save_if_due(self, now: Now) -> None:
        if self._saving is not None and self._saving.is_done:
            job, self._saving = self._saving, None
            with suppress(BrokerError):  # The next save retries it.
                job.result()
        if now.monotonic_ms >= self._save_at_ms and self._saving is None:
            self._save_at_ms = now.monotonic_ms + SAVE_INTERVAL_MS
            self._counts.forget_below(self._ledger.halves.begin)
            self._saving = Job(self._ledger.save())

    async def close(self) -> None:
        """Waits for running jobs, and saves the progress."""
        for job in (self._job, self._saving):
            if job is not None:
                await job.reached()
        if self._store.damage is None:
            with suppress(BrokerError):  # Without this save, the next start reads more.
                await self._ledger.save()

    def floor(self) -> int:
        """Returns the physical offset from which on the log must be kept for half messages.

        Cost     one read of memory; if the disk had to be read, the previous result is returned
        """
        begin = self._ledger.halves.begin
        place = self._store.reading.place_of(HALF_TOPIC, 0, begin)
        if isinstance(place, int):
            self._floor = place
        elif begin >= self._ledger.reading.range_of(HALF_TOPIC)[1]:
            return OFFSET_MAX
        return self._floor

    # -- for operators -------------------------------------------------------------------------
    @property
    def open_count(self) -> int:
        """Number of undecided half messages."""
        self._ledger.see()
        return self._ledger.halves.open_count

    def producer_count(self, group: str) -> int:
        """Returns the number of connected producers of a group."""
        return self._producers.count(group)

    async def state_of(self, place: HalfPlace) -> tuple[Half, HalfState]:
        """Returns a half message by its position, and its state; OPEN if it is undecided.

        Errors   TransactionUnknown, StorageError, FollowersLate, DiskSlow
        """
        half = await self._ledger.half_at(place)
        if half is None:
            raise no_half(place)
        return half, await self._deciding.state_of(half)

    async def resume(self, place: HalfPlace) -> HalfPlace:
        """Reopens a transaction that expired undecided; durable when this returns.

        Returns  position of the undecided half message, which is usually a new copy
        Errors   errors of `state_of` and of a put; TransactionDecided
        """
        async with self._resuming:
            half, state = await self.state_of(place)
            if state is HalfState.OPEN:
                return place
            if state is not HalfState.GIVEN_UP:
                raise TransactionDecided(transaction_id=transaction_id(place), first=FIRST[state])
            newest = await self._deciding.newest_of(half)
            found = (await self._ledger.reading.read([newest])).get(newest)
            if found is not None and found.first_offset != half.first_offset:
                return self._resumed(place, found)
            run = resumed(half, store_host=self._ledger.store_host)
            (result,) = await self._store.writing.put([run])
            while not await self._store.writing.durable():
                pass  # A slow flush is awaited again until the caller is cancelled.
            return HalfPlace(result.queue_offset, result.physical_offsets[0], place.unique_key)

    def _resumed(self, place: HalfPlace, found: Half) -> HalfPlace:
        if not self._ledger.halves.is_open(found.place.queue_offset):
            first = "resumed and decided"
            raise TransactionDecided(transaction_id=transaction_id(place), first=first)
        return found.place

    async def page(self, begin: int, count_max: int) -> HalfPage:
        """Returns undecided half messages from a queue offset on.

        Errors   StorageError, DiskSlow
        """
        assert count_max > 0
        self._ledger.see()
        halves = self._ledger.halves
        at = max(begin, halves.begin)
        found: list[Half] = []
        while at < halves.end and len(found) < count_max:
            wanted = halves.open_in(at, at + LOOK_MAX)[: count_max - len(found)]
            if not wanted:
                await asyncio.sleep(0)  # A million decided half messages may be skipped here.
            read = await self._ledger.reading.read(wanted) if wanted else {}
            found += [half for half in read.values() if half is not None]
            is_cut = len(found) >= count_max or len(read) < len(wanted)
            at = max(read) + 1 if is_cut and read else at + LOOK_MAX
        return HalfPage(found, at if at < halves.end else 0)
