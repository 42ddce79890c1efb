"""Pages of the log that are about to be written, brought into memory ahead of the writer.

    appended ──► half of them is used, and that took less than a second ──► a thread brings others

A page that is not in memory is made while the loop waits for its write. It is zeroed first; a
virtual machine whose host has to find it pays ten times the copy for that. A log that grows
slowly has no pages ahead: they would take memory from others.
Source: DefaultMappedFile.warmMappedFile, which does so for whole files.
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
"""Half of `AHEAD_BYTES` in less than this is a log that grows fast."""


class Prefault:
    """Has pages in memory ahead of a log's end, where that is quick.

    ahead_bytes  how far, at most
    upto         bytes below were brought, or are written
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
        """Begins to bring the next pages; at rest until the log has grown."""
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
        assert self.upto <= begin + self._ahead_bytes, "no more than that is brought"

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
