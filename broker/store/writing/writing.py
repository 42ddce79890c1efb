"""The way into an open store: puts, and what makes them durable.

    room? ─► one synchronous block under the put-lock ─► wait for the flush (durability.py)

The block assigns queue offsets, encodes, appends, and remembers for dispatch, never across an
await: what a caller does afterwards (give up, be cancelled) cannot split it. Queue offsets are
dense; a put that fails before the block takes none.
Source: CommitLog.asyncPutMessages, QueueOffsetOperator, DefaultAppendMessageCallback.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import accumulate
from time import perf_counter

from broker.format.record import encode_records, record_sizes
from broker.format.record_scan import tags_codes_of
from broker.log.commit_log import CommitLog
from broker.model.batch import PutResult, PutStatus, Run, Written
from broker.model.errors import (
    BrokerError,
    DiskFull,
    Draining,
    RecordTooLarge,
    StoreFailed,
    TransientPoolEmpty,
)
from broker.model.message import QueueKey, has_queue_offset
from broker.model.stats import Histogram, Stat
from broker.model.step import Clock, Step
from broker.model.store_shape import DelayLevels
from broker.store.marks import Marks
from broker.store.settings import FLUSH_SYNC
from broker.store.starting.structures import Structures
from broker.store.views.dispatcher import Dispatcher
from broker.store.writing.allocation import Allocation, Reserve
from broker.store.writing.commit import Commit
from broker.store.writing.durability import Durability
from broker.store.writing.put_lock import PutLock

logger = logging.getLogger(__name__)


class Writer:
    """Appends runs to the log; owns the queue-offset table."""

    __slots__ = (
        "_clock", "_dispatcher", "_levels", "_log", "_marks", "append_seconds", "lock",
        "next_offsets",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        dispatcher: Dispatcher,
        marks: Marks,
        clock: Clock,
        levels: DelayLevels,
        busy_timeout_ms: int,
    ) -> None:
        self._log = log
        self._dispatcher = dispatcher
        self._marks = marks
        self._clock = clock
        self._levels = levels
        self.lock = PutLock(busy_timeout_ms)
        self.next_offsets: dict[QueueKey, int] = {}
        """The queue offset the next message of each queue gets; 0 where absent."""
        self.append_seconds = Histogram(
            "pocketmq_append_seconds", "Time one append took.", labels={"result": "ok"}
        )

    def sizes(self, runs: Sequence[Run]) -> list[list[int]]:
        """Return the bytes each message of each run will take in the log."""
        crc = self._log.property_crc
        return [record_sizes(target, batch, property_crc=crc) for target, batch in runs]

    def append(self, runs: Sequence[Run], sizes: Sequence[list[int]]) -> list[PutResult]:
        """Store runs next to each other by one write; the log has room for them.

        Shape    sizes as `sizes` gave them
        Errors   StoreBusy: nothing was stored
        """
        assert len(runs) == len(sizes)
        log, marks = self._log, self._marks
        begun = perf_counter()
        with self.lock:
            time_ms = max(self._clock.wall_ms(), marks.appended.time_ms)
            begin = place = log.place(sum(map(sum, sizes)))
            taken: dict[QueueKey, int] = {}
            contents, written, results = [], [], []
            for (destination, batch), run_sizes in zip(runs, sizes, strict=True):
                queue_offset = 0
                if has_queue_offset(destination.system_flag):
                    key = destination.queue
                    queue_offset = taken[key] if key in taken else self.next_offsets.get(key, 0)
                    taken[key] = queue_offset + len(run_sizes)
                contents.append(
                    encode_records(
                        destination, batch, run_sizes, queue_offset=queue_offset,
                        physical_offset=place, store_timestamp_ms=time_ms,
                        property_crc=log.property_crc,
                    )
                )  # fmt: skip
                *places, place = accumulate(run_sizes, initial=place)
                written.append(
                    Written(
                        destination,
                        queue_offset,
                        physical_offsets=places,
                        sizes=run_sizes,
                        tags_codes=tags_codes_of(destination, batch, time_ms, self._levels),
                        store_time_ms=time_ms,
                        unique_keys=batch.unique_keys,
                        keys=batch.keys,
                        tags=batch.tags,
                    )
                )
                results.append(PutResult(PutStatus.OK, places, queue_offset, time_ms, place))
            content = contents[0] if len(contents) == 1 else b"".join(contents)
            assert begin + len(content) == place
            log.write(begin, content)
            marks.append(log.appended, time_ms)
            self.next_offsets.update(taken)
            self._dispatcher.remember(written)
        self.append_seconds.observe(perf_counter() - begun)
        return results


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
        end = results[-1].end
        assert end == self._marks.appended.value
        if log.pool is None:
            self._marks.commit(end, results[-1].store_timestamp_ms)
        if log.spare_base is not None:
            self.allocation.request()
        if wait and self._settings.flush == FLUSH_SYNC:
            if not await self.durability.reached(end):
                late = PutStatus.FLUSH_DISK_TIMEOUT
                return [result._replace(status=late) for result in results]
        return results

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
        is_full = self._dispatcher.failure or self.allocation.full or self.reserve.released
        return not (self._is_ending or self._marks.failure or self.refusal or is_full)

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
