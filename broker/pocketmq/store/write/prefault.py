"""Prefaults pages of the log ahead of the writer.

    appended ──► half of the prefaulted pages used in a second ──► a thread prefaults the next pages

A write to a page that is not in memory blocks the event loop for a page fault. The kernel zeroes
the page. On a virtual machine whose host must allocate the memory, this costs ten times the copy.
For a slowly growing log no pages are prefaulted, as they would occupy memory.

Source: DefaultMappedFile.warmMappedFile, which prefaults whole files.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pocketmq.files.mapped_file import MappedFile
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.step import Next, Now
from pocketmq.store.job import Job
from pocketmq.store.marks import Marks

AHEAD_BYTES: Final = 16 * 1024 * 1024
HURRY_MS: Final = 1_000
"""A log grows fast if it appends half of `AHEAD_BYTES` in less than this."""


class Prefault:
    """Prefaults pages after the log's end while the log grows fast.

    ahead_bytes  upper limit of the bytes to prefault after the log's end
    upto         physical offset below which pages are prefaulted or written
    """

    __slots__ = ("_ahead_bytes", "_due", "_job", "_log", "_looked_ms", "_marks", "_pool", "upto")

    def __init__(self, log: CommitLog, marks: Marks, ahead_bytes: int = AHEAD_BYTES) -> None:
        self._log = log
        self._marks = marks
        self._ahead_bytes = ahead_bytes
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pages")
        self._job: Job[None] | None = None
        self._looked_ms = -HURRY_MS
        self.upto = marks.appended.value
        self._due = self.upto + ahead_bytes // 2

    def step(self, now: Now) -> Next:
        """Starts to prefault the next pages; then waits until the log has grown."""
        job = self._job
        if job is not None and not job.is_done:
            return Next(mark=job, value=1)
        self._job = None
        end = self._marks.appended.value
        if end >= self._due:
            is_fast = now.monotonic_ms - self._looked_ms < HURRY_MS
            self._looked_ms = now.monotonic_ms
            self._due = end + self._ahead_bytes // 2
            if is_fast:
                self._begin(end)
        return Next(mark=self._marks.appended, value=self._due)

    def _begin(self, end: int) -> None:
        begin = max(self.upto, end)
        for file in self._log.files_between(end, end + 1):
            self.upto = min(end + self._ahead_bytes, file.base + file.size)
            if begin < self.upto:
                self._job = Job(self._bring(file.hold(), begin, self.upto))
        assert self.upto <= begin + self._ahead_bytes, "more than `ahead_bytes` is prefaulted"

    async def _bring(self, file: MappedFile, begin: int, upto: int) -> None:
        base = file.base
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, file.bring, begin - base, upto - base)
        finally:
            file.let_go()

    async def close(self) -> None:
        """Waits for work in progress; may be called again."""
        if self._job is not None:
            await self._job.reached()
        self._pool.shutdown()
