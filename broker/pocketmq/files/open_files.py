"""How many files are open at once: the ones not used for longest make room.

    add ──► [ oldest … newest ] ──too many──► used since it was looked at? back to the end : closed

A file in use by a thread (`MappedFile.hold`) stays. Closing loses nothing: written bytes are in the
kernel's hands, and the file is opened again when it is needed.
Cost: 20 ns for each use, some 20 µs to open a file again.
"""

from collections import OrderedDict

from pocketmq.files.mapped_file import MappedFile


class OpenFiles:
    """The open files of some rows, at most `count_max` where holders allow it."""

    __slots__ = ("_files", "count_max")

    def __init__(self, count_max: int) -> None:
        self.count_max = max(count_max, 1)
        self._files: OrderedDict[MappedFile, None] = OrderedDict()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._files)

    @property
    def size_bytes(self) -> int:
        """Length of all of them, as mapped."""
        return sum(file.size for file in self._files)

    def add(self, file: MappedFile) -> None:
        """Counts a file that was opened; closes another one if there are too many."""
        file.was_used = True
        self._files[file] = None
        if len(self._files) > self.count_max:
            self._close_one(file)

    def discard(self, file: MappedFile) -> None:
        """Forgets a file that was closed."""
        self._files.pop(file, None)

    def _close_one(self, newest: MappedFile) -> None:
        # Each file is looked at twice at most: the first look takes away the mark of its use.
        for _ in range(2 * len(self._files)):
            file = next(iter(self._files))
            if file is newest or file.is_held or file.was_used:
                file.was_used = False
                self._files.move_to_end(file)
                continue
            file.close()
            return
