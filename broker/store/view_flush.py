"""Making views durable by and by, and writing down how far they are.

Every second queues with two dirty pages or more are synced; every ten seconds all views, then the
checkpoint, then the mark: each describes only what is durable already.
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
from broker.model.errors import StoreFailed
from broker.model.offsets import QueueKey
from broker.model.stats import Histogram
from broker.store.dispatcher import DispatchPoint
from broker.store.durability import PAGE_SIZE, Durability
from broker.store.structures import Structures

NEVER: Final = -1
FILES_APART_MAX: Final = 64
"""Dirty files beyond which the whole file system is synced by one call."""

QUEUES: Final = "consumequeue"
VIEWS: Final = "views"


class ViewFlush:
    """Syncs consume queues and index; owns the checkpoint."""

    __slots__ = (
        "_checkpoint", "_disk", "_durability", "_fail", "_index", "_job", "_mark", "_point",
        "_pool", "_queues", "_settings", "_thorough_at_ms", "flush_seconds",
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
        self._queues = structures.queues
        self._index = structures.index
        self._checkpoint = structures.checkpoint
        self._mark = structures.mark
        self._settings = structures.settings
        self._durability = durability
        self._fail = fail
        self._point = point
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
        if self._job is None:
            if now_ms >= self._thorough_at_ms:
                self._thorough_at_ms = now_ms + self._settings.view_flush_thorough_interval_ms
                self._start_thorough()
            else:
                self._start_queues()
        return now_ms + self._settings.view_flush_interval_ms

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
        point = self._point()
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
            self._save(point, physic_time)

        self._run(sync_all, held, VIEWS)

    def _syncing(self, files: list[MappedFile]) -> tuple[Callable[[], None], list[MappedFile]]:
        """Return (what a thread calls to sync files, those of them that are held meanwhile)."""
        if len(files) > FILES_APART_MAX:
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
        self, work: Callable[[], None], held: Sequence[MappedFile] = (), file: str = ""
    ) -> None:
        begun = perf_counter()
        self._job = asyncio.get_running_loop().run_in_executor(self._pool, work)
        self._job.add_done_callback(lambda job: self._finish(job, held, file, begun))

    def _finish(
        self, job: "asyncio.Future[None]", held: Sequence[MappedFile], file: str, begun: float
    ) -> None:
        self._job = None
        let_go(held)
        if file:
            self.flush_seconds[file].observe(perf_counter() - begun)
        error = job.exception()
        if error is not None:
            why = str(error)
            self._fail(error if isinstance(error, StoreFailed) else StoreFailed(why=why))
            return
        written = encode_checkpoint(self._checkpoint.values)
        if written != self._durability.checkpoint_bytes:
            self._durability.checkpoint_bytes = written
            self._mark.write(self._mark.flushed_upto, written)
            self._run(self._mark.sync)  # Until then a power cut leaves a mark that is void.

    def _save(self, point: DispatchPoint, physic_time: int) -> None:
        old = self._checkpoint.values
        self._checkpoint.save(
            old._replace(
                physic_msg_timestamp=max(old.physic_msg_timestamp, physic_time),
                logics_msg_timestamp=max(old.logics_msg_timestamp, point.time_ms),
                index_msg_timestamp=self._index.sealed_time or old.index_msg_timestamp,
                logics_physical_offset=max(old.logics_physical_offset, point.physical_offset),
            )
        )

    async def finish(self) -> None:
        """Make everything durable and write the last checkpoint; the log is flushed already.

        A failure is told to the store and ends it.
        """
        await self._idle()
        self._start_thorough()
        await self._idle()
        self._pool.shutdown()

    async def _idle(self) -> None:
        while self._job is not None:
            await asyncio.wait([self._job])
