"""Writes the consume queue files of one task as drafts, and puts many in their places at once.

    units, queue by queue ─► drafts/0, drafts/1, … ─► durable ─► consumequeue/T/0/…

All drafts of a task are in one directory. A directory for each queue would double the cost of small
queues: ext4 takes 1 ms for a new directory after it removed many. Each file is opened once, and its
digest is that of the bytes in memory.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import PRE_BLANK_SIZE
from pocketmq.format.names import (
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    offset_file_name,
    queue_directory,
)
from pocketmq.model.message import QueueKey
from pocketmq.rebuild.manifest import ContentDigest, publish
from pocketmq.rebuild.unit_files import QueueFiles

WAITING_MAX: Final = 256
"""Number of complete files that are made durable together: the first fsync then commits the file
system's changes for all of them."""


class Draft:
    """One file that is being written from its begin to its end.

    row   the file's row of the manifest, as JSON, once the file is complete
    """

    __slots__ = ("_digest", "_places", "descriptor", "draft", "path", "row")

    def __init__(self, draft: Path, path: str, size_bytes: int) -> None:
        self.draft = draft
        self.path = path
        self.row: list[Any] = []
        self._digest = ContentDigest()
        self._places: list[int] = []
        self.descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        os.ftruncate(self.descriptor, size_bytes)

    def write(self, position: int, units: memoryview) -> None:
        """Appends units."""
        assert position == self._digest.size, f"{self.path} has no units before {position}"
        os.pwrite(self.descriptor, units, position)
        self._digest.add(units.tobytes())
        found = np.frombuffer(units, UNIT_TYPE)
        places = found["physical_offset"][found["size"] != PRE_BLANK_SIZE]
        if len(places):
            self._places = [*self._places[:1], int(places[0]), int(places[-1])]

    def complete(self, size_bytes: int) -> None:
        """Begins to write the file back; no units follow."""
        os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        self._digest.add_zeros(size_bytes - self._digest.size)
        source = [self._places[0], self._places[-1]] if self._places else []
        self.row = [self.path, size_bytes, self._digest.hexdigest(), source]

    def close(self) -> None:
        """Closes the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class DraftedFiles(QueueFiles):
    """The queue files of one task; each queue is written from its begin to its end.

    rows   rows of the files that are in their places
    """

    __slots__ = ("_count", "_draft", "_mark", "_out", "_waiting", "rows")

    def __init__(self, drafts: Path, out: Path, file_size_bytes: int) -> None:
        super().__init__(drafts, file_size_bytes)
        self._out = out
        self._count = 0
        self._draft: Draft | None = None
        self._mark: tuple[QueueKey, int] | None = None
        self._waiting: list[Draft] = []
        self.rows: list[list[Any]] = []

    def write(self, key: QueueKey, queue_offset: int, units: memoryview) -> None:
        """Writes the next units of a queue.

        Errors   IllegalTopic: the topic's name is invalid
        """
        for base, position, piece in self.pieces(queue_offset, units):
            if self._draft is None or self._mark != (key, base):
                self._complete()
                below = queue_directory(Path(CONSUME_QUEUE_DIRECTORY), *key)
                self._draft = Draft(
                    self.directory / str(self._count), f"{below}/{offset_file_name(base)}",
                    self._file_size,
                )  # fmt: skip
                self._mark = key, base
                self._count += 1
            self._draft.write(position, piece)

    def publish(self) -> None:
        """Puts all files in their places; they are durable."""
        self._complete()
        self._put_waiting()

    def _complete(self) -> None:
        if self._draft is None:
            return
        self._draft.complete(self._file_size)
        self._waiting.append(self._draft)
        self._draft = self._mark = None
        if len(self._waiting) >= WAITING_MAX:
            self._put_waiting()

    def _put_waiting(self) -> None:
        assert len(self._waiting) <= self._count
        for draft in self._waiting:
            os.fsync(draft.descriptor)
            draft.close()
        place = ""
        for draft in self._waiting:
            if (directory := draft.path.rpartition("/")[0]) != place:
                (self._out / directory).mkdir(parents=True, exist_ok=True)
                place = directory
            os.replace(draft.draft, self._out / draft.path)
            self.rows.append(draft.row)
        self._waiting = []

    def close(self) -> None:
        """Closes all files; those that were not published are left as drafts."""
        for draft in (*self._waiting, *([self._draft] if self._draft else [])):
            draft.close()
        self._waiting, self._draft = [], None


@contextmanager
def drafted_files(drafts: Path, out: Path, file_size_bytes: int) -> Iterator[DraftedFiles]:
    """Writes queue files in the block, and publishes them at its end."""
    files = DraftedFiles(drafts, out, file_size_bytes)
    try:
        yield files
        files.publish()
    finally:
        files.close()


def publish_tree(drafts: Path, keys: Iterable[QueueKey], out: Path) -> list[list[Any]]:
    """Puts complete queues with their extensions in their places; returns the files' rows.

    drafts   directory that contains consumequeue/ and consumequeue_ext/
    """
    paths = []
    for key in keys:
        for name in (CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY):
            below = queue_directory(Path(name), *key)
            paths += [f"{below}/{found}" for found in sorted(os.listdir(drafts / below))]
    return publish(drafts, paths, out)
