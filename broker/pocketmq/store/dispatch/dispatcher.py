"""Reput: dispatches visible records to every view, in log order.

    log ──[dispatched … visible)──► consume queues ──► index ──► arrival marks

If the buffer does not begin at the dispatched offset (after a start or an overflow, and on a
follower), the log is read: many records by column (column_dispatch.py), a few one by one. If the
disk is too full to write a view, the write is tried again every second. After QUEUE_TRIES_MAX or
INDEX_TRIES_MAX tries, puts are refused until the view is written.
Source: ReputMessageService, CommitLogDispatcherBuildConsumeQueue, CommitLogDispatcherBuildIndex.
"""

import logging
from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Final

from pocketmq.log.commit_log import CommitLog
from pocketmq.log.view import View
from pocketmq.model.batch import Written
from pocketmq.model.errors import DiskFull, ViewFailed
from pocketmq.model.stats import Histogram
from pocketmq.model.store_shape import DelayLevels
from pocketmq.store.dispatch.column_dispatch import (
    BYTES_MAX,
    BYTES_MIN,
    ColumnDispatch,
    written_between,
)
from pocketmq.store.dispatch.dispatch_buffer import DispatchBuffer
from pocketmq.store.marks import Marks

BATCH_MAX: Final = 1_024
"""Number of records at which a step takes no further run; such a step takes about 2 ms."""
BATCH_MIN: Final = 8
SLOW_STEP_SECONDS: Final = 0.01
"""Duration of a step above which the next step dispatches half as many records or bytes. A step
with many new queues is slow, as it creates their files."""
RETRY_INTERVAL_MS: Final = 1_000
QUEUE_TRIES_MAX: Final = 30
INDEX_TRIES_MAX: Final = 3

logger = logging.getLogger(__name__)


