"""Flushes views periodically, and saves the offset below which they are durable.

Every second (a small pass), queues with at least two dirty pages are synced. Every ten seconds (a
thorough pass), all views are synced. Once the log is durable up to the views' last record, the
table of queue ends, the flushed mark and the checkpoint are written. After a failure of the store
none of these files is written.

The first thorough pass after a crash zeroes leftover bytes after queue ends, before a checkpoint
covers them.
Source: FlushConsumeQueueService, StoreCheckpoint.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

from pocketmq.files.mapped_file import MappedFile, let_go
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.log.consume_queue_table import FILES_APART_MAX
from pocketmq.log.queue_end import QueueEnd, is_clean_behind
from pocketmq.model.errors import BrokerError, StoreFailed
from pocketmq.model.message import QueueKey
from pocketmq.model.stats import Histogram
from pocketmq.model.step import Next, Now
from pocketmq.store.job import Job
from pocketmq.store.marks import Marks
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.settings import PAGE_SIZE

NEVER: Final = -1
AT_ONCE: Final = 0
TURN_SECONDS: Final = 0.003
BEHIND_MAX: Final = 128 * 1024 * 1024
"""Bytes of log after the checkpoint at which a thorough pass begins early. Recovery after a crash
dispatches these bytes again, at 5 s per GiB."""

Item = TypeVar("Item")
QUEUES: Final = "consumequeue"
VIEWS: Final = "views"


class Unsaved(NamedTuple):
    """Extent of the views, which is saved once the log is durable up to `last_record`.

    last_record   physical offset of the views' last record
    views_time    store time of that record, ms
    log_time      store time of the last flushed record, ms
    rows          the table of queue ends
    """

    last_record: int
    views_time: int
    log_time: int
    rows: dict[QueueKey, QueueEnd]


class ViewFlush:
    """Syncs consume queues and index; owns the checkpoint."""

    __slots__ = (
        "_changed", "_checkpoint", "_disk", "_ends", "_fail", "_index", "_job", "_log", "_mark",
        "_marks", "_pool", "_queues", "_request_flush", "_settings", "_thorough_at_ms", "_unsaved",
        "flush_seconds",
    )  # fmt: skip

    def __init__(
        self,
        structures: StoreComponents,
        marks: Marks,
        request_flush: Callable[[], None],
        fail: Callable[[StoreFailed], None],
    ) -> None:
        self._disk = structures.disk
        self._queues = structures.queues
        self._index = structures.index
        self._checkpoint = structures.checkpoint
        self._mark = structures.mark
        self._ends = structures.ends
        self._log = structures.log
        self._settings = structures.settings
        self._marks = marks
        self._request_flush = request_flush
        self._fail = fail
        self._changed: dict[QueueKey, None] = {}
        """Queues that small passes flushed since the last thorough pass."""
        self._unsaved: Unsaved | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flush-views")
        self._job: Job[None] | None = None
        self._thorough_at_ms = NEVER
        self.flush_seconds = {
            file: Histogram(
                "pocketmq_flush_seconds", "Duration of one flush.", labels={"file": file}
            )
            for file in (QUEUES, VIEWS)
        }

    def step(self, now: Now) -> Next:
        """Begins a pass in a thread, unless one is running."""
        now_ms, settings = now.monotonic_ms, self._settings
        if self._thorough_at_ms == NEVER:
            self._thorough_at_ms = now_ms + settings.view_flush_thorough_interval_ms
        if self._job is None:
            if self._unsaved is not None:
                self._begin(self._save_when_flushed, self._unsaved)
            elif now_ms >= self._thorough_at_ms or self._behind_bytes() >= BEHIND_MAX:
                self._thorough_at_ms = now_ms + settings.view_flush_thorough_interval_ms
                self._begin_thorough()
            else:
                self._begin_queues()
        again = Next(now_ms + settings.view_flush_interval_ms)
        if self._unsaved is None:
            return again
        return again._replace(mark=self._marks.flushed, value=self._unsaved.last_record + 1)

    def _behind_bytes(self) -> int:
        return self._marks.last_dispatched - self._checkpoint.values.logics_physical_offset

    def _begin(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:

        async def run() -> None:
            try:
                await work(*arguments)
            except Exception as error:  # noqa: BLE001 - any error fails the store
                if self._marks.failure is None:
                    self._fail(StoreFailed.by(error))
            finally:
                self._job = None

        assert self._job is None
        self._job = Job(run())

    async def _in_thread(self, work: Callable[[], None], held: Sequence[MappedFile] = ()) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            let_go(held)
        if self._marks.failure is not None:
            raise self._marks.failure

    # -- small passes --------------------------------------------------------------------------
    def _begin_queues(self) -> None:
        least = self._settings.view_flush_least_pages * PAGE_SIZE
        files: list[MappedFile] = []
        grown, self._queues.grown = self._queues.grown, set()
        for key in grown:  # Of ten thousand dirty queues, few have grown since the last pass.
            queue = self._queues.queues.get(key)
            if queue is not None and queue.units.end - queue.flushed >= least:
                files += self._taken(key, queue)
                self._changed[key] = None
        if files:
            self._begin(self._flush_queues, *self._syncing(files))

    async def _flush_queues(self, sync: Callable[[], None], held: list[MappedFile]) -> None:
        begun = perf_counter()
        await self._in_thread(sync, held)
        self.flush_seconds[QUEUES].observe(perf_counter() - begun)

    def _taken(self, key: QueueKey, queue: ConsumeQueue) -> list[MappedFile]:
        files = queue.dirty_files()
        queue.count_as_flushed()
        self._queues.dirty.discard(key)
        return files

    def _syncing(self, files: list[MappedFile]) -> tuple[Callable[[], None], list[MappedFile]]:
        if len(files) > FILES_APART_MAX or self._queues.has_unsynced_cuts:
            self._queues.has_unsynced_cuts = False
            return lambda: self._disk.sync_all(self._settings.directory), []
        held = [file.hold() for file in files if file.is_open]
        calls = [file.sync if file.is_open else file.sync_apart for file in files]

        def sync_each() -> None:
            for call in calls:
                call()

        return sync_each, held

    # -- thorough passes -----------------------------------------------------------------------
    def _begin_thorough(self) -> None:
        self._unsaved = None
        self._request_flush()
        marks = self._marks
        ends = marks.last_dispatched, marks.dispatched.time_ms, marks.flushed.time_ms
        self._begin(self._thorough, *ends)

    async def _thorough(self, last_record: int, views_time: int, log_time: int) -> None:
        """Flushes all dirty files, and saves the extent of the views.

        Rows may include units added during the pass: recovery ignores ends beyond `last_record`.
        """
        files: list[MappedFile] = []
        rows, queues = self._ends.rows, self._queues

        def take(key: QueueKey) -> None:
            queue = queues.queues.get(key)
            if queue is not None:
                files.extend(self._taken(key, queue))
                rows[key] = queue.end()

        changed, self._changed = self._changed, {}
        keys = [*queues.dirty, *(key for key in changed if key not in queues.dirty)]
        await _in_turns(keys, take)
        for key in rows.keys() - queues.queues.keys():
            del rows[key]
        unsaved = Unsaved(last_record, views_time, log_time, dict(rows))
        unclean = await self._flush_all(files)
        if unclean:
            await _in_turns(unclean, self._remove_leftovers)
            self._thorough_at_ms = AT_ONCE
        else:
            self._unsaved = unsaved
            await self._save_when_flushed(unsaved)

    async def _flush_all(self, files: list[MappedFile]) -> list[ConsumeQueue]:
        """Syncs all views; returns queues with leftover bytes of a crash after their end."""
        begun = perf_counter()
        doubtful = [(queue, queue.files.files[-1]) for queue in self._queues.doubtful]
        if doubtful:  # New units may have replaced leftover bytes, which counts as a cut.
            self._queues.has_unsynced_cuts = True
        sync_files, held = self._syncing(files)
        index_files = [*self._index.files]
        held += [file.hold() for file in index_files]
        unclean: list[ConsumeQueue] = []

        def sync_all() -> None:
            unclean.extend(q for q, last in doubtful if not is_clean_behind(self._disk, last))
            self._mark.sync()
            sync_files()
            self._index.flush(index_files)

        await self._in_thread(sync_all, held)
        self.flush_seconds[VIEWS].observe(perf_counter() - begun)
        left = set(unclean)
        for queue, _ in doubtful:
            queue.is_doubtful = queue.is_doubtful and queue in left
        return unclean

    def _remove_leftovers(self, queue: ConsumeQueue) -> None:
        try:
            self._queues.settle([queue])
        except (BrokerError, FileNotFoundError):
            self._ends.remove()  # The next start must read all queues.
            raise

    async def _save_when_flushed(self, unsaved: Unsaved) -> None:
        """Writes table, mark and checkpoint, if the log is durable up to `unsaved`.

        With a checkpoint ahead of the log, recovery would trust units whose records a power cut
        lost. The mark is updated first, so that a power cut never leaves an invalid mark.
        """
        last_record, views_time, log_time, rows = unsaved
        old = self._checkpoint.values
        values = old._replace(
            physic_msg_timestamp=max(old.physic_msg_timestamp, log_time),
            logics_msg_timestamp=max(old.logics_msg_timestamp, views_time),
            index_msg_timestamp=self._index.sealed_time or old.index_msg_timestamp,
            logics_physical_offset=max(old.logics_physical_offset, last_record),
        )
        if values != old and last_record >= self._marks.flushed.value:
            self._request_flush()
            return
        self._unsaved = None
        if values == old:
            return
        written = encode_checkpoint(values)
        self._mark.confirm(self._marks.confirmed, is_confirmed=self._marks.is_confirmed)
        self._mark.announce(written)

        def save() -> None:
            self._ends.save(written, rows)
            self._mark.sync()
            self._checkpoint.save(values)

        await self._in_thread(save)
        assert self._checkpoint.values == values
        self._mark.settle()

    async def save_oldest_base(self) -> None:
        """Writes the base of the log's oldest file to the mark; durable when it returns.

        It takes turns with the passes: a mark for another checkpoint has to stay meanwhile.
        Errors   StoreFailed, such as FsyncFailed
        """

        async def save() -> None:
            self._mark.oldest_base = self._log.oldest_base
            self._mark.write(self._mark.flushed_upto)
            await self._in_thread(self._mark.sync)

        await self._idle()
        self._begin(save)
        await self._idle()
        if self._marks.failure is not None:
            raise self._marks.failure

    async def finish(self) -> None:
        """Flushes all views and writes the last checkpoint; the log must be flushed."""
        await self._idle()
        self._begin_thorough()
        await self._idle()
        if self._thorough_at_ms == AT_ONCE:
            self._begin_thorough()
            await self._idle()

    async def close(self) -> None:
        """Waits for a running pass, and ends the thread."""
        await self._idle()
        self._pool.shutdown()

    async def _idle(self) -> None:
        # A job that was cancelled before it began is done, and has not reset `_job`.
        while self._job is not None and not self._job.is_done:
            await self._job.reached()


async def _in_turns(items: list[Item], work: Callable[[Item], None]) -> None:
    begun = perf_counter()
    while items:
        work(items.pop())
        if perf_counter() - begun >= TURN_SECONDS:
            await asyncio.sleep(0)
            begun = perf_counter()
