"""Damage in words: why a walk over the log stopped, and findings of a check of a store.

`verify`, `repair` and the backfill speak of damage in these words alone.
"""

from enum import Enum
from typing import NamedTuple


class ScanEnd(Enum):
    """Why a walk over a file of the log stopped."""

    FILE_FULL = "file full"
    UPTO = "reached the end asked for"
    END_OF_DATA = "end of data"
    TORN = "torn"
    BAD = "bad"


class Finding(NamedTuple):
    """One place.

    kind         a fixed word: record, torn_tail, unit, missing_key, …
    file         path below the store directory
    offset       byte in that file; for the log the physical offset is file name + offset
    expected     what should be there
    found        what is there
    repairable   whether `store repair` can mend it
    """

    kind: str
    file: str
    offset: int
    expected: str
    found: str
    repairable: bool = True
