"""The interface of all views of the log: consume queues and the hash index.

Views are built from the commit log and can be rebuilt. Dispatch and recovery are loops over views;
a rebuild is a recovery from the log's minimum offset.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from pocketmq.model.batch import Written


class View(Protocol):
    """A structure derived from the log."""

    name: str
    """Name in messages and log events."""

    @property
    def durable_offset(self) -> int:
        """Physical offset: every record that starts below it has been applied."""

    def apply(self, written: Sequence[Written]) -> None:
        """Applies records in log order; ignores records that were applied before.

        Errors   DiskFull, AllocationFailed: the next call, even without records, continues
        """

    def flush(self) -> None:
        """Makes all applied records durable; blocks."""

    def truncate(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Removes all records at or after a physical offset.

        time_of   returns the store time of the record at a physical offset
        """

    def close(self) -> None:
        """Closes all files."""
