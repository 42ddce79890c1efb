"""One open file of a log, as a walk reads it."""

from collections.abc import Callable
from typing import NamedTuple

from pocketmq.format.layout import Buffer


class LogSource(NamedTuple):
    """The bytes of one log file.

    base        physical offset of its first byte
    view        the whole file, mapped
    read_into   (position, buffer) -> number of bytes read, fewer at the file's end. Walks use it,
                as reading the map of a file that is truncated at the same time causes SIGBUS
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
        """Physical offset after its last byte."""
        return self.base + self.size

    def read(self, position: int, size: int) -> bytes:
        """Returns bytes from a position on, fewer at the end of the data."""
        room = memoryview(bytearray(max(min(size, self.data_end - position), 0)))
        return bytes(room[: self.read_into(position, room)])
