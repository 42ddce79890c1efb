"""`pocketmq/queue_ends.json`: where every consume queue ended when the checkpoint was written.

    {"checkpoint": "…", "crc": …}                           whose it is; CRC-32 of what follows
    {"TOPIC": {"0": [begin, end, …], …}, …}                 one `QueueEnd` for each queue

After a crash a start takes the ends from here and opens no queue for it. The table is written
before its checkpoint, and the one before stays as `.bak`: whichever checkpoint a power cut leaves
has its own. Where none fits (another broker wrote here, or a tool did) queues are read instead.
Source: none; RocketMQ reads the last files of all queues.
"""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import BACKUP_SUFFIX
from broker.model.errors import DiskFull, ReadFailed, TableUnreadable
from broker.model.message import QueueKey

QUEUE_ENDS_FILE: Final = "queue_ends.json"


class QueueEnd(NamedTuple):
    """The end of one queue, and what else is known of it.

    begin, end            first byte of its first file, byte behind its last unit
    max_physical_offset   end of the record that the last unit leads to
    min_offset            queue offset of its first message
    min_place             physical offset of that message, 0: not known
    """

    begin: int
    end: int
    max_physical_offset: int
    min_offset: int
    min_place: int


class QueueEnds:
    """The table of one store."""

    __slots__ = ("_disk", "_table", "rows")

    def __init__(self, disk: Disk, own_directory: Path) -> None:
        self._disk = disk
        self._table = TableFile(disk, own_directory / QUEUE_ENDS_FILE)
        self.rows: dict[QueueKey, QueueEnd] = {}
        """What the next table says; those of queues that took records since are out of date."""

    def load(self, checkpoint: bytes) -> dict[QueueKey, QueueEnd]:
        """Return the table that was written for this checkpoint, nothing where there is none."""
        try:
            return self._table.read(lambda content: _decode(content, checkpoint)) or {}
        except (ReadFailed, TableUnreadable):
            return {}

    def save(self, checkpoint: bytes, rows: Mapping[QueueKey, QueueEnd]) -> None:
        """Write the table for a checkpoint that is about to be saved; blocks.

        Effects  on a full disk there is none afterwards: the next start reads all queues
        Errors   AllocationFailed, WriteFailed, FsyncFailed
        Cost     about 1 µs a queue and two syncs
        """
        try:
            self._table.write(_encode(checkpoint, rows))
        except DiskFull:  # One that is left might be of these bytes, and of other queues.
            self.remove()

    def remove(self) -> None:
        """Let no start believe what queues were: somebody writes to their files."""
        path = self._table.path
        for name in (path, path.with_name(path.name + BACKUP_SUFFIX)):
            self._disk.unlink(name)
        self._disk.sync_directory(path.parent)


def _encode(checkpoint: bytes, rows: Mapping[QueueKey, QueueEnd]) -> bytes:
    topics: dict[str, dict[int, QueueEnd]] = {}
    for (topic, queue_id), end in rows.items():
        topics.setdefault(topic, {})[queue_id] = end
    # One by one: whoever calls this is a thread, and a call holds the interpreter to its end.
    parts = (f"{json.dumps(topic)}: {json.dumps(queues)}" for topic, queues in topics.items())
    body = ("{" + ", ".join(parts) + "}").encode()
    head = {"checkpoint": checkpoint.hex(), "crc": zlib.crc32(body)}
    return json.dumps(head).encode() + b"\n" + body


def _decode(content: bytes, checkpoint: bytes) -> dict[QueueKey, QueueEnd]:
    """Return the rows of a table.

    Errors   ValueError where it is damaged, or not that of the checkpoint
    """
    head, _, body = content.partition(b"\n")
    if json.loads(head) != {"checkpoint": checkpoint.hex(), "crc": zlib.crc32(body)}:
        raise ValueError("it is damaged, or belongs to another checkpoint")
    return {
        (topic, int(queue_id)): QueueEnd(*end)
        for topic, queues in json.loads(body).items()
        for queue_id, end in queues.items()
    }
