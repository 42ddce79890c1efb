"""The timer log of a store, as its followers copy it: bytes below a durable position.

    leader: begins, piece ──► follower: begin, append, append, …, finish, and then timercheck

Positions in the timer log are in `timercheck`, so both must be of one broker. A new copy is made
beside the old one, and replaces it with the first `timercheck`. The wheel is not copied: a start
makes it from the log.
"""

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.layout import is_zero
from pocketmq.format.names import (
    OWN_DIRECTORY,
    TIMER_LOG_DIRECTORY,
    TIMER_WHEEL_FILE,
    offset_file_name,
    offset_from_file_name,
)

COPY_DIRECTORY: Final = "timerlog.copy"
FILE_SIZE_MAX: Final = 1 << 31
PIECE_SIZE: Final = 1 << 20
"""Bytes that are read at once."""
PROVEN_SIZE: Final = 256 * 1024
"""Bytes before the durable end by which a follower proves that its copy is the leader's log."""


class TimerProof(NamedTuple):
    """A copy of the timer log in files of `file_size_bytes`, [begin, end) of the whole log.

    crc   CRC-32 of [place, end): units with their times and the physical offsets of their messages
    """

    begin: int
    end: int
    file_size_bytes: int
    place: int
    crc: int


class CopiedTimer:
    """The timer's files of one store; all methods block."""

    __slots__ = ("_copy", "_disk", "_is_new", "_log", "_wheel")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._log = directory / TIMER_LOG_DIRECTORY
        self._copy = directory / OWN_DIRECTORY / COPY_DIRECTORY
        self._wheel = directory / TIMER_WHEEL_FILE
        self._is_new = False
        """Whether pieces belong to a new copy, which is not in its place yet."""

    # -- the leader's side ---------------------------------------------------------------------
    def files(self) -> tuple[list[int], int]:
        """Returns (begins of the log's files, ascending; the size of each)."""
        found = map(offset_from_file_name, self._disk.names(self._log))
        begins = sorted(begin for begin in found if begin is not None)
        return begins, self._disk.file_size(self._path(begins[0])) if begins else 0

    def piece(self, begin: int, position: int, size_bytes: int) -> bytes | None:
        """Returns bytes of the file that begins at `begin`; None if it was removed."""
        with suppress(FileNotFoundError):
            return self._disk.read_file(self._path(begin), position, size_bytes)
        return None

    def has(self, proof: TimerProof) -> bool:
        """Returns whether this log continues a follower's copy."""
        begins, size = self.files()
        if not begins or size != proof.file_size_bytes or not proof.begin <= begins[0]:
            return False
        return begins[0] <= proof.place and self._crc(proof.place, proof.end, size) == proof.crc

    def _crc(self, place: int, end: int, size: int) -> int:
        """Returns the CRC of bytes of the log; -1 if it lacks some of them."""
        crc = 0
        while place < end:
            count = min(end - place, size - place % size, PIECE_SIZE)
            content = self.piece(place - place % size, place % size, count)
            if content is None or len(content) < count:
                return -1
            crc, place = zlib.crc32(content, crc), place + count
        return crc

    def _path(self, begin: int) -> Path:
        return (self._copy if self._is_new else self._log) / offset_file_name(begin)

    # -- the follower's side -------------------------------------------------------------------
    def proof(self, end: int) -> TimerProof | None:
        """Returns the proof with which a leader continues this copy.

        A new copy that was not finished is given up.

        end      durable end of the copy, as `timercheck` contains it
        Returns  None if the copy is empty, lacks files, or contains bytes after `end`
        Cost     reads the rest of the last file, whose blocks are not allocated
        """
        self._is_new = False
        begins, size = self.files()
        is_whole = bool(begins) and begins == [*range(begins[0], end, size)]
        if not is_whole or end <= begins[0]:
            return None
        for at in range(end, begins[-1] + size, PIECE_SIZE):
            rest = self.piece(begins[-1], at - begins[-1], PIECE_SIZE)
            if rest is None or not is_zero(rest, 0, len(rest)):
                return None
        place = max(begins[0], end - PROVEN_SIZE)
        crc = self._crc(place, end, size)
        return TimerProof(begins[0], end, size, place, crc) if crc >= 0 else None

    def begin(self) -> None:
        """Begins a new copy."""
        self._is_new = True
        for name in self._disk.names(self._copy):
            self._disk.unlink(self._copy / name)
        self._disk.make_directory(self._copy)

    def append(self, begin: int, position: int, content: bytes, size_bytes: int) -> None:
        """Writes bytes of a file durably; creates it with `size_bytes` unless it exists.

        A wheel from when this broker led is removed first: a start would bring it up to date with
        the last two files only.

        Errors   ValueError: the bytes are beyond the file's end; DiskFull, StoreFailed
        """
        path = self._path(begin)
        has_file = self._disk.exists(path)
        size = self._disk.file_size(path) if has_file else size_bytes
        if position + len(content) > size or size > FILE_SIZE_MAX:
            raise ValueError(f"{path.name} has {size} bytes")
        if not self._is_new:
            self._remove_wheel()
        self._disk.make_directory(path.parent)
        opened = self._disk.open(path) if has_file else self._disk.make_sparse_file(path, size)
        try:
            self._disk.allocate(opened, position, len(content), path)
            self._disk.write_at(opened, position, content)
            self._disk.sync(opened)
        finally:
            self._disk.close(opened)

    def drop(self, begin: int) -> None:
        """Removes a file, if it exists."""
        self._disk.unlink(self._path(begin))

    def finish(self) -> None:
        """Puts a new copy in its place; durable when it returns."""
        if not self._is_new:
            return
        self._is_new = False
        disk = self._disk
        assert disk.exists(self._copy), "a copy was finished that has not begun"
        self._remove_wheel()  # It is of the old log.
        if disk.exists(self._log):
            disk.exchange(self._log, self._copy)
        else:
            disk.rename(self._copy, self._log)
        disk.sync_directory(self._copy.parent)
        disk.sync_directory(self._log.parent)
        for name in disk.names(self._copy):
            disk.unlink(self._copy / name)

    def _remove_wheel(self) -> None:
        if self._disk.exists(self._wheel):
            self._disk.unlink(self._wheel)
            self._disk.sync_directory(self._wheel.parent)
