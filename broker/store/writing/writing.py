"""The way into an open store: puts, and what makes them durable.

    room? ─► one synchronous block under the put-lock ─► wait for the flush (durability.py)

The block is `Writer.append` (writer.py). Queue offsets are dense; a put that fails before the block
takes none.
Source: CommitLog.asyncPutMessages.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from broker.format.send_records import SendRecords
from broker.model.batch import Destination, PutResult, PutStatus, Run
from broker.model.errors import (
    BrokerError,
    DiskFull,
    Draining,
    RecordTooLarge,
    StoreFailed,
    TransientPoolEmpty,
)
from broker.model.stats import Stat
from broker.model.step import Clock, Step
from broker.store.marks import Marks
from broker.store.settings import FLUSH_SYNC
from broker.store.starting.structures import Structures
from broker.store.views.dispatcher import Dispatcher
from broker.store.writing.allocation import Allocation, Reserve
from broker.store.writing.commit import Commit
from broker.store.writing.durability import Durability
from broker.store.writing.writer import Writer

logger = logging.getLogger(__name__)


class Writing:
    """Takes messages, unless there is a reason not to.

    dispatcher   is told what was stored
    damage       why the store takes nothing at all, None where it is whole
    fail         ends the store
    """

    __slots__ = (
        "_damage", "_dispatcher", "_is_ending", "_log", "_marks", "_settings", "allocation",
        "commit", "durability", "refusal", "reserve", "writer",
    )  # fmt: skip

    def __init__(
        self,
        structures: Structures,
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
        self._settings = settings
        self._marks = marks
        self._dispatcher = dispatcher
        self._damage = damage
        self._is_ending = False
        self.refusal = damage
        """What puts are answered with, None while they are taken."""
        self.durability = durability
        self.commit = Commit(log, marks, settings, fail)
        self.reserve = reserve
        self.allocation = Allocation(log, structures.own_directory, clock, fail, reserve=reserve)
        self.writer = Writer(
            log, dispatcher, marks, clock, structures.levels, settings.busy_timeout_ms
        )

    @property
    def steps(self) -> list[Step]:
        """What is to be called while the store is open."""
        steps: list[Step] = [self.durability.step, self.allocation.step]
        return steps if self._log.pool is None else [*steps, self.commit.step]

    @property
    def stats(self) -> list[Stat]:
        """What metrics show of it."""
        lock, durability = self.writer.lock, self.durability
        stats: list[Stat] = [lock.wait_seconds, lock.hold_seconds, self.writer.append_seconds]
        return [*stats, durability.flush_seconds, durability.group_messages]

    async def put(self, runs: Sequence[Run], *, wait: bool = True) -> list[PutResult]:
        """Store runs next to each other: all of their messages, or none.

        wait     answer when what the flush mode promises holds; else when they lie in the log
        Errors   RecordTooLarge, Draining, BrokerReadOnly, StoreBusy, DiskFull: nothing was stored;
                 FsyncFailed: the process ends, whether they survive is unknown
        Source   CommitLog.asyncPutMessage, asyncPutMessages
        """
        sizes = self.writer.sizes(runs)
        size_sum = sum(map(sum, sizes))
        log = self._log
        if size_sum > log.record_size_max:
            raise RecordTooLarge(size_bytes=size_sum, limit_bytes=log.record_size_max)
        self._check_writable()
        while not log.has_room(size_sum):
            if log.spare_base is None:
                raise TransientPoolEmpty(count=self._settings.transient_pool_file_count)
            await self.allocation.room()
            self._check_writable()
        results = self.writer.append(runs, sizes)
        assert results[-1].end == self._marks.appended.value
        self._appended()
        if wait and self._settings.flush == FLUSH_SYNC:
            if not await self.durability.reached(results[-1].end):
                late = PutStatus.FLUSH_DISK_TIMEOUT
                return [result._replace(status=late) for result in results]
        return results

    def takes_plain(self, records: SendRecords) -> bool:
        """Return whether `put_plain` would store the records of a request now.

        False    `put` waits, or tells why not
        """
        log, size = self._log, records.size_sum
        if size > log.record_size_max or log.property_crc or not self._takes:
            return False
        return log.has_room(size)

    def put_plain(self, records: SendRecords, destination: Destination) -> None:
        """Store the messages of one plain request next to each other; `takes_plain` says yes.

        Errors   StoreBusy: nothing was stored
        """
        assert records.size_sum <= self._log.record_size_max
        self.writer.append_plain(records, destination)
        self._appended()

    def _appended(self) -> None:
        """Go on after an append: commit what lies in the files, ask for the next file."""
        log, marks = self._log, self._marks
        if log.pool is None:
            marks.commit(marks.appended.value, marks.appended.time_ms)
        if log.spare_base is not None:
            self.allocation.request()

    def durable(self) -> asyncio.Future[bool] | None:
        """Return what is True once all appended so far is as durable as the flush mode promises.

        Returns  None: it is now; the future is False when `sync_flush_timeout_ms` passed first
        Errors   FsyncFailed
        """
        if self._settings.flush != FLUSH_SYNC:
            return None
        return self.durability.reached(self._marks.appended.value)

    @property
    def _takes(self) -> bool:
        """Whether `_check_writable` has nothing to say."""
        is_well = self._marks.failure is None and self._dispatcher.failure is None
        return is_well and not (self._is_ending or self.refusal or self.reserve.released)

    def _check_writable(self) -> None:
        if self._marks.failure is not None:
            raise StoreFailed(why="it has failed before")
        if self._is_ending:
            raise Draining()
        view_failure = self._dispatcher.failure
        if view_failure is not None:
            raise DiskFull(path=view_failure.path)
        if self.refusal is not None:
            raise self.refusal
        if self.reserve.released is not None:
            raise self.reserve.released

    @property
    def is_writable(self) -> bool:
        """Whether a put of the usual size would be taken now."""
        return self._takes and not self.allocation.full

    def refuse(self, refusal: BrokerError | None) -> None:
        """Answer puts with this error from now on; None: take them again, unless damaged."""
        refusal = refusal or self._damage
        if (refusal is None) != (self.refusal is None):
            event = "store.resumed" if refusal is None else "store.refused"
            logger.warning(event, extra={"reason": str(refusal or "")})
        self.refusal = refusal

    def end(self) -> None:
        """Take nothing more, for good."""
        self._is_ending = True

    async def drain(self) -> None:
        """Return when everything appended so far is durable, or the store has failed."""
        await self.commit.drain()
        await self.durability.drain()

    def close(self) -> None:
        """End the threads; the steps have ended, and what they began."""
        self.commit.close()
        self.durability.close()
