"""What runs while a store is open: committing, flushing, dispatch, view flush, allocation.

A step that ends with an error ends the store.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from time import perf_counter
from typing import Final

from broker.files.disk import Disk
from broker.model.clock import Clock
from broker.model.errors import StoreFailed
from broker.model.offsets import QueueKey
from broker.model.step import Next, Now, Step
from broker.store.commit import Commit
from broker.store.durability import Durability
from broker.store.marks import Marks
from broker.store.reading.reading import Reading
from broker.store.runner import Pause, Runner
from broker.store.settings import StoreSettings
from broker.store.starting.structures import Structures
from broker.store.views.arrivals import Arrivals
from broker.store.views.dispatcher import Dispatcher
from broker.store.views.flush import ViewFlush
from broker.store.writing.allocation import Allocation

DISPATCH_PAUSE_MS: Final = 5
DISPATCH_PAUSE: Final = Pause(DISPATCH_PAUSE_MS / 1000)
"""Between two dispatch steps: views grow in batches, and consumers wait no longer than this."""
BULK_BYTES: Final = 64 * 1024
"""With this much to dispatch a step is worth taking at once, more or less."""
BULK_PAUSE: Final = Pause(0.001)
DISPATCH_TURN_SECONDS: Final = 0.005
"""Dispatch gives way to other work after this long, even when more is waiting."""

logger = logging.getLogger(__name__)


class Running(ABC):
    """The moving half of a store; `MessageStore.open` sets the parts."""

    __slots__ = (
        "_allocation", "_arrivals", "_commit", "_disk", "_dispatcher", "_durability",
        "_extension_failures", "_runner", "_view_flush", "clock", "failure", "marks", "reading",
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
        self._runner = Runner(clock, self._step_failed)

    @abstractmethod
    def _fail(self, error: StoreFailed) -> None:
        """Stop everything."""

    def _step_failed(self, step: Step, error: Exception, now: Now) -> None:
        if isinstance(error, StoreFailed):
            self._fail(error)
        else:
            logger.error("store.task_failed", exc_info=error)
            self._fail(StoreFailed(why=f"a part of it ended: {error}"))

    def _dispatch(self, now: Now) -> Next:
        """Dispatch what became visible, for a turn."""
        visible, dispatched = self.marks.visible(), self.marks.dispatched
        behind_bytes = visible.value - dispatched.value
        if not behind_bytes:
            return Next(mark=visible, value=dispatched.value + 1)
        begun = perf_counter()
        again_at_ms = self._dispatch_step()
        while 0 < again_at_ms <= now.monotonic_ms:
            if perf_counter() - begun >= DISPATCH_TURN_SECONDS:
                break
            again_at_ms = self._dispatch_step()
        if again_at_ms:
            return Next(again_at_ms)
        return Next(mark=DISPATCH_PAUSE if behind_bytes < BULK_BYTES else BULK_PAUSE)

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

    def _run(self) -> None:
        steps: list[Step] = [
            self._dispatch, self._durability.step, self._view_flush.step, self._allocation.step,
        ]  # fmt: skip
        if self.structures.log.pool is not None:
            steps.append(self._commit.step)
        self._runner.run(*steps)

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
