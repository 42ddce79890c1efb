"""The copies of a leader's tables on a follower: each record is durable before the next is taken.

A promotion opens the follower's store as any store, so the files alone must be right. The tables in
memory only serve reads, and are read again after each record.
Source: SlaveSynchronize, which copies some tables every minute.
"""

from functools import partial

from pocketmq.services.replication.table_record import (
    APPEND,
    DROP,
    RecordRefused,
    TableRecord,
)
from pocketmq.store.tables.copied_files import COPIED, CopiedFiles


class TableCopy:
    """The records of one connection to a leader.

    seq   number of the last record on the disk; 0 before the first one
    """

    __slots__ = ("_files", "seq")

    def __init__(self, files: CopiedFiles) -> None:
        self._files = files
        self.seq = 0

    async def take(self, record: TableRecord, end: int) -> None:
        """Writes a record to its place; durable when it returns.

        end      physical offset below which the log is on this disk
        Errors   RecordRefused: nothing was written; DiskFull, WriteFailed, FsyncFailed
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
            work = partial(files.append, record.position, record.content)
        try:
            await files.run(work)
        except ValueError as error:
            raise RecordRefused(str(error)) from error
        assert record.name in COPIED, "a record of another file was decoded"
        self.seq = record.seq
