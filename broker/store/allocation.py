"""Making the next commit-log file before it is needed, off the event loop.

One file ahead: while the log writes one file the next is allocated in a thread. A full disk is
remembered and tried again every second; writing resumes by itself when space returns.
Source: AllocateMappedFileService.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from broker.files.mapped_file import MappedFile, let_go
from broker.log.commit_log import CommitLog
from broker.model.clock import Clock
from broker.model.errors import DiskFull, StoreFailed

RETRY_INTERVAL_MS: Final = 1_000

logger = logging.getLogger(__name__)


class Allocation:
    """Keeps the log's spare file in stock."""

    __slots__ = (
        "_clock",
        "_fail",
        "_job",
        "_log",
        "_own_directory",
        "_pool",
        "_retry_at_ms",
        "full",
    )

    def __init__(
        self,
        log: CommitLog,
        own_directory: Path,
        clock: Clock,
        fail: Callable[[StoreFailed], None],
    ) -> None:
        self._log = log
        self._own_directory = own_directory
        self._clock = clock
        self._fail = fail
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="allocate")
        self._job: asyncio.Future[MappedFile] | None = None
        self._retry_at_ms = 0
        self.full: DiskFull | None = None
        """Why no file could be made, until one could."""

    def request(self) -> None:
        """Start making the next file unless it is there, in the making, or to be tried later."""
        base = self._log.spare_base
        if base is None or self._job is not None:
            return
        if self.full is not None and self._clock.monotonic_ms() < self._retry_at_ms:
            return
        loop = asyncio.get_running_loop()
        full = self._log.take_full()

        def make() -> MappedFile:
            for file in full:
                file.cool()
            return self._log.make_spare(self._own_directory, base)

        job = loop.run_in_executor(self._pool, make)
        self._job = job
        job.add_done_callback(lambda job: self._finish(job, full))

    def _finish(self, job: "asyncio.Future[MappedFile]", full: list[MappedFile]) -> None:
        self._job = None
        let_go(full)
        if job.cancelled():
            return
        error = job.exception()
        if error is None:
            self.full = None
            self._log.offer_spare(job.result())
        elif isinstance(error, DiskFull):
            if self.full is None:
                logger.error("disk.full", extra={"path": error.path})
            self.full = error
            self._retry_at_ms = self._clock.monotonic_ms() + RETRY_INTERVAL_MS
        else:
            why = str(error)
            self._fail(error if isinstance(error, StoreFailed) else StoreFailed(why=why))

    async def room(self) -> None:
        """Wait until the file in the making is there.

        Errors   DiskFull at once while the disk is known to be full
        """
        self.request()
        job = self._job
        if job is not None:
            await asyncio.wait([job])
        if self.full is not None:
            raise self.full

    async def close(self) -> None:
        """Wait for a file in the making, so that it can be removed with the log."""
        if self._job is not None:
            await asyncio.wait([self._job])
        self._pool.shutdown()
