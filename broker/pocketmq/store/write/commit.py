"""Copies the transient pool's bytes to the commit-log files periodically.

Bytes are copied every 200 ms if 4 pages wait, and always at the thorough interval. Only committed
bytes are visible, can be flushed, and survive the process. Without a pool there is nothing to
commit.
Source: CommitRealTimeService.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pocketmq.files.mapped_file import MappedFile
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.errors import StoreFailed
from pocketmq.model.step import Next, Now
from pocketmq.store.job import or_failed
from pocketmq.store.marks import Marks
from pocketmq.store.settings import PAGE_SIZE, StoreSettings


class Commit:
    """Writes staged records to their files and advances the `committed` mark."""

    __slots__ = (
        "_fail", "_job", "_log", "_marks", "_pool", "_settings", "_thorough_at_ms",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        marks: Marks,
        settings: StoreSettings,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._marks = marks
        self._settings = settings
        self._fail = fail
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._job: asyncio.Future[None] | None = None
        self._thorough_at_ms = 0

    def step(self, now: Now) -> Next:
        """Starts committing if enough pages wait or the thorough interval is over."""
        settings, now_ms = self._settings, now.monotonic_ms
        waiting = self._marks.appended.value - self._marks.committed.value
        is_thorough = now_ms >= self._thorough_at_ms
        if is_thorough:
            self._thorough_at_ms = now_ms + settings.commit_thorough_interval_ms
        if is_thorough or waiting >= settings.commit_least_pages * PAGE_SIZE:
            self.request()
        return Next(now_ms + settings.commit_interval_ms)

    def request(self) -> None:
        """Starts committing all appended records, unless a commit is running."""
        appended, begin = self._marks.appended, self._marks.committed.value
        if self._job is not None or self._marks.failure is not None or begin >= appended.value:
            return
        target, time_ms = appended.value, appended.time_ms
        ranges = self._log.staged_ranges(begin, target)
        assert ranges, "appended records are in no file and in no buffer"
        self._job = asyncio.get_running_loop().run_in_executor(self._pool, _commit_all, ranges)
        held = [file for file, _, _ in ranges]
        self._job.add_done_callback(
            or_failed(lambda job: self._finish(job, target, time_ms, held), self._fail)
        )

    def _finish(
        self, job: "asyncio.Future[None]", target: int, time_ms: int, held: list[MappedFile]
    ) -> None:
        self._job = None
        error = job.exception()
        if error is not None:
            self._fail(StoreFailed(why=f"staged records could not be written: {error}"))
            return
        self._log.unstage(target, held)
        self._marks.commit(target, time_ms)

    async def reached(self, end: int) -> None:
        """Waits until the records before `end` are committed, or the store has failed."""
        marks = self._marks
        assert end <= marks.appended.value, (end, marks.appended.value)
        while marks.committed.value < end and marks.failure is None:
            self.request()
            if self._job is not None:
                await asyncio.wait([self._job])
            await asyncio.sleep(0)  # Lets the done callbacks of the job run.

    async def drain(self) -> None:
        """Waits until all appended records are committed, or the store has failed."""
        marks = self._marks
        while marks.committed.value < marks.appended.value and marks.failure is None:
            await self.reached(marks.appended.value)

    def close(self) -> None:
        """Ends the thread."""
        self._pool.shutdown()


def _commit_all(ranges: list[tuple[MappedFile, int, int]]) -> None:
    for file, begin, end in ranges:
        file.commit(begin, end)
