"""A small file that is replaced as a whole, with the previous version beside it as `.bak`.

Order of a write: draft, sync, current to .bak, draft to current, sync the directory. A crash at any
point leaves the new or the previous version complete under one of the two names.
Source: ConfigManager.persist, load.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from broker.files.disk import Disk
from broker.format.names import BACKUP_SUFFIX
from broker.model.errors import DiskFull, TableUnreadable

DRAFT_SUFFIX = ".draft"

Content = TypeVar("Content")


class TableFile:
    """One table of a store."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path

    def read(self, parse: Callable[[bytes], Content]) -> Content | None:
        """Return the parsed current version, else the parsed previous one, None without both.

        Errors   TableUnreadable: a version exists, and `parse` raises ValueError for all there are
        """
        failure: ValueError | None = None
        for path in (self.path, self.path.with_name(self.path.name + BACKUP_SUFFIX)):
            if not self._disk.exists(path):
                continue
            try:
                return parse(self._disk.read_file(path))
            except ValueError as error:
                failure = failure or error
        if failure is not None:
            raise TableUnreadable(path=str(self.path), why=str(failure)) from failure
        return None

    def write(self, content: bytes) -> None:
        """Replace the table durably.

        Blocks   two or three syncs: run it off the event loop
        Errors   DiskFull, FsyncFailed; the table stays as it was
        """
        self._disk.make_directory(self.path.parent)
        draft = self.path.with_name(self.path.name + DRAFT_SUFFIX)
        try:
            self._disk.write_file(draft, content)
            if self._disk.exists(self.path):
                self._disk.rename(self.path, self.path.with_name(self.path.name + BACKUP_SUFFIX))
            self._disk.rename(draft, self.path)
        except DiskFull:  # A part of a draft would take room that is short already.
            self._disk.unlink(draft)
            raise
        self._disk.sync_directory(self.path.parent)
