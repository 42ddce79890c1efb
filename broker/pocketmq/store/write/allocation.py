"""Allocates disk space: the next commit-log file in advance, and a reserve for other files.

While the log writes one file, a thread allocates the next. If the disk is full, allocation is
retried every second, and sends resume without an operator.

`pocketmq/reserve` keeps space for offsets, tables, queues, index, checkpoint and an orderly stop:

    whole ──a file other than the log finds no room──► released ──there is room again──► whole

The log never uses these bytes: its next file is created only while the reserve exists. While the
reserve is released, sends are refused. The default of 16 MiB suffices for the units and entries (80
bytes a message) of a 64 MiB log file with 300-byte messages. A store of smaller files reserves at
most the length of one file.
Source: AllocateMappedFileService.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile, let_go
from pocketmq.format.names import RESERVE_FILE
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.errors import DiskFull
from pocketmq.model.step import Clock, Next, Now
from pocketmq.store.job import or_failed

RETRY_INTERVAL_MS: Final = 1_000
_RESERVE_DRAFT: Final = "reserve.draft"

logger = logging.getLogger(__name__)


class Reserve:
    """The reserve file; thread-safe by a lock."""

    __slots__ = ("_disk", "_draft", "_is_kept", "_lock", "path", "released", "size_bytes")

    def __init__(self, disk: Disk, own_directory: Path, size_bytes: int) -> None:
        self._disk = disk
        self._draft = own_directory / _RESERVE_DRAFT
        self._lock = threading.RLock()
        self._is_kept = False
        self.path = own_directory / RESERVE_FILE
        self.size_bytes = size_bytes
        """Size of the reserve; 0 for none."""
        self.released: DiskFull | None = None
        """Error for which the reserve was released; None while it exists, and before `make`."""

    def begin(self) -> None:
        """Removes the last run's reserve if the disk has no room, or if its size has changed."""
        if not self._disk.exists(self.path):
            return
        is_short = self._disk.space(self.path.parent)[1] < self.size_bytes
        if is_short or self._disk.file_size(self.path) != self.size_bytes:
            self._disk.unlink(self.path)

    def make(self) -> None:
        """Creates the reserve unless it exists; blocks some ms.

        Errors   DiskFull, AllocationFailed: no file is left
        """
        with self.kept():
            try:
                self._make()
            except DiskFull as full:
                self.released = full
                raise
            self.released = None

    def _make(self) -> None:
        if self.size_bytes and not self._disk.exists(self.path):
            made = self._disk.make_allocated_file(self._draft, self.path, self.size_bytes)
            self._disk.close(made)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Prevents `release` in all threads until the block ends.

        A file under construction may fill the disk for a moment and then be removed. The reserve
        must not be released for such a file.
        """
        with self._lock:
            before, self._is_kept = self._is_kept, True
            try:
                yield
            finally:
                self._is_kept = before

    @contextmanager
    def release(self, cause: DiskFull) -> Iterator[bool]:
        """Removes the reserve; yields whether the caller should retry within the block.

        The reserve is not created again within the block. A retry is due even if the reserve did
        not exist, as another thread may have released it after the caller's first try.

        Blocks   some ms, while another thread creates a file
        """
        with self._lock:
            is_due = self.size_bytes > 0 and not self._is_kept
            if is_due:
                self.released = self.released or cause
                self._disk.unlink(self.path)
                assert not self._disk.exists(self.path)
            yield is_due


class Allocation:
    """Creates the log's next file in advance, and the reserve."""

    __slots__ = (
        "_clock", "_fail", "_job", "_log", "_own_directory", "_pool", "_reserve", "_retry_at_ms",
        "full",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        own_directory: Path,
        clock: Clock,
        fail: Callable[[BaseException], None],
        *,
        reserve: Reserve | None = None,
    ) -> None:
        self._log = log
        self._own_directory = own_directory
        self._clock = clock
        self._fail = fail
        self._reserve = reserve
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="allocate")
        self._job: asyncio.Future[MappedFile | None] | None = None
        self._retry_at_ms = 0
        self.full: DiskFull | None = None
        """Error of the last allocation; None after a success."""

    def step(self, now: Now) -> Next:
        """Retries an allocation that a full disk refused."""
        reserve = self._reserve
        if reserve is not None and reserve.released is not None and self.full is None:
            self._note_full(reserve.released)
        self.request()
        return Next(now.monotonic_ms + RETRY_INTERVAL_MS)

    def request(self) -> None:
        """Starts to create the next file, unless one is being created or a retry is not due yet."""
        base = self._log.spare_base
        if self._job is not None or (base is None and self.full is None):
            return
        if self.full is not None and self._clock.monotonic_ms() < self._retry_at_ms:
            return
        loop = asyncio.get_running_loop()
        full = self._log.take_full()
        reserve = self._reserve

        def make() -> MappedFile | None:
            for file in full:
                file.cool()
            with reserve.kept() if reserve is not None else nullcontext():
                if reserve is not None:
                    reserve.make()
                return None if base is None else self._log.make_spare(self._own_directory, base)

        job = loop.run_in_executor(self._pool, make)
        self._job = job
        job.add_done_callback(or_failed(lambda job: self._finish(job, full), self._fail))

    def _finish(self, job: "asyncio.Future[MappedFile | None]", full: list[MappedFile]) -> None:
        self._job = None
        let_go(full)
        if job.cancelled():
            return
        error = job.exception()
        if error is None:
            if self.full is not None:
                logger.warning("disk.freed", extra={"path": self.full.path})
            self.full = None
            made = job.result()
            if made is not None:
                assert made.base % self._log.file_size_bytes == 0
                self._log.offer_spare(made)
        elif isinstance(error, DiskFull):
            self._note_full(error)
        else:
            self._fail(error)

    def _note_full(self, error: DiskFull) -> None:
        if self.full is None:
            logger.error("disk.full", extra={"path": error.path})
        self.full = error
        self._retry_at_ms = self._clock.monotonic_ms() + RETRY_INTERVAL_MS

    async def room(self) -> None:
        """Waits until the next file is created.

        Errors   DiskFull, without waiting for a retry
        """
        self.request()
        job = self._job
        if job is not None:
            await asyncio.wait([job])
        if self.full is not None:
            raise self.full

    async def close(self) -> None:
        """Waits for a file being created, so that it is closed with the log."""
        if self._job is not None:
            await asyncio.wait([self._job])
        self._pool.shutdown()
