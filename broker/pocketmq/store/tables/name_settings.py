"""Settings that operators keep in the name server: RocketMQ's `kvConfig.json`.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4"}}}

They are texts by namespace and key. The broker is its own name server, so the file is in its store.
Source: KVConfigManager, KVConfigSerializeWrapper.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.json_text import table_of
from pocketmq.model.errors import CapacityReached
from pocketmq.model.step import Clock
from pocketmq.store.tables.durable_table import RowTable

NAME_SETTINGS_FILE: Final = "kvConfig.json"
NAME_SETTINGS: Final = "configTable"
SETTINGS_MAX: Final = 4_096
"""Upper limit of settings of all namespaces together: each change writes the whole file."""


class NameSettings:
    """The name server's settings."""

    __slots__ = ("_table",)

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        self._table = RowTable(disk, directory, NAME_SETTINGS_FILE, NAME_SETTINGS, clock, pool)
        self._table.undo_refused()

    def load(self) -> None:
        """Reads the table.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        self._table.load()
        self._table.loaded()

    def find(self, namespace: str, key: str) -> str | None:
        """Returns a setting, None if it does not exist."""
        value = table_of(self._table.rows.get(namespace)).get(key)
        return value if isinstance(value, str) else None

    def all_of(self, namespace: str) -> dict[str, str]:
        """Returns the settings of a namespace by key."""
        row = table_of(self._table.rows.get(namespace))
        return {key: value for key, value in row.items() if isinstance(value, str)}

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Sets a setting; durable when it returns.

        Errors   CapacityReached, DiskFull, NotReplicated, StoreFailed
        """
        row = self.all_of(namespace)
        if key not in row and self._count() >= SETTINGS_MAX:
            raise CapacityReached(limit=SETTINGS_MAX, field="settings of the name server")
        await self._table.put(namespace, {**row, key: value})

    async def remove(self, namespace: str, key: str) -> None:
        """Removes a setting, if it exists; durable when it returns.

        Errors   DiskFull, NotReplicated, StoreFailed
        """
        row = self.all_of(namespace)
        if row.pop(key, None) is None:
            await self._table.saved()
        elif row:
            await self._table.put(namespace, row)
        else:
            await self._table.drop(namespace)

    def _count(self) -> int:
        return sum(len(table_of(row)) for row in self._table.rows.values())
