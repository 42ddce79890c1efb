"""Windows both ways: what is held, what waits, who goes on when, and that memory has bounds."""

import gzip
import tracemalloc
from collections.abc import Callable

import pytest
from hyperframe.frame import (
    DataFrame,
    Frame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from pocketmq.wire.flow import Intake, Limits
from pocketmq.wire.stream import Stream
from tests.wire.cases import EDGES
from tests.wire.h2_client import framed
from tests.wire.raw_peer import RawPeer, data, faults, raw_data

PATH = b"/pocketmq.v1.Broker/SendMessage"


def opened(frames: list[Frame], stream_id: int) -> int:
    """Returns by how many bytes a window was opened."""
    return sum(
        frame.window_increment
        for frame in frames
        if isinstance(frame, WindowUpdateFrame) and frame.stream_id == stream_id
    )


def bodies(frames: list[Frame], stream_id: int) -> bytes:
    return b"".join(
        frame.data
        for frame in frames
        if isinstance(frame, DataFrame) and frame.stream_id == stream_id
    )


def pieces(stream_id: int, body: bytes) -> list[Frame]:
    """Returns DATA frames of 16 KiB, none of which ends the stream."""
    return [raw_data(stream_id, body[at : at + 16_384]) for at in range(0, len(body), 16_384)]


# -- what comes


def test_the_windows_begin_as_wide_as_the_limits_say() -> None:
    peer = RawPeer(Limits(budget=1 << 20, stream_window=100_000), begin=False)
    settings, update = peer.taken()
    assert isinstance(settings, SettingsFrame)
    assert settings.settings[SettingsFrame.INITIAL_WINDOW_SIZE] == 100_000
    assert opened([update], 0) == (1 << 20) - 65_535


def test_a_stream_may_fill_its_window_and_no_more() -> None:
    for excess in (0, 1):
        peer = RawPeer(Limits(stream_window=65_535))
        peer.send(peer.headers(1))
        found = peer.send(*pieces(1, bytes(65_535 + excess)))  # empty messages: they wait
        assert faults(found) == ([("RST_STREAM", 1, 3)] if excess else [])


def test_the_connection_may_fill_its_window_and_no_more() -> None:
    for excess in (0, 1):
        peer = RawPeer(Limits(budget=65_535, message_max=100_000))
        peer.send(peer.headers(1), peer.headers(3))
        body = framed(bytes(70_000))
        found = peer.send(*pieces(1, body[:40_000]), *pieces(3, body[: 25_535 + excess]))
        assert [fault[::2] for fault in faults(found)][:1] == ([("GOAWAY", 3)] if excess else [])


def test_padding_and_what_is_dropped_open_the_window_again() -> None:
    peer = RawPeer(Limits(budget=65_535))
    peer.send(peer.headers(1))
    peer.server.reset(peer.news[0], 8)
    peer.taken()
    total = 0
    for _ in range(40):
        found = peer.send(raw_data(1, bytes(16_000)))
        assert not faults(found)
        total += opened(found, 0)
    assert total >= 40 * 16_000 - 65_535


def test_messages_hold_windows_shut_until_they_are_consumed() -> None:
    peer = RawPeer(Limits(budget=200_000, stream_window=100_000))
    peer.send(peer.headers(1))
    (stream,) = peer.news
    found = peer.send(*[data(1, bytes(16_000), end=False)] * 5)
    assert (opened(found, 1), opened(found, 0)) == (0, 0)
    assert stream.held == peer.server.held == 80_000 + 5 * 64
    stream.messages.clear()
    peer.server.consume(stream, 80_000)
    assert opened(peer.taken(), 1) == 80_025
    assert (stream.held, peer.server.held) == (0, 0)


def test_empty_messages_hold_something_too() -> None:
    peer = RawPeer(Limits(budget=200_000, stream_window=65_535))
    peer.send(peer.headers(1))
    (stream,) = peer.news
    found = peer.send(*pieces(1, framed(*[b""] * 10_000)))
    assert not faults(found)
    assert opened(found, 1) == 0
    assert stream.held == 64 * 10_000
    while stream.messages:
        stream.messages.pop()
        peer.server.consume(stream, 0)
    assert stream.held == 0
    assert opened(peer.taken(), 1) > 0


def test_a_message_larger_than_all_windows_comes_through() -> None:
    peer = RawPeer(Limits(budget=65_535, stream_window=65_535))
    size = 1_000_000
    body = framed(bytes(size))
    windows = {0: 65_535, 1: 65_535}
    peer.send(peer.headers(1))
    sent = 0
    while sent < len(body):
        room = min(16_384, *windows.values())
        assert room, f"stuck after {sent} bytes"
        found = peer.send(raw_data(1, body[sent : sent + room]))
        assert not faults(found)
        sent += room
        windows = {at: window - room + opened(found, at) for at, window in windows.items()}
    assert [len(message) for message in peer.news[0].messages] == [size]


def test_a_large_message_is_copied_once_when_it_is_whole() -> None:
    size = 4 << 20
    peer = RawPeer(Limits(budget=8 << 20, stream_window=8 << 20))
    peer.send(peer.headers(1))
    body = framed(bytes(size))
    for at in range(0, len(body) - 16_384, 16_384):
        peer.send(raw_data(1, body[at : at + 16_384]))
    rest = raw_data(1, body[at + 16_384 :], end=True).serialize()
    tracemalloc.start()
    try:
        (stream,) = peer.server.receive(rest)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [len(message) for message in stream.messages] == [size]
    assert peak < 1.5 * size


def test_unfinished_messages_over_the_budget_end_the_youngest_calls() -> None:
    peer = RawPeer(Limits(budget=200_000, stream_window=65_535))
    found = []
    for number in range(1, 19, 2):
        found += peer.send(peer.headers(number))
        found += peer.send(*pieces(number, framed(bytes(100_000))[:48_000]))
    statuses = [peer.fields(f)["grpc-status"] for f in found if f.type == 1]
    assert statuses == ["8"] * len(statuses)
    assert len(statuses) >= 1
    assert peer.server.open_count == 9 - len(statuses)
    assert peer.server.held <= 300_005
    rest = framed(bytes(100_000))[48_000:]
    while rest:
        assert not faults(peer.send(raw_data(1, rest[:16_000])))
        rest = rest[16_000:]
    assert peer.news[0].id == 1
    assert len(peer.news[0].messages[0]) == 100_000


def test_what_compression_hid_counts() -> None:
    peer = RawPeer(Limits(budget=65_535, message_max=1_000_000))
    peer.send(peer.headers(1, more=[("grpc-encoding", "gzip")]))
    (stream,) = peer.news
    stream.call = object()
    packed = framed(gzip.compress(bytes(900_000)), flag=1)
    peer.send(raw_data(1, packed))
    assert peer.server.held == 900_064
    peer.send(raw_data(1, packed))
    assert peer.news == [stream]
    assert stream.closed


@pytest.mark.parametrize("size", [999, 1_000, 1_001, 900_000])
@pytest.mark.parametrize("flag", [0, 1])
def test_each_method_has_a_limit_of_its_own(size: int, flag: int) -> None:
    peer = RawPeer(sizes={PATH: 1_000})
    peer.send(peer.headers(1, more=[("grpc-encoding", "gzip")]))
    (stream,) = peer.news
    message = gzip.compress(bytes(size)) if flag else bytes(size)
    sent = pieces(1, framed(message, flag=flag)[:60_000])
    tracemalloc.start()
    try:
        found = peer.send(*sent)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stream.messages == ([bytes(size)] if size <= 1_000 else [])
    assert [peer.fields(f)["grpc-status"] for f in found if f.type == 1] == ["8"] * (size > 1_000)
    assert peak < 300_000


def test_of_a_call_to_a_method_that_is_not_served_nothing_is_opened() -> None:
    peer = RawPeer(sizes={b"/another.Service/Method": 1_000})
    bomb = framed(gzip.compress(bytes(900_000)), flag=1)
    found = peer.send(peer.headers(1, more=[("grpc-encoding", "gzip")]), raw_data(1, bomb))
    assert [peer.fields(f)["grpc-status"] for f in found if f.type == 1] == ["12"]
    assert (peer.news, peer.server.held, peer.server.open_count) == ([], 0, 0)


def test_requests_that_do_not_go_on_are_given_up() -> None:
    peer = RawPeer()
    for number in (1, 3, 5, 7, 9):
        peer.send(peer.headers(number))
        if number == 9:
            peer.news[0].call = object()  # a stream of requests: between two it may pause
    body = framed(bytes(50_000))
    for number in (3, 5, 7):
        peer.send(raw_data(number, body[:5_000]))
    peer.send(*pieces(7, body[5_000:]), raw_data(7, b"", end=True))
    peer.server.give_up_stalled()
    assert peer.taken() == []
    peer.send(raw_data(3, body[5_000:9_095]), raw_data(5, body[5_000:9_096]))
    peer.server.give_up_stalled()
    found = peer.taken()
    assert [f.stream_id for f in found if f.type == 1] == [1, 3]
    assert {peer.fields(f)["grpc-status"] for f in found if f.type == 1} == {"4"}
    peer.server.give_up_stalled()
    assert [f.stream_id for f in peer.taken() if f.type == 1] == [5]
    assert peer.server.open_count == 2


def test_metadata_and_open_streams_weigh_something() -> None:
    peer = RawPeer()
    for number in range(1, 101, 2):
        peer.send(peer.headers(number, more=[(f"x-{number}", "v" * 5_000)]))
    assert peer.server.held == 0
    assert 50 * 6_000 < peer.server.weight(0) < 50 * 7_000
    assert 50 * 5_000 < peer.server.weight(50) <= peer.server.weight(0) - 50 * 1_000
    assert peer.server.weight(51) == peer.server.weight(50)  # a call may outlive its stream
    assert peer.server.received == 0


@pytest.mark.parametrize("held", [0, 1, 32_767, 32_768, 65_535, 65_536, 1_000_000])
def test_grants_never_open_more_than_the_budget(held: int) -> None:
    for window in (0, 1, 32_767, 32_768, 65_535):
        intake = Intake(65_535, window)
        size = intake.grant(held, 0)
        assert size == 0 or size >= 65_535 // 2
        assert intake.window == window + size
        assert size == 0 or intake.window + held <= 65_535


# -- what goes


@pytest.mark.parametrize("size", EDGES)
def test_answers_of_every_edge_come_whole_through_small_windows(size: int) -> None:
    peer = RawPeer()
    peer.send(SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 0}))
    peer.send(peer.headers(1), data(1, b""))
    (stream,) = peer.news
    message = bytes(index % 251 for index in range(size))
    peer.server.respond(stream, message)
    got = bodies(peer.taken(), 1)
    assert (got, stream.pending) == (b"", size + 5)
    for step in (1, 3, 4, 16_384, 40_000):
        found = peer.send(WindowUpdateFrame(1, step))
        more = bodies(found, 1)
        assert len(more) <= step
        got += more
    assert got == framed(message)
    assert (peer.server.pending, peer.server.open_count) == (0, 0)


