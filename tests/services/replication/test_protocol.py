"""The leader's side of RocketMQ's HA protocol, against bytes of a real pair and made-up slaves."""

import json
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.services.replication.protocol import (
    HEARTBEAT_MS,
    PIECE_SIZE_MAX,
    SILENCE_MAX_MS,
    LogEnds,
    LogPiece,
    SlaveRefused,
    SlaveStream,
)

RECORDED = Path(__file__).with_name("recorded")
FILE_SIZE = 64 * 1024
HEAD, REPORT = Struct(">qi"), Struct(">q")
EMPTY = LogEnds(0, 0, FILE_SIZE)


def log_of(end: int, begin: int = 0, file_size_bytes: int = FILE_SIZE) -> LogEnds:
    return LogEnds(begin, end, file_size_bytes)


def following(report: int, ends: LogEnds, now_ms: int = 0) -> SlaveStream:
    """Returns the stream of a slave that has made its first report."""
    stream = SlaveStream("127.0.0.1:5000", now_ms)
    stream.receive(REPORT.pack(report), ends, now_ms)
    return stream


def sent(stream: SlaveStream, ends: LogEnds, now_ms: int = 0) -> list[LogPiece]:
    """Returns the pieces that are sent now, one after the other."""
    found = []
    while (piece := stream.next_piece(ends, now_ms)) is not None:
        stream.said(piece, now_ms)
        found.append(piece)
    return found


def frames(down: bytes) -> Iterator[tuple[int, LogPiece]]:
    """Yields each recorded frame of a leader, with the position of its end in the stream."""
    at = 0
    while at < len(down):
        piece = LogPiece(*HEAD.unpack_from(down, at))
        at += HEAD.size + piece.size_bytes
        yield at, piece


@pytest.mark.parametrize("name", ["small.ha-3", "small-kill.ha-6"])
def test_a_real_leaders_frames_are_ours(name: str) -> None:
    up = (RECORDED / f"{name}.up").read_bytes()
    down = (RECORDED / f"{name}.down").read_bytes()
    lines = (RECORDED / f"{name}.timesl").read_text("utf-8").splitlines()
    expected, heard, spoken = list(frames(down)), 0, 0
    first = expected[0][1].physical_offset
    stream, now_ms, end, count = SlaveStream("slave:1", 0), 0, first, 0
    for line in lines:
        _, way, size_bytes = json.loads(line)
        if way == "up":
            ends = log_of(end, first - first % FILE_SIZE)
            stream.receive(up[heard : heard + size_bytes], ends, now_ms)
            heard += size_bytes
            continue
        spoken += size_bytes
        while count < len(expected) and expected[count][0] <= spoken:
            piece = expected[count][1]
            end = max(end, piece.physical_offset + piece.size_bytes)
            now_ms += 0 if piece.size_bytes else HEARTBEAT_MS
            assert stream.next_piece(log_of(end), now_ms) == piece
            assert piece.head == HEAD.pack(*piece)
            stream.said(piece, now_ms)
            count += 1
    assert count == len(expected) >= 10
    assert stream.acknowledged == stream.sent == end, "the slave has all of it"


def test_an_empty_slave_gets_the_log_from_its_begin() -> None:
    ends = log_of(3 * FILE_SIZE + 7, begin=FILE_SIZE)
    stream = following(0, ends)
    assert sent(stream, ends) == [
        LogPiece(FILE_SIZE, FILE_SIZE), LogPiece(2 * FILE_SIZE, FILE_SIZE),
        LogPiece(3 * FILE_SIZE, 7),
    ]  # fmt: skip


def test_a_slave_goes_on_in_the_middle_of_a_record() -> None:
    stream = following(7, log_of(100))
    assert sent(stream, log_of(100)) == [LogPiece(7, 93)]


