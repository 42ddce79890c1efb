"""Reads numbers and texts of protobuf messages in place, without copying.

Sizes are compared with the bytes left, never added to a position first. Values that are not plain
(printable ASCII above all) are reported as such, not refused.
"""

from typing import Final

from pocketmq.native.machine import i64

_WORD: Final = 0xFFFF_FFFF


def short_size(raw: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """Returns a length of at most four bytes, and where it ends; -1 when it is none."""
    return _varint(raw, position, end, 28)


def number_at(raw: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """Returns a number below 2**63, and where it ends; -1 when it is none, or not below that."""
    return _varint(raw, position, end, 63)


def _varint(raw: bytes, position: i64, end: i64, bits: i64) -> tuple[i64, i64]:
    """Returns (number, its end) of a varint of at most `bits` bits, a multiple of 7; else -1."""
    value: i64 = 0
    shift: i64 = 0
    while position < end and shift < bits:
        byte: i64 = raw[position]
        position += 1
        if byte < 0x80:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
        shift += 7
    return -1, end


def text_hash(raw: bytes, position: i64, end: i64, barred: i64) -> i64:
    """Returns String.hashCode of a text, unsigned; -1 for other bytes than printable ASCII.

    A space is none of them, nor is the barred byte.
    """
    value: i64 = 0
    while position < end:
        byte: i64 = raw[position]
        if byte <= 0x20 or byte > 0x7E or byte == barred:
            return -1
        value = (31 * value + byte) & _WORD
        position += 1
    return value


def is_text(content: bytes) -> bool:
    """Returns whether bytes are UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_printable(raw: bytes, position: i64, end: i64) -> bool:
    """Returns whether a text is of printable ASCII, spaces included."""
    while position < end:
        byte: i64 = raw[position]
        if byte < 0x20 or byte > 0x7E:
            return False
        position += 1
    return True
