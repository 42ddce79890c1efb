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
from broker.format.record import decode_record
from broker.model.clock import Clock
from broker.model.errors import (
    BrokerReadOnly,
    Draining,
    RecordTooLarge,
    StoreFailed,
)
from broker.model.message import PutAddress, PutRow, StoredMessage
from broker.model.offsets import QueueKey
from broker.model.results import Bound, PullResult, PutResult, PutStatus, QueryResult
from broker.model.stats import Counter, Gauge, Histogram
from broker.store import reader
from broker.store.allocation import Allocation
from broker.store.arrivals import Arrivals
from broker.store.consumer_offsets import ConsumerOffsets
from broker.store.dispatcher import Dispatcher, DispatchPoint
from broker.store.durability import Durability
from broker.store.metadata import GroupTable, TopicTable
from broker.store.query import Query
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


class MessageStore:
    """One store directory, opened for writing."""

    __slots__ = (
        "_allocation", "_appended", "_arrivals", "_disk", "_dispatcher", "_durability", "_point",
        "_pool", "_query", "_tasks", "_view_flush", "_writer", "clock", "failure", "groups",
        "offsets", "settings", "state", "stats", "structures", "topics",
    )  # fmt: skip

    def __init__(self, settings: StoreSettings, clock: Clock, disk: Disk) -> None:
        self.settings = settings
        self.clock = clock
        self._disk = disk
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tables")
        self._tasks: list[asyncio.Task[None]] = []
        self._arrivals = Arrivals()
        self._point = DispatchPoint()
        self.topics = TopicTable(disk, settings.directory, clock, self._pool)
        self.groups = GroupTable(disk, settings.directory, clock, self._pool)
        self.offsets = ConsumerOffsets(disk, settings.directory, clock, self._pool, self.groups)
        self.state = "starting"
        """starting, recovering, running, draining or failed."""
        self.stats: list[Counter | Gauge | Histogram] = []
        """What metrics show of the store; filled by `open`."""

    # -- opening and closing -------------------------------------------------------------------
    async def open(self) -> None:
        """Lock, load and recover the store, then start flushing and dispatching.

        Errors   StorageError and its kinds; nothing was changed by a refused start
        """
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.structures = parts = Structures(self.settings, self._disk)
        try:
            self.settings = parts.settings
            self.state = "recovering"
            for share in parts.recover():
                logger.debug("recovery.progress", extra={"share": share})
                await asyncio.sleep(0)
            self._load_tables()
            self._start(parts)
            parts.directory.mark_running(self._disk.own_process_id())
        except BaseException:
            parts.close()
            raise
        self.state = "running"
        self._run(self._dispatch_loop(), self._flush_loop())
        self._allocation.request()
        plan = parts.recovery.plan
        logger.info("store.opened", extra={"plan": plan.label, "end": parts.log.appended})

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
        self._appended = Watermark(log.appended)
        self._durability = Durability(log, parts.mark, settings, clock, self._fail)
        self._durability.checkpoint_bytes = parts.mark.checkpoint
        self._durability.last_time = parts.recovery.last_time
        self._durability.flushed_time = parts.recovery.last_time
        views = (queues, parts.index)
        self._dispatcher = Dispatcher(log, views, parts.levels, self._notify)
        self._dispatcher.dispatched = log.appended
        self._point = DispatchPoint(parts.recovery.last_record, parts.recovery.last_time)
        self._view_flush = ViewFlush(parts, self._durability, lambda: self._point, self._fail)
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
        self._writer.next_offsets.update((k, q.max_offset) for k, q in queues.queues.items())
        self.stats = [
            *store_gauges(self),
            *queues.stats,
            *parts.index.stats,
            *self._query.stats,
            self._writer.lock.wait_seconds,
            self._writer.lock.hold_seconds,
            self._writer.append_seconds,
            self._durability.flush_seconds,
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
        self.state = "failed"
        if not self.failure.done():
            logger.critical("store.failed", extra={"reason": str(error)})
            self.failure.set_exception(error)
            self.failure.exception()  # Whoever waits for it still gets it; nobody need.
        self._durability.flushed.fail(error)
        self._arrivals.release()

    def drain(self) -> None:
        """Refuse further puts and send everyone away who waits for messages."""
        if self.state == "running":
            self.state = "draining"
        self._arrivals.release()

    async def close(self) -> None:
        """Flush and dispatch everything, then close; the abort mark goes when all is complete."""
        self.drain()
        parts = self.structures
        if not self.failure.done():
            await self._durability.drain()
            while self._dispatcher.dispatched < parts.log.flushed and not self._dispatcher.failure:
                self._dispatch_step()
                await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._allocation.close()
        if not self.failure.done():
            await self._view_flush.finish()
        self._durability.close()
        self._pool.shutdown()
        is_complete = self._dispatcher.dispatched >= parts.log.appended
        if not self.failure.done() and is_complete:
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
            await self._allocation.room()
            self._check_writable()
        result = self._writer.append(address, rows, sizes)
        self._appended.advance(result.end)
        if log.spare_base is not None:
            self._allocation.request()
        if wait and self.settings.flush == FLUSH_SYNC:
            if not await self._durability.reached(result.end):
                return result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT)
        return result

    def _check_writable(self) -> None:
        if self.state != "running":
            if self.failure.done():
                raise StoreFailed(why="it has failed before")
            raise Draining()
        if self._dispatcher.failure is not None:
            raise BrokerReadOnly(why=str(self._dispatcher.failure))

    # -- flushing and dispatching --------------------------------------------------------------
    @property
    def _visible(self) -> Watermark:
        return self._durability.flushed if self.settings.flush == FLUSH_SYNC else self._appended

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
        return self._dispatcher.step(self._visible.value, self.clock.monotonic_ms())

    def _notify(self, keys: set[QueueKey], point: DispatchPoint) -> None:
        self._point = point
        queues = self.structures.queues.queues
        for key in keys:
            queue = queues.get(key)
            if queue is not None:
                self._arrivals.advance(key, queue.max_offset)

    async def _flush_loop(self) -> None:
        steps: list[Callable[[int], int]] = [self._durability.step, self._view_flush.step]
        due = [0] * len(steps)
        while not self.failure.done():
            now_ms = self.clock.monotonic_ms()
            for number, step in enumerate(steps):
                if due[number] <= now_ms:
                    due[number] = step(now_ms)
            await asyncio.sleep(max(min(due) - now_ms, 1) / 1000)

    # -- numbers -------------------------------------------------------------------------------
    @property
    def appended(self) -> int:
        """Physical offset behind the last record."""
        return self.structures.log.appended

    @property
    def flushed(self) -> int:
        """Physical offset below which everything is durable."""
        return self.structures.log.flushed

    @property
    def dispatched(self) -> int:
        """Physical offset up to which every view has every record."""
        return self._dispatcher.dispatched

    @property
    def behind_count(self) -> int:
        """Records that wait for dispatch in memory."""
        return self._dispatcher.remembered_count

    @property
    def min_offset(self) -> int:
        """Physical offset of the oldest file."""
        return self.structures.log.min_offset

    # -- reading -------------------------------------------------------------------------------
    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        accept: Callable[[int], bool] | None = None,
    ) -> PullResult:
        """Return records of a queue from an offset on (store/reader.py)."""
        log, queue = self.structures.log, self.structures.queues.find(topic, queue_id)
        return reader.pull(
            log, queue, queue_offset, max_messages=max_messages, max_bytes=max_bytes, accept=accept
        )

    def pull_joined(
        self, topic: str, queue_id: int, queue_offset: int, *, max_messages: int, max_bytes: int
    ) -> PullResult:
        """Return the same with all records joined into one."""
        log, queue = self.structures.log, self.structures.queues.find(topic, queue_id)
        return reader.pull_joined(
            log, queue, queue_offset, max_messages=max_messages, max_bytes=max_bytes
        )

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return (min, max) queue offset, (0, 0) for a queue nothing was stored in."""
        queue = self.structures.queues.find(topic, queue_id)
        return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def arrivals(self, topic: str, queue_id: int) -> Watermark:
        """Return the mark that rises with the queue's max offset, for those who wait."""
        return self._arrivals.mark((topic, queue_id), self.queue_range(topic, queue_id)[1])

    def query(
        self,
        topic: str,
        key: str,
        *,
        count_max: int,
        begin_ms: int,
        end_ms: int,
        cursor: str = "",
        index_type: str = "",
    ) -> QueryResult:
        """Return one page of messages by key, newest first (store/query.py)."""
        begun = perf_counter()
        result = self._query.by_key(
            topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms, cursor=cursor,
            index_type=index_type,
        )  # fmt: skip
        self._query.seconds.observe(perf_counter() - begun)
        return result

    def message_by_unique_key(self, topic: str, key: str) -> StoredMessage | None:
        """Return the newest message whose unique key this is."""
        cursor, is_complete = "", False
        while not is_complete:
            page = self.query(topic, key, count_max=16, begin_ms=0, end_ms=2**62, cursor=cursor)
            found = next((m for m in page.messages if m.unique_key == key), None)
            if found is not None:
                return found
            cursor, is_complete = page.next_cursor, page.complete
        return None

    def message_at(self, physical_offset: int) -> StoredMessage | None:
        """Return the visible record that starts at an offset, None when none starts there."""
        log = self.structures.log
        if not log.min_offset <= physical_offset < self._dispatcher.dispatched:
            return None
        size = log.record_size_at(physical_offset)
        if size is None:
            return None
        return decode_record(reader.read_record(log, physical_offset, size))

    def queue_offset_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Return where a queue stands at a time (store/reader.py); 0 for an empty queue."""
        queue = self.structures.queues.find(topic, queue_id)
        if queue is None:
            return 0
        return reader.queue_offset_by_time(self.structures.log, queue, time_ms, bound)

    def store_timestamp_at(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return the store time of a message in ms, None when there is none."""
        queue = self.structures.queues.find(topic, queue_id)
        if queue is None:
            return None
        return reader.store_time_at(self.structures.log, queue, queue_offset)
