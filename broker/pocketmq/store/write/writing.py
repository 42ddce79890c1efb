"""Writes messages to an open store, and waits until they are durable.

    room? ─► one synchronous block under the put-lock ─► wait for the flush (durability.py)

The block is `Writer.append` (writer.py). Queue offsets are dense: a put that fails before the block
uses no queue offset.
Source: CommitLog.asyncPutMessages.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from pocketmq.model.batch import PutResult, PutStatus, Run
from pocketmq.model.errors import (
    BrokerError,
    RecordTooLarge,
    TransientPoolEmpty,
)
from pocketmq.model.stats import Stat
from pocketmq.model.step import Clock, Step
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.store.dispatch.dispatcher import Dispatcher
from pocketmq.store.marks import Marks
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.write.allocation import Allocation, Reserve
from pocketmq.store.write.commit import Commit
from pocketmq.store.write.durability import Durability
from pocketmq.store.write.flush_group import FlushGroup
from pocketmq.store.write.prefault import Prefault
from pocketmq.store.write.put_lock import PutLock
from pocketmq.store.write.write_admission import WriteAdmission
from pocketmq.store.write.writer import Writer

WAITING_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})

logger = logging.getLogger(__name__)


def _tell_long_hold(held_ms: int) -> None:
    logger.warning("put_lock.held", extra={"held_ms": held_ms})


class Writing:
    """Accepts puts, unless the admission refuses them.

    dispatcher   receives the stored records
    damage       error with which all puts are refused until the store closes: the store is damaged,
                 or copies a leader's log; None: puts are accepted
    """

    __slots__ = (
        "_clock", "_damage", "_is_replicated", "_log", "_marks", "_settings", "allocation",
        "before_waiting", "commit", "durability", "gate", "pages_ahead", "reserve", "writer",
    )  # fmt: skip

    def __init__(
        self,
        structures: StoreComponents,
        marks: Marks,
        clock: Clock,
        durability: Durability,
        dispatcher: Dispatcher,
        reserve: Reserve,
        damage: BrokerError | None,
        fail: Callable[[BaseException], None],
    ) -> None:
        log, settings = structures.log, structures.settings
        self._log = log
        self._clock = clock
        self._settings = settings
        self._is_replicated = settings.is_replicated
        self._marks = marks
        self._damage = damage
        self.before_waiting: Callable[[], None] = lambda: None
        """Called before delayed messages, whose due times are wall times, are appended."""
        self.gate = WriteAdmission(marks, dispatcher, reserve, damage)
        self.durability = durability
        self.commit = Commit(log, marks, settings, fail)
        self.reserve = reserve
        self.allocation = Allocation(log, structures.own_directory, clock, fail, reserve=reserve)
        self.pages_ahead = Prefault(log, marks)
        lock = PutLock(settings.busy_timeout_ms, _tell_long_hold)
        self.writer = Writer(
            log,
            dispatcher.remembered,
            marks,
            structures.levels,
            lock,
            self.gate,
            self.allocation.request,
        )

    @property
    def steps(self) -> list[Step]:
        """The steps to run while the store is open."""
        steps: list[Step] = [self.durability.step, self.allocation.step]
        if self._log.pool is not None:
            return [*steps, self.commit.step]
        # A copy is written in large pieces, for which pages need no zeros.
        return steps if self._settings.leader else [*steps, self.pages_ahead.step]

    @property
    def stats(self) -> list[Stat]:
        """The metrics of writing."""
        lock, durability = self.writer.lock, self.durability
        stats: list[Stat] = [lock.wait_seconds, lock.hold_seconds, self.writer.append_seconds]
        return [*stats, durability.flush_seconds, durability.group_messages]

    async def put(self, runs: Sequence[Run], *, wait: bool = True) -> list[PutResult]:
        """Stores runs contiguously: all of their messages, or none.

        wait     whether to return, in sync mode, only when the messages are durable, and with
                 followers in sync only when these have them, or after `ack_timeout_ms`
        Errors   RecordTooLarge, Draining, BrokerReadOnly, WrongRole, StoreBusy, TransientPoolEmpty,
                 DiskFull: nothing was stored;
                 StoreFailed: the process ends, and the messages may be lost or not
        Source   CommitLog.asyncPutMessage, asyncPutMessages
        """
        records = self.writer.records_of(runs)
        await self._room(records.size_sum)
        if any(destination.topic in WAITING_TOPICS for destination, _ in runs):
            self.before_waiting()
        self.writer.append(records, self._clock.wall_ms())
        results = records.results()
        assert results[-1].end == self._marks.appended.value
        if wait and self._is_replicated:
            status = await self.acknowledged()
            return [result._replace(status=status) for result in results]
        if wait and self._settings.is_sync:
            if not await self.durability.reached(results[-1].end):
                late = PutStatus.FLUSH_DISK_TIMEOUT
                return [result._replace(status=late) for result in results]
        return results

    async def room(self, runs: Sequence[Run]) -> bool:
        """Waits until runs can be put without waiting; returns whether it waited.

        Errors   those of `put`, except StoreBusy
        """
        return await self._room(self.writer.records_of(runs).size_sum)

    async def _room(self, size_sum: int) -> bool:
        log, has_waited = self._log, False
        if size_sum > log.record_size_max:
            raise RecordTooLarge(size_bytes=size_sum, limit_bytes=log.record_size_max)
        self.gate.check()
        while not log.has_room(size_sum):
            if log.spare_base is None:
                raise TransientPoolEmpty(count=self._settings.transient_pool_file_count)
            await self.allocation.room()
            self.gate.check()
            has_waited = True
        return has_waited

    def durable(self) -> asyncio.Future[bool]:
        """Requests a flush; returns a future for the durability of all appended records.

        Returns  True, or False if `sync_flush_timeout_ms` passes first
        Errors   StoreFailed, such as FsyncFailed
        """
        return self.durability.reached(self._marks.appended.value)

    async def acknowledged(self) -> PutStatus:
        """Waits until all puts so far may be acknowledged; returns the status for producers.

        Returns  OK, or why they are late; never later than both timeouts
        Errors   StoreFailed, such as FsyncFailed
        """
        now_ms, end = self._clock.monotonic_ms(), self._marks.appended.value
        if self._settings.is_sync and not await self.durability.reached(end):
            return PutStatus.FLUSH_DISK_TIMEOUT
        if self._is_replicated:
            return await self.durability.replicated(end, now_ms)
        return PutStatus.OK

    @property
    def late_status(self) -> PutStatus:
        """The status of the puts of the last group that was late."""
        return self.durability.late_status

    def flush_group(self) -> FlushGroup:
        """Requests a flush; returns the group of puts that share it.

        Errors   StoreFailed, such as FsyncFailed
        """
        return self.durability.group()

    def group_of(self, work: Coroutine[Any, Any, bool]) -> FlushGroup:
        """Returns a group of one caller, which ends with the result of its own work."""
        return FlushGroup(asyncio.ensure_future(work), self._clock.monotonic_ms())

    @property
    def refusal(self) -> BrokerError | None:
        """The error with which puts are refused; None while they are accepted."""
        return self.gate.refusal

    def takes(self, size_bytes: int) -> bool:
        """Returns whether a put of `size_bytes` would be stored without waiting."""
        return self.gate.is_open and self._log.has_room(size_bytes)

    @property
    def is_writable(self) -> bool:
        """Whether a put of ordinary size would be accepted now."""
        return self.gate.is_open and not self.allocation.full

    def refuse(self, refusal: BrokerError | None) -> None:
        """Refuses puts with an error; None accepts them again, unless they are refused for good.

        An error for good stays: with space on its disk, a follower would still not accept puts.
        """
        refusal = self._damage or refusal
        if (refusal is None) != (self.gate.refusal is None):
            event = "store.resumed" if refusal is None else "store.refused"
            logger.warning(event, extra={"reason": str(refusal or "")})
        self.gate.refusal = refusal

    def refuse_for_good(self, refusal: BrokerError) -> None:
        """Refuses puts with an error until the store closes."""
        self._damage = self._damage or refusal
        self.refuse(None)

    def end(self) -> None:
        """Refuses all further puts."""
        self.gate.is_ending = True

    async def drain(self) -> None:
        """Waits until all appended records are durable, or the store has failed."""
        await self.commit.drain()
        await self.durability.drain()

    def close(self) -> None:
        """Ends the threads; all steps and their jobs must have ended."""
        self.commit.close()
        self.durability.close()
