"""Whole calls over a connection, with h2 as the client."""

from random import Random

import pytest
from hyperframe.frame import PingFrame, RstStreamFrame

from pocketmq.wire.connection import Connection
from pocketmq.wire.flow import Limits
from tests.wire.h2_client import Pair, framed
from tests.wire.raw_peer import RawPeer, data, faults, raw_data

SIZES = [0, 1, 2, 3, 4, 5, 16_378, 16_379, 16_380, 16_384, 65_529, 65_530, 65_531, 200_000]


def test_a_unary_call_comes_whole_and_its_answer_goes_with_status_ok() -> None:
    pair = Pair()
    stream_id = pair.call(b"request", fields=[("x-request-id", "17"), ("data-bin", "AAEC")])
    (stream,) = pair.exchange()
    assert (stream.id, stream.messages, stream.ended) == (stream_id, [b"request"], True)
    assert stream.headers.path == b"/pocketmq.v1.Broker/SendMessage"
    assert stream.headers.metadata == [(b"x-request-id", b"17"), (b"data-bin", b"\0\1\2")]
    pair.server.respond(stream, b"answer")
    pair.exchange()
    answer = pair.answers[stream_id]
    assert answer.headers == {":status": "200", "content-type": "application/grpc"}
    assert (answer.messages, answer.status, answer.ended) == ([b"answer"], "0", True)
    assert (pair.server.open_count, pair.server.held, pair.server.pending) == (0, 0, 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("step", [1 << 30, 7])
def test_messages_of_any_size_pass_both_ways(size: int, step: int) -> None:
    if step == 7 and size > 20_000:
        size = 20_000
    pair = Pair()
    message = bytes(range(256)) * (size // 256 + 1)
    stream_id = pair.call(message[:size])
    streams = pair.exchange(step)
    pair.server.respond(streams[-1], streams[-1].messages[0])
    pair.exchange()
    assert pair.answers[stream_id].messages == [message[:size]]
    assert pair.answers[stream_id].status == "0"


@pytest.mark.parametrize("step", [1, 100, 8_192, 65_536])
def test_a_read_taken_in_parts_is_what_it_is_as_a_whole(step: int) -> None:
    messages = [bytes([number]) * (9_000 * number) for number in range(1, 6)]
    peer = RawPeer()
    frames = list[bytes]()
    for number, message in enumerate(messages):
        body = framed(message)
        frames.append(peer.headers(2 * number + 1).serialize())
        for at in range(0, len(body), 16_384):
            end = at + 16_384 >= len(body)
            frames.append(raw_data(2 * number + 1, body[at : at + 16_384], end=end).serialize())
    read = b"".join([*frames, peer.headers(11).serialize()[:12]])
    found, begin = list[bytes](), 0
    while begin < len(read):
        for stream in peer.server.receive(read, begin, begin + step):
            found += stream.messages
            stream.messages.clear()
        assert peer.server.taken > begin
        begin = peer.server.taken
    assert found == messages
    assert (begin, peer.server.open_count) == (len(read), len(messages))


def test_a_message_in_pieces_of_any_sizes_is_joined_in_their_order() -> None:
    chance = Random(5)
    for _ in range(60):
        body = framed(message := chance.randbytes(chance.choice((0, 5, 5_000, 40_000))))
        peer = RawPeer()
        peer.send(peer.headers(1))
        at = 0
        while at < len(body):
            size = chance.choice((1, 3, 700, 4_095, 4_096, 9_000, 16_384))
            end = at + size >= len(body)
            peer.send(raw_data(1, body[at : at + size], end=end))
            at += size
            held = sum(stream.held for stream in peer.news)
            assert held == peer.server.held or not peer.news
        assert [stream.messages for stream in peer.news] == [[message]]


def test_requests_and_answers_stream() -> None:
    pair = Pair()
    stream_id = pair.call(b"one", b"two", end=False)
    (stream,) = pair.exchange()
    assert (stream.messages, stream.ended) == ([b"one", b"two"], False)
    pair.server.send_headers(stream, [(b"x-began", b"yes"), (b"raw-bin", b"\xff\xfe")])
    pair.server.send_message(stream, b"first")
    pair.client.end_stream(stream_id)
    assert [(s.id, s.ended) for s in pair.exchange()] == [(stream_id, True)]
    pair.server.send_message(stream, b"second")
    pair.server.finish(stream, 5, "no such topic: 30 % \u00fc", [(b"x-request-id", b"9")])
    pair.exchange()
    answer = pair.answers[stream_id]
    assert (answer.headers["x-began"], answer.headers["raw-bin"]) == ("yes", "//4")
    assert answer.messages == [b"first", b"second"]
    assert answer.trailers == {
        "grpc-status": "5",
        "grpc-message": "no such topic: 30 %25 %C3%BC",
        "x-request-id": "9",
    }


def test_an_answer_without_messages_is_trailers_alone() -> None:
    pair = Pair()
    stream_id = pair.call(b"")
    (stream,) = pair.exchange()
    pair.server.finish(stream, 16, "who are you?", [])
    pair.exchange()
    assert pair.answers[stream_id].headers["grpc-message"] == "who are you?"
    assert pair.answers[stream_id].status == "16"
    assert pair.answers[stream_id].ended


def test_a_message_over_the_limit_is_refused_before_it_is_kept() -> None:
    pair = Pair(Limits(message_max=1_000))
    stream_id = pair.call(b"x" * 1_001, end=False)
    pair.exchange()
    assert pair.answers[stream_id].status == "8"
    assert pair.answers[stream_id].ended
    assert (pair.server.held, pair.server.open_count) == (0, 0)


def test_a_client_cancels() -> None:
    pair = Pair()
    stream_id = pair.call(b"x", end=False)
    (stream,) = pair.exchange()
    pair.client.reset_stream(stream_id, 8)
    assert pair.exchange() == [stream]
    assert (stream.reset_code, stream.closed) == (8, True)
    pair.server.respond(stream, b"too late")
    assert pair.server.take() == b""


def test_of_a_call_that_is_cut_off_nothing_unfinished_is_kept() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1), raw_data(1, framed(bytes(9_000))[:8_000]))
    stream = peer.server._streams.open[1]
    peer.send(RstStreamFrame(1, 8))
    assert stream.closed
    assert not stream.pieces


