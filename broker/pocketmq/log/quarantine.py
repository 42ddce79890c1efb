"""Stores copies of damaged bytes; a repair changes no bytes before their copy is durable.

    pocketmq/quarantine/20261121T061800Z/
        00000000000000393216@424023          bytes of a log file from a physical offset on
        00000000000000393216@424023.json     its position, the damage, and the replacement
        topics.json@0 …                      a small file before the change
        repair.json                          the report; its state is "unfinished" until the end

A copy is valid once its .json exists. Bytes that a killed repair changed after their copy are
copied again under another name.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.format.json_text import read_object
from pocketmq.format.layout import is_zero
from pocketmq.format.names import OWN_DIRECTORY
from pocketmq.model.errors import DiskFull

QUARANTINE_DIRECTORY: Final = "quarantine"
REPORT_FILE: Final = "repair.json"
UNFINISHED: Final = "unfinished"
FINISHED: Final = "finished"
NOTE_SUFFIX: Final = ".json"
_PIECE: Final = 1024 * 1024


class Quarantine:
    """The directory of one repair."""

    __slots__ = ("_disk", "directory")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self.directory = directory

    def keep(self, path: Path, begin: int, end: int, *, base: int, note: dict[str, Any]) -> str:
        """Copies bytes [begin, end) of a file that begins at `base`; returns the copy's name.

        begin, end   physical offsets for a log file, else positions in the file (base 0)
        Blocks   until the bytes are read once or twice, and the copy is synced
        Errors   DiskFull, AllocationFailed, WriteFailed, FsyncFailed, ReadFailed
        """
        name = f"{path.name}@{begin}"
        digest = self._digest(path, begin - base, end - base)
        for number in range(1, 1_000):
            copy = name if number == 1 else f"{name}-{number}"
            kept = self._note(copy)
            if kept is None:
                self._copy(path, begin - base, end - base, self.directory / copy)
                self._write(copy + NOTE_SUFFIX, {**note, "bytes": end - begin, "sha256": digest})
                return copy
            if (kept.get("bytes"), kept.get("sha256")) == (end - begin, digest):
                return copy
        raise AssertionError(f"{self.directory} contains a thousand copies of {name}")

    def _note(self, copy: str) -> dict[str, Any] | None:
        path = self.directory / (copy + NOTE_SUFFIX)
        if not self._disk.exists(path):
            return None
        return read_object(self._disk.read_file(path))

    def _digest(self, path: Path, begin: int, end: int) -> str:
        digest = hashlib.sha256()
        for _, piece in self._pieces(path, begin, end):
            digest.update(piece)
        return digest.hexdigest()

    def _pieces(self, path: Path, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
        with self._disk.opened(path) as descriptor:
            for position in range(begin, end, _PIECE):
                size = min(_PIECE, end - position)
                yield position, self._disk.read_at(descriptor, position, size)

    def _copy(self, path: Path, begin: int, end: int, target: Path) -> None:
        self._disk.unlink(target)
        descriptor = self._disk.make_sparse_file(target, end - begin)
        try:
            for position, piece in self._pieces(path, begin, end):
                if not is_zero(piece, 0, len(piece)):
                    self._disk.allocate(descriptor, position - begin, len(piece), target)
                    self._disk.write_at(descriptor, position - begin, piece)
            self._disk.sync(descriptor)
        except DiskFull:
            self._disk.unlink(target)  # Else it takes the room that other work needs.
            raise
        finally:
            self._disk.close(descriptor)

    def write_report(self, report: dict[str, Any]) -> None:
        """Replaces the report durably."""
        self._write(REPORT_FILE, report)

    def _write(self, name: str, document: dict[str, Any]) -> None:
        content = json.dumps(document, indent=2, ensure_ascii=False).encode()
        self._disk.replace_file(self.directory / name, content)


def new_quarantine(disk: Disk, store: Path, now_ms: int) -> Quarantine:
    """Creates the directory of a new repair."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    name = first = f"{moment:%Y%m%dT%H%M%SZ}"
    number = 1
    while disk.exists(_root(store) / name):
        number += 1
        name = f"{first}-{number}"
    disk.make_directory(_root(store) / name)
    return Quarantine(disk, _root(store) / name)


def unfinished_repair(disk: Disk, store: Path) -> tuple[Quarantine, dict[str, Any]] | None:
    """Returns the newest repair and its report if that repair is unfinished, else None.

    Errors   ValueError: the report cannot be parsed; ReadFailed
    """
    for name in reversed(disk.names(_root(store))):
        path = _root(store) / name / REPORT_FILE
        if disk.exists(path):
            report = read_object(disk.read_file(path))
            if report.get("state") != UNFINISHED:
                return None
            return Quarantine(disk, _root(store) / name), report
    return None


def finished_reports(disk: Disk, store: Path) -> Iterator[dict[str, Any]]:
    """Yields the reports of finished repairs, the oldest first, without unreadable ones."""
    for name in disk.names(_root(store)):
        path = _root(store) / name / REPORT_FILE
        if disk.exists(path):
            with suppress(ValueError):
                report = read_object(disk.read_file(path))
                if report.get("state") == FINISHED:
                    yield report


def _root(store: Path) -> Path:
    return store / OWN_DIRECTORY / QUARANTINE_DIRECTORY
