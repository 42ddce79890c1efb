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
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final

from broker.files.disk import Disk
from broker.format.names import OWN_DIRECTORY
from broker.model.clock import Clock
from broker.model.errors import (
    BrokerError,
    BrokerReadOnly,
    Draining,
    RecordTooLarge,
    StoreDamaged,
    StoreFailed,
    TransientPoolEmpty,
)
from broker.model.message import PutAddress, PutRow
from broker.model.offsets import QueueKey
from broker.model.results import PutResult, PutStatus
from broker.model.stats import Stat
from broker.store.allocation import Allocation
from broker.store.commit import Commit
from broker.store.consumer_offsets import ConsumerOffsets
from broker.store.dispatcher import Dispatcher, DispatchPoint
from broker.store.durability import Durability
from broker.store.expiry import Expiry
from broker.store.metadata import GroupTable, TopicTable
from broker.store.reading.query import Query
from broker.store.reading.reads import Reads
from broker.store.removed_queues import RemovedQueues
from broker.store.settings import FLUSH_SYNC, StoreSettings
from broker.store.store_gauges import store_gauges
from broker.store.structures import Structures
from broker.store.view_flush import ViewFlush
from broker.store.watermark import Watermark
from broker.store.writer import Writer

DISPATCH_PAUSE_MS: Final = 5
"""Between two dispatch steps: views grow in batches, and consumers wait no longer than this."""
BULK_BYTES: Final = 64 * 1024
"""With this much to dispatch a step is worth taking at once, more or less."""
BULK_PAUSE_MS: Final = 1
DISPATCH_TURN_SECONDS: Final = 0.005
"""Dispatch gives way to other work after this long, even when more is waiting."""
logger = logging.getLogger(__name__)


