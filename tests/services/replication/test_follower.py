"""The frames that a follower reads, cut anywhere, and those it must not believe."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.services.replication.follower import (
    Event,
    FollowerStream,
    LeaderAlive,
    LeaderBroken,
    LeaderMarks,
    LogBytes,
    encode_marks,
    encode_report,
    encode_table,
)
from pocketmq.services.replication.protocol import PIECE_SIZE_MAX
from pocketmq.services.replication.table_record import TableRecord

HEAD = Struct(">qi")
SIZE = 4_096
TABLE = TableRecord("config/topics.json", 7, "file", content=b'{"a": 1}')


def piece(offset: int, content: bytes) -> bytes:
    return HEAD.pack(offset, len(content)) + content


def joined(events: list[Event]) -> list[Event]:
    """Returns the events with neighbouring bytes of the log as one event."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, LogBytes) and isinstance(last, LogBytes):
            assert event.physical_offset == last.physical_offset + len(last.content)
            found[-1] = LogBytes(last.physical_offset, last.content + event.content)
        else:
            found.append(event)
    return found


SENT = (
    piece(4_000, b"a" * 96)
    + piece(4_096, b"b" * 300)
    + encode_marks(LeaderMarks(4_200, 55, 4_096))
    + encode_table(TABLE)
    + HEAD.pack(4_396, 0)
    + encode_table(TABLE._replace(content=b"", kind="drop"))
    + piece(4_396, b"c")
)


@given(cuts=st.lists(st.integers(1, 90), min_size=1, max_size=6))
def test_frames_may_be_cut_anywhere(cuts: list[int]) -> None:
    stream, events, at, number = FollowerStream(4_000, SIZE), list[Event](), 0, 0
    while at < len(SENT):
        size = cuts[number % len(cuts)]
        events += stream.receive(SENT[at : at + size])
        at, number = at + size, number + 1
    assert joined(events) == [
        LogBytes(4_000, b"a" * 96 + b"b" * 300), LeaderMarks(4_200, 55, 4_096), TABLE,
        LeaderAlive(4_396),
        TABLE._replace(content=b"", kind="drop"), LogBytes(4_396, b"c"),
    ]  # fmt: skip
    assert stream.next_offset == 4_397


def test_bytes_of_the_log_do_not_wait_for_the_end_of_their_frame() -> None:
    stream = FollowerStream(0, SIZE)
    assert [*stream.receive(HEAD.pack(0, 100) + b"abc")] == [LogBytes(0, b"abc")]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (piece(1, b"x"), "at 1 of the log follow those up to 0"),
        (HEAD.pack(0, -1), "beyond its limits"),
        (HEAD.pack(0, SIZE + 1), "beyond its limits"),
        (HEAD.pack(-2, 8) + bytes(8), "marks of 8 bytes"),
        (HEAD.pack(-2, 25), "not of this protocol"),
        (HEAD.pack(-3, 0), "not of this protocol"),
        (HEAD.pack(-1, -1), "not of this protocol"),
        (HEAD.pack(-1, (256 << 20) + 1), "not of this protocol"),
        (HEAD.pack(-1, 0), "a head of 0 bytes"),
        (HEAD.pack(-1, 4) + b"\0\0\0\1", "a head of 1 bytes"),
        (HEAD.pack(-1, 6) + b"\0\0\0\2[]", "is no JSON object"),
        (HEAD.pack(-1, 6) + b"\0\0\0\2{}", "is no file that followers copy"),
        (encode_table(TABLE._replace(kind="link")), "is no kind of change"),
        (encode_table(TABLE._replace(seq=-1)), "seq is no number"),
        (encode_table(TABLE._replace(at=-1)), "at is no number"),
        (encode_marks(LeaderMarks(-1, 0)), "the confirmed part is from 0 to -1"),
        (encode_marks(LeaderMarks(5, 0, 6)), "the confirmed part is from 6 to 5"),
        (encode_marks(LeaderMarks(5, 0, -1)), "the confirmed part is from -1 to 5"),
    ],
)
def test_a_leader_that_breaks_the_protocol_is_not_believed(content: bytes, why: str) -> None:
    with pytest.raises(LeaderBroken, match=why):
        list(FollowerStream(0, SIZE).receive(content))


def test_a_piece_is_bounded_in_large_files() -> None:
    stream = FollowerStream(0, 1 << 30)
    with pytest.raises(LeaderBroken, match="beyond its limits"):
        list(stream.receive(HEAD.pack(0, PIECE_SIZE_MAX + 1)))


def test_a_report_is_two_numbers() -> None:
    assert encode_report(5, 7) == (5).to_bytes(8) + (7).to_bytes(8)
