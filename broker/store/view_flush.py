"""Making views durable by and by, and writing down how far they are.

Every second queues with two dirty pages or more are synced; every ten seconds all views, then the
checkpoint, then the mark: each describes only what is durable already.
Source: FlushConsumeQueueService, StoreCheckpoint.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from broker.files.mapped_file import MappedFile
from broker.format.checkpoint_layout import encode_checkpoint
from broker.model.errors import StoreFailed
from broker.store.dispatcher import DispatchPoint
from broker.store.durability import PAGE_SIZE, Durability
from broker.store.structures import Structures

NEVER: Final = -1


class ViewFlush:
    """Syncs consume queues and index; owns the checkpoint."""

    __slots__ = (
        "_checkpoint", "_durability", "_fail", "_index", "_job", "_mark", "_point", "_pool",
        "_queues", "_settings", "_thorough_at_ms",
    )  # fmt: skip

    def __init__(
        self,
        structures: Structures,
        durability: Durability,
        point: Callable[[], DispatchPoint],
        fail: Callable[[StoreFailed], None],
    ) -> None:
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
        for queue in self._queues.queues.values():
            if queue.files.max_offset - queue.flushed >= least:
                files += queue.dirty_files()
                queue.flushed = queue.files.max_offset
        if files:

            def sync_files() -> None:
                for file in files:
                    file.sync()

            self._run(sync_files)

    def _start_thorough(self) -> None:
        point = self._point()
        files: list[MappedFile] = []
        for queue in self._queues.queues.values():
            files += queue.dirty_files()
            queue.flushed = queue.files.max_offset
        physic_time = self._durability.flushed_time

        def sync_all() -> None:
            self._mark.sync()
            for file in files:
                file.sync()
            self._index.flush()
            self._save(point, physic_time)

        self._run(sync_all)

    def _run(self, work: Callable[[], None]) -> None:
        self._job = asyncio.get_running_loop().run_in_executor(self._pool, work)
        self._job.add_done_callback(self._finish)

    def _finish(self, job: "asyncio.Future[None]") -> None:
        self._job = None
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