def test_a_window_that_settings_shrink_below_nothing_opens_later() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1), data(1, b""))
    (stream,) = peer.news
    peer.server.send_message(stream, b"x" * 30_000)
    assert len(bodies(peer.taken(), 1)) == 30_005
    peer.send(SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 10_000}))
    peer.server.send_message(stream, b"y" * 1_000)
    assert not bodies(peer.taken(), 1)
    assert not bodies(peer.send(WindowUpdateFrame(1, 20_005)), 1)
    assert len(bodies(peer.send(WindowUpdateFrame(1, 5)), 1)) == 5
    peer.send(SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 11_000}))
    assert stream.pending == 0


def test_a_slow_reader_keeps_what_waits_where_it_can_be_counted() -> None:
    peer = RawPeer(Limits(output_max=100_000))
    peer.send(WindowUpdateFrame(0, 2**31 - 1 - 65_535))
    peer.send(SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 2**31 - 1}))
    peer.send(peer.headers(1), data(1, b""))
    (stream,) = peer.news
    for _ in range(50):
        peer.server.send_message(stream, bytes(50_000))
    assert peer.server.pending >= 50 * 50_005
    part = peer.server.take()
    assert len(part) < 100_000 + 17_000
    assert stream.pending >= 50 * 50_005 - len(part)
    while part := peer.server.take():
        assert len(part) < 100_000 + 17_000
    assert (stream.pending, peer.server.pending) == (0, 0)


