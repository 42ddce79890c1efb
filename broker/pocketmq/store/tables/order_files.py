"""The files of FIFO queues' state: a table, and a journal of later changes.

    fold(text, version)  writes the whole table; the journal restarts at its begin
    append(changes)      writes one row; returns False if there is no room for it
    sync                 makes rows durable

When `append` returns True, the row is in the page cache, so it survives kill -9. A start uses only
rows of the table's version (format/order_changes.py), so the file need not be truncated.

Source: none; RocketMQ writes the table every ten seconds, and loses later changes.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import DRAFT_SUFFIX, TableFile
from pocketmq.files.table_watch import Then
from pocketmq.format.names import (
    CONFIG_DIRECTORY,
    ORDER_INFO_FILE,
    ORDER_JOURNAL_FILE,
    OWN_DIRECTORY,
)
from pocketmq.format.order_changes import QueueChange, decode_changes, encode_changes, lost_rows_at
from pocketmq.format.table_json import decode_file
from pocketmq.model.errors import AllocationFailed, DiskFull

logger = logging.getLogger(__name__)

ORDER_JOURNAL_BYTES: Final = 1 << 20
"""Default size of the journal: room for some thousand receives and acknowledgements."""


class OrderFiles:
    """Table and journal of one store.

    size_bytes   size of a new journal
    """

    __slots__ = (
        "_descriptor", "_disk", "_number", "_path", "_position", "_size_bytes", "_table", "_version"
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: Path, size_bytes: int = ORDER_JOURNAL_BYTES) -> None:
        self._disk = disk
        self._table = TableFile(disk, directory / CONFIG_DIRECTORY / ORDER_INFO_FILE)
        self._path = directory / OWN_DIRECTORY / ORDER_JOURNAL_FILE
        self._size_bytes = size_bytes
        self._descriptor: int | None = None
        self._follow(0)

    def table(self) -> dict[str, Any]:
        """Returns the members of the table; {} if there is no file.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        return self._table.read(partial(decode_file, ORDER_INFO_FILE)) or {}

    def changes(self, version: int) -> Iterable[QueueChange]:
        """Returns the changes after a version of the table.

        Effects  logs the loss of rows after a damaged row; their messages are redelivered
        Errors   ReadFailed
        """
        if not self._disk.exists(self._path):
            return ()
        content = self._disk.read_file(self._path)
        position = lost_rows_at(content, version)
        if position is not None:
            logger.warning("order.damaged", extra={"path": str(self._path), "position": position})
        return decode_changes(content, version)

    def append(self, changes: Sequence[QueueChange]) -> bool:
        """Writes a row; returns False if the journal is not open or has no room.

        Errors   WriteFailed
        """
        if self._descriptor is None:
            return False
        if not changes:
            return True
        row = encode_changes(changes, self._version, self._number)
        if self._position + len(row) > self._size_bytes:
            return False
        try:
            self._disk.write_at(self._descriptor, self._position, row)
        except DiskFull:  # On a copy-on-write file system; readers ignore a partial row.
            return False
        self._disk.tables.told(self._path, range(self._position, self._position + len(row)))
        self._position += len(row)
        self._number += 1
        return True

    def when_copied(self, then: Then) -> None:
        """Calls `then` with None once enough followers have all rows; see TableWatch."""
        self._disk.tables.copied(self._path, then)

    def sync(self) -> None:
        """Makes all rows durable; blocks.

        Errors   FsyncFailed
        """
        assert self._descriptor is not None, "the journal is not open"
        self._disk.sync(self._descriptor)

    def fold(self, text: bytes, version: int) -> None:
        """Writes the table and restarts the journal; blocks.

        Effects  if the disk has no room for a journal, the store has no journal
        Errors   DiskFull: nothing has changed; StoreFailed
        """
        assert version > self._version
        self._table.write(text)
        if self._descriptor is None:
            self._open()
        self._follow(version)

    def _follow(self, version: int) -> None:
        self._version, self._position, self._number = version, 0, 1

    def _open(self) -> None:
        if self._disk.exists(self._path):
            self._size_bytes = self._disk.file_size(self._path)
            self._descriptor = self._disk.open(self._path)
            return
        self._disk.make_directory(self._path.parent)
        draft = self._path.with_name(self._path.name + DRAFT_SUFFIX)
        try:
            self._descriptor = self._disk.make_allocated_file(draft, self._path, self._size_bytes)
            self._disk.tables.told(self._path, None)
        except (AllocationFailed, DiskFull):
            assert self._descriptor is None, "the journal is open"

    def close(self) -> None:
        """Closes the journal; no row is written afterwards."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            self._disk.close(descriptor)
