"""Names of damage: why a walk over the log stopped, and findings of a check of a store.

`verify`, `repair` and the backfill use the same names.
"""

from enum import Enum
from typing import NamedTuple


class ScanEnd(Enum):
    """Why a walk over a file of the log stopped."""

    FILE_FULL = "file full"
    UPTO = "reached the requested end"
    END_OF_DATA = "end of data"
    TORN = "torn"
    BAD = "bad"


class Finding(NamedTuple):
    """One damaged or unexpected item.

    kind         a fixed word: record, torn_tail, unit, missing_key, …
    file         path below the store directory
    offset       byte in that file; in the log, physical offset is file name + offset
    expected     expected content
    found        actual content
    repairable   whether `store repair` can repair it
    """

    kind: str
    file: str
    offset: int
    expected: str
    found: str
    repairable: bool = True
