"""Queue offsets below which messages are purged, or expired by their topic's retention.

The messages stay in the log until their files expire. `pocketmq/floors.json` contains the floors by
topic and queue id. A floor above the end of its queue would hide new messages, so each start lowers
such floors.
Source: none; RocketMQ has one retention for all topics.
"""

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.json_text import read_object
from pocketmq.format.names import FLOORS_FILE, OWN_DIRECTORY
from pocketmq.format.table_json import queue_offsets
from pocketmq.model.errors import NotReplicated
from pocketmq.model.message import QueueKey
from pocketmq.store.tables.durable_table import DurableTable, Encode

logger = logging.getLogger(__name__)


class QueueFloors:
    """Floors by (topic, queue id)."""

    __slots__ = ("_durable", "_file", "_floors")

    def __init__(self, disk: Disk, directory: Path, pool: ThreadPoolExecutor) -> None:
        self._file = TableFile(disk, directory / OWN_DIRECTORY / FLOORS_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self._floors: dict[QueueKey, int] = {}

    def load(self) -> None:
        """Reads the table.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        self._floors = self._file.read(decode_floors) or {}

    def _snapshot(self) -> Encode:
        floors = dict(self._floors)
        return lambda: encode_floors(floors)

    def lower_to(self, end_of: Callable[[str, int], int]) -> bool:
        """Lowers floors to the ends of their queues, for a store that lost messages.

        Returns  whether any floor was above its end; `saved` makes the change durable
        """
        above = {key: end for key, floor in self._floors.items() if floor > (end := end_of(*key))}
        for (topic, queue_id), end in above.items():
            logger.warning(
                "floor.lowered",
                extra={
                    "topic": topic, "queue_id": queue_id,
                    "floor": self._floors[topic, queue_id], "end": end,
                },
            )  # fmt: skip
        self._floors |= above
        if above:
            self._durable.touch()
        assert all(floor <= end_of(*key) for key, floor in self._floors.items())
        return bool(above)

    def all(self) -> Mapping[QueueKey, int]:
        """Returns the floor of each queue that has one."""
        return self._floors

    def rise(self, floors: Mapping[QueueKey, int]) -> None:
        """Raises floors and begins a write; a lower floor has no effect."""
        higher = {key: floor for key, floor in floors.items() if floor > self._floors.get(key, 0)}
        if higher:
            self._floors |= higher
            self._durable.touch()
            self._durable.when_saved(lambda _: None)  # The next write repeats a failed write.

    async def raise_durably(self, floors: Mapping[QueueKey, int]) -> None:
        """Raises floors; durable when it returns.

        Errors   DiskFull, StoreFailed: no floor is raised; NotReplicated: they are raised
        """
        before = dict(self._floors)
        self.rise(floors)
        try:
            await self._durable.saved()
        except NotReplicated:
            raise
        except BaseException:
            for key in floors:
                self._floors[key] = before.get(key, 0)
            self._durable.touch()
            raise

    async def remove_topic(self, topic: str) -> None:
        """Drops the floors of a topic; durable when it returns.

        Errors   DiskFull, StoreFailed
        """
        gone = [key for key in self._floors if key[0] == topic]
        for key in gone:
            del self._floors[key]
        if gone:
            self._durable.touch()
            await self._durable.saved()

    async def saved(self) -> None:
        """Waits until every change so far is durable.

        Errors   DiskFull, StoreFailed
        """
        await self._durable.saved()


def decode_floors(content: bytes) -> dict[QueueKey, int]:
    """Decodes the table; ignores invalid rows.

    Errors   ValueError: the text is not a JSON object
    """
    return {
        (topic, queue_id): floor
        for topic, queues in read_object(content).items()
        if isinstance(queues, dict)
        for queue_id, floor in queue_offsets(queues).items()
        if floor
    }


def encode_floors(floors: Mapping[QueueKey, int]) -> bytes:
    """Returns the content of the file, without floors of 0."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, queue_id), floor in sorted(floors.items()):
        if floor:
            topics.setdefault(topic, {})[str(queue_id)] = floor
    return json.dumps(topics, indent=2, ensure_ascii=False).encode()
