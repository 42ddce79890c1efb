"""Base of all codecs: buffers, the CRC, and byte layouts as tables.

A `Layout` has one row for each field. Integers are big-endian, two's complement. If zlib-ng (extra
`speed`) is installed, it computes the CRC, four times as fast as zlib.
"""

import struct
from typing import Final, NamedTuple

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["CRC_MASK", "Buffer", "Layout", "LayoutField", "crc32", "is_zero"]

CRC_MASK: Final = 0x7FFFFFFF
"""Bits of a CRC-32 that RocketMQ keeps: all but the sign."""
Buffer = bytes | bytearray | memoryview
_ZERO_PAGE: Final = bytes(4096)


def is_zero(buffer: Buffer, begin: int, end: int) -> bool:
    """Returns whether all bytes of [begin, end) are zero; compares page by page."""
    for position in range(begin, end, len(_ZERO_PAGE)):
        upper = min(position + len(_ZERO_PAGE), end)
        if buffer[position:upper] != _ZERO_PAGE[: upper - position]:
            return False
    return True


class LayoutField(NamedTuple):
    """One row: name, `struct` code and meaning of the bytes."""

    name: str
    code: str
    meaning: str


class Layout:
    """A fixed sequence of fields."""

    __slots__ = ("fields", "positions", "size", "struct")

    def __init__(self, *rows: tuple[str, str, str]) -> None:
        self.fields = tuple(LayoutField(*row) for row in rows)
        self.struct = struct.Struct(">" + "".join(field.code for field in self.fields))
        self.size = self.struct.size
        self.positions: dict[str, int] = {}
        position = 0
        for field in self.fields:
            self.positions[field.name] = position
            position += struct.calcsize(">" + field.code)
