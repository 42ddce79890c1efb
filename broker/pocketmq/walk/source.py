"""One open file of a log, as a walk reads it."""

from collections.abc import Callable
from typing import NamedTuple

from pocketmq.format.layout import Buffer


class LogSource(NamedTuple):
    """The bytes of one file.

    base        physical offset of its first byte
    view        all of it, mapped
    read_into   (position, room) -> how many bytes were put there, fewer where the file ends; what
                is walked is read by it, so that a file cut short meanwhile is no crash
    data_end    position behind which there are zeros for certain
    """

    path: str
    base: int
    size: int
    view: Buffer
    read_into: Callable[[int, memoryview], int]
    data_end: int

    @property
    def end(self) -> int:
        """Physical offset behind its last byte."""
        return self.base + self.size

    def read(self, position: int, size: int) -> bytes:
        """Returns bytes from a position on, fewer where the data end."""
        room = memoryview(bytearray(max(min(size, self.data_end - position), 0)))
        return bytes(room[: self.read_into(position, room)])
