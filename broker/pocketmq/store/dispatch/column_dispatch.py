"""Reads from the log the records that the dispatcher does not remember: a few, or many by column.

    log ──a chunk──► columns ──► consume queues ──► index

Such records exist after a start, after an overflow of the dispatcher's buffer, and on a follower.
By column, a record costs a fifth of what it costs alone. Both ways write the same bytes to the
consume queues and the index.
"""

from collections.abc import Callable, Sequence
from typing import Final

from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.record_scan import written_at
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.hash_index import ROLLED_BACK
from pocketmq.model.batch import Written
from pocketmq.model.errors import Corruption
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import FLAG_TRANSACTION_MASK, TRANSACTION_ROLLBACK, QueueKey
from pocketmq.model.store_shape import DelayLevels
from pocketmq.store.recovery.bulk_dispatch import BulkDispatch
from pocketmq.store.recovery.components import StoreComponents

BYTES_MAX: Final = 2 * 1024 * 1024
"""Upper limit of log bytes in one chunk, which takes 4 ms for messages of 1 KiB. After a slow step
the dispatcher requests smaller chunks (`SLOW_STEP_SECONDS`)."""
BYTES_MIN: Final = 64 * 1024
"""Number of log bytes from which on columns cost less than single records."""


def written_between(
    log: CommitLog, begin: int, end: int, levels: DelayLevels, *, count_max: int
) -> list[Written]:
    """Returns the first records in [begin, end), at most `count_max`, read from the log.

    Errors   Corruption: valid records end before `end`
    Cost     5 µs a record
    """
    scan = log.scan(begin, end)
    found: list[Written] = []
    for _, file, position, _ in scan:
        found.append(written_at(file.view, position, levels))
        if len(found) == count_max:
            return found
    if scan.end is not ScanEnd.END_OF_DATA and scan.position < end:
        raise Corruption(
            path=scan.path,
            file_position=scan.position % log.file_size_bytes,
            physical_offset=scan.position,
            why=scan.reason,
        )
    return found


class ColumnDispatch:
    """The part of dispatch that works by column.

    grew   called with the queues that may have got units
    """

    __slots__ = (
        "_bulk", "_grew", "_parts", "_queues", "_rolled_back", "_size", "end", "last_record",
        "time_ms",
    )  # fmt: skip

    def __init__(self, parts: StoreComponents, grew: Callable[[Sequence[QueueKey]], None]) -> None:
        self._parts = parts
        self._grew = grew
        self._bulk: BulkDispatch | None = None
        self._size = 0
        self._queues: list[QueueKey] = []
        self._rolled_back = 0
        self.end = self.last_record = self.time_ms = 0
        """End of the records read last; begin and store time of the last one of them."""

    def read(self, begin: int, upper: int, size: int = BYTES_MAX) -> int:
        """Reads the first records in [begin, upper), of about `size` bytes, for `put`.

        Shape    begin, upper: a record begins or ends there
        Returns  the physical offset after the last record that was read; `upper` if there is none
        Errors   Corruption: no valid record begins at `begin`
        Cost     0.4 µs a record
        """
        if self._bulk is None or size != self._size:
            self._bulk = BulkDispatch(self._parts, chunk_size=size, queues=QueueTable())
            self._size = size
        bulk = self._bulk
        for chunk in bulk.chunks([(begin, upper)]):
            assert chunk.end > self.end, "records are read again"
            bulk.take(chunk)
            transaction = chunk.heads.system_flag & FLAG_TRANSACTION_MASK
            self._rolled_back = int((transaction == TRANSACTION_ROLLBACK).sum())
            self._queues = bulk.queues_waiting()
            self.last_record = int(chunk.heads.physical_offset[-1])
            self.time_ms = int(chunk.heads.store_timestamp_ms[-1])
            self.end = chunk.end
            return self.end
        if not bulk.stop.is_orderly:
            at, why = bulk.stop.physical_offset, bulk.stop.reason
            path, position = self._parts.log.place_of(at)
            raise Corruption(path=path, file_position=position, physical_offset=at, why=why)
        return upper

    @property
    def view_number(self) -> int:
        """Number of the view that `put` could not write: 0 the consume queues, 1 the index."""
        assert self._bulk is not None
        return 0 if self._bulk.has_units else 1

    def put(self) -> None:
        """Writes the records that were read to the views, and calls `grew` with their queues.

        Errors   DiskFull: the caller may call `put` again; AllocationFailed
        Cost     1 µs a record with two keys, and 6 µs for each queue
        """
        bulk, index = self._bulk, self._parts.index
        assert bulk is not None
        known = index.files[-1].header.end_physical_offset if index.files else 0
        bulk.put(queues_from=0, index_from=known, upto=self.end)
        if self._rolled_back:
            index.skipped.add((ROLLED_BACK,), self._rolled_back)
        self._grew(self._queues)

    def rest(self) -> None:
        """Frees memory until records are read again."""
        self._bulk = None
