"""Where each consumer group stands: RocketMQ's `config/consumerOffset.json`.

An offset is durable when `commit` returns; many commits share one write of the table.
Source: ConsumerOffsetManager.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import CONFIG_DIRECTORY, CONSUMER_OFFSETS_FILE
from broker.format.table_json import decode_table, encode_table
from broker.model.clock import Clock
from broker.store.durable_table import DurableTable
from broker.store.metadata import GroupTable

_OFFSETS: Final = "offsetTable"
_SEPARATOR: Final = "@"


class ConsumerOffsets:
    """Committed offsets by (group, topic, queue id)."""

    __slots__ = ("_clock", "_durable", "_file", "_groups", "_offsets", "_table")

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        clock: Clock,
        pool: ThreadPoolExecutor,
        groups: GroupTable,
    ) -> None:
        self._groups = groups
        self._file = TableFile(disk, directory / CONFIG_DIRECTORY / CONSUMER_OFFSETS_FILE)
        self._durable = DurableTable(self._file, pool, self._encode)
        self._clock = clock
        self._table: dict[str, Any] = {}
        self._offsets: dict[str, dict[int, int]] = {}

    def load(self) -> None:
        """Read the table.

        Errors   ValueError when neither the file nor its `.bak` can be read
        """
        self._table = self._file.read(decode_table) or {}
        rows = self._table.get(_OFFSETS) or {}
        # Other writers may quote the queue ids; RocketMQ reads both.
        self._offsets = {
            name: {int(queue_id): offset for queue_id, offset in queues.items()}
            for name, queues in rows.items()
        }
        self._table[_OFFSETS] = self._offsets

    def _encode(self) -> bytes:
        return encode_table(self._table)

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a group's offset in a queue, None before its first commit."""
        return self._offsets.get(f"{topic}{_SEPARATOR}{group}", {}).get(queue_id)

    async def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Set a group's offset in a queue; durable when it returns.

        Effects  a group that commits for the first time is made
        Errors   IllegalGroup, DiskFull
        Source   ConsumerOffsetManager.commitOffset, SubscriptionGroupManager.findSubscriptionGroup
        """
        await self._groups.ensure(group)
        queues = self._offsets.setdefault(f"{topic}{_SEPARATOR}{group}", {})
        queues[queue_id] = queue_offset
        version = self._table.get("dataVersion") or {}
        self._table["dataVersion"] = {
            "counter": int(version.get("counter", 0)) + 1,
            "stateVersion": int(version.get("stateVersion", 0)),
            "timestamp": self._clock.wall_ms(),
        }
        self._table = dict(sorted(self._table.items()))
        self._durable.touch()
        await self._durable.saved()
