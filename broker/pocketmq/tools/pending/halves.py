"""Half messages without a decision, whose producers a broker would still check.

A half is decided when an op message names its queue offset. How far a broker looked its halves
through is among the consumer offsets: those below were decided, given up, or put once more at
the end of the queue, where they are found.
Source: TransactionalMessageServiceImpl.check, TransactionalMessageBridge.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.half_message import Half, read_half
from pocketmq.format.op_message import is_op_body, op_body, read_op
from pocketmq.model.message import REAL_TOPIC
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_readable_files
from pocketmq.tools.dump import Unit, queue_ids, queue_units, records_of
from pocketmq.tools.lag import committed_of


class OpenHalf(NamedTuple):
    """A half message without a decision.

    topic         where it goes once it is committed
    check_times   how often its producers were asked
    """

    queue_id: int
    queue_offset: int
    physical_offset: int
    topic: str
    producer_group: str
    message_id: str
    born_timestamp_ms: int
    store_timestamp_ms: int
    check_times: int


class OpMessage(NamedTuple):
    """A record of decisions.

    decided    the queue offsets it names, as a broker reads them
    is_sound   whether its body holds nothing else
    """

    unit: Unit
    decided: list[int]
    is_sound: bool


@dataclass(slots=True)
class HalfQueue:
    """One queue of halves, and the op messages of the queue of the same number.

    first, end   queue offsets of its halves, as far as the log has them
    looked       below it all halves are dealt with
    places       physical offsets of its halves
    decided      those that op messages name
    """

    queue_id: int
    first: int = 0
    end: int = 0
    looked: int = 0
    places: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    decided: set[int] = field(default_factory=set)
    ops: list[OpMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert 0 <= self.first <= self.end

    @property
    def open_count(self) -> int:
        """How many of its halves wait for a decision."""
        return sum(map(self.is_open, range(max(self.first, self.looked), self.end)))

    def is_open(self, queue_offset: int) -> bool:
        """Returns whether a half of this queue still waits for a decision."""
        return queue_offset >= self.looked and queue_offset not in self.decided


def half_queues(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], *,
    views: Path | None = None,
) -> list[HalfQueue]:  # fmt: skip
    """Returns all queues of halves with their decisions.

    views    the directory whose consumequeue/ is read; the store's own by default
    Errors   WrongFileSize, StoreGap: queues that must be built again first
    Cost     reads every op message; of halves the units alone, 8 bytes of memory each
    """
    root = views or directory
    looked = _looked_upto(disk, directory)
    found = []
    topics = (HALF_TOPIC, OP_HALF_TOPIC)
    for queue_id in sorted({n for topic in topics for n in queue_ids(disk, root, topic)}):
        units = (unit[:2] for unit in queue_units(disk, root, sizes, HALF_TOPIC, queue_id))
        pair: Any = np.dtype((np.int64, 2))
        halves = np.fromiter(units, dtype=pair)
        ends = (int(halves[0, 0]), int(halves[-1, 0]) + 1) if len(halves) else (0, 0)
        queue = HalfQueue(queue_id, *ends, looked.get(queue_id, 0), halves[:, 1].copy())
        for op in _ops(files, queue_units(disk, root, sizes, OP_HALF_TOPIC, queue_id)):
            queue.ops.append(op)
            queue.decided.update(op.decided)
        found.append(queue)
    return found


def open_halves(disk: Disk, directory: Path, sizes: KnownShape) -> Iterator[OpenHalf]:
    """Yields the halves that wait for a decision, in the order of their queues.

    Errors   as `half_queues`, and NotAStore
    """
    files, _ = find_readable_files(directory, sizes.commit_log_file_size_bytes)
    for queue in half_queues(disk, directory, sizes, files):
        units = queue_units(disk, directory, sizes, HALF_TOPIC, queue.queue_id)
        wanted = (unit for unit in units if queue.is_open(unit.queue_offset))
        for _, record in records_of(files, wanted):
            if record is not None:
                yield _half(queue.queue_id, read_half(record))


def _half(queue_id: int, half: Half) -> OpenHalf:
    return OpenHalf(
        queue_id=queue_id,
        queue_offset=half.place.queue_offset,
        physical_offset=half.place.physical_offset,
        topic=half.text(REAL_TOPIC),
        producer_group=half.group,
        message_id=half.place.unique_key,
        born_timestamp_ms=half.born_ms,
        store_timestamp_ms=half.store_ms,
        check_times=half.checks,
    )


def _ops(files: Sequence[LogFile], units: Iterator[Unit]) -> Iterator[OpMessage]:
    for unit, record in records_of(files, units):
        if record is not None:
            yield OpMessage(unit, read_op(record), is_op_body(op_body(record)))


def _looked_upto(disk: Disk, directory: Path) -> dict[int, int]:
    """Returns how far the halves of each queue were looked through."""
    try:
        return committed_of(disk, directory, TRANSACTION_GROUP, HALF_TOPIC)
    except ValueError:  # Told by the check of tables; all halves without a decision count as open.
        return {}
