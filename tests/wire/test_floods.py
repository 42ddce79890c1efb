"""Peers that repeat cheap operations: each operation has a rate limit, which is reported."""

from collections.abc import Callable

import pytest
from hyperframe.frame import (
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from pocketmq.wire.flow import EMPTY_MAX, PINGS_MAX, RESETS_MAX, SETTINGS_MAX
from tests.wire.raw_peer import RawPeer, continuation, data, faults, raw_data

CALM = 11
Flood = Callable[[RawPeer, int], list[Frame]]


def rapid_resets(peer: RawPeer, at: int) -> list[Frame]:
    return [peer.headers(2 * at + 3), RstStreamFrame(2 * at + 3, 8)]


def resets_made_here(peer: RawPeer, at: int) -> list[Frame]:
    """A stream whose own fault makes the server cut it off."""
    return [peer.headers(2 * at + 3), PriorityFrame(2 * at + 3, depends_on=2 * at + 3)]


def data_after_the_end(peer: RawPeer, at: int) -> list[Frame]:
    return [peer.headers(2 * at + 3, "END_STREAM"), raw_data(2 * at + 3, b"x")]


def pings(_: RawPeer, at: int) -> list[Frame]:
    return [PingFrame(0, at.to_bytes(8, "big"))]


def settings(_: RawPeer, at: int) -> list[Frame]:
    return [SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 65_535 + at})]


def empty_data(_: RawPeer, at: int) -> list[Frame]:
    return [raw_data(1, b"")]


def priorities(_: RawPeer, at: int) -> list[Frame]:
    return [PriorityFrame(1, depends_on=at % 100 * 2 + 5)]


FLOODS = [
    (rapid_resets, RESETS_MAX),
    (resets_made_here, RESETS_MAX),
    (data_after_the_end, RESETS_MAX),
    (pings, PINGS_MAX),
    (settings, SETTINGS_MAX - 1),  # the first came with the preface
    (empty_data, EMPTY_MAX),
    (priorities, EMPTY_MAX),
]


@pytest.mark.parametrize(("flood", "allowed"), FLOODS)
def test_a_flood_ends_the_connection(flood: Flood, allowed: int) -> None:
    peer = RawPeer()
    peer.send(peer.headers(1))
    done = 0
    while done < allowed:
        frames = [
            frame for at in range(done, min(done + 500, allowed)) for frame in flood(peer, at)
        ]
        assert "GOAWAY" not in {fault[0] for fault in faults(peer.send(*frames))}
        done += 500
    assert ("GOAWAY", CALM) in {fault[::2] for fault in faults(peer.send(*flood(peer, allowed)))}


@pytest.mark.parametrize(("flood", "allowed"), FLOODS)
def test_as_much_over_a_longer_time_does_not(flood: Flood, allowed: int) -> None:
    peer = RawPeer()
    peer.send(peer.headers(1))
    for at in range(min(3 * allowed, 4_000)):
        peer.now_s += 1.1 / allowed
        found = faults(peer.send(*flood(peer, at)))
        assert "GOAWAY" not in {fault[0] for fault in found}


@pytest.mark.parametrize("part", [b"", b"\x82"])
def test_a_block_without_end(part: bytes) -> None:
    peer = RawPeer()
    found = peer.send(HeadersFrame(1, b"\x82"), *[continuation(1, part, end=False)] * 40)
    assert faults(found) == [("GOAWAY", 0, CALM)]


@pytest.mark.parametrize("size", [16_383, 16_384, 16_385])
def test_a_block_over_its_limit(size: int) -> None:
    peer = RawPeer()
    found = peer.send(
        HeadersFrame(1, b"\x82" * 9_000), continuation(1, b"\x82" * (size - 9_000), end=True)
    )
    wanted = ("GOAWAY", 0, CALM) if size > 16_384 else ("RST_STREAM", 1, 1)  # :method twice
    assert faults(found) == [wanted]


def test_a_peer_that_reads_nothing_is_given_up() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1))
    sent = 0
    while not peer.server.closing:
        peer.now_s += 1.0
        peer.server.receive(PingFrame(0, b"12345678").serialize() * 900)
        sent += 900
        assert peer.server.pending < 4 << 20
    assert sent * 17 > 1 << 20


def test_windows_opened_often_cost_no_allowance() -> None:
    peer = RawPeer()
    peer.send(peer.headers(1), data(1, b""))
    peer.server.respond(peer.news[0], b"")
    peer.taken()
    for _ in range(5):
        peer.send(*[WindowUpdateFrame(1, 1), WindowUpdateFrame(0, 1)] * (EMPTY_MAX // 4))
    assert not peer.server.closing


def test_a_ping_after_each_answer_costs_no_allowance() -> None:
    """So clients of gRPC measure the way: thousands of calls a second are no flood of pings."""
    peer = RawPeer()
    for at in range(3 * PINGS_MAX):
        peer.send(peer.headers(2 * at + 1), data(2 * at + 1, b"", end=True))
        peer.server.respond(peer.news[0], b"")
        peer.send(*pings(peer, at))
    peer.send(*[frame for at in range(PINGS_MAX) for frame in pings(peer, at)])
    assert not peer.server.closing
    assert faults(peer.send(*pings(peer, 0))) == [("GOAWAY", 6 * PINGS_MAX - 1, CALM)]