class MessageStore(Reads):
    """One store directory, opened for writing."""

    __slots__ = (
        "_allocation", "_commit", "_committed", "_durability", "_extension_failures", "_point",
        "_pool", "_refusal", "_removed", "_state", "_tasks", "_view_flush", "_writer", "clock",
        "expiry", "failure", "groups", "offsets", "settings", "state_since_ms", "stats",
        "tell_retention", "topics",
    )  # fmt: skip

    def __init__(self, settings: StoreSettings, clock: Clock, disk: Disk) -> None:
        super().__init__(disk, settings.directory)
        self.settings = settings
        self.clock = clock
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tables")
        self._tasks: list[asyncio.Task[None]] = []
        self._point = DispatchPoint()
        self.topics = TopicTable(disk, settings.directory, clock, self._pool)
        self.groups = GroupTable(disk, settings.directory, clock, self._pool)
        self.offsets = ConsumerOffsets(disk, settings.directory, clock, self._pool, self.groups)
        self._extension_failures = 0
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
        """starting, recovering, running, read_only, damaged, draining or failed."""
        if self._state == "running" and self.damage is not None:
            return "damaged"
        if self._state == "running" and not self.is_writable:
            return "read_only"
        return self._state

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
                parts.directory.mark_running(self._disk.own_process_id())
            numbers.end()
        except BaseException:
            parts.close()
            raise
        self.enter("running")
        plan = parts.recovery.plan
        logger.info("store.opened", extra={"plan": plan.label, "end": parts.log.appended})
        if self.damage is not None:
            self.refuse(self.damage)
            return
        self._run(self._dispatch_loop(), self._flush_loop())
        self._allocation.request()

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
        self._committed = Watermark(log.committed)
        self._durability = Durability(log, parts.mark, settings, clock, self._fail)
        self._durability.checkpoint_bytes = parts.mark.checkpoint
        self._durability.last_time = parts.recovery.last_time
        self._durability.flushed_time = parts.recovery.last_time
        self._durability.committed_time = parts.recovery.last_time
        self._commit = Commit(log, self._durability, settings, self._committed.advance, self._fail)
        views = (queues, parts.index)
        self._dispatcher = Dispatcher(log, views, parts.levels, self._notify)
        self._dispatcher.dispatched = log.appended
        self._point = DispatchPoint(parts.recovery.last_record, parts.recovery.last_time)
        self._view_flush = ViewFlush(
            parts, self._disk, self._durability, lambda: self._point, self._fail
        )
        self.expiry = Expiry(parts, self._disk, lambda: self._dispatcher.dispatched)
        self._allocation = Allocation(log, parts.own_directory, clock, self._fail)
        self._query = Query(log, parts.index)
        self._writer = Writer(
            log,
            self._dispatcher,
            self._durability,
            clock,
            levels=parts.levels,
            property_crc=settings.property_crc,
            busy_timeout_ms=settings.busy_timeout_ms,
        )
        self._writer.next_offsets.update(self._removed.next_offsets())
        self._writer.next_offsets.update((k, q.max_offset) for k, q in queues.queues.items())
        self.stats = [
            *store_gauges(self),
            *parts.recovery.numbers.stats,
            *queues.stats,
            *parts.index.stats,
            *self._query.stats,
            self._writer.lock.wait_seconds,
            self._writer.lock.hold_seconds,
            self._writer.append_seconds,
            self._durability.flush_seconds,
            *self._view_flush.flush_seconds.values(),
            self._durability.group_messages,
            self._dispatcher.reput_seconds,
        ]

    def _run(self, *loops: Coroutine[None, None, None]) -> None:
        for loop in loops:
            task = asyncio.create_task(loop)
            task.add_done_callback(self._finished)
            self._tasks.append(task)

    def _finished(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            logger.error("store.task_failed", exc_info=task.exception())
            self._fail(StoreFailed(why=f"a part of it ended: {task.exception()}"))

    def _fail(self, error: StoreFailed) -> None:
        """Stop everything: nothing is acknowledged any more, the process has to end."""
        self.enter("failed")
        if not self.failure.done():
            logger.critical("store.failed", extra={"reason": str(error)})
            self.failure.set_exception(error)
            self.failure.exception()  # Whoever waits for it still gets it; nobody need.
        self._durability.flushed.fail(error)
        self._arrivals.release()

    def drain(self) -> None:
        """Refuse further puts and send everyone away who waits for messages."""
        if self._state == "running":
            self.enter("draining")
        self._arrivals.release()

    async def close(self) -> None:
        """Flush and dispatch everything, then close; the abort mark goes when all is complete."""
        self.drain()
        parts = self.structures
        is_changing = not self.failure.done() and self.damage is None
        if is_changing:
            await self._commit.drain()
            await self._durability.drain()
            while self._dispatcher.dispatched < parts.log.flushed and not self._dispatcher.failure:
                self._dispatch_step()
                await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._allocation.close()
        if is_changing and not self.failure.done():
            await self._view_flush.finish()
        self._commit.close()
        self._durability.close()
        for pool in (self._pool, self._cold_pool, self.expiry):
            pool.shutdown()
        is_complete = self._dispatcher.dispatched >= parts.log.appended
        if is_changing and not self.failure.done() and is_complete:
            parts.write_manifest(parts.closed_state())
            parts.directory.mark_stopped()
        parts.close()

    # -- writing -------------------------------------------------------------------------------
    async def put(self, address: PutAddress, row: PutRow, *, wait: bool = True) -> PutResult:
        """Store one message; see `put_batch`."""
        return await self.put_batch(address, [row], wait=wait)

    async def put_batch(
        self, address: PutAddress, rows: list[PutRow], *, wait: bool = True
    ) -> PutResult:
        """Store messages of one queue, next to each other.

        wait     answer when what the flush mode promises holds; else when they lie in the log
        Errors   RecordTooLarge, Draining, BrokerReadOnly, StoreBusy, DiskFull: nothing was stored;
                 FsyncFailed: the process ends, whether they survive is unknown
        Source   CommitLog.asyncPutMessage, asyncPutMessages
        """
        sizes = self._writer.sizes(address, rows)
        size_sum = sum(sizes)
        log = self.structures.log
        if size_sum > log.record_size_max:
            raise RecordTooLarge(size_bytes=size_sum, limit_bytes=log.record_size_max)
        self._check_writable()
        while not log.has_room(size_sum):
            if log.spare_base is None:
                raise TransientPoolEmpty(count=self.settings.transient_pool_file_count)
            await self._allocation.room()
            self._check_writable()
        result = self._writer.append(address, rows, sizes)
        if log.pool is None:
            self._committed.advance(result.end)
        if log.spare_base is not None:
            self._allocation.request()
        if wait and self.settings.flush == FLUSH_SYNC:
            if not await self._durability.reached(result.end):
                return result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT)
        return result

    def _check_writable(self) -> None:
        if self._state != "running":
            if self.failure.done():
                raise StoreFailed(why="it has failed before")
            raise Draining()
        if self._dispatcher.failure is not None:
            raise BrokerReadOnly(why=str(self._dispatcher.failure))
        if self._refusal is not None:
            raise self._refusal

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
        is_blocked = self._refusal or self._dispatcher.failure or self._allocation.full
        return self._state == "running" and is_blocked is None

    # -- flushing and dispatching --------------------------------------------------------------
    @property
    def _visible(self) -> Watermark:
        return self._durability.flushed if self.settings.flush == FLUSH_SYNC else self._committed

    async def _dispatch_loop(self) -> None:
        while True:
            await self._visible.reached(self._dispatcher.dispatched + 1)
            begun = perf_counter()
            behind_bytes = self._visible.value - self._dispatcher.dispatched
            again_at_ms = self._dispatch_step()
            now_ms = self.clock.monotonic_ms()
            while 0 < again_at_ms <= now_ms and perf_counter() - begun < DISPATCH_TURN_SECONDS:
                again_at_ms = self._dispatch_step()
            pause_ms = DISPATCH_PAUSE_MS if behind_bytes < BULK_BYTES else BULK_PAUSE_MS
            if again_at_ms:
                pause_ms = max(again_at_ms - now_ms, 0)
            await asyncio.sleep(pause_ms / 1000)

    def _dispatch_step(self) -> int:
        again_at_ms = self._dispatcher.step(self._visible.value, self.clock.monotonic_ms())
        failures = self.structures.queues.extension_failures
        if failures > self._extension_failures:
            if not self._extension_failures:
                logger.warning("extension.failed", extra={"effect": "plain tags codes are stored"})
            self._extension_failures = failures
        return again_at_ms

    def _notify(self, keys: set[QueueKey], point: DispatchPoint) -> None:
        self._point = point
        queues = self.structures.queues.queues
        for key in keys:
            queue = queues.get(key)
            if queue is not None:
                self._arrivals.advance(key, queue.max_offset)

    async def _flush_loop(self) -> None:
        steps: list[Callable[[int], int]] = [self._durability.step, self._view_flush.step]
        if self.structures.log.pool is not None:
            steps.insert(0, self._commit.step)
        due = [0] * len(steps)
        while not self.failure.done():
            now_ms = self.clock.monotonic_ms()
            for number, step in enumerate(steps):
                if due[number] <= now_ms:
                    due[number] = step(now_ms)
            await asyncio.sleep(max(min(due) - now_ms, 1) / 1000)

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
