"""Ships the new bytes of an append-only log as parts, and replaces small parts by large ones."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from pocketmq.rebuild.log_files import LogFile
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.archive.catalog import LogPart, parts_of
from pocketmq.tools.archive.objects import PIECE_SIZE, Objects

SMALL_MAX: Final = 100
"""Small parts at a log's end, beyond which they are replaced by one part."""
SMALL_SIZE: Final = 8 * 1024 * 1024
"""Bytes from which on a part is no small one."""


class FileRemoved(Exception):
    """Retention has removed a log file meanwhile."""


def pieces_of(file: LogFile, begin: int, end: int) -> Iterator[bytes]:
    """Yields the bytes [begin, end) of a file.

    Errors   FileRemoved
    """
    try:
        with Path(file.path).open("rb") as opened:
            opened.seek(begin - file.base)
            while begin < end:
                piece = opened.read(min(PIECE_SIZE, end - begin))
                if not piece:
                    raise FileRemoved
                begin += len(piece)
                yield piece
    except FileNotFoundError:
        raise FileRemoved from None


def digest_of(file: LogFile, begin: int, end: int) -> str:
    """Returns the sha256 of the bytes [begin, end) of a file.

    Errors   FileRemoved
    """
    digest = sha256()
    for piece in pieces_of(file, begin, end):
        digest.update(piece)
    return digest.hexdigest()


class AppendOnly:
    """The part of an archive that has one log; `files` are its files at the moment."""

    __slots__ = ("_objects", "_parts", "_prefix", "upto")

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix
        self._parts = parts_of(objects.names(prefix))
        self.upto = max((part.end for part in self._parts), default=-1)
        """Offset after the last archived byte; -1: nothing is archived."""

    @property
    def last(self) -> LogPart | None:
        """The part with the last byte."""
        return max(self._parts, key=lambda part: part.end, default=None)

    def ship(self, files: list[LogFile], upto: int, advance: Advance) -> int:
        """Ships the bytes below `upto` that are not archived; returns how many are gone."""
        gap = 0
        for file in files:
            begin, end = max(file.base, self.upto), min(file.end, upto)
            if begin >= end:
                continue
            gap += begin - self.upto if self.upto >= 0 else 0
            self._put(file, begin, end, advance)
            if end == file.end and begin > file.base:
                self._replace(file, file.base, end)
            elif len(self._small(file)) > SMALL_MAX:
                self._replace(file, self._small(file)[0].begin, end)
        return gap

    def prune(self, begin: int) -> None:
        """Removes the parts that end at or below an offset."""
        for part in [part for part in self._parts if part.end <= begin]:
            self._remove(part)

    def _small(self, file: LogFile) -> list[LogPart]:
        """Returns the small parts of a file, after its last large one."""
        own = [part for part in self._parts if part.begin >= file.base]
        large = max((part.end for part in own if part.end - part.begin >= SMALL_SIZE), default=-1)
        return [part for part in own if part.begin >= large]

    def _put(self, file: LogFile, begin: int, end: int, advance: Advance) -> None:
        assert file.base <= begin < end <= file.end
        part = LogPart(begin, end, digest_of(file, begin, end))
        self._objects.put(
            f"{self._prefix}/{part.name}", _counted(pieces_of(file, begin, end), advance)
        )
        self._parts.append(part)
        self.upto = max(self.upto, end)

    def _replace(self, file: LogFile, begin: int, end: int) -> None:
        """Replaces all parts inside of a range by one, which is written first."""
        inside = [part for part in self._parts if begin <= part.begin and part.end <= end]
        if len(inside) > 1:
            self._put(file, begin, end, no_advance)
            for part in inside:
                self._remove(part)

    def _remove(self, part: LogPart) -> None:
        self._objects.delete(f"{self._prefix}/{part.name}")
        self._parts.remove(part)


def _counted(pieces: Iterable[bytes], advance: Advance) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        advance(len(piece))
