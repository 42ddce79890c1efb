"""Queues of removed topics, and the queue offsets at which a new topic of the name continues.

A removed topic's messages stay in the log until they expire; rebuilt queues omit them. If the topic
is created again, its queue offsets continue above the old ones, so that old and new messages never
share an offset. RocketMQ starts again at 0. If RocketMQ rebuilds the queues, it restores the old
messages, and loses as many new messages.
`pocketmq/removed.json` contains the offsets by topic and queue id.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.json_text import read_object
from pocketmq.format.names import OWN_DIRECTORY, REMOVED_QUEUES_FILE
from pocketmq.format.table_json import queue_offsets
from pocketmq.model.message import QueueKey
from pocketmq.store.tables.durable_table import DurableTable, Encode, Revert


class RemovedQueues:
    """Next queue offsets of removed queues."""

    __slots__ = ("_durable", "_file", "_revert", "_topics", "next_offsets")

    def __init__(self, disk: Disk, directory: Path, pool: ThreadPoolExecutor) -> None:
        self._file = TableFile(disk, directory / OWN_DIRECTORY / REMOVED_QUEUES_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self._topics: dict[str, dict[str, int]] = {}
        self._revert = self._durable.revert = Revert(self._copy, self._restore)
        self.next_offsets: dict[QueueKey, int] = {}
        """Queue offset of each removed queue's next message; the dictionary is never replaced."""

    def load(self) -> None:
        """Reads the table.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        self._topics = self._file.read(decode_removed) or {}
        for topic, queues in self._topics.items():
            self.next_offsets.update({(topic, int(i)): offset for i, offset in queues.items()})
        self._revert.loaded()

    def has(self, topic: str) -> bool:
        """Returns whether a topic was ever removed, with or without queues."""
        return topic in self._topics

    def queues(self, topic: str) -> dict[str, int]:
        """Returns the next queue offsets of a topic's removed queues, by queue id."""
        return dict(self._topics.get(topic, {}))

    def _copy(self) -> dict[str, dict[str, int]]:
        return {topic: dict(queues) for topic, queues in self._topics.items()}

    def _restore(self, topics: dict[str, dict[str, int]]) -> None:
        self._topics = topics

    def _snapshot(self) -> Encode:
        topics = self._copy()
        return lambda: json.dumps(topics, indent=2, sort_keys=True).encode()

    async def add(self, topic: str, next_offsets: dict[int, int]) -> None:
        """Adds the queues of a removed topic by queue id; durable when it returns.

        Errors   DiskFull: none is added; NotReplicated, StoreFailed
        """
        for queue_id, value in next_offsets.items():
            assert value >= self.next_offsets.get((topic, queue_id), 0), "the next offset fell"
        queues = self._topics.setdefault(topic, {})
        queues.update({str(queue_id): value for queue_id, value in next_offsets.items()})
        self._durable.touch()
        await self._durable.saved()
        self.next_offsets.update({(topic, i): value for i, value in next_offsets.items()})


def decode_removed(content: bytes) -> dict[str, dict[str, int]]:
    """Decodes the table; ignores invalid rows.

    Errors   ValueError: the text is no JSON object
    """
    return {
        topic: {str(queue_id): at for queue_id, at in queue_offsets(queues).items()}
        for topic, queues in read_object(content).items()
        if isinstance(queues, dict)
    }
