"""What runs while a store is open: the loops that flush and dispatch.

    flush loop       committing, flushing, view flush, allocation, each when it is due
    dispatch loop    what became visible goes to the views, a bounded piece at a time

A loop that ends with an error ends the store.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Final

from broker.files.disk import Disk
from broker.model.clock import Clock
from broker.model.errors import StoreFailed
from broker.model.offsets import QueueKey
from broker.store.commit import Commit
from broker.store.durability import Durability
from broker.store.marks import Marks
from broker.store.reading.reading import Reading
from broker.store.settings import StoreSettings
from broker.store.starting.structures import Structures
from broker.store.views.arrivals import Arrivals
from broker.store.views.dispatcher import Dispatcher
from broker.store.views.flush import ViewFlush
from broker.store.writing.allocation import Allocation

DISPATCH_PAUSE_MS: Final = 5
"""Between two dispatch steps: views grow in batches, and consumers wait no longer than this."""
BULK_BYTES: Final = 64 * 1024
"""With this much to dispatch a step is worth taking at once, more or less."""
BULK_PAUSE_MS: Final = 1
DISPATCH_TURN_SECONDS: Final = 0.005
"""Dispatch gives way to other work after this long, even when more is waiting."""

logger = logging.getLogger(__name__)


class Running(ABC):
    """The moving half of a store; `MessageStore.open` sets the parts."""

    __slots__ = (
        "_allocation", "_arrivals", "_commit", "_disk", "_dispatcher", "_durability",
        "_extension_failures", "_tasks", "_view_flush", "clock", "failure", "marks", "reading",
        "settings", "structures",
    )  # fmt: skip

    _allocation: Allocation
    _commit: Commit
    _durability: Durability
    _dispatcher: Dispatcher
    _view_flush: ViewFlush
    failure: asyncio.Future[None]
    marks: Marks
    reading: Reading
    structures: Structures

    def __init__(self, disk: Disk, settings: StoreSettings, clock: Clock) -> None:
        self._disk = disk
        self._arrivals = Arrivals()
        self.settings = settings
        self.clock = clock
        self._extension_failures = 0
        self._tasks: list[asyncio.Task[None]] = []

    @abstractmethod
    def _fail(self, error: StoreFailed) -> None:
        """Stop everything."""

    def _run(self, *loops: Coroutine[None, None, None]) -> None:
        for loop in loops:
            task = asyncio.create_task(loop)
            task.add_done_callback(self._finished)
            self._tasks.append(task)

    def _finished(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreFailed):
            self._fail(error)
        elif error is not None:
            logger.error("store.task_failed", exc_info=error)
            self._fail(StoreFailed(why=f"a part of it ended: {error}"))

    async def _dispatch_loop(self) -> None:
        while True:
            visible, dispatched = self.marks.visible(), self.marks.dispatched
            await visible.reached(dispatched.value + 1)
            begun = perf_counter()
            behind_bytes = visible.value - dispatched.value
            again_at_ms = self._dispatch_step()
            now_ms = self.clock.monotonic_ms()
            while 0 < again_at_ms <= now_ms and perf_counter() - begun < DISPATCH_TURN_SECONDS:
                again_at_ms = self._dispatch_step()
            pause_ms = DISPATCH_PAUSE_MS if behind_bytes < BULK_BYTES else BULK_PAUSE_MS
            if again_at_ms:
                pause_ms = max(again_at_ms - now_ms, 0)
            await asyncio.sleep(pause_ms / 1000)

    def _dispatch_step(self) -> int:
        again_at_ms = self._dispatcher.step(self.marks.visible().value, self.clock.monotonic_ms())
        failures = self.structures.queues.extension_failures
        if failures > self._extension_failures:
            if not self._extension_failures:
                logger.warning("extension.failed", extra={"effect": "plain tags codes are stored"})
            self._extension_failures = failures
        return again_at_ms

    def _notify(self, keys: set[QueueKey]) -> None:
        queues = self.structures.queues.queues
        for key in keys:
            queue = queues.get(key)
            if queue is not None:
                self._arrivals.advance(key, queue.max_offset)

    async def _flush_loop(self) -> None:
        steps: list[Callable[[int], int]] = [
            self._durability.step,
            self._view_flush.step,
            self._allocation.step,
        ]
        if self.structures.log.pool is not None:
            steps.insert(0, self._commit.step)
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
        return self.marks.appended.value

    @property
    def flushed(self) -> int:
        """Physical offset below which everything is durable."""
        return self.marks.flushed.value

    @property
    def dispatched(self) -> int:
        """Physical offset up to which every view has every record."""
        return self.marks.dispatched.value

    @property
    def behind_count(self) -> int:
        """Records that wait for dispatch in memory."""
        return self._dispatcher.remembered_count

    @property
    def min_offset(self) -> int:
        """Physical offset of the oldest file."""
        return self.structures.log.min_offset

    def disk_space(self) -> tuple[str, int, int]:
        """Return (path, bytes used, bytes usable) of the store's file system."""
        directory = self.settings.directory
        return (str(directory), *self._disk.space(directory))

    def disk_usage(self) -> tuple[int, int]:
        """Return (free, total) bytes of that file system, as an ordinary user has them."""
        _, used, usable = self.disk_space()
        return usable, used + usable
