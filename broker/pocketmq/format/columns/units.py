"""Consume units of a file as one numpy array (`consume_unit` has one unit)."""

from typing import Final

import numpy as np

from pocketmq.format.layout import Buffer

UNIT_TYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])


def valid_unit_count(units: Buffer) -> int:
    """Returns the number of leading units of a file that are written.

    A written unit has a physical offset >= 0 and a size > 0. The count ends before any other unit.
    """
    columns = np.frombuffer(units, dtype=UNIT_TYPE)
    ends = (columns["size"] <= 0) | (columns["physical_offset"] < 0)
    first = int(ends.argmax()) if len(ends) else 0
    return first if len(ends) and ends[first] else len(ends)
