"""Persists group offsets only after the checkpoints of all messages below them are durable.

A fence (not that of a former leader) records the present offsets and the end of the log. When the
log is durable up to that end, the fence is passed, and the recorded offsets may be persisted.
"""

from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.leases import LeaseTable
from pocketmq.store.message_store import MessageStore


class OffsetBarrier:
    """Persists offsets (store/tables/lease_marks.py), and saves FIFO deliveries."""

    __slots__ = ("_end", "_journal", "_leases", "_store")

    def __init__(self, store: MessageStore, leases: LeaseTable, journal: Journal) -> None:
        self._store = store
        self._leases = leases
        self._journal = journal
        self._end: int | None = None
        """Physical offset of the log's end at the last fence; None: that fence was passed."""

    def write_down(self) -> None:
        """Passes the last fence if the log is durable up to it, and then sets the next fence."""
        self._store.tables.orders.save_soon()
        if not self._is_passed() or self._leases.has_foreign:
            return
        end = self._journal.end
        self._store.tables.offsets.fence(self._leases.journal_begin(end), end)
        self._end = self._store.marks.appended.value
        self._is_passed()

    def _is_passed(self) -> bool:
        if self._end is not None and self._store.marks.flushed.value >= self._end:
            self._store.tables.offsets.pass_fence()
            self._end = None
        assert self._store.marks.flushed.value <= self._store.marks.appended.value
        return self._end is None
