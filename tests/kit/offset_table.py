"""The consumer offsets of a store without other tables."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pocketmq.format.table_json import decode_table
from pocketmq.store.tables.groups import GroupTable
from pocketmq.store.tables.offsets import ConsumerOffsets
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk


class Offsets:
    """The offsets of a store directory; `reopened` reads them as a start would."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.disk = directory, QuickDisk()
        self.pool = ThreadPoolExecutor(1)
        clock = FakeClock()
        self.groups = GroupTable(self.disk, directory, clock, self.pool)
        self.groups.load()
        self.table = ConsumerOffsets(self.disk, directory, clock, self.pool, self.groups)
        self.table.load()

    @property
    def path(self) -> Path:
        return self.directory / "config" / "consumerOffset.json"

    @property
    def rows(self) -> dict[str, dict[int, int]]:
        """The rows on disk: topic@group -> queue id -> queue offset."""
        rows: dict[str, dict[int, int]] = decode_table(self.path.read_bytes())["offsetTable"]
        return rows

    @property
    def marks(self) -> dict[str, Any]:
        """Returns the marks of the lease journal as they are on disk."""
        found: dict[str, Any] = decode_table(self.path.read_bytes()).get("pocketmqLeases", {})
        return found

    def reopened(self) -> ConsumerOffsets:
        self.pool.shutdown()
        return Offsets(self.directory).table
