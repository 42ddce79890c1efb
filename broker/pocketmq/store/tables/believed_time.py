"""Keeps the wall time that retention believes while the clock is far ahead: `pocketmq/clock.json`.

    {"believed_ms": 1795000000000}           0: the clock is believed

Source: none; RocketMQ believes each clock.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.json_text import is_integer, read_object
from pocketmq.format.names import CLOCK_FILE, OWN_DIRECTORY
from pocketmq.model.message import OFFSET_MAX
from pocketmq.store.tables.durable_table import DurableTable, Encode


class BelievedTime:
    """The believed time of one store, and its file."""

    __slots__ = ("_durable", "_file", "time_ms")

    def __init__(self, disk: Disk, directory: Path, pool: ThreadPoolExecutor) -> None:
        self._file = TableFile(disk, directory / OWN_DIRECTORY / CLOCK_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self.time_ms = 0

    def load(self) -> None:
        """Reads the file; a missing file counts as 0.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        self.time_ms = self._file.read(_decode) or 0

    def _snapshot(self) -> Encode:
        text = json.dumps({"believed_ms": self.time_ms})
        return text.encode

    async def put(self, time_ms: int) -> None:
        """Stores a time, or 0; durable when it returns.

        Errors   DiskFull, StoreFailed
        """
        assert time_ms >= 0, "negative time"
        self.time_ms = time_ms
        self._durable.touch()
        await self._durable.saved()


def _decode(content: bytes) -> int:
    """Decodes the file; an invalid time counts as 0.

    Errors   ValueError: the text is not a JSON object
    """
    found = read_object(content).get("believed_ms")
    return int(found) if found is not None and is_integer(found, 0, OFFSET_MAX) else 0
