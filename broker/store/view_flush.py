"""Making views durable by and by, and writing down how far they are.

Every second queues with two dirty pages or more are synced; every ten seconds all views, then the
mark, then the checkpoint: each describes only what is durable already. After a failure, of this or
of another part of the store, neither is written again.
Source: FlushConsumeQueueService, StoreCheckpoint.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final

from broker.files.disk import Disk
from broker.files.mapped_file import MappedFile, let_go
from broker.format.checkpoint_layout import encode_checkpoint
from broker.log.consume_queue import ConsumeQueue
from broker.log.consume_queue_table import FILES_APART_MAX
from broker.model.errors import BrokerError, StoreFailed
from broker.model.offsets import QueueKey
from broker.model.stats import Histogram
from broker.store.dispatcher import DispatchPoint
from broker.store.durability import PAGE_SIZE, Durability
from broker.store.structures import Structures

NEVER: Final = -1
BEHIND_MAX: Final = 256 * 1024 * 1024
"""Bytes of log behind the checkpoint with which it is not waited for the time: a start after a
crash scans and dispatches them again, some 3 s a GiB."""

QUEUES: Final = "consumequeue"
VIEWS: Final = "views"


class ViewFlush:
    """Syncs consume queues and index; owns the checkpoint."""

    __slots__ = (
        "_checkpoint", "_disk", "_durability", "_durable", "_earlier", "_fail", "_index", "_job",
        "_log", "_mark", "_point", "_pool", "_queues", "_settings", "_thorough_at_ms",
        "flush_seconds",
    )  # fmt: skip

    def __init__(
        self,
        structures: Structures,
        disk: Disk,
        durability: Durability,
        point: Callable[[], DispatchPoint],
        fail: Callable[[StoreFailed], None],
    ) -> None:
        self._disk = disk
        self._log = structures.log
        self._queues = structures.queues
        self._index = structures.index
        self._checkpoint = structures.checkpoint
        self._mark = structures.mark
        self._settings = structures.settings
        self._durability = durability
        self._fail = fail
        self._point = point
        self._durable = self._earlier = DispatchPoint()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flush-views")
        self._job: asyncio.Future[None] | None = None
        self._thorough_at_ms = NEVER
        self.flush_seconds = {
            file: Histogram("pocketmq_flush_seconds", "Time one flush took.", labels={"file": file})
            for file in (QUEUES, VIEWS)
        }
        """By what was flushed: queues alone, or all views with mark and checkpoint."""

    def step(self, now_ms: int) -> int:
        """Start a pass off the event loop; returns when to be called again."""
        if self._thorough_at_ms == NEVER:
            self._thorough_at_ms = now_ms + self._settings.view_flush_thorough_interval_ms
        self._look_at_point()
        if self._job is None:
            if now_ms >= self._thorough_at_ms or self._behind_bytes() >= BEHIND_MAX:
                self._thorough_at_ms = now_ms + self._settings.view_flush_thorough_interval_ms
                self._start_thorough()
            else:
                self._start_queues()
        return now_ms + self._settings.view_flush_interval_ms

    def _behind_bytes(self) -> int:
        """Return how much was dispatched since the checkpoint, and is durable."""
        return self._durable.physical_offset - self._checkpoint.values.logics_physical_offset

    def _look_at_point(self) -> None:
        """Know the last dispatched record that is durable: in async mode some are not yet.

        A checkpoint ahead of the log would make units believed whose records a power cut took.
        """
        newest, flushed = self._point(), self._log.flushed
        for point in (newest, self._earlier):
            if self._durable < point and point.physical_offset < flushed:
                self._durable = point
                break
        self._earlier = newest

    def _start_queues(self) -> None:
        least = self._settings.view_flush_least_pages * PAGE_SIZE
        files: list[MappedFile] = []
        for key in [*self._queues.dirty]:
            queue = self._queues.queues.get(key)
            if queue is not None and queue.files.max_offset - queue.flushed >= least:
                files += self._taken(key, queue)
        if files:
            self._run(*self._syncing(files), QUEUES)

    def _start_thorough(self) -> None:
        self._look_at_point()
        point = self._durable
        files: list[MappedFile] = []
        for key in [*self._queues.dirty]:
            queue = self._queues.queues.get(key)
            files += self._taken(key, queue) if queue is not None else ()
        physic_time = self._durability.flushed_time
        sync_files, held = self._syncing(files)
        index_files = [*self._index.files]
        held += [file.hold() for file in index_files]

        def sync_all() -> None:
            self._mark.sync()
            sync_files()
            self._index.flush(index_files)

        self._run(sync_all, held, VIEWS, lambda: self._save(point, physic_time))

    def _syncing(self, files: list[MappedFile]) -> tuple[Callable[[], None], list[MappedFile]]:
        """Return (what a thread calls to sync files, those of them that are held meanwhile)."""
        if len(files) > FILES_APART_MAX or self._queues.has_unsynced_cuts:
            self._queues.has_unsynced_cuts = False
            return lambda: self._disk.sync_all(self._settings.directory), []
        held = [file.hold() for file in files if file.is_open]
        calls = [file.sync if file.is_open else file.sync_apart for file in files]

        def sync_each() -> None:
            for call in calls:
                call()

        return sync_each, held

    def _taken(self, key: QueueKey, queue: ConsumeQueue) -> list[MappedFile]:
        """Return the dirty files of a queue, which counts as flushed from here on."""
        files = queue.dirty_files()
        queue.count_as_flushed()
        self._queues.dirty.discard(key)
        return files

    def _run(
        self,
        work: Callable[[], None],
        held: Sequence[MappedFile] = (),
        file: str = "",
        then: Callable[[], None] = lambda: None,
    ) -> None:
        begun = perf_counter()

        def finish(job: "asyncio.Future[None]") -> None:
            let_go(held)
            self._finish(job, file, begun, then)

        self._job = asyncio.get_running_loop().run_in_executor(self._pool, work)
        self._job.add_done_callback(finish)

    def _finish(
        self, job: "asyncio.Future[None]", file: str, begun: float, then: Callable[[], None]
    ) -> None:
        self._job = None
        error = job.exception()
        if self._durability.has_failed:
            return
        if file:
            self.flush_seconds[file].observe(perf_counter() - begun)
        if error is not None:
            self._fail(StoreFailed.by(error))
            return
        try:
            then()
        except BrokerError as failure:  # The mark is allocated: it is no full disk.
            self._fail(StoreFailed.by(failure))

    def _save(self, point: DispatchPoint, physic_time: int) -> None:
        """Write the checkpoint, off the event loop: views are durable up to a point.

        The mark is told first, so that at no moment a power cut leaves a mark that is void.
        """
        old = self._checkpoint.values
        values = old._replace(
            physic_msg_timestamp=max(old.physic_msg_timestamp, physic_time),
            logics_msg_timestamp=max(old.logics_msg_timestamp, point.time_ms),
            index_msg_timestamp=self._index.sealed_time or old.index_msg_timestamp,
            logics_physical_offset=max(old.logics_physical_offset, point.physical_offset),
        )
        if values == old:
            return
        written = encode_checkpoint(values)
        self._mark.announce(written)

        def save() -> None:
            self._mark.sync()
            self._checkpoint.save(values)

        def settle() -> None:
            self._durability.checkpoint_bytes = written
            self._mark.settle()

        self._run(save, then=settle)

    async def finish(self) -> None:
        """Make everything durable and write the last checkpoint; the log is flushed already.

        A failure is told to the store and ends it.
        """
        await self._idle()
        self._start_thorough()
        await self._idle()

    async def close(self) -> None:
        """Wait for a pass under way and end the thread."""
        await self._idle()
        self._pool.shutdown()

    async def _idle(self) -> None:
        while self._job is not None:
            await asyncio.wait([self._job])
