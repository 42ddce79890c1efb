"""Huffman-coded strings, against the encoder of hpack."""

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from pocketmq.native.machine import BytesWriter
from pocketmq.wire.frames import COMPRESSION_ERROR, ConnectionFault
from pocketmq.wire.huffman import LENGTHS, decode

REFERENCE = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


def decoded(coded: bytes) -> bytes:
    return decode(coded, 0, len(coded), BytesWriter())


def bits(text: str) -> bytes:
    """Returns bits, filled up with ones, as bytes."""
    text += "1" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big") if text else b""


def code(symbol: int) -> str:
    return format(REQUEST_CODES[symbol], f"0{REQUEST_CODES_LENGTH[symbol]}b")


def test_the_lengths_are_those_of_the_standard() -> None:
    assert list(LENGTHS) == REQUEST_CODES_LENGTH


def test_every_byte_after_every_byte() -> None:
    for first in range(256):
        text = b"".join(bytes((first, second)) for second in range(256))
        assert decoded(REFERENCE.encode(text)) == text


def test_the_example_of_the_standard() -> None:
    assert decoded(bytes.fromhex("f1e3c2e5f23a6ba0ab90f4ff")) == b"www.example.com"


def test_a_part_of_a_block() -> None:
    coded = REFERENCE.encode(b"/pocketmq.v1.Broker/SendMessage")
    block = b"\x00\xff" + coded + b"\xff\xff"
    found = decode(block, 2, 2 + len(coded), BytesWriter())
    assert found == b"/pocketmq.v1.Broker/SendMessage"


@pytest.mark.parametrize("count", range(8))
def test_up_to_seven_ones_are_padding(count: int) -> None:
    # "&" has 8 bits, the digits 5: sums that leave room for any padding
    for text in (b"&", b"0&", b"00&", b"000&", b"0000&", b"00000&", b"000000&", b"0000000&"):
        whole = "".join(map(code, text))
        if -len(whole) % 8 == count:
            assert decoded(bits(whole)) == text
            break
    else:
        pytest.fail("no text leaves this padding")


@pytest.mark.parametrize(
    "coded",
    [
        b"\xff",  # eight ones
        bits(code(ord("a"))) + b"\xff",
        bytes((int(code(ord("a")) + "000", 2),)),  # padding that is not ones
        bits(code(256)),  # EOS
        bits(code(ord("a")) + code(256)),
        b"\xff\xff\xff\xfc",
        bits(code(0))[:1],  # within a code
    ],
)
def test_what_is_no_string(coded: bytes) -> None:
    with pytest.raises(ConnectionFault) as raised:
        decoded(coded)
    assert raised.value.code == COMPRESSION_ERROR
