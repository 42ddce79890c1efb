"""The consume unit: 20 bytes that map a queue offset to a record.

    physical offset (8) · size (4) · tags code (8)

The tags code is the hash of the tag; in the schedule topic it is the delivery time. Unit n of a
queue is at byte 20 * n of the queue's files. If a queue's first message has an offset above 0, the
units before it in its file are pre-blank: physical offset 0, size 2**31 - 1, tags code 0.

A queue may have an extension, whose units contain data that does not fit a consume unit. The
consume unit then contains an address instead of its tags code: -2**63 plus a byte position in the
extension, which is not a possible tags code. Extension units leave EXTENSION_END_SIZE bytes of
their file free.
docs/reference/formats/consume-queue.md has every field of both kinds of units.
Source: ConsumeQueue, ConsumeQueueExt.
"""

from struct import pack
from typing import Final

from pocketmq.format.layout import Layout

CONSUME_UNIT: Final = Layout(
    ("physical_offset", "q", "physical offset of the record"),
    ("size", "i", "bytes of the record"),
    ("tags_code", "q", "hash of its tag, or delivery time in the schedule topic"),
)
UNIT: Final = CONSUME_UNIT.struct
UNIT_SIZE: Final = CONSUME_UNIT.size
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
PRE_BLANK: Final = UNIT.pack(0, PRE_BLANK_SIZE, 0)
EXTENSION_ADDRESS_MAX: Final = -2_147_483_649
"""Highest address in a queue's extension: tags codes up to it are addresses (ConsumeQueueExt)."""
EXTENSION_UNIT: Final = Layout(
    ("size", "h", "20 and the bytes of the bitmap; -1: end of the file"),
    ("tags_code", "q", "the tags code of the consume unit"),
    ("store_timestamp", "q", "store time of the record"),
    ("bitmap_size", "h", "bytes of the bitmap that follows: consumers that may want the message"),
)
EXTENSION_HEAD: Final = EXTENSION_UNIT.struct
EXTENSION_SIZE_MIN: Final = EXTENSION_UNIT.size
EXTENSION_END_MARK: Final = pack(">h", -1)
EXTENSION_END_SIZE: Final = 4
"""Bytes that stay free after the last unit of a file; the end mark takes two of them."""
_ADDRESS_ZERO: Final = -(2**63)


def round_file_size(size_bytes: int) -> int:
    """Returns the size rounded up to whole units, as queue files require."""
    return -(-size_bytes // UNIT_SIZE) * UNIT_SIZE


def first_file_position(queue_offset: int, file_size_bytes: int) -> int:
    """Returns the base of the file that contains a unit: a byte position in its queue."""
    position = queue_offset * UNIT_SIZE
    return position - position % file_size_bytes


def is_extension_address(tags_code: int) -> bool:
    """Returns whether a unit's tags code is an address of an extension unit."""
    return tags_code <= EXTENSION_ADDRESS_MAX


def extension_address(position: int) -> int:
    """Returns the address of a position in the extension."""
    return _ADDRESS_ZERO + position


def extension_position(address: int) -> int:
    """Returns the position in the extension that an address means."""
    return address - _ADDRESS_ZERO


def encode_extension(tags_code: int, store_timestamp_ms: int, bitmap: bytes = b"") -> bytes:
    """Returns the bytes of an extension unit."""
    size = EXTENSION_SIZE_MIN + len(bitmap)
    return EXTENSION_HEAD.pack(size, tags_code, store_timestamp_ms, len(bitmap)) + bitmap
