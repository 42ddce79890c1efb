"""Keeps the progress of the timer: RocketMQ's `config/timercheck` (format/timer_layout.py).

Source: TimerCheckpoint.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.names import CONFIG_DIRECTORY, TIMER_CHECK_FILE
from pocketmq.format.timer_layout import TimerProgress, decode_progress, encode_progress
from pocketmq.store.tables.durable_table import DurableTable, Encode


class TimerCheck:
    """The timer's progress of one store, and its file."""

    __slots__ = ("_durable", "_file", "progress")

    def __init__(self, disk: Disk, directory: Path, pool: ThreadPoolExecutor) -> None:
        self._file = TableFile(disk, directory / CONFIG_DIRECTORY / TIMER_CHECK_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self.progress = TimerProgress()

    def load(self) -> None:
        """Reads the file; a missing or short file counts as zeros.

        Errors   TableUnreadable, ReadFailed
        """
        self.progress = (self._file.read(decode_progress) or TimerProgress()).usable()
        self.progress.check()

    async def put(self, progress: TimerProgress) -> None:
        """Writes a progress, which must cover only durable data; durable when it returns.

        Errors   DiskFull, StoreFailed
        """
        progress.check()
        assert progress.shifts
        self.progress = progress
        self._durable.touch()
        await self._durable.saved()

    async def clamp(self, queue_end: int, log_end: int) -> int:
        """Clamps the offset in the timer's topic to the topic's end; returns 1 if it was higher.

        queue_end   queue offset of the topic's next message
        log_end     physical offset after the last record
        Effects     new messages at these offsets are read, also after a crash
        Errors      DiskFull, StoreFailed
        """
        now = self.progress
        found = now._replace(
            queue_offset=min(now.queue_offset, queue_end),
            queue_limit=min(now.queue_limit, queue_end),
            delivered_before=min(now.delivered_before, log_end),
        )
        if found != now:
            await self.put(found)
        return int(found.queue_offset != now.queue_offset)

    def _snapshot(self) -> Encode:
        progress = self.progress
        return lambda: encode_progress(progress)
