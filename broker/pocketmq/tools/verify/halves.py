"""Transactions: decisions that name no half, commits of nothing, halves without a decision.

A real broker leaves halves open when it stops, and commits one twice when its producer asks twice:
those are notes.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Heads, rows_at
from pocketmq.format.record import RECORD_HEAD
from pocketmq.model.message import FLAG_TRANSACTION_MASK, TRANSACTION_COMMIT
from pocketmq.tools.pending.halves import HalfQueue
from pocketmq.tools.verify.collector import Collector
from pocketmq.walk.reader import Chunk

_PREPARED_BACK: Final = RECORD_HEAD.size - RECORD_HEAD.positions["prepared_offset"]
"""Distance of the offset of its half in front of a record's body."""
OPS_SHOWN: Final = 8


class HalfCheck:
    """Takes every chunk of sound records, then looks at the queues of halves and op messages."""

    __slots__ = ("_collector", "_commits")

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._commits: list[NDArray[np.int64]] = []

    def look(self, chunk: Chunk) -> None:
        """Takes note of the commits in a chunk: (own physical offset, that of the half)."""
        heads: Heads = chunk.heads
        kind = heads.system_flag & FLAG_TRANSACTION_MASK
        rows = np.flatnonzero(kind == TRANSACTION_COMMIT)
        if len(rows):
            places = heads.body_begin[rows] - _PREPARED_BACK
            halves = rows_at(chunk.buffer, places, 8).view(">i8").astype(np.int64)
            self._commits.append(np.column_stack((heads.physical_offset[rows], halves)))

    def finish(self, queues: Sequence[HalfQueue], log_begin: int) -> None:
        """Compares decisions with halves."""
        for queue in queues:
            self._look_at_ops(queue)
        self._look_at_commits(queues, log_begin)
        open_count = sum(queue.open_count for queue in queues)
        if open_count:
            self._collector.remark(f"{open_count} half messages wait for a decision")

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
        """Checks that the half offsets of committed messages are offsets of half messages."""
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
