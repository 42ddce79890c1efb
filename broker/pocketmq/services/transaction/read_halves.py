"""Reads half messages and op messages from an open store.

Each is read by itself: a damaged one does not prevent the reading of others.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from pocketmq.format.half_message import Half, read_half
from pocketmq.format.op_message import read_op
from pocketmq.format.record import BadRecord
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.reading import PullStatus, ReadRange
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

READ_BYTES_MAX: Final = 1024 * 1024
OPS_READ_MAX: Final = 512
_QUEUE_OFFSET: Final = slice(20, 28)

logger = logging.getLogger(__name__)


class HalfReader:
    """Reads queue 0 of both topics."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def range_of(self, topic: str) -> tuple[int, int]:
        """Returns (min, max) queue offset."""
        return self._store.reading.queue_range(topic, 0)

    async def read(self, queue_offsets: Sequence[int]) -> dict[int, Half | None]:
        """Returns half messages by queue offset: None for one that is damaged or gone for good.

        Shape    queue_offsets rising
        Effects  one that is not there yet is missing, as are those behind READ_BYTES_MAX or so
        Errors   StorageError, DiskSlow
        """
        found: dict[int, Half | None] = {}
        read_bytes = 0
        for begin, end in _ranges(queue_offsets):
            first = begin
            while first < end and read_bytes < READ_BYTES_MAX:
                records, following = await self._some(first, end - first)
                halves = {_queue_offset(record): _half_of(record) for record in records}
                last = min(following, end)
                found |= {at: halves.get(at) for at in range(first, last)}
                read_bytes += sum(map(len, records))
                first = last if following > first else end
        return found

    async def _some(self, queue_offset: int, count: int) -> tuple[list[bytes], int]:
        wanted = ReadRange(HALF_TOPIC, 0, queue_offset, count, READ_BYTES_MAX)
        try:
            result = await value_of(self._store.reading.pull(wanted))
        except MessageDamaged as error:
            logger.warning("message.damaged", extra={"reason": str(error)})
            return [], queue_offset + 1
        if result.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
            return result.records, result.next_begin_offset
        if result.status in (PullStatus.EXPIRED, PullStatus.OFFSET_TOO_SMALL):
            return [], max(result.next_begin_offset, queue_offset + 1)
        return [], queue_offset

    async def ops(self, begin: int) -> AsyncIterator[tuple[int, list[int]]]:
        """Yields (queue offset, half messages it names) of the op messages from an offset on.

        Effects  one that is damaged names none
        Errors   StorageError, DiskSlow
        """
        _, upper = self.range_of(OP_HALF_TOPIC)
        position = begin
        while position < upper:
            wanted = ReadRange(OP_HALF_TOPIC, 0, position, OPS_READ_MAX, READ_BYTES_MAX)
            try:
                result = await value_of(self._store.reading.pull(wanted))
            except MessageDamaged as error:
                logger.warning("message.damaged", extra={"reason": str(error)})
                yield position, []
                position = error.next_begin_offset
                continue
            for number, record in enumerate(result.records, start=position):
                yield number, _named_by(record)
            if result.next_begin_offset <= position:
                return
            position = result.next_begin_offset
            await asyncio.sleep(0)


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Returns rising numbers as ranges of those next to each other."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return ranges


def _queue_offset(record: bytes) -> int:
    return int.from_bytes(record[_QUEUE_OFFSET])


def _half_of(record: bytes) -> Half | None:
    try:
        return read_half(record)
    except BadRecord:
        return None


def _named_by(record: bytes) -> list[int]:
    try:
        return read_op(record)
    except BadRecord:
        return []
