"""What a check of a store found: one place that is not as it must be.

`verify`, `repair` and the backfill speak of damage in these words alone.
"""

from typing import NamedTuple


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
