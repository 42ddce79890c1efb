"""The furthest archive of a store's log, which `pocketmq archive` may write at any time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.files.archive_mark import read_archived, write_archived
from pocketmq.files.disk import Disk
from pocketmq.format.archived import ArchivedUpto
from pocketmq.model.step import Clock


class ArchiveMark:
    """Reads and writes the file in a thread; the file is the only copy."""

    __slots__ = ("_clock", "_directory", "_disk", "_pool")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        self._disk, self._directory, self._clock, self._pool = disk, directory, clock, pool

    async def read(self) -> ArchivedUpto:
        """Returns the furthest archive.

        Errors   TableUnreadable
        """
        return await self._call(lambda: read_archived(self._disk, self._directory))

    async def report(self, upto: int, target: str) -> ArchivedUpto:
        """Records an archive if none is further; returns the furthest one, durable.

        upto     physical offset below which the archive has all messages
        Errors   TableUnreadable, DiskFull
        """
        assert upto >= 0
        found = ArchivedUpto(upto, target, self._clock.wall_ms())
        return await self._call(lambda: write_archived(self._disk, self._directory, found))

    async def _call(self, work: Callable[[], ArchivedUpto]) -> ArchivedUpto:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
