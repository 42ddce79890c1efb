"""The address of a queue, and how far offsets go.

A physical offset counts bytes from the start of the whole commit log; a queue offset counts
messages of one queue; a file position counts bytes inside one file.
"""

from typing import Final

QueueKey = tuple[str, int]
"""(topic, queue id)."""

INT32_MAX: Final = 2**31 - 1
OFFSET_MAX: Final = 2**63 - 1
"""Largest value an i64 field on disk or on the wire can hold."""


def first_unread(committed: int, lower: int, upper: int) -> int:
    """Return the first message of a queue of [lower, upper) that a group has not consumed.

    Messages that expired unread do not wait any more. Without one that waits it is `upper`:
    how far a group is behind is `upper` less this.
    """
    return min(max(committed, lower), upper)
