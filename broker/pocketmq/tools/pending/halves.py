"""Finds undecided half messages: a broker would still send checks to their producers.

A half message is decided when an op message contains its queue offset. The broker's transaction
check commits a consumer offset in each queue of half messages. Half messages below that offset were
decided, were discarded, or were rewritten at the end of the queue.
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
    """An undecided half message.

    topic         the topic to which it is delivered after a commit
    check_times   number of checks sent to its producer group
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
    """An op message, which records that half messages are decided.

    decided    queue offsets in the body of the op message, parsed as a broker parses them
    is_sound   the body contains only queue offsets
    """

    unit: Unit
    decided: list[int]
    is_sound: bool


@dataclass(slots=True)
class HalfQueue:
    """One queue of half messages, with the op messages of the op queue of the same id.

    first, end   range of the half messages' queue offsets
    looked       committed offset of the transaction check
    places       physical offsets of the half messages
    decided      queue offsets that op messages contain
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
        """Number of undecided half messages."""
        return sum(map(self.is_open, range(max(self.first, self.looked), self.end)))

    def is_open(self, queue_offset: int) -> bool:
        """Returns whether the half message at a queue offset is undecided."""
        return queue_offset >= self.looked and queue_offset not in self.decided


def half_queues(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], *,
    views: Path | None = None,
) -> list[HalfQueue]:  # fmt: skip
    """Returns all queues of half messages with their decisions.

    views    directory whose consumequeue/ is read; None: the store's own
    Errors   WrongFileSize, StoreGap: the queues must be rebuilt first
    Cost     reads every op message and every half message's unit; 8 bytes of memory a half message
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
    """Yields the undecided half messages, in order of queue id and queue offset.

    Errors   NotAStore, and those of `half_queues`
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
    """Returns the transaction check's committed offset in each queue of half messages."""
    try:
        return committed_of(disk, directory, TRANSACTION_GROUP, HALF_TOPIC)
    except ValueError:  # Verification reports the table. No half message counts as checked.
        return {}
