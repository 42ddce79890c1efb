"""Units that many records have in further queues (format/multi_dispatch.py).

Hardly any store has some.
"""

from typing import Final, NamedTuple

import numpy as np

from pocketmq.format.columns.heads import Heads, Numbers
from pocketmq.format.columns.properties import Spans
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.multi_dispatch import further_places
from pocketmq.format.properties import decode_properties


class Further(NamedTuple):
    """Units of further queues: the record of each (rising), queue number and queue offset."""

    record: Numbers
    queue: Numbers
    queue_offset: Numbers


_NONE: Final = Further(*(np.zeros(0, dtype=np.int64),) * 3)


def further_units(
    buffer: bytearray, heads: Heads, queue: Numbers, queues: QueueTable, told: Spans
) -> Further:
    """Returns the further units of many records.

    Shape    queue has the records' own queue numbers; told is where records have such units
    Returns  none that precedes the first message of a queue that was deleted and made again
    Cost     some 10 µs for each record that does
    """
    found: list[tuple[int, int, int]] = []
    for record in told.record.tolist():
        begin, place = int(heads.block_begin[record]), int(heads.physical_offset[record])
        block = buffer[begin : begin + int(heads.block_size[record])]
        own = queues.keys[int(queue[record])]
        for (topic, queue_id), queue_offset in further_places(*own, decode_properties(block)):
            if place >= queues.first_place(topic, queue_id):
                number = queues.number_of(topic.encode(), queue_id)
                found.append((record, number, queue_offset))
    return Further(*np.array(found, dtype=np.int64).reshape(-1, 3).T) if found else _NONE
