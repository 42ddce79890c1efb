"""Checks texts of requests that are parsed without the generated classes: ASCII and UTF-8."""

from typing import Final

from pocketmq.native.machine import i64, read_i32_be

_WORD: Final = 0xFFFF_FFFF
_STEP: Final = 4
"""Bytes that are checked at once: the sums below set the high bit of each byte that is in range, if
no byte has its high bit set."""
_HIGH_BITS: Final = 0x8080_8080
_ONES: Final = 0x0101_0101
"""Sets the high bit of 0x7F."""
_FROM_SPACE: Final = 0x6060_6060
"""Sets the high bit of bytes from 0x20 on."""
_ABOVE_SPACE: Final = 0x5F5F_5F5F
"""Sets the high bit of bytes above 0x20."""
_NONZERO: Final = 0x7F7F_7F7F
_POWER_2: Final = 31**2
_POWER_3: Final = 31**3
_POWER_4: Final = 31**4


def text_hash(raw: bytes, position: i64, end: i64, barred: i64) -> i64:
    """Returns String.hashCode of the text at [position, end), unsigned.

    Returns  -1 if a byte is a space, is not printable ASCII, or equals `barred`
    """
    value: i64 = 0
    bars = barred * _ONES
    while end - position >= _STEP:
        four = i64(read_i32_be(raw, position)) & _WORD
        # Each sum has the high bit of a byte if that byte is above 0x20, 0x7E, not `barred`.
        is_legal = four + _ABOVE_SPACE & ((four ^ bars) + _NONZERO) & _HIGH_BITS == _HIGH_BITS
        if not is_legal or (four | four + _ONES) & _HIGH_BITS:
            return -1
        value = _POWER_4 * value + _POWER_3 * (four >> 24) + _POWER_2 * (four >> 16 & 0xFF)
        value = value + 31 * (four >> 8 & 0xFF) + (four & 0xFF) & _WORD
        position += _STEP
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
    while end - position >= _STEP:
        four = i64(read_i32_be(raw, position)) & _WORD
        if (four | four + _ONES) & _HIGH_BITS or four + _FROM_SPACE & _HIGH_BITS != _HIGH_BITS:
            return False
        position += _STEP
    while position < end:
        byte: i64 = raw[position]
        if byte < 0x20 or byte > 0x7E:
            return False
        position += 1
    return True
