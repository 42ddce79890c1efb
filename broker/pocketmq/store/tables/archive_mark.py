"""The archives of a store's log, which `pocketmq archive` may report at any time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.files.archive_mark import read_archived, write_archived
from pocketmq.files.disk import Disk
from pocketmq.format.archived import NOTHING_ARCHIVED, ArchivedUpto
from pocketmq.format.names import ARCHIVED_FILE, OWN_DIRECTORY
from pocketmq.model.step import Clock


class ArchiveMark:
    """Reads and writes the file in a thread; the file is the only copy.

    Another process may also write it. So a read that finds a change reports it to the TableWatch,
    for followers.
    """

    __slots__ = ("_clock", "_directory", "_disk", "_last", "_pool")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        self._disk, self._directory, self._clock, self._pool = disk, directory, clock, pool
        self._last = NOTHING_ARCHIVED
        assert directory.name, "a store has a directory"

    async def read(self) -> ArchivedUpto:
        """Returns the archive with the lowest end of the log.

        Errors   TableUnreadable, ReadFailed
        """
        return await self._call(self._read)

    async def report(self, upto: int, target: str) -> ArchivedUpto:
        """Records an archive's report, durably; returns the archive with the lowest end of the log.

        upto     physical offset below which the archive has all messages
        Errors   those of `write_archived`
        """
        assert upto >= 0
        found = ArchivedUpto(upto, target, self._clock.wall_ms())
        return await self._call(lambda: write_archived(self._disk, self._directory, found))

    def _read(self) -> ArchivedUpto:
        found = read_archived(self._disk, self._directory)
        if found != self._last:
            self._last = found
            self._disk.tables.told(self._directory / OWN_DIRECTORY / ARCHIVED_FILE, None)
        return found

    async def _call(self, work: Callable[[], ArchivedUpto]) -> ArchivedUpto:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
