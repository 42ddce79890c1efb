"""gRPC's framing: whole messages out of DATA cut anywhere, limits, and compressed ones."""

import gzip
import struct
import zlib

import pytest

from pocketmq.wire.headers import Headers
from pocketmq.wire.messages import MessageFault, opened
from pocketmq.wire.stream import MESSAGE_OVERHEAD, Stream
from tests.wire.cases import EDGES
from tests.wire.h2_client import framed

HEAD = bytes(9)
"""What stands before the payload of every DATA frame."""


def stream(encoding: bytes = b"identity", size_max: int = 1 << 20) -> Stream:
    headers = Headers([])
    headers.encoding = encoding
    return Stream(1, headers, 1 << 20, size_max)


def accept(one: Stream, payload: bytes) -> None:
    one.accept(HEAD + payload, len(HEAD), len(HEAD) + len(payload))


@pytest.mark.parametrize("size", EDGES)
def test_messages_of_every_edge_cut_anywhere(size: int) -> None:
    message = bytes(index % 251 for index in range(size))
    body = framed(b"first", message, b"", message)
    for cut in {0, 1, 4, 5, 9, 10, 11, 14, 15, 16, len(body) // 2, len(body) - 1, len(body)}:
        one = stream()
        accept(one, body[:cut])
        accept(one, body[cut:])
        assert one.messages == [b"first", message, b"", message]
        assert one.partial is None
        assert one.held == 5 + 2 * size + 4 * MESSAGE_OVERHEAD


def test_bytes_one_by_one() -> None:
    one = stream()
    for byte in framed(b"", b"a", b"bc"):
        accept(one, bytes((byte,)))
    assert one.messages == [b"", b"a", b"bc"]


@pytest.mark.parametrize("cut", [3, 5, 6])
def test_a_message_over_the_limit_is_refused_by_its_prefix(cut: int) -> None:
    one = stream(size_max=1_000)
    accept(one, framed(b"x" * 1_000))
    with pytest.raises(MessageFault, match="1001 bytes, the limit is 1000"):
        for part in (framed(b"x" * 1_001)[:cut], framed(b"x" * 1_001)[cut:6]):
            accept(one, part)
    assert one.held <= 1_000 + MESSAGE_OVERHEAD + 5


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 1])
def test_lengths_beyond_all_limits(length: int) -> None:
    with pytest.raises(MessageFault) as raised:
        accept(stream(), struct.pack(">BI", 0, length) + b"x")
    assert raised.value.status == 8


def test_compressed_messages_are_opened() -> None:
    one = stream(b"gzip")
    accept(one, framed(gzip.compress(b"a" * 5_000), flag=1) + framed(b"plain"))
    assert one.messages == [b"a" * 5_000, b"plain"]


@pytest.mark.parametrize("flag", [1, 2, 255])
def test_flags_that_the_call_did_not_name(flag: int) -> None:
    with pytest.raises(MessageFault) as raised:
        accept(stream(), framed(b"x", flag=flag))
    assert raised.value.status == 13


@pytest.mark.parametrize("size", [999, 1_000, 1_001, 10_000_000])
def test_a_bomb_is_not_opened_beyond_the_limit(size: int) -> None:
    packed = gzip.compress(bytes(size))
    if size <= 1_000:
        assert opened(packed, 1_000) == bytes(size)
        return
    with pytest.raises(MessageFault, match="more than 1000 bytes when decompressed"):
        opened(packed, 1_000)


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"no gzip",
        gzip.compress(b"abc", mtime=0)[:-1],
        gzip.compress(b"abc", mtime=0) + b"x",
        zlib.compress(b"a"),
    ],
)
def test_what_is_no_gzip(packed: bytes) -> None:
    with pytest.raises(MessageFault) as raised:
        opened(packed, 1_000)
    assert raised.value.status == 13
