"""All consume queues of a store: a view of the log.

    consumequeue/TOPIC/QUEUE/FILE

A queue is created with its first record. Prepared and rollback records have no queue. Nor do
records with an invalid topic or queue id, which a damaged or foreign log may contain. Records of
the quarantine topic show where a repair removed messages from the log.
Source: ConsumeQueueStore, CommitLogDispatcherBuildConsumeQueue.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import close_all
from pocketmq.files.mapped_file import Keeper, MappedFile
from pocketmq.format.columns.heads import Numbers
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import UNIT_SIZE, round_file_size
from pocketmq.format.dispatch_batch import by_queue
from pocketmq.format.names import queue_directory, queue_id_from_name
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.log.queue_end import QueueEnd
from pocketmq.log.queue_extension import NO_EXTENSION, ExtensionFiles, QueueExtension
from pocketmq.log.queue_units import Units
from pocketmq.log.unit_buffer import UnitBuffers
from pocketmq.model.batch import Written
from pocketmq.model.errors import StoreGap, WrongFileSize
from pocketmq.model.message import QueueKey
from pocketmq.model.names import is_queue_topic
from pocketmq.model.stats import Gauge
from pocketmq.model.topic import QUARANTINE_TOPIC

FILES_APART_MAX: Final = 64
"""Upper limit of dirty files that are synced one by one; else the whole file system is synced."""
UNIT_NAMES: Final = UNIT_TYPE.names or ()
NO_ENDS: Final[Mapping[QueueKey, QueueEnd]] = {}
NONE_REMOVED: Final[Mapping[QueueKey, int]] = {}


class ConsumeQueueTable:
    """Queues by (topic, queue id)."""

    __slots__ = (
        "_batch_topics", "_buffers", "_disk", "_extension", "_file_size", "_gaps", "_held",
        "_keeper", "_unadopted", "damaged", "directory", "dirty", "extension_failures", "grown",
        "has_unsynced_cuts", "name", "queues", "removed", "stats",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        file_size_bytes: int,
        keeper: Keeper | None = None,
        extension: ExtensionFiles = NO_EXTENSION,
        removed: Mapping[QueueKey, int] = NONE_REMOVED,
        batch_topics: Container[str] = (),
    ) -> None:
        self._disk = disk
        self._extension = extension
        self._keeper = keeper
        self._file_size = round_file_size(file_size_bytes)
        self.directory = directory
        self.name = "consume queues"
        self.queues: dict[QueueKey, ConsumeQueue] = {}
        self._buffers = UnitBuffers()
        self._unadopted: dict[QueueKey, QueueEnd] = {}
        """Ends given to `load` that do not agree with the files of their queues."""
        self.damaged: set[QueueKey] = set()
        """Queues that lack files, or have a file of another length; found by `load`."""
        self.dirty: set[QueueKey] = set()
        """Queues that got records after their last flush; a flush removes them."""
        self.grown: set[QueueKey] = set()
        """Queues to whose files units were appended since the flush took this set."""
        self.has_unsynced_cuts = False
        """Whether a crash could restore units that were removed after the ends of queues. If so,
        the whole file system is synced before the next checkpoint."""
        self.removed = removed
        """Queue offsets below which messages of a deleted topic are left out; may grow later."""
        self._batch_topics = batch_topics  # Their queues have another format, and are not touched.
        self.extension_failures = 0
        """Number of messages since the start whose extension unit could not be written."""
        self._held: Sequence[Written] = ()
        self._gaps: dict[int, int] = {}
        """Log ranges, begin -> end, of the quarantine records that were applied."""
        self.stats: list[Gauge] = [
            Gauge(
                "pocketmq_consume_queue_files",
                "Files of all consume queues.",
                lambda: float(sum(len(queue.files.files) for queue in self.queues.values())),
            )
        ]

    @property
    def durable_offset(self) -> int:
        """The end of the last record with a unit in any queue; 0 without units."""
        return max((queue.max_physical_offset for queue in self.queues.values()), default=0)

    def durable_below(self, physical_offset: int) -> int:
        """Returns the value that `durable_offset` would have after `truncate`."""
        return max((queue.end_below(physical_offset) for queue in self.queues.values()), default=0)

    def load(
        self, *, read_only: bool = False, believed_upto: int = 0, knows_size: bool = False,
        ends: Mapping[QueueKey, QueueEnd] = NO_ENDS,
    ) -> None:  # fmt: skip
        """Finds all queues; ignores names that are no topic or no queue id.

        believed_upto   as in `ConsumeQueue.load`
        knows_size      whether the file size is certain: a file of another length is then damaged
        ends            queue ends; a queue whose end and files agree is not read
        Errors   NotAStore; WrongFileSize unless `knows_size`
        """
        root, _, is_written, _ = self._extension
        if root is not None and not is_written and not self._disk.exists(root):
            self._extension = NO_EXTENSION
        ends = self._usable(ends, believed_upto)
        for topic, queue_id, directory in self._found():
            queue = self._open(topic, queue_id, directory)
            known = ends.get((topic, queue_id))
            if known is None or not queue.adopt(known):
                self._load_queue(queue, read_only, believed_upto, knows_size)
                if known is not None:
                    self._unadopted[topic, queue_id] = known
        for key in ends.keys() - self.queues.keys():
            self._open_new(*key)
        self.damaged |= {key for key in ends if not self.queues[key].files.files}
        for key in [key for key, queue in self.queues.items() if not queue.files.files]:
            if key not in self.damaged:
                self._forget(key)

    def shortened(self, log_begin: int) -> set[QueueKey]:
        """Returns queues that lack units at begin or end, according to the ends given to `load`.

        log_begin   physical offset of the log's begin: units of older messages may be missing
        """
        return {
            key
            for key, known in self._unadopted.items()
            if key in self.queues and self.queues[key].lacks(known, log_begin)
        }

    def _found(self) -> Iterator[tuple[str, int, str]]:
        for topic in self._disk.names(self.directory):
            directory = self.directory / topic
            for name in self._disk.names(directory) if self._is_ours(topic) else ():
                queue_id = queue_id_from_name(name)
                if queue_id is not None:
                    yield topic, queue_id, f"{directory}/{queue_id}"

    def _usable(
        self, ends: Mapping[QueueKey, QueueEnd], believed_upto: int
    ) -> Mapping[QueueKey, QueueEnd]:
        if self._extension.directory is not None:
            return NO_ENDS
        return {
            key: end
            for key, end in ends.items()
            if end.max_physical_offset <= believed_upto
            and end.end > UNIT_SIZE * self.removed.get(key, 0)
        }

    def _load_queue(
        self, queue: ConsumeQueue, read_only: bool, believed_upto: int, knows_size: bool
    ) -> None:
        try:
            queue.load(read_only=read_only, believed_upto=believed_upto)
        except (StoreGap, WrongFileSize) as error:
            if isinstance(error, WrongFileSize) and not knows_size:
                raise
            self.damaged.add((queue.topic, queue.queue_id))

    def _open_new(self, topic: str, queue_id: int) -> ConsumeQueue:
        return self._open(topic, queue_id, queue_directory(self.directory, topic, queue_id))

    def _open(self, topic: str, queue_id: int, directory: Path | str) -> ConsumeQueue:
        queue = ConsumeQueue(
            self._disk,
            directory,
            self._file_size,
            topic=topic,
            queue_id=queue_id,
            keeper=self._keeper,
            extension=self._extension_of(topic, queue_id),
            buffers=self._buffers,
        )
        queue.writes_extension = self._extension.is_written
        assert (topic, queue_id) not in self.queues
        self.queues[topic, queue_id] = queue
        self._buffers.by_queue[topic, queue_id] = queue.buffer
        return queue

    def _extension_of(self, topic: str, queue_id: int) -> QueueExtension | None:
        root, size, is_written, bitmap_of = self._extension
        if root is None:
            return None
        directory = queue_directory(root, topic, queue_id)
        if not is_written and not self._disk.exists(directory):
            return None
        bitmap = partial(bitmap_of, topic)
        return QueueExtension(self._disk, directory, size, self._keeper, bitmap)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Returns a queue; None if it does not exist: no message was stored in it."""
        return self.queues.get((topic, queue_id))

    def apply(self, written: Sequence[Written]) -> None:
        """Appends a unit for each record to its queue.

        Errors   DiskFull, AllocationFailed: the remaining records are held for the next call
        """
        if self._held:
            written = [*self._held, *written]
        self._held = written = self._buffers.take(written, self.dirty)
        while (key := self._buffers.longest()) is not None:
            self.queues[key].units.write_out()
        if not written:
            return
        groups, apart = by_queue(written)
        for run in apart:
            if run.destination.topic == QUARANTINE_TOPIC:
                self.note_gaps((begin, begin + size) for begin, size in run.places())
        gaps = self._gaps.items()
        for key, runs in groups.items():
            group = self._not_removed(key, runs) if key in self.removed else runs
            queue = self.queues.get(key)
            if not group or (queue is None and not self._may_have_queue(key)):
                continue
            if queue is None:
                queue = self._open_new(*key)
            self.dirty.add(key)
            self.grown.add(key)
            queue.put_all(group, gaps)
            if queue.extension_failures:
                self._count_failures(queue)
        self._held = ()

    def _not_removed(self, key: QueueKey, runs: list[Written]) -> list[Written]:
        lowest = self.removed[key]
        kept = [run for run in runs if run.queue_offset + len(run) > lowest]
        return [run.behind(max(lowest - run.queue_offset, 0)) for run in kept]

    def apply_units(
        self, keys: Sequence[QueueKey], queue: Numbers, queue_offset: Numbers, units: Units,
        times_ms: Numbers,
    ) -> None:  # fmt: skip
        """Appends units in log order to their queues: `apply` by column, used by recovery.

        Shape    queue: indices into `keys`; queue_offset: the units' ordinals; times_ms: the
                 records' store times
        Errors   DiskFull, AllocationFailed: some were appended; the caller may repeat the call
        Cost     about 6 µs for each queue, 0.1 µs a unit
        """
        # Short integers get a radix sort.
        order = np.argsort(queue.astype(np.min_scalar_type(len(keys))), kind="stable")
        queue, queue_offset, times_ms = queue[order], queue_offset[order], times_ms[order]
        units = units[order].astype(UNIT_TYPE, copy=False)  # Joined arrays have another byte order.
        columns, content = (queue_offset, units, times_ms), units.tobytes()
        begins = np.flatnonzero(np.diff(queue, prepend=-1))
        breaks = np.flatnonzero(np.diff(queue_offset) != 1) + 1
        odd = set(np.searchsorted(begins, np.setdiff1d(breaks, begins), side="right").tolist())
        edges = [*begins.tolist(), len(queue)]
        for number, (begin, end) in enumerate(pairwise(edges), 1):
            key, first = keys[queue[begin]], int(queue_offset[begin])
            lowest = self.removed.get(key, 0)
            target = self.queues.get(key)
            if target is None and not self._may_have_queue(key):
                continue
            if lowest and queue_offset[begin:end].max() < lowest:  # All are of a deleted topic.
                continue
            target = target or self._open_new(*key)
            self.dirty.add(key)
            self.grown.add(key)
            is_row = number not in odd and first >= lowest and not self._extension.is_written
            if is_row and not target.max_offset:  # The first message makes the queue's files.
                self._put_apart(target, lowest, *(each[begin : begin + 1] for each in columns))
                begin, first = begin + 1, first + 1
            row = content[begin * UNIT_SIZE : end * UNIT_SIZE] if is_row else b""
            if begin < end and not (is_row and target.put_row(first, row)):
                self._put_apart(target, lowest, *(each[begin:end] for each in columns))

    def _put_apart(
        self, queue: ConsumeQueue, lowest: int, queue_offset: Numbers, units: Units,
        times_ms: Numbers,
    ) -> None:  # fmt: skip
        columns = (units[name].tolist() for name in UNIT_NAMES)
        rows = zip(queue_offset.tolist(), times_ms.tolist(), *columns, strict=True)
        for ordinal, time_ms, place, size, code in rows:
            if ordinal >= lowest:
                gaps = self._gaps.items()
                queue.put(place, size, code, ordinal, gaps, store_timestamp_ms=time_ms)
        self._count_failures(queue)

    def _count_failures(self, queue: ConsumeQueue) -> None:
        self.extension_failures += queue.extension_failures
        queue.extension_failures = 0

    def _may_have_queue(self, key: QueueKey) -> bool:
        return self._is_ours(key[0]) and queue_id_from_name(str(key[1])) is not None

    def _is_ours(self, topic: str) -> bool:
        return is_queue_topic(topic) and topic not in self._batch_topics

    def note_gaps(self, gaps: Iterable[tuple[int, int]]) -> None:
        """Notes log ranges [begin, end) of quarantine records, where messages were removed."""
        self._gaps.update(gaps)

    def remove(self, keys: set[QueueKey]) -> None:
        """Removes queues with their files, to be rebuilt; sets `has_unsynced_cuts`."""
        self.has_unsynced_cuts |= bool(keys & self.queues.keys())
        for key in sorted(keys & self.queues.keys()):
            queue = self._forget(key)
            for file in queue.remove():
                file.remove()
            queue.files.unlink_from(0)  # Files after a gap were never loaded.
            if queue.extension is not None:
                queue.extension.files.unlink_from(0)

    def finish_removals(self) -> None:
        """Removes queues with only messages of a deleted topic, which a crash kept from removal."""
        gone = {key for key, begin in self.removed.items() if self._is_below(key, begin)}
        self.remove(gone)

    def removed_topics(self) -> list[str]:
        """Returns the deleted topics that still have queues without a newer message, sorted."""
        found = {key[0] for key, begin in self.removed.items() if self._is_below(key, begin)}
        return sorted(found)

    def _is_below(self, key: QueueKey, queue_offset: int) -> bool:
        queue = self.queues.get(key)
        return queue is not None and queue.max_offset <= queue_offset

    def take(self, keys: set[QueueKey]) -> list[MappedFile]:
        """Removes queues from the table; returns their files, which the caller must unlink."""
        gone: list[MappedFile] = []
        for key in sorted(keys & self.queues.keys()):
            gone += self._forget(key).remove()
        return gone

    def truncate(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Drops the units of records at or after a physical offset in every queue.

        Effects  the cuts are durable on return, or with the next checkpoint if there are many or
                 some queues were doubtful (`has_unsynced_cuts`)
        """
        del time_of  # Units contain no time.
        self._held = ()
        doubtful, syncs = self.doubtful, list[Callable[[], None]]()
        for queue in self.queues.values():
            count, cut = len(queue.files.files), queue.truncate(physical_offset)
            if cut is not None:
                syncs.append(cut.sync)
            if len(queue.files.files) < count:  # A crash must not restore the removed files.
                syncs.append(partial(self._disk.sync_directory, queue.files.directory))
        if not all(queue.is_doubtful for queue in doubtful):
            self.has_unsynced_cuts = True
        if len(syncs) > FILES_APART_MAX:
            self.has_unsynced_cuts = True
        else:
            for sync in syncs:
                sync()
        for key in [key for key, queue in self.queues.items() if not queue.files.files]:
            self._forget(key)

    def _forget(self, key: QueueKey) -> ConsumeQueue:
        self.dirty.discard(key)
        self._buffers.discard(key)
        return self.queues.pop(key)

    def correct_min(self, min_physical_offset: int) -> None:
        """Sets every queue's minimum offset from the log's minimum offset."""
        for queue in self.queues.values():
            queue.correct_min(min_physical_offset)

    def ends(self) -> dict[QueueKey, QueueEnd]:
        """Returns the end of each queue."""
        return {key: queue.end() for key, queue in self.queues.items()}

    @property
    def doubtful(self) -> list[ConsumeQueue]:
        """Queues whose bytes after the last unit are unchecked since the start."""
        return [queue for queue in self.queues.values() if queue.is_doubtful]

    def settle(self, queues: Iterable[ConsumeQueue]) -> None:
        """Removes bytes that a crash left after the ends of queues: see `ConsumeQueue.settle`.

        Effects  the removal is durable after a sync: `has_unsynced_cuts`
        Errors   Corruption, ReadFailed, FileNotFoundError, WriteFailed
        """
        for queue in queues:
            if queue.is_doubtful and queue.files.files and queue.settle():
                self.has_unsynced_cuts = True

    def flush(self) -> None:
        """Makes all units durable; blocks."""
        self.settle(self.doubtful)
        self.dirty.clear()
        files = [file for queue in self.queues.values() for file in queue.dirty_files()]
        if len(files) > FILES_APART_MAX or self.has_unsynced_cuts:
            self._disk.sync_all(self.directory)
            self.has_unsynced_cuts = False
        else:
            for file in files:
                file.sync()
        for queue in self.queues.values():
            queue.count_as_flushed()

    @property
    def has_much_to_sync(self) -> bool:
        """Whether a sync would take so long that a start must not wait for it."""
        counts = len(self.dirty), len(self.doubtful)
        return self.has_unsynced_cuts or max(counts) > FILES_APART_MAX

    def close(self) -> None:
        """Closes all files."""
        close_all(queue.close for queue in self.queues.values())
