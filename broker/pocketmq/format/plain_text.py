"""Checks texts of requests that are parsed without the generated classes: ASCII and UTF-8."""

from typing import Final

from pocketmq.native.machine import i64

_WORD: Final = 0xFFFF_FFFF


def text_hash(raw: bytes, position: i64, end: i64, barred: i64) -> i64:
    """Returns String.hashCode of the text at [position, end), unsigned.

    Returns  -1 if a byte is a space, is not printable ASCII, or equals `barred`
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
