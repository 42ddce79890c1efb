"""The interface of all views of the log: consume queues and the hash index.

The commit log is the only truth; a view is built from it and can be built again. Dispatch is a loop
over views, recovery is a loop over views, a rebuild is recovery from the log's minimum.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from pocketmq.model.batch import Written


class View(Protocol):
    """A structure derived from the log."""

    name: str
    """Name of the view in messages and log events."""

    @property
    def durable_offset(self) -> int:
        """Every record that starts before this physical offset has been applied."""

    def apply(self, written: Sequence[Written]) -> None:
        """Takes records in log order; records it holds already change nothing.

        Errors   DiskFull, AllocationFailed: apply, first with nothing, goes on where it stopped
        """

    def flush(self) -> None:
        """Makes all applied records durable; blocks."""

    def truncate(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Forgets every record at or behind a physical offset; `time_of` one: its store time."""

    def close(self) -> None:
        """Unmaps all files."""
