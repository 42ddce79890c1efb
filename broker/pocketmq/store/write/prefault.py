"""Prefaults pages of the log ahead of the writer.

    appended ──► half of the prefaulted pages used in a second ──► a thread prefaults the next pages

A write to a page that is not in memory blocks the event loop for a page fault. The kernel zeroes
the page. On a virtual machine whose host must allocate the memory, this costs ten times the copy.
For a slowly growing log no pages are prefaulted, as they would occupy memory.

A large write into a page that is not in memory needs no zeros: for a log of large writes,
prefaulting takes more processor time than it saves. It pays where memory is slow and processors are
free. So after a prefault that was cheap, or that waited for a processor, most are left out.

Source: DefaultMappedFile.warmMappedFile, which prefaults whole files.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter, thread_time
from typing import Final

from pocketmq.files.mapped_file import MappedFile
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.step import Next, Now
from pocketmq.store.job import Job
from pocketmq.store.marks import Marks

AHEAD_BYTES: Final = 16 * 1024 * 1024
HURRY_MS: Final = 1_000
"""A log grows fast if it appends half of `AHEAD_BYTES` in less than this."""
CHEAP_US: Final = 0.3
"""Processor time of a prefaulted KiB, in µs, below which memory is fast. Measured: 0.6 to 1.0, and
2.7 to 3.3 where the host had to free memory first."""
BUSY_RATIO: Final = 2.5
"""Ratio of the duration of a prefault to its processor time, from which on processors are busy."""
SKIPPED_COUNT: Final = 15
"""Number of prefaults that are then left out; the next one measures again."""

Spent = tuple[float, float]
"""Seconds of time, and of processor time."""


def _now() -> Spent:
    return perf_counter(), thread_time()


class Prefault:
    """Prefaults pages after the log's end while the log grows fast.

    ahead_bytes  upper limit of the bytes to prefault after the log's end
    clock        returns seconds of time, and of processor time of the calling thread
    upto         physical offset below which pages are prefaulted or written
    """

    __slots__ = (
        "_ahead_bytes", "_clock", "_due", "_job", "_log", "_looked_ms", "_marks", "_pool", "_skips",
        "upto",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        marks: Marks,
        ahead_bytes: int = AHEAD_BYTES,
        clock: Callable[[], Spent] = _now,
    ) -> None:
        self._clock = clock
        self._skips = 0
        """Number of prefaults to leave out."""
        self._log = log
        self._marks = marks
        self._ahead_bytes = ahead_bytes
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pages")
        self._job: Job[bool] | None = None
        self._looked_ms = -HURRY_MS
        self.upto = marks.appended.value
        self._due = self.upto + ahead_bytes // 2

    def step(self, now: Now) -> Next:
        """Starts to prefault the next pages; then waits until the log has grown."""
        job = self._job
        if job is not None and not job.is_done:
            return Next(mark=job, value=1)
        if job is not None:
            self._job = None
            if job.result():
                self._skips = SKIPPED_COUNT
        end = self._marks.appended.value
        if end >= self._due:
            is_fast = now.monotonic_ms - self._looked_ms < HURRY_MS
            self._looked_ms = now.monotonic_ms
            self._due = end + self._ahead_bytes // 2
            if is_fast and self._skips and self._is_direct(end):
                self._skips -= 1
            elif is_fast:
                self._begin(end)
        return Next(mark=self._marks.appended, value=self._due)

    def _is_direct(self, end: int) -> bool:
        """Whether the last records before `end` were large writes, not stored through the map."""
        begin = end - self._ahead_bytes // 2
        files = self._log.files_between(begin, end)
        return all(not file.populated or file.base + file.populated <= begin for file in files)

    def _begin(self, end: int) -> None:
        begin = max(self.upto, end)
        for file in self._log.files_between(end, end + 1):
            self.upto = min(end + self._ahead_bytes, file.base + file.size)
            if begin < self.upto:
                self._job = Job(self._bring(file.hold(), begin, self.upto))
        assert self.upto <= begin + self._ahead_bytes, "more than `ahead_bytes` is prefaulted"

    async def _bring(self, file: MappedFile, begin: int, upto: int) -> bool:
        """Prefaults pages; returns whether the next ones should be left out."""
        base = file.base
        try:
            loop = asyncio.get_running_loop()
            work = partial(self._timed, partial(file.bring, begin - base, upto - base))
            seconds, busy_seconds = await loop.run_in_executor(self._pool, work)
        finally:
            file.let_go()
        is_cheap = busy_seconds * 1e6 < CHEAP_US * (upto - begin) / 1024
        return is_cheap or seconds >= BUSY_RATIO * busy_seconds

    def _timed(self, work: Callable[[], None]) -> Spent:
        begun, busy = self._clock()
        work()
        ended, busy_since = self._clock()
        return ended - begun, busy_since - busy

    async def close(self) -> None:
        """Waits for work in progress; may be called again."""
        if self._job is not None:
            await self._job.reached()
        self._pool.shutdown()
