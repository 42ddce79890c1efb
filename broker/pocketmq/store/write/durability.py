"""Flushes the commit log, by group commit or periodically.

    sync    each waiting put requests a flush; one flush runs at a time; puts that arrive during it
            share the next flush; the first flush covers appends of the same loop iteration
    async   every 500 ms if 4 pages are dirty, and every 10 s in any case

`flushed` rises only after a successful sync. The first failure of any part of the store is final:
every waiting put gets the error, no later put is acknowledged, no sync is retried, the mark stays,
and the process ends.
With followers in sync, puts then wait for them, for a limited time (`replicated`).
Source: GroupCommitService, FlushRealTimeService, FlushDiskWatcher.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final

from pocketmq.files.mapped_file import MappedFile, hold_all, let_go
from pocketmq.log.checkpoint import FlushedMark
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import BrokerError
from pocketmq.model.stats import COUNT_BUCKETS, Histogram
from pocketmq.model.step import Clock, Next, Now
from pocketmq.store.job import or_failed
from pocketmq.store.marks import Marks
from pocketmq.store.settings import PAGE_SIZE, StoreSettings
from pocketmq.store.write.flush_group import FlushGroup

SWEEP_INTERVAL_MS: Final = 100
"""Interval of checks for puts that time out with FLUSH_DISK_TIMEOUT."""


class Durability:
    """Flushes the commit log and advances the `flushed` mark."""

    __slots__ = (
        "_begun_upto", "_clock", "_fail", "_group", "_is_asked", "_is_replicated", "_job", "_log",
        "_mark", "_marks", "_pool", "_settings", "_thorough_at_ms", "_waiting", "flush_seconds",
        "group_messages", "is_short", "late_status",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        mark: FlushedMark,
        marks: Marks,
        settings: StoreSettings,
        clock: Clock,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._mark = mark
        self._marks = marks
        self._settings = settings
        self._clock = clock
        self._fail = fail
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._job: asyncio.Future[None] | None = None
        self._group: FlushGroup | None = None
        self._begun_upto = marks.flushed.value
        """Target of the last flush that began."""
        self._is_asked = False
        self._waiting = 0
        self._thorough_at_ms = 0
        self._is_replicated = settings.is_replicated
        self.is_short: Callable[[], bool] = lambda: True
        """Returns whether fewer followers are connected than an acknowledgement needs."""
        self.late_status = PutStatus.FLUSH_DISK_TIMEOUT
        """Status of the puts of the last group that was late."""
        self.flush_seconds = Histogram(
            "pocketmq_flush_seconds", "Duration of one flush.", labels={"file": "commitlog"}
        )
        self.group_messages = Histogram(
            "pocketmq_group_commit_messages", "Puts that shared one flush.", COUNT_BUCKETS
        )

    def reached(self, end: int) -> asyncio.Future[bool]:
        """Requests a flush; returns a future that is done when everything before `end` is durable.

        Returns  True, or False if `sync_flush_timeout_ms` passes first
        Errors   StoreFailed, such as FsyncFailed
        """
        if self._marks.failure is not None:
            raise self._marks.failure
        self._waiting += 1
        return self._waited(end, self._clock.monotonic_ms())

    async def replicated(self, end: int, since_ms: int) -> PutStatus:
        """Waits until enough followers have a put, and consumers may see it.

        The caller has waited for the flush in sync mode. A put that times out stays in the log, and
        is seen once followers have it.

        since_ms   monotonic time of the put
        Returns    OK; REPLICA_NOT_AVAILABLE at once if too few followers are connected, or at a
                   stop; FLUSH_REPLICA_TIMEOUT `ack_timeout_ms` after the put
        Errors     StoreFailed
        """
        marks, visible = self._marks, self._marks.visible()
        if visible.value >= end and not marks.is_ending:
            return PutStatus.OK
        if marks.failure is not None:
            raise marks.failure
        is_short = self.is_short() or marks.is_ending
        until_ms = since_ms + self._settings.ack_timeout_ms
        if not is_short and self._clock.monotonic_ms() < until_ms:
            if await visible.reached(end, until_ms):
                return PutStatus.OK
        late = PutStatus.REPLICA_NOT_AVAILABLE if is_short else PutStatus.FLUSH_REPLICA_TIMEOUT
        self.late_status = late
        return late

    async def _followed(self, flushed: asyncio.Future[bool], since_ms: int) -> bool:
        """Waits for the flush of a group, and then for followers."""
        if not await flushed:
            self.late_status = PutStatus.FLUSH_DISK_TIMEOUT
            return False
        end = self._marks.flushed.value  # The flush covers what was appended until it began.
        return await self.replicated(end, since_ms) is PutStatus.OK

    def _waited(self, end: int, now_ms: int) -> asyncio.Future[bool]:
        future = self._marks.flushed.reached(end, now_ms + self._settings.sync_flush_timeout_ms)
        if self._job is None and not self._is_asked:
            self._is_asked = True
            call_soon = asyncio.get_running_loop().call_soon
            if self._is_replicated:  # Followers are sent the log first, and flush meanwhile.
                call_soon(call_soon, self._begin_asked)
            else:
                call_soon(self._begin_asked)
        return future

    def _begin_asked(self) -> None:
        self._is_asked = False
        self.request()

    def group(self) -> FlushGroup:
        """Requests a flush of all appended records; returns the group of puts that share it.

        With followers in sync, the group also waits for them.

        Returns  a group; while it is open, a put may join it by adding 1 to `count`. The group's
                 future is False if `sync_flush_timeout_ms` passes first; puts that joined last wait
                 a little less
        Errors   StoreFailed, such as FsyncFailed
        """
        marks = self._marks
        if marks.failure is not None:
            raise marks.failure
        now_ms, end = self._clock.monotonic_ms(), marks.appended.value
        self._close_group(now_ms)
        self._waiting += 1
        if self._group is not None:
            return self._group
        future = self._waited(end, now_ms)
        if self._is_replicated:
            future = asyncio.ensure_future(self._followed(future, now_ms))
        # Without a pool, the next flush also covers the appends until it begins.
        is_whole = self._log.pool is None and marks.committed.value == end
        is_open = is_whole and end > self._begun_upto
        group = FlushGroup(future, now_ms, is_open=is_open)
        if is_open:
            self._group = group
        return group

    def _close_group(self, now_ms: int) -> None:
        group = self._group
        if group is not None and now_ms - group.begun_ms >= SWEEP_INTERVAL_MS:
            self._end_group(group)

    def _end_group(self, group: FlushGroup) -> None:
        group.is_open = False
        self._waiting += group.count
        self._group = None

    def request(self) -> None:
        """Starts a flush unless one is running, the store has failed, or nothing is dirty."""
        committed, flushed = self._marks.committed, self._marks.flushed
        if self._job is not None or committed.value <= flushed.value:
            return
        if self._marks.failure is not None:  # The kernel reports a loss only once, to one sync.
            return
        target, time_ms = committed.value, committed.time_ms
        if self._group is not None:
            self._end_group(self._group)
        try:
            files = hold_all(self._log.files_between(flushed.value, target))
        except BrokerError as error:
            self._fail(error)
            return
        group, self._waiting = self._waiting, 0
        self._begun_upto = target
        begun = perf_counter()
        self._job = asyncio.get_running_loop().run_in_executor(self._pool, _sync_all, files)

        def finish(job: "asyncio.Future[None]") -> None:
            let_go(files)
            self._finish(job, target, time_ms, group, begun)

        self._job.add_done_callback(or_failed(finish, self._fail))

    def _finish(
        self, job: "asyncio.Future[None]", target: int, time_ms: int, group: int, begun: float
    ) -> None:
        self._job = None
        error = job.exception()
        if error is not None:
            self._fail(error)
        if self._marks.failure is not None:
            return
        if not self.write_mark(target):
            return
        self.flush_seconds.observe(perf_counter() - begun)
        if group:
            self.group_messages.observe(group)
        assert self._mark.flushed_upto == target
        self._marks.flush(target, time_ms)
        if self._waiting:
            self.request()

    def write_mark(self, flushed: int) -> bool:
        """Writes the flushed mark with the confirmed end; returns False after a failure."""
        self._mark.confirm(self._marks.confirmed, is_confirmed=self._marks.is_confirmed)
        self._mark.oldest_base = self._log.oldest_base
        try:
            self._mark.write(flushed)
        except BrokerError as failure:  # The mark's file is allocated, so the disk is not full.
            self._fail(failure)
            return False
        return True

    def step(self, now: Now) -> Next:
        """Flushes periodically, and times out puts that wait too long."""
        now_ms = now.monotonic_ms
        self._marks.flushed.sweep(now_ms)
        if self._is_replicated:
            self._marks.visible().sweep(now_ms)
        self._close_group(now_ms)
        if self._mark.confirmed_upto != self._marks.confirmed and self._marks.failure is None:
            self.write_mark(self._marks.flushed.value)
        settings = self._settings
        if settings.is_sync:
            self.request()
            return Next(now_ms + SWEEP_INTERVAL_MS)
        dirty = self._marks.committed.value - self._marks.flushed.value
        is_thorough = now_ms >= self._thorough_at_ms
        if is_thorough:
            self._thorough_at_ms = now_ms + settings.flush_thorough_interval_ms
        if is_thorough or dirty >= settings.flush_least_pages * PAGE_SIZE:
            self.request()
        return Next(now_ms + settings.flush_interval_ms)

    async def drain(self) -> None:
        """Waits until all committed records are durable, or a flush has failed."""
        marks = self._marks
        while marks.committed.value > marks.flushed.value and marks.failure is None:
            self.request()
            if self._job is None:  # The flush could not begin, and the store has failed.
                return
            await asyncio.wait([self._job])  # The flush may have begun before the last append.
        if self._job is not None:
            await asyncio.wait([self._job])

    def close(self) -> None:
        """Ends the flush thread."""
        self._pool.shutdown()


def _sync_all(files: list[MappedFile]) -> None:
    """Syncs files, oldest first, so that the durable range is contiguous."""
    for file in files:
        file.sync()
