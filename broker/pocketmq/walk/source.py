"""One open file of a log, as a walk reads it."""

from collections.abc import Callable
from typing import NamedTuple

from pocketmq.format.layout import Buffer


class LogSource(NamedTuple):
    """The bytes of one log file.

    base        physical offset of the file's first byte
    view        the whole file, mapped
    read_into   (position, buffer) -> number of bytes read, fewer at the file's end. Chunks are read
                with it: a read from the map of a file that is being truncated causes SIGBUS
    data_end    position after which all bytes are known to be zeros
    """

    path: str
    base: int
    size: int
    view: Buffer
    read_into: Callable[[int, memoryview], int]
    data_end: int

    @property
    def end(self) -> int:
        """Physical offset after the file's last byte."""
        return self.base + self.size

    def read(self, position: int, size: int) -> bytes:
        """Returns bytes from a position on, fewer at the end of the data."""
        room = memoryview(bytearray(max(min(size, self.data_end - position), 0)))
        return bytes(room[: self.read_into(position, room)])
