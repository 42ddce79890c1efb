"""Ships the small files of a store, each content once an hour."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import zstandard

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    CHECKPOINT_FILE,
    CONFIG_DIRECTORY,
    LEFT_OVER_FILE,
    OWN_DIRECTORY,
    TIMER_CHECK_FILE,
)
from pocketmq.format.table_json import decode_file
from pocketmq.log.deleted_topics import left_over_now
from pocketmq.log.queue_places import expired_queues
from pocketmq.tools.archive.catalog import FILES, MOMENTS, StoredFile, hour_of
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.backup import TABLE_SUFFIXES, TABLE_TRIES
from pocketmq.tools.copies import RUNNING, Turn, turn_of

SETTLED_NS: Final = 1_000_000_000
"""Least age of a modification time with which a file counts as known: a later change of the file
certainly gets another time."""
QUEUES_EVERY_MS: Final = 60_000
"""Interval at which deleted topics and empty queues, which only queue files show, are collected."""


class SmallFiles:
    """The small files of a store, and which of them the archive has."""

    def __init__(self, disk: Disk, directory: Path, objects: Objects) -> None:
        self._disk, self._directory, self._objects = disk, directory, objects
        self._known: dict[str, tuple[tuple[int, int, int], StoredFile]] = {}
        self._hour = ""
        self._put: set[str] = set()
        self._of_queues: list[tuple[str, bytes]] = []
        self._queues_read_ms = -QUEUES_EVERY_MS
        self.timer_check = b""
        """Content of the timer's progress, as it was last shipped."""

    def of(self, turn: Turn, now: int) -> Iterator[StoredFile]:
        """Yields the files of a turn; ships those that have changed."""
        for relative in self._paths():
            if turn_of(relative, RUNNING) is turn:
                yield from self._one(relative, now)

    def _paths(self) -> Iterator[str]:
        if self._disk.exists(self._directory / CHECKPOINT_FILE):
            yield CHECKPOINT_FILE
        for place in (CONFIG_DIRECTORY, OWN_DIRECTORY):
            for name in self._disk.names(self._directory / place):
                path = self._directory / place / name
                if path.is_file() and not path.is_symlink():
                    yield f"{place}/{name}"

    def _one(self, relative: str, now: int) -> Iterator[StoredFile]:
        path = self._directory / relative
        for _ in range(TABLE_TRIES):
            try:
                stat = path.stat()
                state = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
                known = self._known.get(relative)
                if known is not None and known[0] == state and self._hour == hour_of(now):
                    assert known[1].digest in self._put
                    yield known[1]
                    return
                content = self._disk.read_file(path)
                if relative.endswith(TABLE_SUFFIXES):
                    decode_file(path.name, content)
            except (FileNotFoundError, ValueError):  # The broker is replacing it.
                continue
            if path.name == TIMER_CHECK_FILE:
                self.timer_check = content
            stored = self.put(relative, content, now)
            if now * 1_000_000 - stat.st_mtime_ns > SETTLED_NS:
                self._known[relative] = (state, stored)
            yield stored
            return

    def put(self, relative: str, content: bytes, now: int) -> StoredFile:
        """Ships a file unless the archive has its content for this hour."""
        hour, digest = hour_of(now), sha256(content).hexdigest()
        if hour != self._hour:
            self._hour, self._put = hour, set()
            self._known.clear()
        if digest not in self._put:
            name = f"{MOMENTS}/{hour}/{FILES}/{digest}.zst"
            self._objects.put(name, [zstandard.compress(content)])
            self._put.add(digest)
        return StoredFile(relative, digest)

    def of_queues(self, now: int, end: int, log_file_bytes: int) -> Iterator[StoredFile]:
        """Yields files with facts that only queues show, which are collected once a minute.

        end   physical offset of the durable log's end
        """
        if now - self._queues_read_ms >= QUEUES_EVERY_MS:
            disk, store = self._disk, self._directory
            found = left_over_now(disk, store, log_file_bytes)
            topics = tuple((min(at, end), known) for at, known in found.topics)
            text = found._replace(topics=topics).text
            self._of_queues = [(f"{OWN_DIRECTORY}/{LEFT_OVER_FILE}", text.encode())]
            for path in expired_queues(disk, store):
                relative = path.relative_to(store).as_posix()
                self._of_queues.append((relative, disk.read_file(path)))
            self._queues_read_ms = now
        yield from (self.put(path, content, now) for path, content in self._of_queues)
