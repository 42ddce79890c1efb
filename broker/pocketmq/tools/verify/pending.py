"""Verifies pending transactions and timers against the log."""

from collections.abc import Sequence
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.model.errors import StoreGap, WrongFileSize
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.tools.pending.halves import half_queues
from pocketmq.tools.verify.collector import Collector
from pocketmq.tools.verify.halves import HalfCheck
from pocketmq.tools.verify.timers import check_timers
from pocketmq.walk.reader import Chunk


class WaitingCheck:
    """Verifies halves, op messages, commits and timers, read by the units of their queues.

    views   directory with the consumequeue/ that is read
    """

    __slots__ = ("_collector", "_directory", "_disk", "_halves", "_sizes", "_views")

    def __init__(
        self, disk: Disk, directory: Path, sizes: KnownShape, views: Path, collector: Collector
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._sizes = sizes
        self._views = views
        self._collector = collector
        self._halves = HalfCheck(collector)

    def look(self, chunk: Chunk) -> None:
        """Takes a chunk of sound records."""
        self._halves.look(chunk)

    def finish(self, files: Sequence[LogFile], *, last_time_ms: int, is_orderly: bool) -> None:
        """Compares the timer's files and the half messages with the records found.

        files          of the log
        last_time_ms   store time of its last record
        is_orderly     the last broker stopped in order
        """
        try:
            check_timers(
                self._disk, self._directory, self._sizes, files, self._collector,
                views=self._views, last_time_ms=last_time_ms, is_orderly=is_orderly,
            )  # fmt: skip
            queues = half_queues(self._disk, self._directory, self._sizes, files, views=self._views)
            self._halves.finish(queues, files[0].base if files else 0)
        except (WrongFileSize, StoreGap) as error:
            self._collector.remark(f"timers and transactions were not looked at: {error}")
