"""Checks texts of requests that are parsed without the generated classes: ASCII and UTF-8."""

from typing import Final

from pocketmq.native.four_bytes import (
    ABOVE_SPACE,
    BACKSLASHES,
    FROM_SPACE,
    HIGH_BITS,
    NONZERO,
    ONES,
    STEP,
    WORD,
)
from pocketmq.native.machine import i64, read_i32_be

_BACKSLASH: Final = 0x5C
_POWER_2: Final = 31**2
_POWER_3: Final = 31**3
_POWER_4: Final = 31**4


def text_hash(raw: bytes, position: i64, end: i64, barred: i64) -> i64:
    """Returns String.hashCode of the text at [position, end), unsigned.

    Returns  -1 if a byte is a space, is not printable ASCII, or equals `barred`
    """
    value: i64 = 0
    bars = barred * ONES
    while end - position >= STEP:
        four = i64(read_i32_be(raw, position)) & WORD
        # Each sum has the high bit of a byte if that byte is above 0x20, 0x7E, not `barred`.
        is_legal = four + ABOVE_SPACE & ((four ^ bars) + NONZERO) & HIGH_BITS == HIGH_BITS
        if not is_legal or (four | four + ONES) & HIGH_BITS:
            return -1
        value = _POWER_4 * value + _POWER_3 * (four >> 24) + _POWER_2 * (four >> 16 & 0xFF)
        value = value + 31 * (four >> 8 & 0xFF) + (four & 0xFF) & WORD
        position += STEP
    while position < end:
        byte: i64 = raw[position]
        if byte <= 0x20 or byte > 0x7E or byte == barred:
            return -1
        value = (31 * value + byte) & WORD
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
    while end - position >= STEP:
        four = i64(read_i32_be(raw, position)) & WORD
        if (four | four + ONES) & HIGH_BITS or four + FROM_SPACE & HIGH_BITS != HIGH_BITS:
            return False
        position += STEP
    while position < end:
        byte: i64 = raw[position]
        if byte < 0x20 or byte > 0x7E:
            return False
        position += 1
    return True


def has_backslash(raw: bytes, position: i64, end: i64) -> bool:
    """Returns whether a text of ASCII contains a backslash."""
    while end - position >= STEP:
        four = i64(read_i32_be(raw, position)) & WORD ^ BACKSLASHES
        if four + NONZERO & HIGH_BITS != HIGH_BITS:
            return True
        position += STEP
    while position < end:
        if raw[position] == _BACKSLASH:
            return True
        position += 1
    return False
