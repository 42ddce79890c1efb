"""Finds the units of one queue file by physical offset, by bisection."""

import os
from bisect import bisect_left
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.backfill.arrow_views import QueueFile
from pocketmq.backfill.row_filter import NUMBER_MAX
from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE


class QueueSlice(NamedTuple):
    """The units of a queue file whose queue offsets are in [begin, end)."""

    file: QueueFile
    begin: int
    end: int

    def numbers(self, begin: int, end: int) -> tuple[int, int]:
        """Returns the queue offsets [low, high) of records with physical offsets in [begin, end).

        Errors   OSError
        Cost     some 20 reads of 20 bytes
        """
        first = self.file.base // UNIT_SIZE
        low, high = max(self.begin - first, 0), min(self.end - first, self.file.size // UNIT_SIZE)
        with Path(self.file.path).open("rb", buffering=0) as opened:
            descriptor = opened.fileno()

            def place_of(number: int) -> int:
                unit = os.pread(descriptor, UNIT_SIZE, number * UNIT_SIZE)
                place, size, _ = UNIT.unpack(unit) if len(unit) == UNIT_SIZE else (0, 0, 0)
                if size == PRE_BLANK_SIZE:
                    return -1
                return place if size > 0 <= place else NUMBER_MAX

            low = bisect_left(range(high), begin, low, max(low, high), key=place_of)
            high = bisect_left(range(high), end, low, max(low, high), key=place_of)
        return first + low, first + high

    def units(self, begin: int, end: int) -> NDArray[Any]:
        """Returns the units of records with physical offsets in [begin, end).

        Errors   OSError
        """
        low, high = self.numbers(begin, end)
        with Path(self.file.path).open("rb", buffering=0) as opened:
            content = os.pread(
                opened.fileno(), (high - low) * UNIT_SIZE, low * UNIT_SIZE - self.file.base
            )
        return np.frombuffer(content, UNIT_TYPE, len(content) // UNIT_SIZE)

    def place(self, number: int) -> int:
        """Returns the physical offset in the unit at a queue offset.

        Errors   OSError
        """
        with Path(self.file.path).open("rb", buffering=0) as opened:
            unit = os.pread(opened.fileno(), UNIT_SIZE, number * UNIT_SIZE - self.file.base)
        return int(UNIT.unpack(unit)[0])
