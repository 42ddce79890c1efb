"""Protocol errors of a peer, and their effect on its stream or its connection."""

import struct

import pytest
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from pocketmq.wire.flow import Limits
from pocketmq.wire.frames import PREFACE
from tests.wire.h2_client import REQUEST
from tests.wire.raw_peer import RawPeer, continuation, data, faults, raw_data

PROTOCOL, FLOW, CLOSED, SIZE, REFUSED, COMPRESSION, CALM = 1, 3, 5, 6, 7, 9, 11


def raw(kind: int, payload: bytes, stream_id: int = 0, flags: int = 0) -> bytes:
    """Returns a frame that hyperframe would not make."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big")
    return head + payload


def settings(name: int, value: int) -> bytes:
    return raw(4, struct.pack(">HI", name, value))


BROKEN: list[tuple[bytes | Frame, int]] = [
    (raw(0, b"x", 0), PROTOCOL),
    (DataFrame(5, b"x"), PROTOCOL),  # idle
    (raw(0, b"\x05abc", 1, 8), PROTOCOL),  # more padding than payload
    (raw(0, b"", 1, 8), SIZE),
    (raw(1, b"\x05ab", 3, 4 | 8), PROTOCOL),
    (raw(1, b"\0\0\0\0", 3, 4 | 32), SIZE),
    (raw(1, b"", 0, 4), PROTOCOL),
    (raw(1, b"", 2, 4), PROTOCOL),  # a stream that only servers open
    (raw(1, b"\x80", 3, 4), COMPRESSION),
    (raw(2, b"\0\0\0\0\x10", 0), PROTOCOL),
    (raw(3, b"\0\0\0", 1), SIZE),
    (RstStreamFrame(5, 8), PROTOCOL),
    (raw(3, b"\0\0\0\x08", 0), PROTOCOL),
    (raw(4, b"", 1), PROTOCOL),
    (raw(4, b"\0" * 6, 0, 1), SIZE),
    (raw(4, b"\0" * 7), SIZE),
    (settings(2, 2), PROTOCOL),
    (settings(4, 2**31), FLOW),
    (settings(5, 16_383), PROTOCOL),
    (settings(5, 2**24), PROTOCOL),
    (PushPromiseFrame(1, 2, b""), PROTOCOL),
    (raw(6, b"\0" * 7), SIZE),
    (raw(6, b"\0" * 8, 1), PROTOCOL),
    (raw(7, b"\0" * 8, 1), PROTOCOL),
    (raw(7, b"\0" * 7), SIZE),
    (raw(8, b"\0" * 4), PROTOCOL),
    (raw(8, b"\0" * 3), SIZE),
    (raw(8, struct.pack(">I", 2**31 - 1)), FLOW),
    (WindowUpdateFrame(5, 1), PROTOCOL),
    (raw(9, b"", 1, 4), PROTOCOL),  # nothing to go on with
    (raw(0, b"\0" * 16_385, 1), SIZE),
    (raw(99, b"\0" * 16_385, 0), SIZE),
]


@pytest.mark.parametrize(("frame", "code"), BROKEN, ids=str)
def test_what_ends_the_connection(frame: bytes | Frame, code: int) -> None:
    peer = RawPeer()
    peer.send(peer.headers(1))
    (stream,) = peer.news
    found = peer.send(frame)
    assert [fault[2] for fault in faults(found)] == [code]
    assert isinstance(found[-1], GoAwayFrame)
    assert found[-1].additional_data
    assert peer.server.closing
    assert peer.news == [stream]
    assert (stream.closed, stream.reset_code) == (True, code)
    assert peer.send(PingFrame(0, b"12345678")) == []


BROKEN_STREAM: list[tuple[bytes | Frame, int, int]] = [
    (raw(8, b"\0" * 4, 1), 1, PROTOCOL),
    (raw(8, struct.pack(">I", 2**31 - 1), 1), 1, FLOW),
    (PriorityFrame(1, depends_on=1), 1, PROTOCOL),
    (raw(2, b"\0\0\0\0", 1), 1, SIZE),
    (raw(1, b"\0\0\0\x03\0\x82", 3, 4 | 32), 3, PROTOCOL),  # depends on itself
    (HeadersFrame(3, b"\x82\x86\x84\x82", flags=["END_HEADERS"]), 3, PROTOCOL),  # malformed
    (raw(1, b"\x82", 1, 4), 1, PROTOCOL),  # HEADERS amid a request
    (raw(1, b"\x82", 1, 4 | 1), 1, PROTOCOL),  # trailers with a pseudo-header
]


@pytest.mark.parametrize(("frame", "stream_id", "code"), BROKEN_STREAM, ids=str)
def test_what_ends_a_stream_and_nothing_else(
    frame: bytes | Frame, stream_id: int, code: int
) -> None:
    peer = RawPeer()
    peer.send(peer.headers(1))
    assert faults(peer.send(frame)) == [("RST_STREAM", stream_id, code)]
    if stream_id == 1:
        assert [stream.reset_code for stream in peer.news] == [code]
    peer.send(peer.headers(5), data(5, b"still served"))
    assert peer.news[-1].messages == [b"still served"]


@pytest.mark.parametrize(
    "first",
    [raw(6, b"\0" * 8), raw(4, b"", 0, 1), raw(1, b"", 1, 4), raw(99, b"")],
)
def test_settings_come_first(first: bytes) -> None:
    peer = RawPeer(begin=False)
    assert faults(peer.send(PREFACE, first)) == [("GOAWAY", 0, PROTOCOL)]


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_preface_may_come_in_parts_but_not_be_another(cut: int) -> None:
    peer = RawPeer(begin=False)
    peer.send(PREFACE[:cut])
    assert not peer.server.closing
    peer.send(PREFACE[cut:], SettingsFrame())
    assert not peer.server.closing
    other = RawPeer(begin=False)
    changed = bytearray(PREFACE)
    changed[cut] ^= 1
    assert faults(other.send(bytes(changed[: cut + 1]))) == [("GOAWAY", 0, PROTOCOL)]


def test_nothing_may_come_within_a_header_block() -> None:
    for frame in (PingFrame(0, b"12345678"), continuation(3, b"", end=True), data(1, b"")):
        peer = RawPeer()
        block = peer.headers(1).data
        peer.send(HeadersFrame(1, block[:3]))
        assert faults(peer.send(frame)) == [("GOAWAY", 0, PROTOCOL)]


def test_a_block_in_parts_opens_a_stream() -> None:
    peer = RawPeer()
    block = peer.headers(1).data
    peer.send(HeadersFrame(1, block[:3]), continuation(1, block[3:5], end=False))
    assert not peer.news
    peer.send(continuation(1, block[5:], end=True))
    assert peer.news[0].headers.path == b"/pocketmq.v1.Broker/SendMessage"


def test_frames_after_the_end() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1), data(1, b"x"))
    (stream,) = peer.news
    assert faults(peer.send(raw_data(1, b"y"))) == [("RST_STREAM", 1, CLOSED)]
    assert stream.reset_code == CLOSED
    peer.send(peer.headers(3), data(3, b"x"))
    peer.server.respond(peer.news[0], b"")
    peer.taken()
    for frame in (WindowUpdateFrame(3, 1), RstStreamFrame(3, 8), PriorityFrame(3)):
        assert not peer.send(frame)
    assert faults(peer.send(raw_data(3, b"y"))) == [("RST_STREAM", 3, CLOSED)]
    peer.send(peer.headers(5), data(5, b"x"))
    peer.server.respond(peer.news[0], b"")
    peer.taken()
    assert faults(peer.send(peer.headers(5))) == [("GOAWAY", 5, CLOSED)]


def test_frames_on_their_way_to_a_stream_cut_off_here_are_dropped() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1))
    peer.server.reset(peer.news[0], 8)
    assert faults(peer.taken()) == [("RST_STREAM", 1, 8)]
    assert not peer.send(data(1, b"x" * 1_000), peer.headers(1, "END_STREAM"))
    peer.send(peer.headers(3), data(3, b"y"))  # its fields are read with the table all the same
    assert peer.news[0].headers.path == b"/pocketmq.v1.Broker/SendMessage"


def test_a_lower_number_that_was_passed_over_cannot_open() -> None:
    peer = RawPeer()
    peer.send(peer.headers(5))
    assert faults(peer.send(peer.headers(3))) == [("GOAWAY", 5, PROTOCOL)]


def test_streams_over_the_limit_are_refused_and_those_under_it_served() -> None:
    peer = RawPeer(Limits(streams_max=2))
    found = peer.send(*(peer.headers(number) for number in (1, 3, 5)))
    assert faults(found) == [("RST_STREAM", 5, REFUSED)]
    peer.server.finish(peer.news[0], 0, "", [])
    peer.send(peer.headers(7))
    assert [stream.id for stream in peer.news] == [7]


@pytest.mark.parametrize(
    ("length", "parts", "is_sound"),
    [
        ("7", (b"\0\0\0\0\x02ab",), True),
        ("8", (b"\0\0\0\0\x02ab",), False),
        ("6", (b"\0\0\0\0\x02ab",), False),
        ("6", (b"\0\0\0\0\x02a", b"b"), False),
    ],
)
def test_a_content_length_is_kept(length: str, parts: tuple[bytes, ...], is_sound: bool) -> None:
    peer = RawPeer()
    frames = [raw_data(1, part) for part in parts]
    frames[-1].flags |= {"END_STREAM"}
    found = peer.send(peer.headers(1, more=[("content-length", length)]), *frames)
    assert faults(found) == ([] if is_sound else [("RST_STREAM", 1, PROTOCOL)])


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([(":method", "GET"), *REQUEST[1:]], "405"),
        ([(":method", "HEAD"), *REQUEST[1:]], "405"),
        ([*REQUEST[:4], ("content-type", "text/html")], "415"),
    ],
)
def test_what_is_no_call_is_answered_in_http(fields: list[tuple[str, str]], status: str) -> None:
    peer = RawPeer()
    assert not faults(peer.send(peer.headers(1, fields=fields)))
    head, *rest = peer.send(raw_data(1, b"hello", end=True))
    assert not peer.news
    assert peer.fields(head)[":status"] == status
    body = b"".join(frame.data for frame in rest if isinstance(frame, DataFrame))
    assert (b"speaks gRPC" in body) == (fields[0][1] != "HEAD")
    assert peer.server.open_count == 0


def test_a_long_request_that_is_no_call_is_answered_before_its_end() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1, fields=REQUEST[:4]))
    found = [f for _ in range(5) for f in peer.send(raw_data(1, b"x" * 16_000))]
    assert faults(found) == [("RST_STREAM", 1, 0)]
    assert (peer.server.held, peer.server.open_count) == (0, 0)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ([("x", "v" * 8_200)], 8),
        ([("grpc-timeout", "soon")], 13),
        ([("grpc-encoding", "snappy")], 12),
    ],
)
@pytest.mark.parametrize("flags", [(), ("END_STREAM",)])
def test_calls_that_nothing_can_serve_are_refused_at_once(
    more: list[tuple[str, str]], status: int, flags: tuple[str, ...]
) -> None:
    peer = RawPeer()
    frame, *rest = peer.send(peer.headers(1, *flags, more=more))
    assert faults(rest) == ([] if flags else [("RST_STREAM", 1, 0)])
    assert not peer.news
    assert peer.server.open_count == 0
    fields = peer.fields(frame)
    assert fields["grpc-status"] == str(status)
    assert fields["grpc-message"]
    assert ("grpc-accept-encoding" in fields) == (status == 12)


def test_metadata_of_all_open_calls_has_a_bound() -> None:
    peer = RawPeer(Limits(lists_max=10_000))
    opened = []
    for number in range(1, 9, 2):
        found = peer.send(peer.headers(number, more=[("x", str(number) * 3_000)]))
        assert faults(found) == ([] if number < 7 else [("RST_STREAM", 7, REFUSED)])
        assert len(peer.news) == (number < 7)
        opened += peer.news
    peer.server.finish(opened[-1], 0, "", [])
    peer.send(peer.headers(9, more=[("x", "9" * 3_000)]))
    assert len(peer.news) == 1
    for number in range(11, 31, 2):  # by index they cost nothing
        assert not faults(peer.send(peer.headers(number)))


def test_a_request_that_ends_within_a_message_is_refused() -> None:
    peer = RawPeer()
    found = peer.send(peer.headers(1), raw_data(1, b"\0\0\0\0\x05abc", end=True))
    assert peer.fields(found[-1])["grpc-status"] == "13"
    assert peer.server.open_count == 0
    assert not peer.news or peer.news[0].closed


def test_a_handler_at_work_is_told_that_its_call_was_refused() -> None:
    peer = RawPeer(Limits(message_max=100))
    peer.send(peer.headers(1), data(1, b"fine", end=False))
    (stream,) = peer.news
    stream.call = object()
    peer.send(raw_data(1, b"\0\0\0\0\x65"))
    assert peer.news == [stream]
    assert (stream.closed, stream.reset_code) == (True, 0)
