"""Ships the new bytes of an append-only log as parts, and replaces small parts by large ones."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Final

from pocketmq.model.errors import NotAStore
from pocketmq.rebuild.log_files import LogFile
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.archive.catalog import LogPart, parts_of
from pocketmq.tools.archive.objects import PIECE_SIZE, Objects

SMALL_MAX: Final = 100
"""Upper limit of small parts in a row; more are replaced by one part."""
SMALL_SIZE: Final = 8 * 1024 * 1024
"""Smaller parts, in bytes, count as small; others stay as they are."""
TAIL_SIZE: Final = 4096
"""Number of the last archived bytes that each round compares with the log."""


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
    """The part of an archive that has one log: the commit log or the timer log.

    The parameters `files` of methods are the log's present files in the store.
    """

    __slots__ = ("_grown", "_objects", "_parts", "_prefix", "_tail", "upto")

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix
        self._parts = parts_of(objects.names(prefix))
        self.upto = max((part.end for part in self._parts), default=-1)
        """Offset after the last archived byte; -1: nothing is archived."""
        self._tail = b""
        """The last bytes that this object shipped."""
        self._grown: dict[LogFile, None] = {}
        """Files with new parts since the last merge."""

    @property
    def last(self) -> LogPart | None:
        """The part with the last byte."""
        return max(self._parts, key=lambda part: part.end, default=None)

    def differs(self, files: list[LogFile], end: int, kept: int) -> str:
        """Returns why a log is not the archived log; "": it is, and may be shipped.

        Effects  removes parts written after the last moment if the log has other bytes: the store
                 was restored from that moment

        end      the log's durable end
        kept     end of the log in the last moment; -1: there is no moment
        """
        last = self.last
        if last is None:
            return ""
        found = self._difference(files, end, last, last.end)
        if not found or not 0 <= kept < last.end:
            return found
        inside = [part for part in self._parts if part.begin < kept]
        near = max(inside, key=lambda part: part.end, default=None)
        found = "" if near is None else self._difference(files, end, near, min(near.end, kept))
        if found:
            return found
        if near is not None and near.end > kept:
            file = next((one for one in files if one.base <= near.begin < one.end), None)
            if file is None:
                return f"its log differs from that of the store from {kept} on"
            self._put(file, near.begin, kept, no_advance)
        for part in [part for part in self._parts if part.end > kept]:
            self._remove(part)
        self.upto = max((part.end for part in self._parts), default=-1)
        return ""

    def _difference(self, files: list[LogFile], end: int, part: LogPart, upto: int) -> str:
        """Returns how the bytes of a part below `upto` differ from those of a log; "": equal."""
        if upto > end:
            return f"its log ends at {upto}, that of the store at {end}"
        file = next((one for one in files if one.base <= part.begin < one.end), None)
        if file is None:  # Retention has removed it.
            return ""
        digest = part.digest if upto == part.end else self._digest(part, upto)
        if digest_of(file, part.begin, upto) == digest:
            return ""
        return f"its log differs from that of the store between {part.begin} and {upto}"

    def _digest(self, part: LogPart, upto: int) -> str:
        """Returns the sha256 of the bytes of a part below `upto`."""
        digest, left = sha256(), upto - part.begin
        for piece in self._objects.get(f"{self._prefix}/{part.name}"):
            digest.update(piece[: max(left, 0)])
            left -= len(piece)
        return digest.hexdigest()

    def ship(self, files: list[LogFile], upto: int, advance: Advance) -> int:
        """Ships the bytes below `upto` that are not archived; returns how many retention removed.

        Errors   NotAStore: the log was cut below the archived end, as a follower's may be
        """
        self._check_tail(files)
        gap = 0
        for file in files:
            begin, end = max(file.base, self.upto), min(file.end, upto)
            if begin >= end:
                continue
            gap += begin - self.upto if self.upto >= 0 else 0
            self._put(file, begin, end, advance)
            self._grown[file] = None
        return gap

    def merge(self) -> None:
        """Replaces small parts by large ones; another thread may run `ship` meanwhile.

        Errors   OSError: the target fails; the next call does what is left
        """
        for file in list(self._grown):
            self._grown.pop(file)  # Before the merge: it is added again if it grows meanwhile.
            try:
                self._merge(file)
            except FileRemoved:
                continue
            except OSError:
                self._grown[file] = None
                raise

    def _check_tail(self, files: list[LogFile]) -> None:
        begin, end = self.upto - len(self._tail), self.upto
        file = next((one for one in files if one.base <= begin < end <= one.end), None)
        if not self._tail or file is None:  # Retention has removed it.
            return
        if b"".join(pieces_of(file, begin, end)) != self._tail:
            why = (
                f"the store's log was cut below {end}, up to which it is archived: its bytes from "
                f"{begin} on differ; begin a new archive"
            )
            raise NotAStore(path=self._objects.target, why=why)

    def prune(self, begin: int) -> None:
        """Removes the parts that end at or below an offset."""
        for part in [part for part in self._parts if part.end <= begin]:
            self._remove(part)

    def _put(self, file: LogFile, begin: int, end: int, advance: Advance) -> None:
        assert file.base <= begin < end <= file.end
        part = LogPart(begin, end, digest_of(file, begin, end))
        self._objects.put(
            f"{self._prefix}/{part.name}", _counted(pieces_of(file, begin, end), advance)
        )
        self._parts.append(part)
        if end > self.upto:
            self.upto = end
            self._tail = b"".join(pieces_of(file, max(begin, end - TAIL_SIZE), end))

    def _merge(self, file: LogFile) -> None:
        """Replaces the last small parts of a file by one, once they are many or large together.

        Cost     at most SMALL_SIZE bytes and one part are shipped again, so that no round is long
        """
        parts = self._without_doubles(file)
        is_large = _size(parts[-1]) >= SMALL_SIZE
        before = reversed(parts[:-1] if is_large else parts)
        small = list(takewhile(lambda part: _size(part) < SMALL_SIZE, before))
        is_over = is_large or parts[-1].end == file.end or len(small) > SMALL_MAX
        if len(small) > 1 and (is_over or small[0].end - small[-1].begin >= SMALL_SIZE):
            self._put(file, small[-1].begin, small[0].end, no_advance)
            for part in small:
                self._remove(part)

    def _without_doubles(self, file: LogFile) -> list[LogPart]:
        """Returns a file's parts by offset; removes those of a merge that a kill interrupted."""
        own = [part for part in self._parts if file.base <= part.begin < file.end]
        parts: list[LogPart] = []
        for part in sorted(own, key=lambda one: (one.begin, -one.end)):
            if parts and part.end <= parts[-1].end:
                self._remove(part)
            else:
                parts.append(part)
        return parts

    def _remove(self, part: LogPart) -> None:
        self._objects.delete(f"{self._prefix}/{part.name}")
        self._parts.remove(part)


def _size(part: LogPart) -> int:
    return part.end - part.begin


def _counted(pieces: Iterable[bytes], advance: Advance) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        advance(len(piece))