def test_streams_that_wait_for_the_connection_go_on_in_turn() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1), data(1, b""), peer.headers(3), data(3, b""))
    for stream in peer.news:
        peer.server.respond(stream, bytes(100_000))
    first = peer.taken()
    assert abs(len(bodies(first, 1)) - len(bodies(first, 3))) <= 16_384
    assert len(bodies(first, 1)) + len(bodies(first, 3)) == 65_535
    peer.send(WindowUpdateFrame(1, 100_000), WindowUpdateFrame(3, 100_000))
    rest = peer.send(WindowUpdateFrame(0, 200_000))
    for number in (1, 3):
        assert len(bodies(first, number)) + len(bodies(rest, number)) == 100_005


def test_small_windows_of_the_connection_go_to_one_stream_after_the_other() -> None:
    peer = RawPeer()
    peer.send(*[part for n in (1, 3, 5) for part in (peer.headers(n), data(n, b""))])
    peer.server.respond(peer.news[0], bytes(65_530))  # fills the connection's window
    peer.taken()
    for stream in peer.news[1:]:
        peer.server.respond(stream, bytes(1_000))
    found = [peer.send(WindowUpdateFrame(0, 100)) for _ in range(4)]
    assert [len(bodies(frames, n)) for frames in found for n in (3, 5)] == [100, 0, 0, 100] * 2


