"""Writes fields of protobuf messages; all compiled encoders use these functions.

Varints have their shortest form, except those of `write_wide`, which every parser accepts.
"""

from typing import Final

from pocketmq.native.machine import BytesWriter, i32, i64, u8, write_i32_be

_MORE: Final = 0x8080_8080
_WRAP: Final = 1 << 32
_BYTES: Final = 2
_NAME: Final = 1
_VALUE: Final = 2


def write_varint(out: BytesWriter, value: i64) -> None:
    """Writes a non-negative number as a varint."""
    while value > 0x7F:
        out.append(u8(value & 0x7F | 0x80))
        value >>= 7
    out.append(u8(value))


def varint_size(value: i64) -> i64:
    """Returns the number of bytes that `write_varint` writes."""
    size: i64 = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


def write_number(out: BytesWriter, field: i64, value: i64) -> None:
    """Writes a varint field."""
    tag = field << 3
    if tag <= 0x7F and value <= 0x7F:
        out.append(u8(tag))
        out.append(u8(value))
    else:
        write_varint(out, tag)
        write_varint(out, value)


def number_size(value: i64) -> i64:
    """Returns the number of bytes that `write_number` writes for a field number below 16."""
    return 1 + varint_size(value)


def write_head(out: BytesWriter, field: i64, size: i64) -> None:
    """Writes tag and size of a text or message; the caller writes its bytes next."""
    write_varint(out, field << 3 | _BYTES)
    write_varint(out, size)


def write_text(out: BytesWriter, field: i64, text: bytes) -> None:
    """Writes a text or bytes field."""
    tag = field << 3 | _BYTES
    size: i64 = len(text)
    if tag <= 0x7F and size <= 0x7F:  # The usual case.
        out.append(u8(tag))
        out.append(u8(size))
    else:
        write_head(out, field, size)
    out.write(text)


def text_size(size: i64) -> i64:
    """Returns the number of bytes that `write_text` writes for a field number below 16."""
    return 2 + size if size <= 0x7F else 1 + varint_size(size) + size


def write_entry(out: BytesWriter, field: i64, name: bytes, value: bytes) -> None:
    """Writes an entry of a map from text to text."""
    name_size: i64 = len(name)
    size = text_size(name_size) + text_size(len(value))
    if size > 0x7F:
        write_head(out, field, size)
        write_text(out, _NAME, name)
        write_text(out, _VALUE, value)
        return
    write_varint(out, field << 3 | _BYTES)
    out.append(u8(size))
    out.append(_NAME << 3 | _BYTES)
    out.append(u8(name_size))
    out.write(name)
    out.append(_VALUE << 3 | _BYTES)
    out.append(u8(size - name_size - 4))
    out.write(value)


def write_wide(out: BytesWriter, field: i64, value: i64, width: i64) -> None:
    """Writes a field with a varint of exactly 5, 7 or 9 bytes; the value must fit."""
    write_varint(out, field << 3)
    while width > 4:
        write_i32_be(out, i32(_groups(value) - _WRAP))
        value >>= 28
        width -= 4
    while width > 1:
        out.append(u8(value & 0x7F | 0x80))
        value >>= 7
        width -= 1
    out.append(u8(value))


def _groups(value: i64) -> i64:
    """Returns the four lowest groups of 7 bits as four varint bytes, lowest first."""
    low = (value & 0x7F) << 24 | (value & 0x3F80) << 9
    return low | value >> 6 & 0x7F00 | value >> 21 & 0x7F | _MORE
