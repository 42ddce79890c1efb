"""Buffers units of a queue in memory, so that one write stores many of them.

    dispatched ──take──► buffer of the queue ──write_out──► its file ──sync──► durable
                         └─ UNITS_BYTES_MAX

With ten thousand queues, each gets a message now and then. A write for each would cost more than
the rest of dispatch. Buffered units are read from here, and are lost in a crash; views are then
built again from the checkpoint on, which covers only units in files.

A buffer takes a unit if it follows the last one and there is room. Room is never more than the
file's allocated blocks, so the later write cannot fail. All other units are left to the queue.
"""

from collections.abc import Sequence
from typing import Final, final

from pocketmq.format.dispatch_batch import units_of
from pocketmq.model.batch import Written
from pocketmq.model.message import (
    FLAG_TRANSACTION_MASK,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    QueueKey,
)
from pocketmq.native.machine import BytesWriter, i64

UNITS_BYTES_MAX: Final = 4096
"""Of one queue that wait."""
ALL_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of all queues together; beyond that those that have waited for longest are written."""
_MASK: Final = FLAG_TRANSACTION_MASK


@final
class UnitBuffers:
    """The buffers of all queues, and the order in which they began to fill.

    size_bytes   of waiting units of all queues
    """

    __slots__ = ("_filled", "by_queue", "size_bytes")

    def __init__(self) -> None:
        self.by_queue: dict[QueueKey, UnitBuffer] = {}
        self._filled: dict[QueueKey, None] = {}
        self.size_bytes: i64 = 0

    def take(self, written: Sequence[Written], dirty: set[QueueKey]) -> list[Written]:
        """Keeps units that their buffers have room for; returns the other runs, in the same order.

        dirty    gets the queues whose buffers begin to fill
        Effects  of a queue with a run that is returned no later run is kept
        Cost     about 0.3 µs a run compiled
        """
        left: list[Written] = []
        for run in written:
            destination = run.destination
            transaction = destination.system_flag & _MASK
            key = (destination.topic, destination.queue_id)
            buffer = self.by_queue.get(key)
            if buffer is None or transaction not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
                left.append(run)
                continue
            was_empty = not len(buffer.units)
            if not buffer.append(run):
                left.append(run)
            elif was_empty:
                self._filled[key] = None
                dirty.add(key)
        return left

    def longest(self) -> QueueKey | None:
        """Returns the queue that began to fill first, None where too little waits to be written."""
        if self.size_bytes <= ALL_BYTES_MAX:
            return None
        assert self._filled
        key = next(iter(self._filled))
        del self._filled[key]
        return key

    def discard(self, key: QueueKey) -> None:
        """Drops a removed queue, and its waiting units."""
        self._filled.pop(key, None)
        buffer = self.by_queue.pop(key, None)
        if buffer is not None:
            buffer.clear()


@final
class UnitBuffer:
    """Units that are not yet in the file of one queue.

    units        behind the last unit in the file
    next_offset  queue offset of the next message, while there is room
    record_end   physical offset behind the last record that has a unit, in the file or here
    room         bytes of units it may take, 0: whatever comes is left to the queue
    """

    __slots__ = ("_all", "next_offset", "record_end", "room", "units")

    def __init__(self, buffers: UnitBuffers) -> None:
        self._all = buffers
        self.units = BytesWriter()
        self.next_offset: i64 = 0
        self.record_end: i64 = 0
        self.room: i64 = 0

    @property
    def size_bytes(self) -> int:
        """How much waits."""
        return len(self.units)

    def open(self, next_offset: int, room: int) -> None:
        """Begins at this unit; nothing waits yet.

        room   bytes of blocks behind the last unit in the file
        """
        assert not len(self.units)
        assert room >= 0
        self.next_offset = next_offset
        self.room = min(room, UNITS_BYTES_MAX)

    def append(self, run: Written) -> bool:
        """Keeps the units of a run that follows; else takes no more until `open`, returns False."""
        places = run.physical_offsets
        count: i64 = len(places)
        units = run.units or units_of(run)
        size: i64 = len(units)
        first: i64 = places[0]
        offset: i64 = run.queue_offset
        if size > self.room or offset != self.next_offset or first < self.record_end:
            self.room = 0
            return False
        self.units.write(units)
        self.room -= size
        self.next_offset += count
        self.record_end = places[-1] + run.sizes[-1]
        self._all.size_bytes += size
        return True

    def clear(self) -> None:
        """Holds nothing, as it was written or is of no use, and takes nothing until `open`."""
        self._all.size_bytes -= len(self.units)
        assert self._all.size_bytes >= 0
        if len(self.units):
            self.units = BytesWriter()
        self.room = 0