def test_many_streams_that_may_all_go_on_fill_one_piece_at_a_time() -> None:
    peer = RawPeer()
    numbers = range(1, 401, 2)
    for number in numbers:
        peer.send(peer.headers(number), data(number, b""))
        peer.server.respond(peer.news[0], bytes(21_000))
    peer.server.receive(WindowUpdateFrame(0, 1 << 30).serialize())
    sizes = []
    while part := peer.server.take():
        sizes.append(len(part))
    assert sum(sizes) > len(numbers) * 20_000
    assert max(sizes) < 100_000


def test_streams_that_waited_for_a_shut_window_and_are_gone_keep_nothing() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1), data(1, b""))
    peer.server.respond(peer.news[0], bytes(65_530))
    peer.taken()
    tracemalloc.start()
    try:
        for number in range(3, 6_003, 2):
            peer.now_s += 1.0
            peer.send(peer.headers(number), data(number, b""))
            peer.server.respond(peer.news[0], b"x")
            peer.send(RstStreamFrame(number, 8))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 300_000


def test_what_waits_goes_with_its_stream() -> None:
    peer = RawPeer()
    peer.send(SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 0}))
    peer.send(peer.headers(1), data(1, b""))
    peer.server.respond(peer.news[0], bytes(100_000))
    peer.taken()
    peer.server.reset(peer.news[0], 8)
    peer.taken()
    assert (peer.server.pending, peer.server.open_count) == (0, 0)
    assert not bodies(peer.send(WindowUpdateFrame(1, 1_000)), 1)


def test_a_peer_that_wants_a_smaller_table_is_told_once_that_it_is() -> None:
    peer = RawPeer()
    peer.send(SettingsFrame(0, {SettingsFrame.HEADER_TABLE_SIZE: 100}))
    peer.decoder.max_allowed_table_size = 100  # from here on it insists on a size update
    peer.send(peer.headers(1), data(1, b""), peer.headers(3), data(3, b""))
    for stream in peer.news:
        peer.server.respond(stream, b"")
    found = [frame for frame in peer.taken() if frame.type == 1]
    assert [peer.fields(frame).get("grpc-status") for frame in found] == [None, "0", None, "0"]


def _quick(peer: RawPeer, stream: Stream) -> None:
    peer.server.respond(stream, b"x")


def _large(peer: RawPeer, stream: Stream) -> None:
    peer.server.respond(stream, bytes(100_000))


def _streamed(peer: RawPeer, stream: Stream) -> None:
    peer.server.send_message(stream, b"x")
    peer.server.finish(stream, 0, "", [])


def _refused(peer: RawPeer, stream: Stream) -> None:
    peer.server.finish(stream, 5, "no such topic", [])


def _begun(peer: RawPeer, stream: Stream) -> None:
    peer.server.send_headers(stream, [(b"a", b"b")])
    peer.server.finish(stream, 0, "", [])


@pytest.mark.parametrize("first", [_quick, _large, _streamed, _refused, _begun])
@pytest.mark.parametrize("sizes", [(100,), (0,), (100, 4_096), (4_095,)])
def test_whatever_is_answered_first_says_that_the_table_is_smaller(
    first: Callable[[RawPeer, Stream], None], sizes: tuple[int, ...]
) -> None:
    peer = RawPeer()
    peer.send(*(SettingsFrame(0, {SettingsFrame.HEADER_TABLE_SIZE: size}) for size in sizes))
    peer.decoder.max_allowed_table_size = min(sizes)
    peer.send(peer.headers(1), data(1, b""), peer.headers(3), data(3, b""))
    first(peer, peer.news[0])
    _quick(peer, peer.news[1])
    blocks = [frame for frame in peer.taken() if isinstance(frame, HeadersFrame)]
    assert blocks[0].data[0] == 0x20, "a table of no bytes"
    assert not [frame for frame in blocks[1:] if frame.data[0] == 0x20], "said once"
    assert peer.fields(blocks[0])[":status"] == "200"


@pytest.mark.parametrize("size", [4_096, 65_536])
def test_a_table_that_is_not_smaller_needs_no_word(size: int) -> None:
    peer = RawPeer()
    peer.send(SettingsFrame(0, {SettingsFrame.HEADER_TABLE_SIZE: size}))
    peer.send(peer.headers(1), data(1, b""))
    _quick(peer, peer.news[0])
    blocks = [frame for frame in peer.taken() if isinstance(frame, HeadersFrame)]
    assert not [frame for frame in blocks if frame.data[0] == 0x20]
