"""Entries of an index file are chained by slot: each names the one before it, the slot the newest.

slot 7 ──► 12 ──► 9 ──► 4 ──► 0
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broker.format.index_layout import SECOND_DIFFERENCE_MAX

ENTRY_TYPE: Final = np.dtype(
    [("hash", ">i4"), ("physical", ">i8"), ("second", ">i4"), ("previous", ">i4")]
)
"""An entry as it lies in its file (INDEX_ENTRY), for many at once."""
LINKED_MAX: Final = 1 << 20
"""Entries linked in one go."""
_NUMBER_BITS: Final = np.int64(20)


def link_entries(
    hashes: NDArray[Any], slots: NDArray[Any], number: int
) -> tuple[NDArray[np.int64], int]:
    """Hot: chain entries into a table of slots, which then names the newest of each chain.

    Shape    hashes of at most LINKED_MAX entries, not negative; the first gets this number; slots
             hold entry numbers, what is no number up to it counts as empty
    Returns  (number of the entry before each in its chain or 0, slots that were empty before)
    Cost     0.1 µs an entry in blocks of some ten thousand
    Source   IndexFile.putKey
    """
    count = len(hashes)
    packed = hashes.astype(np.int64) % len(slots) << _NUMBER_BITS
    packed |= np.arange(count, dtype=np.int64)
    packed.sort()
    place = packed & (LINKED_MAX - 1)
    slot = packed >> _NUMBER_BITS
    is_first = np.empty(count, dtype=np.bool_)
    is_first[:1] = True
    np.not_equal(slot[1:], slot[:-1], out=is_first[1:])
    before = np.empty(count, dtype=np.int64)
    before[1:] = place[:-1]
    before[1:] += number
    heads = slots[slot[is_first]].astype(np.int64)
    heads[(heads <= 0) | (heads > number)] = 0
    before[is_first] = heads
    previous = np.empty(count, dtype=np.int64)
    previous[place] = before
    is_last = np.ones(count, dtype=np.bool_)
    is_last[:-1] = is_first[1:]
    slots[slot[is_last]] = place[is_last] + number
    return previous, int(np.count_nonzero(heads == 0))


def second_differences(times_ms: NDArray[np.int64], begin_timestamp_ms: int) -> NDArray[np.int64]:
    """Return `second_difference` of many store times."""
    if begin_timestamp_ms <= 0:
        return np.zeros(len(times_ms), dtype=np.int64)
    seconds: NDArray[np.int64] = np.maximum(times_ms - begin_timestamp_ms, 0) // 1000
    return np.minimum(seconds, SECOND_DIFFERENCE_MAX)
