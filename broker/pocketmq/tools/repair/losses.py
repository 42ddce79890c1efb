"""Finds lost messages by the consume-queue units that point into damage."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, round_file_size
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, queue_directory, queue_id_from_name
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.errors import IllegalTopic, StorageError
from pocketmq.model.message import QueueKey
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.tools.repair.actions import Loss


class QueueWitness:
    """The consume queues of a store as they are; unreadable queues are skipped."""

    __slots__ = ("_queues",)

    def __init__(self, disk: Disk, directory: Path, sizes: KnownShape) -> None:
        root = directory / CONSUME_QUEUE_DIRECTORY
        file_size = round_file_size(sizes.consume_queue_file_size_bytes)
        self._queues: list[ConsumeQueue] = []
        for topic, queue_id in _queue_keys(disk, root):
            place = queue_directory(root, topic, queue_id)
            queue = ConsumeQueue(disk, place, file_size, topic=topic, queue_id=queue_id)
            try:
                queue.load(read_only=True)
            except StorageError:
                queue.files.close()
            else:
                self._queues.append(queue)

    def losses(self, begin: int, end: int) -> tuple[Loss, ...]:
        """Returns the messages whose records begin in [begin, end).

        Cost     some 40 looks for each queue
        """
        found = []
        for queue in self._queues:
            lower, upper = map(queue.units.first_at_or_behind, (begin, end))
            if lower < upper:
                units = queue.units.read(lower, upper - lower)
                count = sum(unit[1] != PRE_BLANK_SIZE for unit in UNIT.iter_unpack(units))
                found.append(Loss(queue.topic, queue.queue_id, lower, count))
        return tuple(found)

    def close(self) -> None:
        """Unmaps all files."""
        for queue in self._queues:
            queue.files.close()


def _queue_keys(disk: Disk, root: Path) -> Iterator[QueueKey]:
    for topic in disk.names(root):
        ids = map(queue_id_from_name, disk.names(root / topic))
        with suppress(IllegalTopic):
            queue_directory(root, topic, 0)
            yield from [(topic, queue_id) for queue_id in ids if queue_id is not None]
