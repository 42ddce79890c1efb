"""A small table in memory that is written down whole, many changes sharing one write.

A change is durable when `saved` returns. Writes happen in a thread, one at a time; what changes
meanwhile goes into the next one.
Source: ConfigManager.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from broker.files.table_file import TableFile
from broker.store.watermark import Watermark


class DurableTable:
    """Writes one table's content whenever it changed."""

    __slots__ = ("_change", "_content", "_file", "_job", "_pool", "_saved")

    def __init__(
        self, file: TableFile, pool: ThreadPoolExecutor, content: Callable[[], bytes]
    ) -> None:
        self._file = file
        self._pool = pool
        self._content = content
        self._change = 0
        self._saved = Watermark()
        self._job: asyncio.Future[None] | None = None

    def touch(self) -> None:
        """Note that the table changed."""
        self._change += 1

    async def saved(self) -> None:
        """Return when every change so far is durable.

        Errors   DiskFull, FsyncFailed
        """
        change = self._change
        if self._saved.value >= change:
            return
        future = self._saved.reached(change)
        self._start()
        await future

    def _start(self) -> None:
        if self._job is not None:
            return
        change, content = self._change, self._content()
        loop = asyncio.get_running_loop()
        self._job = loop.run_in_executor(self._pool, self._file.write, content)
        self._job.add_done_callback(lambda job: self._finish(job, change))

    def _finish(self, job: "asyncio.Future[None]", change: int) -> None:
        self._job = None
        error = job.exception()
        if error is not None:
            self._saved.fail(error)
            return
        self._saved.advance(change)
        if self._saved.waiter_count:
            self._start()