def test_garbage_ends_the_connection() -> None:
    server = Connection()
    server.take()
    assert server.receive(b"GET / HTTP/1.1\r\n\r\n") == []
    assert server.closing
    assert server.take()[3] == 7  # GOAWAY
    assert server.receive(b"more") == []


def test_a_drain_serves_what_was_begun_and_what_is_on_its_way() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1), data(1, b"x"))
    (first,) = peer.news
    peer.server.drain()
    goaway, ping = peer.taken()
    assert faults([goaway]) == [("GOAWAY", 2**31 - 1, 0)]
    assert isinstance(ping, PingFrame)
    peer.send(peer.headers(3), data(3, b"y"), PingFrame(0, ping.opaque_data, flags=["ACK"]))
    (second,) = peer.news
    assert not peer.server.drained
    assert not peer.send(peer.headers(5), data(5, b"z"))  # sent after it knew: dropped
    assert not peer.news
    peer.server.respond(first, b"")
    peer.server.respond(second, b"")
    assert [frame.stream_id for frame in peer.taken()] == [1, 1, 1, 3, 3, 3]
    assert peer.server.drained


def test_the_last_goaway_of_a_drain_names_the_last_call() -> None:
    peer = RawPeer()
    peer.send(peer.headers(7), data(7, b"x"))
    peer.server.drain()
    peer.server.drain()
    assert faults(peer.taken()) == [("GOAWAY", 2**31 - 1, 0), ("GOAWAY", 7, 0)]
