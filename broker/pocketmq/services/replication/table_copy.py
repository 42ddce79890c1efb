"""The copies of a leader's tables on a follower: each record is durable before the next is taken.

A promotion opens the follower's store as any store, so the files alone must be right. The tables in
memory only serve reads, and are read again soon after their files were replaced.
Source: SlaveSynchronize, which copies some tables every minute.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from pocketmq.model.step import Next, Now
from pocketmq.services.replication.table_record import APPEND, DROP, RecordRefused, TableRecord
from pocketmq.store.tables.copied_files import REMOVED, CopiedFiles
from pocketmq.store.tables.copied_timer import TimerProof
from pocketmq.store.watermark import Watermark

PAUSE_MS: Final = 200
"""Least time between two readings: a leader may write its offsets a hundred times a second."""


class TableCopy:
    """Writes the leader's tables to a follower's open store.

    reload         reads the table of a file again
    drop_removed   removes the queues of removed topics
    """

    __slots__ = ("_drop_removed", "_files", "_reload", "_replaced", "_taken", "seq")

    def __init__(
        self,
        files: CopiedFiles,
        reload: Callable[[str], None],
        drop_removed: Callable[[], Awaitable[None]],
    ) -> None:
        self._files = files
        self._reload = reload
        self._drop_removed = drop_removed
        self.seq = 0
        """Number of the last record on the disk; 0 before a connection's first one."""
        self._replaced: dict[str, None] = {}
        self._taken = Watermark()

    def begin(self) -> None:
        """Prepares for a new connection, on which the leader first sends every file."""
        self.seq = 0

    async def timer_proof(self) -> TimerProof | None:
        """Returns the proof of this follower's copy of the timer log; None: it has no copy.

        Errors   ReadFailed
        """
        return await self._files.run(self._files.timer_proof)

    async def take(self, record: TableRecord, end: int) -> None:
        """Writes a record to its place; durable when it returns.

        end      physical offset below which the log is on this disk
        Errors   RecordRefused: nothing was written; DiskFull, StoreFailed
        """
        if record.at > end:
            raise RecordRefused(f"{record.name} needs the log up to {record.at}, it ends at {end}")
        if record.seq < self.seq:
            raise RecordRefused(f"change {record.seq} of {record.name} follows {self.seq}")
        files = self._files
        work = partial(files.write, record.name, record.content)
        if record.kind == DROP:
            work = partial(files.drop, record.name)
        elif record.kind == APPEND:
            work = partial(files.append, record.name, record.position, record.content, record.size)
        try:
            await files.run(work)
        except ValueError as error:
            raise RecordRefused(f"{record.name}: {error}") from error
        assert record.seq >= self.seq
        self.seq = record.seq
        if record.name == REMOVED:  # Before the next messages of such a topic.
            self._reload(REMOVED)
            await self._drop_removed()
            return
        if record.kind != APPEND:
            self._replaced[record.name] = None
            self._taken.advance(self._taken.value + 1)

    def step(self, now: Now) -> Next:
        """Reads replaced tables again."""
        if not self._replaced:
            return Next(None, self._taken, self._taken.value + 1)
        while self._replaced:
            name = next(iter(self._replaced))
            del self._replaced[name]
            self._reload(name)
        return Next(now.monotonic_ms + PAUSE_MS)
