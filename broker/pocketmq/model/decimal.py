"""Parses decimal numbers in texts: properties, handles, page tokens, ports. Writes such numbers.

A number consists of ASCII digits, with any number of leading zeros. Unlike for `int`, texts with
blanks, underscores or digits of other scripts are not numbers.
Source: Long.parseLong, Integer.parseInt.
"""

from typing import Final

from pocketmq.native.machine import BytesWriter, i64, u8

LONG_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 19
SUMMABLE_MAX: Final = 10**18 - 1
"""Upper limit of times and offsets in texts: the sum of two does not overflow 64 bits."""
_TENTH: Final[i64] = 922_337_203_685_477_580
_LAST: Final[i64] = 7
"""Last decimal digit of 2^63 - 1; _TENTH has the other digits."""


def number_of(text: str, largest: int = LONG_MAX) -> int:
    """Parses a text; returns -1 if it is not a number from 0 to `largest`."""
    if len(text) > DIGITS_MAX:
        text = text.lstrip("0") or "0"
    if len(text) > DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return -1
    number = int(text)
    return number if number <= largest else -1


def number_of_bytes(raw: bytes, largest: int = LONG_MAX) -> int:
    """Parses bytes; returns -1 if they are not a number from 0 to `largest`."""
    if len(raw) > DIGITS_MAX:
        raw = raw.lstrip(b"0") or b"0"
    if len(raw) > DIGITS_MAX or not raw.isdigit():
        return -1
    number = int(raw)
    return number if number <= largest else -1


def number_in(raw: bytes, position: i64, end: i64) -> i64:
    """Parses bytes [position, end); returns -1 if they are not a number from 0 to 2^63 - 1."""
    if position >= end:
        return -1
    value: i64 = 0
    while position < end:
        digit: i64 = raw[position] - 0x30
        if digit < 0 or digit > 9 or value > _TENTH or (value == _TENTH and digit > _LAST):
            return -1
        value = 10 * value + digit
        position += 1
    return value


def decimal_size(number: i64) -> i64:
    """Returns how many bytes `write_decimal` writes."""
    size: i64 = 1
    while number >= 10:
        number //= 10
        size += 1
    return size


def write_decimal(out: BytesWriter, number: i64) -> None:
    """Writes a number from 0 on."""
    assert number >= 0, "negative number"
    power: i64 = 1
    while number // power >= 10:
        power *= 10
    while power > 0:
        out.append(u8(0x30 + number // power % 10))
        power //= 10


def signed_number_of(text: str, largest: int = LONG_MAX) -> int | None:
    """Parses a text with an optional sign.

    Returns None unless the text is a number from -largest - 1 to `largest`.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    number = number_of(digits, largest + 1)
    if number < 0:
        return None
    number = -number if text[0] == "-" else number
    return number if number <= largest else None
