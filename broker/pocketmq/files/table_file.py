"""A small file that is replaced as a whole, with the previous version beside it as `.bak`.

A write creates a draft, syncs it, renames the current file to .bak and the draft to the current
file, and syncs the directory. A crash at any point leaves the new or the previous version complete
under one of the two names. On a full disk, `.bak` is removed to make room for the draft, if the
current version is known to be valid.

For a table with secrets no older version is kept, as removed entries could be restored from it: the
draft replaces the current file.
Source: ConfigManager.persist, load.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pocketmq.files.disk import DRAFT_SUFFIX as DRAFT_SUFFIX
from pocketmq.files.disk import Disk
from pocketmq.files.enclosure import FILE_MODE, PRIVATE_MODE
from pocketmq.files.table_watch import Copied, Then
from pocketmq.format.json_text import Content, first_sound
from pocketmq.format.names import BACKUP_SUFFIX
from pocketmq.model.errors import DiskFull


class TableFile:
    """One table of a store.

    is_private   whether the table has secrets: only the broker's user can read it
    """

    __slots__ = ("_copied", "_disk", "_is_private", "is_sound", "path")

    def __init__(self, disk: Disk, path: Path, *, is_private: bool = False) -> None:
        self._disk = disk
        self._is_private = is_private
        self.path = path
        self.is_sound = False
        """Whether this object read or wrote the current version."""
        self._copied: Copied | None = None
        """`TableWatch.copied` as it was at the last write, which may end after the store closed."""

    def read(self, parse: Callable[[bytes], Content]) -> Content | None:
        """Returns the parsed current version, else the parsed previous version; None without files.

        Errors   TableUnreadable: `parse` raised ValueError for every version it was given;
                 ReadFailed
        """
        found = first_sound(self._versions(), parse)
        if found is None:
            return None
        path, content = found
        self.is_sound = path == self.path
        return content

    def _versions(self) -> Iterator[tuple[Path, bytes]]:
        for path in (self.path, self.previous):
            try:
                content = self._disk.read_file(path)
            except FileNotFoundError:  # A running broker may be renaming the file.
                continue
            yield path, content
            if self._is_private:
                return

    @property
    def previous(self) -> Path:
        """Path of the previous version."""
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    def write(self, content: bytes) -> None:
        """Replaces the table durably.

        Blocks   two or three syncs: run it off the event loop
        Errors   DiskFull, AllocationFailed, WriteFailed, FsyncFailed; `read` still returns the old
                 version, or the new one if only a later sync failed
        """
        self._disk.make_directory(self.path.parent)
        self._copied = self._disk.tables.copied
        try:
            self._replace(content)
        except DiskFull:
            is_needed = not (self.is_sound and self._disk.exists(self.path))
            if is_needed or not self._disk.exists(self.previous):
                raise
            self._disk.unlink(self.previous)
            self._replace(content)
        assert self._disk.exists(self.path), f"{self.path} does not exist after it was written"
        self._disk.sync_directory(self.path.parent)
        if self._is_private and self._disk.exists(self.previous):  # An older PocketMQ kept it.
            self._disk.unlink(self.previous)
            self._disk.sync_directory(self.path.parent)
        self.is_sound = True
        self._disk.tables.told(self.path, None)

    def when_copied(self, then: Then) -> None:
        """Calls `then` with None once enough followers have the version that was written last."""
        (self._copied or self._disk.tables.copied)(self.path, then)

    def _replace(self, content: bytes) -> None:
        draft = self.path.with_name(self.path.name + DRAFT_SUFFIX)
        try:
            self._disk.write_file(draft, content, PRIVATE_MODE if self._is_private else FILE_MODE)
            if self._disk.exists(self.path) and not self._is_private:
                self._disk.rename(self.path, self.previous)
            self._disk.rename(draft, self.path)
        except DiskFull:  # An unfinished draft would use scarce space.
            self._disk.unlink(draft)
            raise
