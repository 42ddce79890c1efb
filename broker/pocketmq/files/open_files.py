"""Limits the number of open files by closing files that were not used recently (second chance).

A held file (`MappedFile.hold`) stays open. Closing loses nothing: written bytes are in the page
cache, and the file is opened again when it is needed.
Cost: 20 ns for each use, some 20 µs to open a file again.
"""

from collections import OrderedDict

from pocketmq.files.mapped_file import MappedFile


class OpenFiles:
    """The open files of some mapped file queues, at most `count_max` unless more are held."""

    __slots__ = ("_files", "count_max")

    def __init__(self, count_max: int) -> None:
        self.count_max = max(count_max, 1)
        self._files: OrderedDict[MappedFile, None] = OrderedDict()

    @property
    def count(self) -> int:
        """Number of open files."""
        return len(self._files)

    @property
    def size_bytes(self) -> int:
        """Total length of the open files."""
        return sum(file.size for file in self._files)

    def add(self, file: MappedFile) -> None:
        """Counts a file that was opened; closes another one if there are too many."""
        file.was_used = True
        self._files[file] = None
        if len(self._files) > self.count_max:
            self._close_one(file)

    def discard(self, file: MappedFile) -> None:
        """Removes a file that was closed."""
        self._files.pop(file, None)

    def _close_one(self, newest: MappedFile) -> None:
        # Each file is visited at most twice: the first visit clears `was_used`.
        for _ in range(2 * len(self._files)):
            file = next(iter(self._files))
            if file is newest or file.is_held or file.was_used:
                file.was_used = False
                self._files.move_to_end(file)
                continue
            file.close()
            return
