"""The extension unit: what a consume unit has no room for, and where units of a file end.

    0   2  size                20 and the bytes of the bitmap; -1: nothing more in this file
    2   8  tags_code           what the consume unit itself would have held
   10   8  store_timestamp     of the record
   18   2  bitmap_size
   20      bitmap              bits of the consumers whose filter the message may pass

The consume unit then holds an address in place of its tags code: -2**63 and the byte of the
extension, which no tags code is. A unit leaves END_SIZE bytes in its file.
Source: ConsumeQueueExt.
"""

import struct
from typing import Final

from broker.format.consume_unit import EXTENSION_ADDRESS_MAX

HEAD: Final = struct.Struct(">hqqh")
UNIT_SIZE_MIN: Final = HEAD.size
END_MARK: Final = struct.pack(">h", -1)
END_SIZE: Final = 4
"""Bytes that stay free behind the last unit of a file; the mark takes two of them."""
_ADDRESS_ZERO: Final = -(2**63)


def is_address(tags_code: int) -> bool:
    """Return whether a unit's tags code leads into the extension."""
    return tags_code <= EXTENSION_ADDRESS_MAX


def address_of(position: int) -> int:
    """Return the address of a byte of the extension."""
    return _ADDRESS_ZERO + position


def position_of(address: int) -> int:
    """Return the byte an address leads to."""
    return address - _ADDRESS_ZERO


def encode_unit(tags_code: int, store_timestamp_ms: int, bitmap: bytes = b"") -> bytes:
    """Return the bytes of a unit."""
    size = UNIT_SIZE_MIN + len(bitmap)
    return HEAD.pack(size, tags_code, store_timestamp_ms, len(bitmap)) + bitmap
