"""Writes `manifest.json`: every file of a rebuild, its digest, and its records' offsets."""

import errno
import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from pocketmq.format.index_layout import HEADER, HEADER_SIZE, IndexHeaderValues
from pocketmq.format.names import (
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    VIEW_DIRECTORIES,
)
from pocketmq.rebuild.sequential import Rebuilt
from pocketmq.rebuild.staging import MANIFEST_FILE, Staging

_PIECE: Final = 4 * 1024 * 1024
_BLOCK: Final = 64 * 1024
_ZEROS: Final = bytes(_PIECE)


class ContentDigest:
    """sha256 of bytes without their trailing zeros; `size` includes the zeros.

    Views are mostly zeros: a consume queue file is created at its full length.
    """

    __slots__ = ("_digest", "_zero_count", "size")

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._zero_count = 0
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Adds the next bytes."""
        for begin in range(0, len(piece), _BLOCK):
            block = piece[begin : begin + _BLOCK]
            if block == _ZEROS[: len(block)]:
                self.add_zeros(len(block))
                continue
            self._flush()
            told = block.rstrip(b"\0")
            self._digest.update(told)
            self._zero_count = len(block) - len(told)
            self.size += len(block)

    def add_zeros(self, count: int) -> None:
        """Adds `count` zeros."""
        self._zero_count += count
        self.size += count

    def _flush(self) -> None:
        assert self._zero_count <= self.size
        while self._zero_count:
            count = min(self._zero_count, len(_ZEROS))
            self._digest.update(_ZEROS[:count])
            self._zero_count -= count

    def hexdigest(self) -> str:
        """Returns the digest of the bytes so far."""
        return self._digest.hexdigest()


def digest_of(descriptor: int) -> ContentDigest:
    """Returns the digest of an open file, without reading the holes of a sparse file.

    Cost     about 1 ms a MiB of data
    """
    digest, size = ContentDigest(), os.fstat(descriptor).st_size
    while digest.size < size:
        begin = _data_from(descriptor, digest.size, size)
        digest.add_zeros(begin - digest.size)
        end = os.lseek(descriptor, begin, os.SEEK_HOLE) if begin < size else size
        while digest.size < end:
            piece = os.pread(descriptor, min(_PIECE, end - digest.size), digest.size)
            if not piece:
                return digest  # Another process has truncated the file.
            digest.add(piece)
    return digest


def _data_from(descriptor: int, position: int, size: int) -> int:
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return size


@dataclass(frozen=True, slots=True)
class FileMark:
    """One row of the manifest.

    path     path of the file, relative to the output directory
    sha256   digest of the file's bytes without its trailing zeros
    source   physical offsets [first record, last record] of the units or entries; empty: no record
    """

    path: str
    size: int
    sha256: str
    source: list[int]


def write_manifest(staging: Staging, rebuilt: Rebuilt, marks: Iterable[FileMark]) -> None:
    """Writes the manifest of view files that are durable."""
    document = asdict(rebuilt)
    document["queues"] = [[*key, *ends] for key, ends in sorted(rebuilt.queues.items())]
    document["files"] = [
        {"path": m.path, "size": m.size, "sha256": m.sha256, "source": m.source}
        for m in sorted(marks, key=lambda mark: mark.path)
    ]
    staging.write(staging.work / MANIFEST_FILE, document)


def publish(drafts: Path, paths: Iterable[str], out: Path) -> list[list[Any]]:
    """Makes complete drafts durable and renames them to their places; returns their rows.

    paths    relative to both directories
    """
    rows, place = [], ""
    for path in [*sorted(paths), ""]:
        if (directory := path.rpartition("/")[0]) != place:
            _remove_empty(drafts, place)
            (out / directory).mkdir(parents=True, exist_ok=True)
            place = directory
        if path:
            mark = mark_file((str(drafts), path))
            os.replace(drafts / path, out / path)
            rows.append([mark.path, mark.size, mark.sha256, mark.source])
    return rows


def _remove_empty(drafts: Path, place: str) -> None:
    """Removes a directory and empty ones above it; a walk that removes all would be slow."""
    while place:
        try:
            (drafts / place).rmdir()
        except OSError:
            return
        place = place.rpartition("/")[0]


def view_files(out: Path) -> list[str]:
    """Returns the paths of all view files below a directory, sorted.

    Cost     some 10 µs a queue
    """
    return sorted(_files_below(out, *VIEW_DIRECTORIES))


def _files_below(out: Path, *names: str) -> Iterator[str]:
    for name in names:
        for directory, _, files in os.walk(out / name):
            below = os.path.relpath(directory, out)
            yield from (f"{below}/{file}" for file in files)


def mark_file(task: tuple[str, str]) -> FileMark:
    """Makes a file durable and returns its row.

    Cost     about 1 ms a MiB of data
    """
    out, path = task
    with (Path(out) / path).open("rb") as file:
        os.fsync(file.fileno())
        digest = digest_of(file.fileno())
        size = digest.size
        source: list[int] = []
        if path.startswith(INDEX_DIRECTORY):
            source = _index_source(file.fileno())
        elif not path.startswith(CONSUME_QUEUE_EXTENSION_DIRECTORY):
            source = _unit_source(file.fileno(), size)
    return FileMark(path, size, digest.hexdigest(), source)


def _index_source(descriptor: int) -> list[int]:
    header = IndexHeaderValues(*HEADER.unpack(os.pread(descriptor, HEADER_SIZE, 0)))
    return [header.begin_physical_offset, header.end_physical_offset]


def _unit_source(descriptor: int, size: int) -> list[int]:
    """Returns the physical offsets in the first and the last unit that are not pre-blank."""
    count = size // UNIT_SIZE
    units = range(count)
    lower = bisect_left(units, True, key=lambda n: _unit(descriptor, n)[1] != PRE_BLANK_SIZE)
    upper = bisect_left(units, True, lower, key=lambda n: _unit(descriptor, n)[1] == 0)
    if lower >= upper:
        return []
    return [_unit(descriptor, lower)[0], _unit(descriptor, upper - 1)[0]]


def _unit(descriptor: int, number: int) -> Any:
    return UNIT.unpack(os.pread(descriptor, UNIT_SIZE, number * UNIT_SIZE))