def test_a_piece_is_not_larger_than_a_slave_reads() -> None:
    ends = log_of(3 * PIECE_SIZE_MAX, file_size_bytes=1 << 30)
    sizes = [piece.size_bytes for piece in sent(following(0, ends), ends)]
    assert sizes == [PIECE_SIZE_MAX] * 3
    assert (4 << 20) - HEAD.size >= PIECE_SIZE_MAX


def test_nothing_is_said_before_the_first_report() -> None:
    stream = SlaveStream("slave:1", 0)
    assert stream.next_piece(log_of(100), 99 * HEARTBEAT_MS) is None
    assert stream.acknowledged == -1


def test_a_slave_that_comes_back_may_ask_for_less() -> None:
    before = following(90, log_of(100))
    assert before.acknowledged == 90
    assert sent(following(60, log_of(100)), log_of(100)) == [LogPiece(60, 40)]


@pytest.mark.parametrize(
    ("report", "why"),
    [(101, "up to 101, this broker only up to 100"), (2**40, "followed another broker")],
)
def test_a_slave_that_has_more_is_told_so(report: int, why: str) -> None:
    with pytest.raises(SlaveRefused, match=why):
        following(report, log_of(100))


def test_a_slave_whose_next_bytes_have_expired_is_told_so() -> None:
    with pytest.raises(SlaveRefused, match="older files have expired"):
        following(FILE_SIZE - 1, log_of(2 * FILE_SIZE, begin=FILE_SIZE))


@pytest.mark.parametrize("lie", [101, 2**60, -1, -(2**63)])
def test_a_report_of_what_was_not_sent_ends_the_connection(lie: int) -> None:
    stream = following(0, log_of(100))
    sent(stream, log_of(100))
    with pytest.raises(SlaveRefused, match="was sent the log up to 100"):
        stream.receive(REPORT.pack(lie), log_of(200), 0)
    assert stream.acknowledged == 0


@pytest.mark.parametrize("first", [REPORT.pack(0) * 2, b"GET / HTTP/1.1\r\n\r\n"])
def test_a_stranger_is_not_answered(first: bytes) -> None:
    with pytest.raises(SlaveRefused, match="speaks before"):
        SlaveStream("stranger:1", 0).receive(first, log_of(100), 0)


def test_a_negative_first_report_ends_the_connection() -> None:
    with pytest.raises(SlaveRefused, match="no offset"):
        following(-5, log_of(100))


def test_a_quiet_leader_says_that_it_lives() -> None:
    stream = following(100, log_of(100))
    assert stream.next_piece(log_of(100), HEARTBEAT_MS - 1) is None
    assert stream.wakes_at_ms == HEARTBEAT_MS
    assert sent(stream, log_of(100), HEARTBEAT_MS) == [LogPiece(100, 0)]
    assert stream.wakes_at_ms == 2 * HEARTBEAT_MS


def test_a_silent_slave_is_dead_after_a_while() -> None:
    stream = following(100, log_of(100), now_ms=1_000)
    assert not stream.is_dead(1_000 + SILENCE_MAX_MS)
    assert stream.is_dead(1_001 + SILENCE_MAX_MS)
    stream.receive(REPORT.pack(100)[:3], log_of(100), 15_000)
    assert not stream.is_dead(1_001 + SILENCE_MAX_MS)


@given(
    reports=st.lists(st.integers(0, 500), min_size=1, max_size=20),
    cuts=st.lists(st.integers(1, 9), min_size=1),
)
def test_reports_may_be_cut_anywhere(reports: list[int], cuts: list[int]) -> None:
    whole = b"".join(map(REPORT.pack, sorted(reports)))
    stream = following(0, log_of(500))
    sent(stream, log_of(500))
    at = number = 0
    while at < len(whole):
        size_bytes = cuts[number % len(cuts)]
        stream.receive(whole[at : at + size_bytes], log_of(500), 0)
        at, number = at + size_bytes, number + 1
        assert stream.acknowledged == max([0, *sorted(reports)[: min(at, len(whole)) // 8]])
