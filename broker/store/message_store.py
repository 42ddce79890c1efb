"""The store of a broker: open · put · pull · query · close.

    put ──lock──► log ──flush──► visible ──dispatch──► queues, index ──► pull, query
                                   sync: what is flushed    async: what is appended

All methods belong to one event loop. A put is one synchronous block under the put-lock (assign
queue offset, encode, append, remember for dispatch); awaiting comes after it, so that a caller who
gives up changes nothing that was stored.
Source: DefaultMessageStore.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from broker.files.disk import Disk
from broker.format.names import OWN_DIRECTORY
from broker.model.batch import Run
from broker.model.clock import Clock
from broker.model.errors import (
    BrokerError,
    DiskFull,
    Draining,
    RecordTooLarge,
    StoreDamaged,
    StoreFailed,
    TransientPoolEmpty,
)
from broker.model.results import PutResult, PutStatus
from broker.model.stats import Stat
from broker.store.commit import Commit
from broker.store.durability import Durability
from broker.store.marks import Marks
from broker.store.reading.reading import Reading
from broker.store.running import DISPATCH_PAUSE_MS, Running
from broker.store.settings import FLUSH_SYNC, StoreSettings
from broker.store.starting.structures import Structures
from broker.store.store_gauges import store_gauges
from broker.store.tables.offsets import ConsumerOffsets
from broker.store.tables.removed_queues import RemovedQueues
from broker.store.tables.topics import GroupTable, TopicTable
from broker.store.views.dispatcher import Dispatcher
from broker.store.views.expiry import Expiry
from broker.store.views.flush import ViewFlush
from broker.store.writing.allocation import Allocation, Reserve
from broker.store.writing.writer import Writer

logger = logging.getLogger(__name__)


class MessageStore(Running):
    """One store directory, opened for writing."""

    __slots__ = (
        "_allocation", "_pool", "_refusal", "_removed", "_reserve", "_state", "_writer", "expiry",
        "groups", "offsets", "state_since_ms", "stats", "tell_retention", "topics",
    )  # fmt: skip

    def __init__(self, settings: StoreSettings, clock: Clock, disk: Disk) -> None:
        super().__init__(disk, settings, clock)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tables")
        self.topics = TopicTable(disk, settings.directory, clock, self._pool)
        self.groups = GroupTable(disk, settings.directory, clock, self._pool)
        self.offsets = ConsumerOffsets(disk, settings.directory, clock, self._pool, self.groups)
        self._refusal: BrokerError | None = None
        self._removed = RemovedQueues(disk, settings.directory / OWN_DIRECTORY, self._pool)
        self._state = "starting"
        self.state_since_ms = clock.wall_ms()
        """Since when it is in its state, wall time; being read-only is none of its own."""
        self.tell_retention: Callable[[], str] = lambda: "off"
        """What `retention_status` asks."""
        self.stats: list[Stat] = []
        """What metrics show of the store; filled by `open`."""

    @property
    def state(self) -> str:
        """starting, recovering, running, disk_full, read_only, damaged, draining or failed."""
        if self._state == "running" and self.damage is not None:
            return "damaged"
        if self._state == "running" and not self.is_writable:
            return "read_only" if self._refusal is not None else "disk_full"
        return self._state

    @property
    def _reserve_size(self) -> int:
        """Never more than one commit-log file has: small stores stay small."""
        return min(self.settings.reserve_size_bytes, self.settings.commit_log_file_size_bytes)

    @property
    def damage(self) -> StoreDamaged | None:
        """Why the store serves what is sound and takes nothing, None where it is whole."""
        return self.structures.recovery.damage

    def enter(self, state: str) -> None:
        """Be in another state from now on."""
        self._state = state
        self.state_since_ms = self.clock.wall_ms()

    # -- opening and closing -------------------------------------------------------------------
    async def open(self) -> None:
        """Lock, load and recover the store, then start flushing and dispatching.

        Errors   StorageError and its kinds; nothing was changed by a refused start
        """
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.structures = parts = Structures(self.settings, self._disk)
        try:
            self.settings = parts.settings
            self.enter("recovering")
            self._reserve = Reserve(self._disk, parts.own_directory, self._reserve_size)
            self._reserve.begin()
            self._disk.give_room = self._reserve.release
            self._removed.load()
            parts.queues.removed = self._removed.next_offsets()
            numbers = parts.recovery.numbers
            self.stats = [*numbers.stats]
            for share in parts.recover(self.clock.wall_ms()):
                numbers.progress = share
                logger.debug("recovery.progress", extra={"share": share})
                await asyncio.sleep(0)
            self._load_tables()
            self._start(parts)
            if self.damage is None:
                await self._clamp_offsets()
                parts.directory.remove_drafts()
                parts.directory.mark_running(self._disk.own_process_id())
            numbers.end()
        except BaseException:
            parts.close()
            raise
        loop = asyncio.get_running_loop()
        self._disk.tell_failure = lambda error: loop.call_soon_threadsafe(self._fail, error)
        self.enter("running")
        plan = parts.recovery.plan
        logger.info("store.opened", extra={"plan": plan.label, "end": parts.log.appended})
        if self.damage is not None:
            self.refuse(self.damage)
            return
        self._run()
        self._allocation.request()

    async def _clamp_offsets(self) -> None:
        """Let nobody stand behind what a crash took: queue offsets are given again from there."""
        if not self.structures.was_aborted:
            return
        next_offsets = self._writer.next_offsets
        count = await self.offsets.clamp(lambda topic, i: next_offsets.get((topic, i), 0))
        if count:
            logger.warning("offsets.clamped", extra={"count": count})

    def _load_tables(self) -> None:
        for table in (self.topics, self.groups, self.offsets):
            table.load()
        counts: dict[str, int] = {}
        for topic, queue_id in self.structures.queues.queues:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        for topic, count in counts.items():
            self.topics.adopt(topic, count)

    def _start(self, parts: Structures) -> None:
        """Build what moves: offsets, flushing, dispatching, allocation."""
        log, queues, settings, clock = parts.log, parts.queues, self.settings, self.clock
        is_sync = settings.flush == FLUSH_SYNC
        self.marks = marks = Marks(
            log.appended, parts.recovery.last_time, parts.recovery.last_record, is_sync=is_sync
        )
        self._durability = Durability(log, parts.mark, marks, settings, clock, self._fail)
        self._commit = Commit(log, marks, settings, self._fail)
        views = (queues, parts.index)
        self._dispatcher = Dispatcher(log, marks, views, parts.levels, self._notify)
        self._view_flush = ViewFlush(parts, self._disk, self._durability, marks, self._fail)
        self.expiry = Expiry(parts, self._disk, marks)
        self._allocation = Allocation(
            log, parts.own_directory, clock, self._fail, reserve=self._reserve
        )
        self.reading = Reading(parts, self._disk, self._arrivals, marks)
        self._writer = Writer(
            log,
            self._dispatcher,
            marks,
            clock,
            levels=parts.levels,
            property_crc=settings.property_crc,
            busy_timeout_ms=settings.busy_timeout_ms,
        )
        next_offsets = self._writer.next_offsets
        next_offsets.update(self._removed.next_offsets())
        for key, queue in queues.queues.items():
            next_offsets[key] = max(queue.max_offset, next_offsets.get(key, 0))
        self.stats = [
            *store_gauges(self),
            *parts.recovery.numbers.stats,
            *queues.stats,
            *parts.index.stats,
            *self.reading.stats,
            self._writer.lock.wait_seconds,
            self._writer.lock.hold_seconds,
            self._writer.append_seconds,
            self._durability.flush_seconds,
            *self._view_flush.flush_seconds.values(),
            self._durability.group_messages,
            self._dispatcher.reput_seconds,
        ]

    def _fail(self, error: StoreFailed) -> None:
        """Stop everything: nothing is acknowledged any more, the process has to end."""
        self.enter("failed")
        if not self.failure.done():
            logger.critical("store.failed", extra={"reason": str(error)})
            self.failure.set_exception(error)
            self.failure.exception()  # Whoever waits for it still gets it; nobody need.
        self._runner.stop()
        self._durability.stop(error)
        self._arrivals.release()

    def drain(self) -> None:
        """Refuse further puts and send everyone away who waits for messages."""
        if self._state == "running":
            self.enter("draining")
        self._arrivals.release()

    async def close(self) -> None:
        """Flush and dispatch everything, then close; the abort mark goes when all is complete.

        Errors   StoreFailed and its kinds: all is closed, and the next start recovers
        """
        self.drain()
        parts = self.structures
        try:
            if not self.failure.done() and self.damage is None:
                await self._finish_work()
        finally:
            try:
                await self._end_parts()
            finally:
                if self.failure.done():  # What is in the way of closing now is its consequence.
                    with suppress(StoreFailed):
                        parts.close()
                else:
                    parts.close()
                self._disk.tell_failure = lambda error: None

    async def _finish_work(self) -> None:
        """Make everything durable and dispatched, and write down that all is complete."""
        parts, dispatcher, marks = self.structures, self._dispatcher, self.marks
        await self._commit.drain()
        await self._durability.drain()
        while marks.dispatched.value < marks.flushed.value and not dispatcher.is_blocked:
            self._dispatch_step()
            await asyncio.sleep(0)
        await self._end_loops()
        if self.failure.done():
            return
        await self._view_flush.finish()
        if not self.failure.done() and marks.dispatched.value >= marks.appended.value:
            try:
                parts.write_manifest(parts.closed_state())
            except DiskFull as full:  # The next start finds out by itself what is complete.
                logger.error("disk.full", extra={"path": full.path})
                return
            parts.directory.mark_stopped()

    async def _end_loops(self) -> None:
        await self._runner.close()
        await self._allocation.close()

    async def _end_parts(self) -> None:
        """End loops and threads; once more is fine."""
        await self._end_loops()
        await self._view_flush.close()
        self._commit.close()
        self._durability.close()
        await self.expiry.close()
        for pool in (self._pool, self.reading):
            pool.shutdown()

    # -- writing -------------------------------------------------------------------------------
    async def put(self, runs: Sequence[Run], *, wait: bool = True) -> list[PutResult]:
        """Store runs next to each other: all of their messages, or none.

        wait     answer when what the flush mode promises holds; else when they lie in the log
        Errors   RecordTooLarge, Draining, BrokerReadOnly, StoreBusy, DiskFull: nothing was stored;
                 FsyncFailed: the process ends, whether they survive is unknown
        Source   CommitLog.asyncPutMessage, asyncPutMessages
        """
        sizes = self._writer.sizes(runs)
        size_sum = sum(map(sum, sizes))
        log = self.structures.log
        if size_sum > log.record_size_max:
            raise RecordTooLarge(size_bytes=size_sum, limit_bytes=log.record_size_max)
        self._check_writable()
        while not log.has_room(size_sum):
            if log.spare_base is None:
                raise TransientPoolEmpty(count=self.settings.transient_pool_file_count)
            await self._allocation.room()
            self._check_writable()
        results = self._writer.append(runs, sizes)
        end = results[-1].end
        if log.pool is None:
            self.marks.commit(end, results[-1].store_timestamp_ms)
        if log.spare_base is not None:
            self._allocation.request()
        if wait and self.settings.flush == FLUSH_SYNC:
            if not await self._durability.reached(end):
                late = PutStatus.FLUSH_DISK_TIMEOUT
                return [result._replace(status=late) for result in results]
        return results

    def _check_writable(self) -> None:
        if self._state != "running":
            if self.failure.done():
                raise StoreFailed(why="it has failed before")
            raise Draining()
        if self._dispatcher.failure is not None:
            raise DiskFull(path=self._dispatcher.failure.path)
        if self._refusal is not None:
            raise self._refusal
        if self._reserve.released is not None:
            raise self._reserve.released

    def refuse(self, refusal: BrokerError | None) -> None:
        """Answer puts with this error from now on; None: take them again, unless damaged."""
        refusal = refusal or self.damage
        if (refusal is None) != (self._refusal is None):
            event = "store.resumed" if refusal is None else "store.refused"
            logger.warning(event, extra={"reason": str(refusal or "")})
        self._refusal = refusal

    @property
    def recovered_share(self) -> float:
        """How much of recovery is done, 0 to 1."""
        parts: Structures | None = getattr(self, "structures", None)  # none before it is locked
        return 0.0 if parts is None else parts.recovery.numbers.progress

    @property
    def is_writable(self) -> bool:
        """Whether a put of the usual size would be taken now."""
        is_full = self._dispatcher.failure or self._allocation.full or self._reserve.released
        return self._state == "running" and not self._refusal and not is_full

    # -- for operators -------------------------------------------------------------------------
    async def remove_topic(self, topic: str) -> None:
        """Remove the queues of a topic; its messages stay in the log until retention takes them.

        A topic made again under this name goes on behind the old queue offsets. Nobody may send to
        the topic any more.
        Errors   DiskFull, StoreDamaged
        """
        if self.damage is not None:
            raise self.damage
        end = self.appended
        while self.dispatched < end and not self.failure.done():  # noqa: ASYNC110 - rare
            await asyncio.sleep(DISPATCH_PAUSE_MS / 1000)
        next_offsets = self._writer.next_offsets
        ends = {queue_id: end for (name, queue_id), end in next_offsets.items() if name == topic}
        await self._removed.add(topic, ends)
        self.structures.queues.removed = self._removed.next_offsets()
        await self.expiry.drop_queues(topic)

    def retention_status(self) -> str:
        """Return what retention is doing."""
        return self.tell_retention()

    async def flush(self) -> int:
        """Make everything that was appended durable; returns up to where it is, in bytes."""
        await self._commit.drain()
        await self._durability.drain()
        return self.flushed
