"""Lists the files of a log for a verification, and reports those that no broker would accept.

A file whose name is not the offset of its first record was renamed, is a copy of another file, or
is another store's. It is verified as the file of that offset if no file has the right name. A file
that begins inside a complete file is another store's.
"""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, offset_file_name, offset_from_file_name
from pocketmq.format.record import RECORD_HEAD
from pocketmq.model.finding import Finding
from pocketmq.rebuild.log_files import LogFile, foreign_bases, foreign_name
from pocketmq.tools.verify.collector import MISNAMED, STRAY, Collector
from pocketmq.tools.verify.losses import FILE_MISSING
from pocketmq.walk.log_walk import Hole
from pocketmq.walk.search import store_time_at

FILES_MISSING_MAX: Final = 10_000
"""Upper limit of adjacent missing files: a file after a larger gap is not part of the log."""
_OWN_OFFSET: Final = RECORD_HEAD.positions["physical_offset"]
Named = tuple[int, Path]
"""Offset of a file's first byte, and its path."""


class LogListing:
    """The files of a log that can be walked, and its gaps: missing files and missing ends."""

    __slots__ = ("_collector", "_directory", "_disk", "_size", "files", "gaps")

    def __init__(self, disk: Disk, store: Path, file_size_bytes: int, collector: Collector) -> None:
        self._disk = disk
        self._directory = store / COMMIT_LOG_DIRECTORY
        self._size = file_size_bytes
        self._collector = collector
        self.files: list[LogFile] = []
        self.gaps: list[Hole] = []
        named = [*self._named()]
        follows = None
        for base, path in named:
            found = disk.file_size(path)
            is_unused = not found and path == named[-1][1]
            if follows is not None and base != follows and not is_unused:
                self._miss(follows, base)
            follows = base + file_size_bytes
            if found > file_size_bytes or is_unused:
                self._add("file_size", path, f"{file_size_bytes} bytes", f"{found} bytes")
            if found:  # The bytes after the end of a file that is too long are not read.
                self.files.append(LogFile(str(path), base, min(found, file_size_bytes)))
            if is_unused:
                continue
            if found < file_size_bytes:
                why = f"the file has {found} bytes, {file_size_bytes} expected"
                self.gaps.append(Hole(str(path), base + found, follows, why, is_followed=False))

    @property
    def bounds(self) -> tuple[int, int]:
        """Physical offsets of the log's first byte, and after its last one; gaps included."""
        begins = [*(file.base for file in self.files), *(gap.begin for gap in self.gaps)]
        ends = [*(file.end for file in self.files), *(gap.end for gap in self.gaps)]
        return min(begins, default=0), max(ends, default=0)

    def _named(self) -> Iterator[Named]:
        """Yields the files in the order of their records; reports wrong names and stray files."""
        paths = [self._directory / name for name in self._disk.names(self._directory)]
        paths = [path for path in paths if not self._disk.is_directory(path)]
        offsets = {path: offset_from_file_name(path.name) for path in paths}
        taken, found = {base for base in offsets.values() if base is not None}, list[Named]()
        lengths = {
            base: self._disk.file_size(path) for path, base in offsets.items() if base is not None
        }
        foreign = foreign_bases(lengths, self._size)
        for path, base in offsets.items():
            if base is None:
                self._add(STRAY, path, "a file of the log", "another name", repairable=True)
                continue
            own = self._own_base(path, base)
            name = offset_file_name(own)
            if own == base and base in foreign:
                text = foreign_name(base, self._size)
                self._add(STRAY, path, "a file of the log", text, repairable=True)
            elif own == base:
                found.append((base, path))
            elif own in taken:
                text = f"records that belong in {name}: a second copy, or another store's file"
                self._add(STRAY, path, "a file of the log", text, repairable=True)
            else:
                taken.add(own)
                text = f"the records of {name}"
                self._add(MISNAMED, path, f"the name {name}", text, repairable=True)
                found.append((own, path))
        yield from sorted(found)

    def _own_base(self, path: Path, base: int) -> int:
        """Returns the base of a file by its first two records, or by its name if they disagree."""
        begin = self._disk.read_file(path, 0, _OWN_OFFSET + 8)
        own = int.from_bytes(begin[_OWN_OFFSET:])
        if own == base or own % self._size or len(begin) < _OWN_OFFSET + 8:
            return base
        following = own + int.from_bytes(begin[:4])
        with LogFile(str(path), own, self._disk.file_size(path)).opened() as source:
            # One record is not enough: no CRC covers its own offset.
            is_valid = [store_time_at(source, place) is not None for place in (own, following)]
        return own if all(is_valid) else base

    def _miss(self, begin: int, end: int) -> None:
        """Adds the files that are missing in [begin, end) of the log."""
        size = self._size
        if not 0 < (end - begin) // size <= FILES_MISSING_MAX or (end - begin) % size:
            path = self._directory / offset_file_name(begin)
            self._add("missing_file", path, "a file of the log", f"one that begins at {end}")
            return
        for base in range(begin, end, size):
            path = self._directory / offset_file_name(base)
            self.gaps.append(Hole(str(path), base, base + size, FILE_MISSING, is_followed=False))

    def _add(
        self, kind: str, path: Path, expected: str, found: str, *, repairable: bool = False
    ) -> None:
        self._collector.add(kind, path, 0, expected=expected, found=found, repairable=repairable)


def cut_step(finding: Finding, directory: Path) -> str:
    """Returns the command that cuts a log file that is too long; "" for any other finding."""
    expected, found = finding.expected.split(" ")[0], finding.found.split(" ")[0]
    is_size = finding.kind == "file_size" and expected.isdecimal() and found.isdecimal()
    if not is_size or int(found) <= int(expected):
        return ""
    path = quote(str(directory / finding.file))
    return f"or, if verify shows nothing else in it, cut it: truncate -s {expected} {path}"
