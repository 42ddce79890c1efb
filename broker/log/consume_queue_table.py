"""All consume queues of a store: a view of the log.

    consumequeue/TOPIC/QUEUE/FILE

Queues come into being with their first record. Prepared and rolled-back records have none; those
of the quarantine topic tell where a repair took messages out of the log.
Source: ConsumeQueueStore, CommitLogDispatcherBuildConsumeQueue.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.files.mapped_file import Keeper, MappedFile
from broker.format.consume_unit import round_file_size
from broker.format.names import offset_from_file_name, queue_directory, queue_id_from_name
from broker.log.consume_queue import ConsumeQueue
from broker.log.queue_extension import QueueExtension
from broker.model.errors import IllegalTopic, StoreGap
from broker.model.message import TRANSACTION_COMMIT, TRANSACTION_NONE, DispatchEntry
from broker.model.offsets import QueueKey
from broker.model.stats import Gauge
from broker.model.system_topics import QUARANTINE_TOPIC
from broker.model.topic_names import check_topic


class Extension(NamedTuple):
    """Where the extension of all queues lies, how long its files are, and whether it is written.

    An extension that is not written is read all the same where it exists.
    """

    directory: Path | None
    file_size_bytes: int
    is_written: bool


NO_EXTENSION: Final = Extension(None, 0, False)


class ConsumeQueueTable:
    """Queues by (topic, queue id)."""

    __slots__ = (
        "_disk", "_extension", "_file_size", "_gaps", "_held", "_keeper", "damaged", "directory",
        "dirty", "extension_failures", "name", "queues", "removed", "stats",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        file_size_bytes: int,
        keeper: Keeper | None = None,
        extension: Extension = NO_EXTENSION,
    ) -> None:
        self._disk = disk
        self._extension = extension
        self._keeper = keeper
        self._file_size = round_file_size(file_size_bytes)
        self.directory = directory
        self.name = "consume queues"
        self.queues: dict[QueueKey, ConsumeQueue] = {}
        self.damaged: set[QueueKey] = set()
        """Queues that miss a file in the middle; found by `load`."""
        self.dirty: set[QueueKey] = set()
        """Queues that took a record since they were flushed; whoever flushes takes them out."""
        self.removed: dict[QueueKey, int] = {}
        """Queue offsets below which messages of removed topics stay out."""
        self.extension_failures = 0
        """Messages whose extension could not be written, since the start."""
        self._held: list[DispatchEntry] = []
        self._gaps: dict[int, int] = {}
        """Begin and end of the quarantine records that were applied."""
        self.stats: list[Gauge] = [
            Gauge(
                "pocketmq_consume_queue_files",
                "Files of all consume queues.",
                lambda: float(sum(len(queue.files.files) for queue in self.queues.values())),
            )
        ]

    @property
    def durable_offset(self) -> int:
        """End of the last record that has a unit in some queue, 0 without units."""
        return max((queue.max_physical_offset for queue in self.queues.values()), default=0)

    def durable_below(self, physical_offset: int) -> int:
        """Return `durable_offset` as `truncate` would leave it."""
        return max((queue.end_below(physical_offset) for queue in self.queues.values()), default=0)

    def load(self, *, read_only: bool = False) -> None:
        """Find all queues; names that are no topic or no queue id are passed over.

        Errors   NotAStore, WrongFileSize
        """
        for topic in self._disk.names(self.directory):
            for name in self._disk.names(self.directory / topic) if _is_topic(topic) else ():
                queue_id = queue_id_from_name(name)
                if queue_id is not None:
                    self._load_queue(topic, queue_id, read_only)
        for key in [key for key, queue in self.queues.items() if not queue.files.files]:
            del self.queues[key]

    def _load_queue(self, topic: str, queue_id: int, read_only: bool) -> None:
        try:
            self._open(topic, queue_id).load(read_only=read_only)
        except StoreGap:
            self.damaged.add((topic, queue_id))

    def _open(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = queue_directory(self.directory, topic, queue_id)
        queue = ConsumeQueue(
            self._disk,
            directory,
            self._file_size,
            topic=topic,
            queue_id=queue_id,
            keeper=self._keeper,
            extension=self._extension_of(topic, queue_id),
        )
        queue.writes_extension = self._extension.is_written
        self.queues[topic, queue_id] = queue
        return queue

    def _extension_of(self, topic: str, queue_id: int) -> QueueExtension | None:
        root, size, is_written = self._extension
        if root is None:
            return None
        directory = queue_directory(root, topic, queue_id)
        if not is_written and not self._disk.exists(directory):
            return None
        return QueueExtension(self._disk, directory, size, self._keeper)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue something was stored in."""
        return self.queues.get((topic, queue_id))

    def apply(self, entries: Sequence[DispatchEntry]) -> None:
        """Give each record to its queue.

        Errors   DiskFull, AllocationFailed: what was not taken is held for the next call
        """
        if self._held:
            entries = [*self._held, *entries]
        self._held = list(entries)
        groups: dict[QueueKey, list[DispatchEntry]] = {}
        for entry in entries:
            if entry[10] not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
                if entry[4] == QUARANTINE_TOPIC:
                    self._gaps[entry[0]] = entry[0] + entry[1]
                continue
            key = (entry[4], entry[5])
            if self.removed and entry[6] < self.removed.get(key, 0):
                continue
            group = groups.get(key)
            if group is None:
                groups[key] = [entry]
            else:
                group.append(entry)
        for key, group in groups.items():
            queue = self.queues.get(key) or self._open(*key)
            self.dirty.add(key)
            queue.put_all(group, self._gaps.items())
            if queue.extension_failures:
                self.extension_failures += queue.extension_failures
                queue.extension_failures = 0
        self._held = []

    def remove(self, keys: set[QueueKey]) -> None:
        """Remove queues with their files: they are to be built again."""
        for key in keys & self.queues.keys():
            queue = self.queues.pop(key)
            self.dirty.discard(key)
            for file in queue.remove():
                file.remove()
            directory = queue.files.directory
            for name in self._disk.names(directory):  # Files behind a gap were never loaded.
                if offset_from_file_name(name) is not None:
                    self._disk.unlink(directory / name)

    def take(self, keys: set[QueueKey]) -> list[MappedFile]:
        """Take queues out of the table; returns their files, to be removed."""
        gone: list[MappedFile] = []
        for key in keys & self.queues.keys():
            self.dirty.discard(key)
            gone += self.queues.pop(key).remove()
        return gone

    def truncate(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Drop the units of records at or behind a physical offset in every queue."""
        del time_of  # Units carry no time.
        self._held.clear()
        for queue in self.queues.values():
            queue.truncate(physical_offset)
        for key in [key for key, queue in self.queues.items() if not queue.files.files]:
            del self.queues[key]

    def correct_min(self, min_physical_offset: int) -> None:
        """Set every queue's minimum to what the log still holds."""
        for queue in self.queues.values():
            queue.correct_min(min_physical_offset)

    def flush(self) -> None:
        """Make all units durable; blocks."""
        self.dirty.clear()
        for queue in self.queues.values():
            for file in queue.dirty_files():
                file.sync()
            queue.count_as_flushed()

    def close(self) -> None:
        """Unmap all files."""
        for queue in self.queues.values():
            queue.close()


def _is_topic(name: str) -> bool:
    try:
        check_topic(name)
    except IllegalTopic:
        return False
    return True
