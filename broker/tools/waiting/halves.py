"""Half messages without a decision: what a broker would still ask their producers about.

A half is decided when an op message names its queue offset. How far a broker looked its halves
through stands among the consumer offsets: those below were decided, given up, or put once more at
the end of the queue, where they are found.
Source: TransactionalMessageServiceImpl.check, TransactionalMessageBridge.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker.files.disk import Disk
from broker.format.record import decode_record
from broker.model.message import PRODUCER_GROUP, REAL_TOPIC, TRANSACTION_CHECK_TIMES, UNIQUE_KEY
from broker.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from broker.rebuild.log_files import KnownShape, LogFile, find_readable_files
from broker.tools.dump import Unit, queue_ids, queue_units
from broker.tools.lag import committed_of
from broker.tools.waiting.records import records_of

GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Whose consumer offsets say how far halves and op messages were looked through."""
_DIGITS_MAX: Final = 19


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
    """A record of decisions; `decided` is None where its body is none."""

    unit: Unit
    decided: list[int] | None


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
        """Return whether a half of this queue still waits for a decision."""
        return queue_offset >= self.looked and queue_offset not in self.decided


def decided_offsets(body: bytes) -> list[int] | None:
    """Return the queue offsets that the body of an op message names, None where it is none.

    Each is followed by a comma; versions before 5 write one alone.
    """
    parts = body.split(b",")
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    if not all(part.isdigit() and len(part) <= _DIGITS_MAX for part in parts):
        return None
    return [int(part) for part in parts]


def half_queues(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], *,
    views: Path | None = None,
) -> list[HalfQueue]:  # fmt: skip
    """Return all queues of halves with their decisions.

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
            queue.decided.update(op.decided or ())
        found.append(queue)
    return found


def open_halves(disk: Disk, directory: Path, sizes: KnownShape) -> Iterator[OpenHalf]:
    """Yield the halves that wait for a decision, in the order of their queues.

    Errors   as `half_queues`, and NotAStore
    """
    files, _ = find_readable_files(directory, sizes.commit_log_file_size_bytes)
    for queue in half_queues(disk, directory, sizes, files):
        units = queue_units(disk, directory, sizes, HALF_TOPIC, queue.queue_id)
        wanted = (unit for unit in units if queue.is_open(unit.queue_offset))
        for unit, record in records_of(files, wanted):
            if record is not None:
                yield _half(unit, record)


def _half(unit: Unit, record: bytes) -> OpenHalf:
    message = decode_record(record, unfold=False)
    properties: dict[str, str] = message.properties
    times = properties.get(TRANSACTION_CHECK_TIMES, "")
    return OpenHalf(
        queue_id=message.queue_id,
        queue_offset=unit.queue_offset,
        physical_offset=unit.physical_offset,
        topic=properties.get(REAL_TOPIC, ""),
        producer_group=properties.get(PRODUCER_GROUP, ""),
        message_id=properties.get(UNIQUE_KEY, ""),
        born_timestamp_ms=message.born_timestamp_ms,
        store_timestamp_ms=message.store_timestamp_ms,
        check_times=int(times) if times.isdigit() else 0,
    )


def _ops(files: Sequence[LogFile], units: Iterator[Unit]) -> Iterator[OpMessage]:
    for unit, record in records_of(files, units):
        if record is not None:
            yield OpMessage(unit, decided_offsets(decode_record(record).body))


def _looked_upto(disk: Disk, directory: Path) -> dict[int, int]:
    """Return how far the halves of each queue were looked through."""
    try:
        return committed_of(disk, directory, GROUP, HALF_TOPIC)
    except ValueError:  # Told by the check of tables; all halves without a decision count as open.
        return {}
