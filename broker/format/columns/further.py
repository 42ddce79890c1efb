"""Units that many records have in further queues (format/multi_dispatch.py).

Hardly any store has some: a chunk of records is searched once for the name of the property.
"""

from typing import Final, NamedTuple

import numpy as np

from broker.format.columns.heads import Heads, Numbers
from broker.format.columns.queues import QueueTable
from broker.format.content import NAME_SEPARATOR, decode_properties
from broker.format.multi_dispatch import further_places
from broker.model.message import MULTI_QUEUE_OFFSET

_NEEDLE: Final = f"{MULTI_QUEUE_OFFSET}{NAME_SEPARATOR}".encode()


class Further(NamedTuple):
    """Units of further queues: the record of each (rising), queue number and queue offset."""

    record: Numbers
    queue: Numbers
    queue_offset: Numbers


_NONE: Final = Further(*(np.zeros(0, dtype=np.int64),) * 3)


def further_units(buffer: bytearray, heads: Heads, queue: Numbers, queues: QueueTable) -> Further:
    """Return the further units of many records.

    Shape    queue has the records' own queue numbers
    Cost     one search for a name where there are none, some 10 µs for each record that has some
    """
    if not len(heads):
        return _NONE
    begins = heads.begin
    found: list[tuple[int, int, int]] = []
    at = buffer.find(_NEEDLE, int(begins[0]))
    while at >= 0:
        record = int(begins.searchsorted(at, "right")) - 1
        begin = int(heads.block_begin[record])
        end = begin + int(heads.block_size[record])
        if at < begin:  # In a body.
            at = buffer.find(_NEEDLE, begin)
            continue
        if at >= end:  # Behind the last record.
            break
        own = queues.keys[int(queue[record])]
        for (topic, queue_id), queue_offset in further_places(
            *own, decode_properties(buffer[begin:end])
        ):
            number = queues.number_of(topic.encode(), queue_id)
            found.append((record, number, queue_offset))
        at = buffer.find(_NEEDLE, end)
    return Further(*np.array(found, dtype=np.int64).reshape(-1, 3).T) if found else _NONE
