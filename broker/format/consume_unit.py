"""The consume unit: 20 bytes that lead from a queue offset to a record.

   0   8  physical_offset   where the record starts
   8   4  size              bytes of the record
  12   8  tags_code         hash of its tag, or delivery time in the schedule topic

Unit n of a queue lies at byte 20 * n of the queue's files. Where a queue's first message has an
offset above 0, the units before it are pre-blank: physical offset 0, size 2**31 - 1, tags code 0.
Source: ConsumeQueue.
"""

from typing import Final

import numpy as np

from broker.format.buffers import Buffer
from broker.format.layout import Layout

CONSUME_UNIT: Final = Layout(
    ("physical_offset", "q", "where the record starts"),
    ("size", "i", "bytes of the record"),
    ("tags_code", "q", "hash of its tag, or delivery time in the schedule topic"),
)
UNIT: Final = CONSUME_UNIT.struct
UNIT_SIZE: Final = CONSUME_UNIT.size
UNIT_TYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
PRE_BLANK: Final = UNIT.pack(0, PRE_BLANK_SIZE, 0)
EXTENSION_ADDRESS_MAX: Final = -2_147_483_649
"""A tags code at or below this is an address into the queue's extension (ConsumeQueueExt)."""


def round_file_size(size_bytes: int) -> int:
    """Return the size rounded up to whole units, as the file size of a queue must be."""
    return -(-size_bytes // UNIT_SIZE) * UNIT_SIZE


def first_file_position(queue_offset: int, file_size_bytes: int) -> int:
    """Return the base of the file that holds a unit: a byte position in its queue."""
    position = queue_offset * UNIT_SIZE
    return position - position % file_size_bytes


def valid_unit_count(units: Buffer) -> int:
    """Return how many units from the start of a file hold something.

    A unit holds something iff its physical offset is >= 0 and its size > 0; the first one that
    does not ends the data of the file.
    """
    columns = np.frombuffer(units, dtype=UNIT_TYPE)
    ends = (columns["size"] <= 0) | (columns["physical_offset"] < 0)
    first = int(ends.argmax()) if len(ends) else 0
    return first if len(ends) and ends[first] else len(ends)
