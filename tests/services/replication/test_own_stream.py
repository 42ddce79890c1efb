"""The stream to a PocketMQ follower: what it gets, and the reports that are believed."""

from struct import Struct
from typing import cast

import pytest

from pocketmq.services.replication.leader import Leader
from pocketmq.services.replication.own_stream import OwnStream
from pocketmq.services.replication.protocol import LogEnds, LogPiece, SlaveRefused
from pocketmq.services.replication.table_feed import TableCursor
from tests.kit.store_broker import store_broker

REPORT = Struct(">qq")
MARKS = Struct(">qiqqq")
ENDS = LogEnds(0, 1_000, 4_096)


def stream(begin: int = 100) -> OwnStream:
    made = OwnStream("10.0.0.2:5000", "f1", cast(TableCursor, None), begin, 0)
    piece = made.next_piece(ENDS, 0)
    assert piece == LogPiece(begin, 1_000 - begin)
    made.said(piece, 0)
    return made


def test_reports_may_be_cut_anywhere() -> None:
    made = stream()
    whole = REPORT.pack(100, 0) + REPORT.pack(600, 4) + REPORT.pack(1_000, 4)
    for position in range(len(whole)):
        made.receive(whole[position : position + 1], ENDS, 0)
    assert (made.acknowledged, made.table_seq) == (1_000, 4)


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ([(1_001, 0)], "reports 1001"), ([(-1, 0)], "reports -1"), ([(2**62, 0)], "was sent 1000"),
        ([(500, 0), (499, 0)], "reports 499 after 500"), ([(1, 5), (1, 4)], "tables 4 after 5"),
    ],
)  # fmt: skip
def test_a_follower_that_lies_is_disconnected(reports: list[tuple[int, int]], why: str) -> None:
    made = stream()
    with pytest.raises(SlaveRefused, match=why):
        made.receive(b"".join(REPORT.pack(*one) for one in reports), ENDS, 0)


def test_marks_are_sent_when_they_change() -> None:
    made = stream()
    assert made.marks(50, 7, 9) == MARKS.pack(-2, 24, 50, 7, 9)
    assert made.marks(50, 7, 9) == b""
    assert made.marks(51, 8, 9) == MARKS.pack(-2, 24, 51, 8, 9)
    assert made.marks(51, 8, 10) == MARKS.pack(-2, 24, 51, 8, 10)


async def test_it_gets_what_is_not_flushed_yet_and_marks_of_what_is_visible() -> None:
    async with store_broker() as broker:
        leader = Leader(broker.store, 1 << 20)
        made, slave = leader.admit("10.0.0.2:5000", "f1", 0), leader.connect("10.0.0.3:5000")
        leader.receive(slave, (0).to_bytes(8))
        await broker.talking.send("orders", "unflushed", wait=False)
        end = broker.store.appended
        assert leader.next_piece(made) == LogPiece(0, end)
        assert leader.next_piece(slave) is None
        assert leader.marks(made)[12:20] == (0).to_bytes(8)
        await broker.store.flush()
        assert leader.marks(made)[12:20] == end.to_bytes(8)
        assert leader.marks(slave) == b""


async def test_a_follower_that_comes_again_replaces_its_earlier_connection() -> None:
    async with store_broker() as broker:
        leader = Leader(broker.store, 1 << 20)
        first, other = leader.admit("10.0.0.2:1", "f1", 0), leader.admit("10.0.0.2:2", "f2", 0)
        second = leader.admit("10.0.0.9:3", "f1", 0)
        assert [one.ended_by for one in (other, second)] == ["", ""]
        with pytest.raises(SlaveRefused, match="connected again"):
            await leader.watch(first)
