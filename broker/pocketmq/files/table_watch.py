"""Callbacks about written tables, for brokers that copy them to followers."""

from collections.abc import Callable
from pathlib import Path

Told = Callable[[Path, range | None], None]
"""Arguments: path; positions of the changed bytes, or None for the whole file."""
Then = Callable[[BaseException | None], None]
"""Argument: None once the table is copied, or the error that prevents the copy."""
Copied = Callable[[Path, Then], None]


class TableWatch:
    """The callbacks of all tables on a disk; without followers they do nothing.

    told      called after a table, or a row of a journal, was written, in the writing thread
    copied    calls its second argument once enough followers have the table with a path
    """

    __slots__ = ("_is_begun", "copied", "told")

    def __init__(self) -> None:
        self._is_begun: bool
        self.told: Told
        self.copied: Copied
        self.end()

    def begin(self, told: Told, copied: Copied) -> None:
        """Sets the callbacks."""
        assert not self._is_begun, "the tables are watched already"
        self._is_begun = True
        self.told, self.copied = told, copied

    def end(self) -> None:
        """Removes the callbacks."""
        self._is_begun = False
        self.told = lambda path, changed: None
        self.copied = lambda path, then: then(None)
