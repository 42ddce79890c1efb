"""Writes consume units at their final position: the unit of queue offset n at byte 20 · n.

Units are buffered until each queue has many units, then written queue by queue. The position is
right only if a queue's offsets are continuous. Other queues are marked as irregular, and
`sequential.py` rebuilds them.
"""

import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Numbers
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.consume_unit import PRE_BLANK, UNIT_SIZE, first_file_position
from pocketmq.format.deleted_topics import left_over_of
from pocketmq.format.names import offset_file_name, queue_directory
from pocketmq.model.message import QueueKey

UNITS_HELD: Final = 200_000
"""Buffered units at which the buffer is written.

With many queues the limit is `UNITS_HELD_PER_QUEUE` for each queue, at most `UNITS_HELD_MAX`."""
UNITS_HELD_PER_QUEUE: Final = 50
UNITS_HELD_MAX: Final = 1_000_000
OPEN_FILES_MAX: Final = 512
UNIT_BYTES: Final = np.dtype(f"V{UNIT_SIZE}")


@dataclass(slots=True)
class QueueRun:
    """The units of one queue from one range of the log."""

    first: int
    count: int
    is_regular: bool = True

    @property
    def end(self) -> int:
        """The queue offset after the last unit."""
        return self.first + self.count


class QueueFiles:
    """The files of all queues below a directory, opened on demand."""

    __slots__ = ("_descriptors", "_file_size", "directory")

    def __init__(self, directory: Path, file_size_bytes: int) -> None:
        self.directory = directory
        self._file_size = file_size_bytes
        self._descriptors: OrderedDict[tuple[QueueKey, int], int] = OrderedDict()

    def write(self, key: QueueKey, queue_offset: int, units: memoryview) -> None:
        """Writes units of a queue from a queue offset on.

        Errors   IllegalTopic: the topic's name is invalid
        """
        for base, position, piece in self.pieces(queue_offset, units):
            os.pwrite(self._descriptor(key, base), piece, position)

    def pieces(self, queue_offset: int, units: memoryview) -> Iterator[tuple[int, int, memoryview]]:
        """Yields (queue position of a file's first byte, write position in the file, units)."""
        assert not len(units) % UNIT_SIZE
        position = queue_offset * UNIT_SIZE
        while units:
            base = first_file_position(position // UNIT_SIZE, self._file_size)
            room = base + self._file_size - position
            yield base, position - base, units[:room]
            position += room
            units = units[room:]

    def fill(self, key: QueueKey, first: int) -> None:
        """Writes pre-blank units from the start of the first message's file up to that message.

        Source   ConsumeQueue.putMessagePositionInfo
        """
        base = first_file_position(first, self._file_size)
        count = first - base // UNIT_SIZE
        if count:
            self.write(key, base // UNIT_SIZE, memoryview(PRE_BLANK * count))

    def forget(self, key: QueueKey) -> None:
        """Removes the written files of a queue."""
        self.close()
        shutil.rmtree(queue_directory(self.directory, *key), ignore_errors=True)

    def _descriptor(self, key: QueueKey, base: int) -> int:
        found = self._descriptors.get((key, base))
        if found is not None:
            self._descriptors.move_to_end((key, base))
            return found
        if len(self._descriptors) >= OPEN_FILES_MAX:
            os.close(self._descriptors.popitem(last=False)[1])
        directory = queue_directory(self.directory, *key)
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            directory / offset_file_name(base), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640
        )
        self._descriptors[key, base] = descriptor
        if os.fstat(descriptor).st_size < self._file_size:
            os.ftruncate(descriptor, self._file_size)
        return descriptor

    def close(self) -> None:
        """Closes all files."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


class HeldUnits:
    """Collects the units of one range in log order, and puts many at once.

    queues   the queues so far, numbered
    """

    __slots__ = ("_held", "_held_count", "queues")

    def __init__(self, queues: QueueTable) -> None:
        """Begins a range."""
        self.queues = queues
        self._held: list[tuple[Numbers, Numbers, NDArray[np.void]]] = []
        self._held_count = 0

    def add(self, queue: Numbers, queue_offset: Numbers, units: NDArray[np.void]) -> None:
        """Adds units: queue number, queue offset and 20 bytes of each unit."""
        assert len(queue) == len(units)
        assert len(queue_offset) == len(units)
        # As raw bytes: numpy's concatenation would convert the numbers' byte order.
        self._held.append((queue, queue_offset, units.view(UNIT_BYTES)))
        self._held_count += len(units)
        if self._held_count >= self._held_max():
            self.flush()

    def _held_max(self) -> int:
        raise NotImplementedError

    def flush(self) -> None:
        """Puts the buffered units.

        Cost     about 0.2 µs a unit with some hundred units of each queue
        """
        if not self._held_count:
            return
        queue, queue_offset, units = (
            np.concatenate(part) for part in zip(*self._held, strict=True)
        )
        self._held, self._held_count = [], 0
        self._put(queue, queue_offset, units)

    def _put(self, queue: Numbers, queue_offset: Numbers, units: NDArray[np.void]) -> None:
        raise NotImplementedError


class UnitWriter(HeldUnits):
    """Writes the units of one range of the log to the files of their queues.

    runs     the units of each queue, by queue number
    """

    __slots__ = ("_files", "runs")

    def __init__(self, files: QueueFiles, removed: str = "", left_over: str = "") -> None:
        """Begins a range; `removed` and `left_over` are the texts of `KnownShape`."""
        super().__init__(QueueTable(removed, left_over_of(left_over)))
        self._files = files
        self.runs: dict[int, QueueRun] = {}

    def _held_max(self) -> int:
        return min(max(UNITS_HELD, UNITS_HELD_PER_QUEUE * len(self.queues.keys)), UNITS_HELD_MAX)

    def _put(self, queue: Numbers, queue_offset: Numbers, units: NDArray[np.void]) -> None:
        small = queue.astype(np.uint16) if len(self.queues.keys) < 65_536 else queue
        order = np.argsort(small, kind="stable")
        queue, queue_offset = queue[order], queue_offset[order]
        content = units[order].view(np.uint8).data
        steps = np.flatnonzero(queue[1:] != queue[:-1]) + 1
        begins = [0, *steps.tolist()]
        is_gap = queue_offset[1:] != queue_offset[:-1] + 1
        is_gap[steps - 1] = False
        torn = set(queue[np.flatnonzero(is_gap)].tolist())
        for begin, end in zip(begins, [*begins[1:], len(queue)], strict=True):
            number = int(queue[begin])
            self._write_run(number, int(queue_offset[begin]), end - begin, is_torn=number in torn,
                            units=content[begin * UNIT_SIZE : end * UNIT_SIZE])  # fmt: skip

    def _write_run(
        self, number: int, first: int, count: int, *, is_torn: bool, units: memoryview
    ) -> None:
        run = self.runs.setdefault(number, QueueRun(first, 0))
        run.is_regular = run.is_regular and not is_torn and first == run.end and first >= 0
        run.count += count
        if run.is_regular:
            self._files.write(self.queues.keys[number], first, units)

    def queue_runs(self) -> dict[QueueKey, tuple[int, int, bool]]:
        """Returns (first queue offset, count, whether the offsets are continuous) by queue."""
        keys = self.queues.keys
        return {keys[n]: (run.first, run.count, run.is_regular) for n, run in self.runs.items()}
