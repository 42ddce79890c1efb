"""Texts of plain requests: hashes of Java, and printable ASCII alone."""

from hypothesis import given
from hypothesis import strategies as some

from pocketmq.format.java_hash import WRAP, java_hash
from pocketmq.format.plain_text import is_printable, text_hash


@given(some.text(some.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=80))
def test_hashes_are_those_of_java(text: str) -> None:
    raw = f"<{text}>".encode()
    assert text_hash(raw, 1, len(raw) - 1, 0) == java_hash(text) & WRAP


@given(some.binary(max_size=20))
def test_texts_are_printable_ascii(raw: bytes) -> None:
    shown = raw.decode("latin-1")
    is_ascii = shown.isascii() and shown.isprintable()
    assert is_printable(raw, 0, len(raw)) == is_ascii
    assert (text_hash(raw, 0, len(raw), 0x7C) >= 0) == (
        is_ascii and " " not in shown and "|" not in shown
    )


def test_each_byte_is_judged_alike_at_each_position() -> None:
    for byte in range(256):
        for position in range(9):
            raw = bytearray(b"~!A|z0{}_")
            raw[position] = byte
            assert is_printable(bytes(raw), 0, 9) == (0x20 <= byte <= 0x7E), (byte, position)
            is_plain = 0x20 < byte <= 0x7E and byte != 0x22
            assert (text_hash(bytes(raw), 0, 9, 0x22) >= 0) == is_plain, (byte, position)
