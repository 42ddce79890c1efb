"""The views of an open store: their dispatch, flush, waiters and trimming."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from pocketmq.format.dispatch_batch import queues_of
from pocketmq.model.batch import Written
from pocketmq.model.stats import Stat
from pocketmq.model.step import Next, Now, Step
from pocketmq.store.dispatch.column_dispatch import ColumnDispatch
from pocketmq.store.dispatch.dispatcher import Dispatcher
from pocketmq.store.dispatch.expiry import Expiry
from pocketmq.store.dispatch.flush import ViewFlush
from pocketmq.store.marks import Marks
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.runner import Pause
from pocketmq.store.watermark import Arrivals

PAUSE_SECONDS: Final = 0.005
"""Pause between two dispatch steps: it batches records, and delays consumers."""
BULK_BYTES: Final = 64 * 1024
"""Number of undispatched bytes from which the pause is BULK_PAUSE_SECONDS."""
BULK_PAUSE_SECONDS: Final = 0.001
COPY_SECONDS: Final = 0.02
COPY_BULK_SECONDS: Final = 0.05
"""On a follower, whose dispatch reads records from the log, COPY_SECONDS and COPY_BULK_SECONDS
replace both pauses. With these longer pauses, the dispatch of a record costs a third, and the sync
of the log and the report to the leader wait less for dispatch."""
COPY_YIELD_SECONDS: Final = 0.002
"""Pause on a follower between two chunks, and while a sync of the log runs. For a sync, dispatch
waits for at most COPY_BULK_SECONDS."""
DEFERRED_SECONDS: Final = 0.08
"""Pause between two dispatch steps while the log is copied from far behind."""
DEFERRED_BYTES_MAX: Final = 1 << 30
"""Number of undispatched bytes from which on dispatch is no longer deferred: a stop, or a start
after a kill, would have to dispatch them."""
TURN_SECONDS: Final = 0.005
"""Time after which dispatch yields to other tasks, even if more records wait."""

logger = logging.getLogger(__name__)


class Views:
    """Consume queues and index, with the services that keep them up to date with the log."""

    __slots__ = (
        "_extension_failures", "_marks", "_paused_until", "_structures", "arrivals", "dispatcher",
        "expiry", "flush", "grew", "index", "is_copy", "is_deferred", "queues",
    )  # fmt: skip

    def __init__(
        self,
        structures: StoreComponents,
        marks: Marks,
        request_flush: Callable[[], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._structures = structures
        self._marks = marks
        self._extension_failures = 0
        self._paused_until = 0.0
        self.queues = structures.queues
        self.index = structures.index
        self.is_copy = False
        """Whether the log is copied from a leader."""
        self.is_deferred: Callable[[], bool] = lambda: False
        """Returns whether copying the log is more urgent than dispatch."""
        self.grew: Callable[[Sequence[tuple[str, int]]], None] | None = None
        """Called with queues that may have got units, before consumers can read these."""
        self.arrivals = Arrivals()
        self.dispatcher = Dispatcher(
            structures.log, marks, (self.queues, self.index), structures.levels, self._took,
            ColumnDispatch(structures, self._grew),
        )  # fmt: skip
        self.flush = ViewFlush(structures, marks, request_flush, fail)
        self.expiry = Expiry(structures, marks, self.flush.save_oldest_base)

    @property
    def steps(self) -> list[Step]:
        """Steps that the store's runner calls."""
        return [self.dispatch, self.flush.step]

    @property
    def stats(self) -> list[Stat]:
        """The views' metrics."""
        return [
            *self.queues.stats,
            *self.index.stats,
            *self.flush.flush_seconds.values(),
            self.dispatcher.reput_seconds,
        ]

    def mapped(self) -> tuple[int, int]:
        """Returns (count, bytes) of the open files of log, queues and index."""
        parts, count = self._structures, len(self.index.files)
        rows = (parts.log_files, parts.queue_files)
        size_bytes = count * self.index.geometry.file_size + sum(row.size_bytes for row in rows)
        return count + sum(row.count for row in rows), size_bytes

    def dispatch(self, now: Now) -> Next:
        """Dispatches visible records for at most TURN_SECONDS; a step.

        The first record after an idle time is dispatched at once; later ones wait for a pause.
        """
        visible, dispatched = self._marks.visible(), self._marks.dispatched
        behind_bytes = visible.value - dispatched.value
        if behind_bytes <= 0:  # Records that a start found may be dispatched and not shown.
            assert dispatched.value <= self._marks.appended.value
            return Next(mark=visible, value=dispatched.value + 1)
        loop = asyncio.get_running_loop()
        early_seconds = self._paused_until - loop.time()
        if early_seconds > 0:
            return Next(mark=Pause(early_seconds))
        if self.is_copy and self._is_syncing and -early_seconds < COPY_BULK_SECONDS:
            return Next(mark=Pause(COPY_YIELD_SECONDS))
        again_at_ms = self.dispatch_some(now.monotonic_ms)
        if behind_bytes < DEFERRED_BYTES_MAX and self.is_deferred():
            self._paused_until = loop.time() + DEFERRED_SECONDS
            return Next(mark=Pause(DEFERRED_SECONDS))
        if self.is_copy and 0 < again_at_ms <= now.monotonic_ms:
            return Next(mark=Pause(COPY_YIELD_SECONDS))
        turn_end = perf_counter() + TURN_SECONDS
        while 0 < again_at_ms <= now.monotonic_ms and perf_counter() < turn_end:
            again_at_ms = self.dispatch_some(now.monotonic_ms)
        if again_at_ms:
            return Next(again_at_ms)
        pauses = (PAUSE_SECONDS, BULK_PAUSE_SECONDS)
        if self.is_copy:
            pauses = (COPY_SECONDS, COPY_BULK_SECONDS)
        self._paused_until = loop.time() + pauses[behind_bytes >= BULK_BYTES]
        return Next(mark=visible, value=dispatched.value + 1)

    @property
    def _is_syncing(self) -> bool:
        return self._marks.flushed.value < self._marks.committed.value

    def dispatch_some(self, now_ms: int) -> int:
        """Dispatches one batch; returns the monotonic time (ms) of the next call, or 0."""
        again_at_ms = self.dispatcher.step(self._marks.visible().value, now_ms)
        failures = self.queues.extension_failures
        if failures > self._extension_failures:
            if not self._extension_failures:
                logger.warning("extension.failed", extra={"effect": "plain tags codes are stored"})
            self._extension_failures = failures
        return again_at_ms

    def _took(self, written: Sequence[Written]) -> None:
        if self.arrivals.has_marks or self.grew is not None:
            self._grew(queues_of(written))

    def _grew(self, keys: Sequence[tuple[str, int]]) -> None:
        if self.grew is not None:
            self.grew(keys)
        if not self.arrivals.has_marks:
            return
        for key in keys:
            queue = self.queues.queues.get(key)
            if queue is not None:
                self.arrivals.advance(key, queue.max_offset)

    async def close(self) -> None:
        """Waits for work in progress, and ends the threads."""
        await self.expiry.close()
        await self.flush.close()
