"""Writes fields of protobuf messages: the one emit of all compiled codecs.

Numbers are written in their shortest form, but for those of a fixed width, which any reader takes.
"""

from typing import Final

from pocketmq.native.machine import BytesWriter, i32, i64, u8, write_i32_be

_MORE: Final = 0x8080_8080
_WRAP: Final = 1 << 32
_BYTES: Final = 2
_NAME: Final = 1
_VALUE: Final = 2


def write_varint(out: BytesWriter, value: i64) -> None:
    """Writes a number that is not negative."""
    while value > 0x7F:
        out.append(u8(value & 0x7F | 0x80))
        value >>= 7
    out.append(u8(value))


def varint_size(value: i64) -> i64:
    """Returns how many bytes `write_varint` takes."""
    size: i64 = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


def write_number(out: BytesWriter, field: i64, value: i64) -> None:
    """Writes a field that is a number."""
    tag = field << 3
    if tag <= 0x7F and value <= 0x7F:
        out.append(u8(tag))
        out.append(u8(value))
    else:
        write_varint(out, tag)
        write_varint(out, value)


def number_size(value: i64) -> i64:
    """Returns how many bytes `write_number` takes for a field below 16."""
    return 1 + varint_size(value)


def write_head(out: BytesWriter, field: i64, size: i64) -> None:
    """Writes tag and size of a text or a message, which follows."""
    write_varint(out, field << 3 | _BYTES)
    write_varint(out, size)


def write_text(out: BytesWriter, field: i64, text: bytes) -> None:
    """Writes a field of bytes."""
    tag = field << 3 | _BYTES
    size: i64 = len(text)
    if tag <= 0x7F and size <= 0x7F:  # Nearly always.
        out.append(u8(tag))
        out.append(u8(size))
    else:
        write_head(out, field, size)
    out.write(text)


def text_size(size: i64) -> i64:
    """Returns how many bytes `write_text` takes for a text of a size and a field below 16."""
    return 2 + size if size <= 0x7F else 1 + varint_size(size) + size


def write_entry(out: BytesWriter, field: i64, name: bytes, value: bytes) -> None:
    """Writes an entry of a map of texts."""
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
    """Writes a number as a varint of exactly 5, 7 or 9 bytes, which must suffice."""
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
    """Returns the four lowest groups of 7 bits as four bytes, lowest first, more to follow."""
    low = (value & 0x7F) << 24 | (value & 0x3F80) << 9
    return low | value >> 6 & 0x7F00 | value >> 21 & 0x7F | _MORE
