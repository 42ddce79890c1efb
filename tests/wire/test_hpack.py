"""Header blocks and their tables: the standard's examples, every size at its edges, and faults."""

import pytest
from hpack import Encoder
from hpack.table import HeaderTable

from pocketmq.wire.frames import COMPRESSION_ERROR, ConnectionFault
from pocketmq.wire.hpack import STATIC_TABLE, Decoder, integer
from tests.wire.cases import EDGES

Fields = list[tuple[bytes, bytes]]


def fields(decoder: Decoder, block: bytes) -> Fields:
    return [(field.name, field.value) for field in decoder.decode(block)]


def number(value: int, bits: int, first: int = 0) -> bytes:
    """Returns a number with a prefix of so many bits (RFC 7541, section 5.1)."""
    mask = (1 << bits) - 1
    if value < mask:
        return bytes((first | value,))
    value -= mask
    found = [first | mask]
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def literal(name: bytes, value: bytes, first: int = 0) -> bytes:
    return bytes((first,)) + number(len(name), 7) + name + number(len(value), 7) + value


def test_the_static_table_is_that_of_the_standard() -> None:
    found = [(field.name, field.value) for field in STATIC_TABLE[1:]]
    assert found == list(HeaderTable.STATIC_TABLE)


@pytest.mark.parametrize(
    "blocks",
    [
        ("828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865",
         "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565"),
        ("828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf",
         "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"),
    ],
)  # fmt: skip
def test_the_requests_of_the_standard(blocks: tuple[str, str, str]) -> None:
    decoder = Decoder(1 << 16)
    first, second, third = (bytes.fromhex(block) for block in blocks)
    common = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/")]
    host = (b":authority", b"www.example.com")
    assert fields(decoder, first) == [*common, host]
    assert decoder.size == 57
    assert fields(decoder, second) == [*common, host, (b"cache-control", b"no-cache")]
    assert decoder.size == 110
    assert fields(decoder, third) == [
        *((b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/index.html")),
        *(host, (b"custom-key", b"custom-value")),
    ]
    assert decoder.size == 164


@pytest.mark.parametrize("bits", range(1, 9))
def test_numbers_at_every_edge(bits: int) -> None:
    mask = (1 << bits) - 1
    for value in [*EDGES, *((1 << n) + off for n in range(15, 35) for off in (-1, 0, 1))]:
        if value < 0 or value - mask >= 1 << 35:
            continue
        block = number(value, bits) + b"rest"
        assert integer(block, 0, mask) == (value, len(block) - 4)


@pytest.mark.parametrize("size", EDGES)
def test_strings_of_every_edge(size: int) -> None:
    text = b"a" * size
    assert fields(Decoder(1 << 16), literal(b"x", text)) == [(b"x", text)]
    for fault in (literal(b"x", text)[:-1], literal(b"x", b"")[:-1] + number(size + 1, 7) + text):
        with pytest.raises(ConnectionFault):
            Decoder(1 << 16).decode(fault)


@pytest.mark.parametrize("size", [size for size in EDGES if 33 <= size <= 4_097])
def test_a_table_of_every_edge_keeps_what_fits(size: int) -> None:
    decoder = Decoder(1 << 16, 4_096)
    limit = min(size, 4_096)
    entry = literal(b"x", b"v" * (limit - 33), 64)
    assert len(fields(decoder, number(limit, 5, 32) + entry)) == 1
    assert decoder.size == limit
    assert fields(decoder, b"\xbe") == [(b"x", b"v" * (limit - 33))]
    decoder.decode(literal(b"x", b"v" * (limit - 32), 64))  # a byte too large: it empties the table
    assert decoder.size == 0
    with pytest.raises(ConnectionFault):
        decoder.decode(b"\xbe")


def test_a_long_life_evicts_the_oldest() -> None:
    decoder, encoder = Decoder(1 << 16), Encoder()
    for count in range(2_000):
        wanted = [(b"x-request-id", str(count).encode()), (b"x", b"y" * (count % 90))]
        assert fields(decoder, encoder.encode(wanted)) == wanted
        assert decoder.size <= 4_096


def test_a_smaller_table_evicts_and_says_so() -> None:
    decoder = Decoder(1 << 16)
    decoder.decode(literal(b"a", b"1", 64) + literal(b"b", b"2", 64))
    before = decoder.generation
    assert fields(decoder, number(34, 5, 32) + b"\xbe") == [(b"b", b"2")]
    assert decoder.generation > before


def test_blocks_that_only_read_leave_the_generation() -> None:
    decoder = Decoder(1 << 16)
    decoder.decode(literal(b"a", b"1", 64))
    before = decoder.generation
    decoder.decode(b"\xbe\x82" + literal(b"b", b"2") + literal(b"c", b"3", 16))
    assert decoder.generation == before


def test_a_list_over_its_limit_counts_what_is_named_by_index() -> None:
    decoder = Decoder(8_192)
    decoder.decode(literal(b"a", b"v" * 4_000, 64))
    found = decoder.decode(b"\xbe" * 16_000)
    assert decoder.is_over
    assert len(found) == 2
    assert fields(decoder, b"\xbe") == [(b"a", b"v" * 4_000)]  # the table still fits the peer's
    assert not decoder.is_over


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # index 0
        b"\xbe",  # of an empty table
        number((1 << 35) - 1, 7, 128),
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a number without end
        b"\xff" + b"\x80" * 4 + b"\x80\x01",  # of six bytes
        b"\x7f", b"\xff", b"\x40", b"\x00\x01", b"\x00\x01a", b"\x00\x7f\xff\xff\xff\xff\x07",
        b"\x82\x20",  # a size update after a field
        number(4_097, 5, 32),
        b"\x00\x81\xffa",
    ],
)  # fmt: skip
def test_what_is_no_block(block: bytes) -> None:
    with pytest.raises(ConnectionFault) as raised:
        Decoder(1 << 16).decode(block)
    assert raised.value.code == COMPRESSION_ERROR
