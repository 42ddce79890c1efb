"""Three offsets that must never be mixed up, and the address of a queue.

A physical offset counts bytes from the start of the whole commit log; a queue offset counts
messages of one queue; a file position counts bytes inside one file.
"""

from typing import NewType

PhysicalOffset = NewType("PhysicalOffset", int)
QueueOffset = NewType("QueueOffset", int)
FilePosition = NewType("FilePosition", int)

QueueKey = tuple[str, int]
"""(topic, queue id)."""

OFFSET_MAX = 2**63 - 1
"""Largest value an i64 field on disk or on the wire can hold."""
