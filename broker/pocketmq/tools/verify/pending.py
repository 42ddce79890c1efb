"""Verifies pending transactions and timers against the log."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.columns.heads import Heads, rows_at
from pocketmq.format.record import RECORD_HEAD
from pocketmq.model.errors import StoreGap, WrongFileSize
from pocketmq.model.message import FLAG_TRANSACTION_MASK, TRANSACTION_COMMIT
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.tools.pending.halves import HalfQueue, half_queues
from pocketmq.tools.verify.collector import Collector
from pocketmq.tools.verify.timers import check_timers
from pocketmq.walk.reader import Chunk

# -- transactions ------------------------------------------------------------------------------
_PREPARED_BACK: Final = RECORD_HEAD.size - RECORD_HEAD.positions["prepared_offset"]
"""Distance from a record's prepared transaction offset to the end of its head, bytes."""
OPS_SHOWN: Final = 8


class HalfCheck:
    """Collects the commits in the log, then compares them and op messages with half messages."""

    __slots__ = ("_collector", "_commits")

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._commits: list[NDArray[np.int64]] = []

    def look(self, chunk: Chunk) -> None:
        """Adds the commits of a chunk: physical offsets of committed message and half message."""
        heads: Heads = chunk.heads
        kind = heads.system_flag & FLAG_TRANSACTION_MASK
        rows = np.flatnonzero(kind == TRANSACTION_COMMIT)
        if len(rows):
            places = heads.body_begin[rows] - _PREPARED_BACK
            halves = rows_at(chunk.buffer, places, 8).view(">i8").astype(np.int64)
            self._commits.append(np.column_stack((heads.physical_offset[rows], halves)))

    def finish(self, queues: Sequence[HalfQueue], log_begin: int) -> None:
        """Compares op messages and commits with half messages."""
        for queue in queues:
            self._look_at_ops(queue)
        self._look_at_commits(queues, log_begin)
        open_count = sum(queue.open_count for queue in queues)
        if open_count:
            halves = "half message is" if open_count == 1 else "half messages are"
            self._collector.remark(f"{open_count} {halves} undecided")

    def _look_at_ops(self, queue: HalfQueue) -> None:
        for unit, decided, is_sound in queue.ops:
            if not is_sound:
                expected, found = "queue offsets with commas", "another body"
            elif strangers := [offset for offset in decided if offset >= queue.end]:
                expected = f"half messages below {queue.end} of queue {queue.queue_id}"
                found = ", ".join(map(str, strangers[:OPS_SHOWN]))
            else:
                continue
            self._collector.add_record(
                "op_message", unit.physical_offset, expected=expected, found=found,
                repairable=False,
            )  # fmt: skip

    def _look_at_commits(self, queues: Sequence[HalfQueue], log_begin: int) -> None:
        """Checks that the prepared transaction offset of each commit is that of a half message."""
        if not self._commits:
            return
        commits = np.concatenate(self._commits)
        commits = commits[commits[:, 1] >= max(log_begin, 1)]
        places = [queue.places for queue in queues]
        is_known = np.isin(commits[:, 1], np.concatenate(places) if places else ())
        for own, half in commits[~is_known].tolist():
            self._collector.add_record(
                "commit", own, expected="the physical offset of a half message", found=str(half),
                repairable=False,
            )  # fmt: skip
        again = sum(count > 1 for count in Counter(commits[:, 1].tolist()).values())
        if again:
            self._collector.remark(f"{again} half messages were committed more than once")


# -- all pending messages ----------------------------------------------------------------------
class WaitingCheck:
    """Verifies half messages, op messages, commits and timers.

    views   directory whose consumequeue/ is read
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
        """Adds a chunk of valid records."""
        self._halves.look(chunk)

    def finish(self, files: Sequence[LogFile], *, last_time_ms: int, is_orderly: bool) -> None:
        """Compares the timer's files and the half messages with the log's records.

        files          the log's files
        last_time_ms   store time of the log's last record
        is_orderly     whether the last broker stopped in order
        """
        try:
            check_timers(
                self._disk, self._directory, self._sizes, files, self._collector,
                views=self._views, last_time_ms=last_time_ms, is_orderly=is_orderly,
            )  # fmt: skip
            queues = half_queues(self._disk, self._directory, self._sizes, files, views=self._views)
            self._halves.finish(queues, files[0].base if files else 0)
        except (WrongFileSize, StoreGap) as error:
            self._collector.remark(f"timers and transactions were not verified: {error}")
