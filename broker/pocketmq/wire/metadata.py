"""Encodings of gRPC fields: times, texts, binary values, and fields of responses."""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Final
from urllib.parse import quote_from_bytes

from pocketmq.model.decimal import number_in
from pocketmq.native.machine import BytesWriter, i64, u8

BINARY_SUFFIX: Final = b"-bin"
TIMEOUT_DIGITS_MAX: Final[i64] = 8
TEXT_SIZE_MAX: Final[i64] = 4_096
"""Upper limit of a status text's bytes; clients limit the size of a response's fields."""

_UNITS: Final[dict[int, tuple[int, int]]] = {
    ord("n"): (1, 1_000_000),
    ord("u"): (1, 1_000),
    ord("m"): (1, 1),
    ord("S"): (1_000, 1),
    ord("M"): (60_000, 1),
    ord("H"): (3_600_000, 1),
}
"""Factor to ms as (numerator, denominator); eight digits of any unit fit 64 bits in ms."""
# Printable characters except "%"; quote() never escapes letters, digits and _.-~
_PLAIN: Final = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}"


def timeout_ms(value: bytes) -> i64:
    """Returns a `grpc-timeout` in ms, rounded up; -2 if malformed."""
    digits: i64 = len(value) - 1
    if digits < 1 or digits > TIMEOUT_DIGITS_MAX:
        return -2
    amount = number_in(value, 0, digits)
    unit = _UNITS.get(value[digits])
    if unit is None or amount < 0:
        return -2
    times: i64 = unit[0]
    share: i64 = unit[1]
    return (amount * times + share - 1) // share


def escaped(text: str) -> bytes:
    """Returns a status text, percent-encoded for `grpc-message`; only its first 4 KiB."""
    raw = text.encode(errors="replace")
    if len(raw) > TEXT_SIZE_MAX:
        raw = raw[:TEXT_SIZE_MAX].decode(errors="ignore").encode()
    return quote_from_bytes(raw, safe=_PLAIN).encode()


def binary_values(value: bytes) -> list[bytes] | None:
    """Returns the decoded comma-separated values of a `-bin` field; None if one is not base64."""
    values: list[bytes] = []
    for part in value.split(b","):
        bare = part.strip(b" =")
        try:
            values.append(b64decode(bare + b"=" * (-len(bare) % 4), validate=True))
        except Base64Error:
            return None
    return values


def write_literal(out: BytesWriter, name: bytes, value: bytes) -> None:
    """Writes a field as an HPACK literal without indexing and without Huffman coding."""
    out.append(0)
    write_string(out, name)
    write_string(out, value)


def write_string(out: BytesWriter, text: bytes) -> None:
    """Writes an HPACK string without Huffman coding."""
    size: i64 = len(text)
    if size < 127:
        out.append(u8(size))
    else:
        out.append(127)
        size -= 127
        while size > 127:
            out.append(u8(size & 127 | 128))
            size >>= 7
        out.append(u8(size))
    out.write(text)


def write_metadata(out: BytesWriter, metadata: list[tuple[bytes, bytes]]) -> None:
    """Writes custom metadata; the values of `-bin` names as base64 without padding."""
    for name, value in metadata:
        if name.endswith(BINARY_SUFFIX):
            value = b64encode(value).rstrip(b"=")
        write_literal(out, name, value)
