"""Consumption modes of classic groups: RocketMQ's `config/messageRequestMode.json`.

    {"messageRequestModeMap":{"orders":{"readers":{
        "consumerGroup":"readers","mode":"POP","popShareQueueNum":-1,"topic":"orders"}}}}

A group without a row pulls. RocketMQ has a mode for each topic of a group; here a group has one
mode, as it either commits offsets or settles leases: if any of its rows is POP, it pops.
Source: MessageRequestModeManager.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.format.json_text import table_of
from pocketmq.model.step import Clock
from pocketmq.store.tables.durable_table import RowTable

REQUEST_MODES_FILE: Final = "messageRequestMode.json"
REQUEST_MODES: Final = "messageRequestModeMap"
POP: Final = "POP"
PULL: Final = "PULL"


class RequestModes:
    """The modes of groups."""

    __slots__ = ("_popping", "_table")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        self._table = RowTable(disk, directory, REQUEST_MODES_FILE, REQUEST_MODES, clock, pool)
        self._popping: frozenset[str] = frozenset()
        self._table.undo_refused(restore=lambda _: self._count())

    def load(self) -> None:
        """Reads the table.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        self._table.load()
        self._table.loaded()
        self._count()

    def pops(self, group: str) -> bool:
        """Returns whether a group's classic clients pop.

        Cost   0.1 µs
        """
        return group in self._popping

    def content(self) -> dict[str, Any]:
        """Returns the rows as they would be written now, for a copy."""
        return {REQUEST_MODES: self._table.rows}

    async def put(self, group: str, topic: str, mode: str, share_count: int) -> None:
        """Sets the mode of a group for `topic` and in all its other rows; durable on return.

        share_count   popShareQueueNum, which is stored for RocketMQ
        Errors        DiskFull, NotReplicated, StoreFailed
        """
        assert mode in (POP, PULL), "an unknown mode"
        found = {name: dict(table_of(row)) for name, row in self._table.rows.items()}
        found.setdefault(topic, {})[group] = {
            "consumerGroup": group, "mode": mode, "popShareQueueNum": share_count, "topic": topic,
        }  # fmt: skip
        for row in found.values():
            if group in row:
                row[group] = {**table_of(row[group]), "mode": mode}
        self._table.rows = found
        self._table.touch()
        self._count()
        await self._table.saved()

    def _count(self) -> None:
        self._popping = frozenset(
            group
            for row in self._table.rows.values()
            for group, mode in table_of(row).items()
            if table_of(mode).get("mode") == POP
        )
