"""Reads leased messages from the log again, to redeliver them."""

import asyncio
from bisect import bisect_left
from typing import Final

from pocketmq.format.record_heads import queue_offset_of
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.reading import ReadRange
from pocketmq.services.consume.leases import GroupQueue
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.read.reading import Reading

_BYTES_MAX: Final = 4 * 1024 * 1024
_COUNT: Final = 64
"""Upper limit of consecutive messages in one read, wanted or not."""


async def reread(reading: Reading, queue: GroupQueue, queue_offsets: list[int]) -> dict[int, bytes]:
    """Returns the records of a queue by queue offset; deleted and damaged records are left out.

    Shape    queue_offsets ascending
    Errors   StorageError, DiskSlow
    """
    wanted = set(queue_offsets)
    found: dict[int, bytes] = {}
    place = 0
    while place < len(queue_offsets):
        position = queue_offsets[place]
        last = queue_offsets[bisect_left(queue_offsets, position + _COUNT, place) - 1]
        asked = ReadRange(queue.topic, queue.queue_id, position, last - position + 1, _BYTES_MAX)
        try:
            result = await value_of(reading.pull(asked))
        except MessageDamaged as error:
            place = bisect_left(queue_offsets, error.next_begin_offset, place)
            continue
        for record in result.records:
            queue_offset = queue_offset_of(record)
            if queue_offset in wanted:
                found[queue_offset] = record
        if result.next_begin_offset <= position or len(found) == len(wanted):
            break
        place = bisect_left(queue_offsets, result.next_begin_offset, place)
        await asyncio.sleep(0)
    return found