class Dispatcher:
    """Dispatches records up to the visible end.

    arrived   called with the records of each batch that was not dispatched by column
    columns   dispatches many records to the same views; None: all are dispatched one by one
    """

    __slots__ = (
        "_arrived", "_batch_max", "_blocked", "_bytes_max", "_columns", "_levels", "_log", "_marks",
        "_retry_at_ms", "_tries", "_tries_max", "_views", "failure", "remembered", "reput_seconds",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        marks: Marks,
        views: Sequence[View],
        levels: DelayLevels,
        arrived: Callable[[Sequence[Written]], None],
        columns: ColumnDispatch | None = None,
    ) -> None:
        self._log = log
        self._marks = marks
        self._views = views
        self._tries_max = [QUEUE_TRIES_MAX, *[INDEX_TRIES_MAX] * (len(views) - 1)]
        self._levels = levels
        self._arrived = arrived
        self.remembered = DispatchBuffer()
        self._columns = columns
        self._blocked: tuple[int, list[Written] | None] | None = None
        """(Index of the view that waits for a retry, its records; None: those in `_columns`)."""
        self._batch_max = BATCH_MAX
        self._bytes_max = BYTES_MAX
        self._tries = 0
        self._retry_at_ms = 0
        self.failure: ViewFailed | None = None
        """Failure of a view after too many tries; puts are refused until a try succeeds."""
        self.reput_seconds = Histogram(
            "pocketmq_reput_seconds", "Duration of one step of dispatch."
        )

    @property
    def is_blocked(self) -> bool:
        """Whether the write of a view waits for a retry."""
        return self._blocked is not None

    @property
    def _dispatched(self) -> int:
        return self._marks.dispatched.value

    def step(self, visible: int, now_ms: int) -> int:
        """Dispatches one batch of the log below `visible`; returns the time of the next call.

        Returns  now_ms if more records wait, the retry time if a view is blocked, else 0
        """
        if self._blocked is not None:
            if now_ms < self._retry_at_ms:
                return self._retry_at_ms
            number, batch = self._blocked
            self._blocked = None
            if batch is None:
                return self._apply_columns(now_ms)
            return self._apply(batch, number, now_ms, is_retry=True)
        if self._dispatched >= visible:
            return 0
        upper = self._unremembered(visible)
        if self._columns is not None and upper - self._dispatched >= BYTES_MIN:
            result = self._step_columns(self._columns, upper, now_ms)
        else:
            result = self._step_runs(visible, upper, now_ms)
        return result or (now_ms if self._dispatched < visible else 0)

    def _step_runs(self, visible: int, upper: int, now_ms: int) -> int:
        if self._columns is not None:
            self._columns.rest()
        batch = self._next_batch(visible, upper)
        if not batch:
            return 0
        begun = perf_counter()
        result = self._apply(batch, 0, now_ms, is_retry=False)
        taken = perf_counter() - begun
        self.reput_seconds.observe(taken)
        if taken > SLOW_STEP_SECONDS:
            count = sum(map(len, batch))
            self._batch_max = max(min(count, self._batch_max) // 2, BATCH_MIN)
        elif self._batch_max < BATCH_MAX:
            self._batch_max = min(self._batch_max * 2, BATCH_MAX)
        return result

    def _step_columns(self, columns: ColumnDispatch, upper: int, now_ms: int) -> int:
        begun, begun_cpu = perf_counter(), thread_time()
        end = columns.read(self._dispatched, upper, self._bytes_max)
        if end > columns.end:  # The range contains only the BLANK at the end of a file.
            self._pass_to(end)
            return 0
        result = self._apply_columns(now_ms)
        self.reput_seconds.observe(perf_counter() - begun)
        if thread_time() - begun_cpu > SLOW_STEP_SECONDS:  # Waits for a busy CPU do not count.
            self._bytes_max = max(self._bytes_max // 2, BYTES_MIN)
        else:
            self._bytes_max = min(self._bytes_max * 2, BYTES_MAX)
        return result

    def _unremembered(self, visible: int) -> int:
        """Returns the physical offset up to which the log must be read; `dispatched` for none."""
        dispatched = self._dispatched
        begin = self.remembered.first_from(dispatched)
        if begin == dispatched or (begin >= 0 and self._follows(begin)):
            return dispatched
        return min(visible, begin) if begin >= 0 else visible

    def _next_batch(self, visible: int, upper: int) -> list[Written]:
        dispatched = self._dispatched
        if upper == dispatched:
            return self.remembered.take(visible, self._batch_max)
        found = written_between(
            self._log, dispatched, upper, self._levels, count_max=self._batch_max
        )
        if not found:  # The range contains only the BLANK at the end of a file.
            self._pass_to(upper)
        return found

    def _pass_to(self, end: int) -> None:
        marks = self._marks
        marks.dispatch(end, marks.dispatched.time_ms, marks.last_dispatched)

    def _follows(self, physical_offset: int) -> bool:
        size = self._log.file_size_bytes
        is_file_start = physical_offset % size == 0
        if not is_file_start or physical_offset - self._dispatched > size:
            return False
        return self._log.record_size_at(self._dispatched) is None

    def _apply(self, batch: list[Written], number: int, now_ms: int, *, is_retry: bool) -> int:
        for position in range(number, len(self._views)):
            view = self._views[position]
            try:
                view.apply(() if is_retry and position == number else batch)
            except DiskFull as error:
                self._block(position, batch, now_ms, error)
                return self._retry_at_ms
            self._tries = 0
        self.failure = None
        last = batch[-1]
        assert last.begin >= self._dispatched, "a record would be dispatched twice"
        self._marks.dispatch(last.end, last.store_time_ms, last.physical_offsets[-1])
        self._arrived(batch)
        return 0

    def _apply_columns(self, now_ms: int) -> int:
        columns = self._columns
        assert columns is not None
        try:
            columns.put()
        except DiskFull as error:
            self._block(columns.view_number, None, now_ms, error)
            return self._retry_at_ms
        self._tries = 0
        self.failure = None
        self._marks.dispatch(columns.end, columns.time_ms, columns.last_record)
        return 0

    def _block(
        self, number: int, batch: list[Written] | None, now_ms: int, error: DiskFull
    ) -> None:
        self._blocked = (number, batch)
        self._retry_at_ms = now_ms + RETRY_INTERVAL_MS
        self._tries += 1
        tries_max = self._tries_max[number]
        logger.warning("view.blocked", extra={"path": error.path, "tries": self._tries})
        if self._tries >= tries_max:
            self.failure = ViewFailed(path=error.path, tries=self._tries, why="the disk is full")
