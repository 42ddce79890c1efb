"""Rates are what grew between two moments; they are drawn on a terminal, printed elsewhere."""

import io
import sys

import pytest

from broker.cli.connection import Connection
from broker.cli.top import (
    Snapshot,
    TopicMoment,
    head_lines,
    rates,
    snapshot_document,
    take_snapshot,
    top,
)
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


def moment(stored: int, committed: int, lag: int = 0) -> TopicMoment:
    return TopicMoment(stored, stored, committed, lag, 1)


def test_a_snapshot_has_all_topics_and_what_groups_left(fake: FakeBroker) -> None:
    fake.fill(3)
    fake.queues["audit"] = [[]]
    fake.stand("billing", "orders", q0=1)
    fake.stand("other", "orders", q0=3)
    with Connection("x") as broker:
        taken = take_snapshot(broker)
    assert taken.topics == {
        "audit": TopicMoment(0, 0, 0, 0, 0),
        "orders": TopicMoment(3, 3, 4, 2, 2),
    }
    assert taken.status == fake.status


def test_rates_are_by_the_second_and_the_busiest_comes_first(fake: FakeBroker) -> None:
    before = Snapshot(10.0, fake.status, {"a": moment(5, 0), "b": moment(0, 0)})
    after = Snapshot(12.0, fake.status, {"a": moment(6, 0), "b": moment(10, 4, 6)})
    assert [tuple(row.values()) for row in rates(before, after)] == [
        ("b", 5.0, 2.0, 6, 10, 1),
        ("a", 0.5, 0.0, 0, 6, 1),
    ]


@pytest.mark.parametrize(
    ("then", "now"), [(moment(9, 9), moment(0, 0)), (None, moment(7, 7))], ids=["reset", "new"]
)
def test_what_began_anew_has_no_rate_yet(
    fake: FakeBroker, then: TopicMoment | None, now: TopicMoment
) -> None:
    before = Snapshot(0.0, fake.status, {"a": then} if then else {})
    (row,) = rates(before, Snapshot(1.0, fake.status, {"a": now}))
    assert (row["in_per_s"], row["out_per_s"]) == (0.0, 0.0)


def test_the_document_sums_up(fake: FakeBroker) -> None:
    later = fake.status._replace(appended_offset=fake.status.appended_offset + 500)
    before = Snapshot(0.0, fake.status, {"a": moment(0, 0), "b": moment(0, 0)})
    after = Snapshot(2.0, later, {"a": moment(2, 0, 2), "b": moment(4, 4)})
    document = snapshot_document(before, after)
    assert (document["interval_s"], document["log_bytes_per_s"]) == (2.0, 250)
    assert (document["in_per_s"], document["out_per_s"]) == (3.0, 2.0)
    assert document["lag_messages"] == 2
    assert document["store"] == later._asdict()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def busy(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """Each interval a message comes in."""

    def pause(seconds: float) -> None:
        fake.fill(1)

    monkeypatch.setattr("time.sleep", pause)
    return fake


def test_a_pipe_gets_one_document(busy: FakeBroker) -> None:
    document = run("top").document
    assert [row["name"] for row in document["topics"]] == ["orders"]
    assert document["topics"][0]["in_per_s"] > 0
    assert document["store"]["state"] == "running"


def test_as_many_as_asked_for(busy: FakeBroker) -> None:
    rows = run("top", "--count", "2", "-o", "jsonl").rows
    assert [row["topics"][0]["message_count"] for row in rows] == [1, 2]


def test_a_table_without_a_terminal_is_plain(busy: FakeBroker) -> None:
    lines = run("top", "-o", "table").out.splitlines()
    assert lines[0].split() == ["TOPIC", "IN/S", "OUT/S", "LAG", "MESSAGES", "GROUPS"]
    assert lines[1].split()[0] == "orders"


def test_a_terminal_gets_a_picture(busy: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    top.main(["--count", "1", "-o", "table"], standalone_mode=False, prog_name="pocketmq top")
    drawn = screen.getvalue()
    assert "IN/S" in drawn
    assert "orders" in drawn
    assert "broker-a of DefaultCluster" in drawn


def test_ctrl_c_ends_the_picture(busy: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr("time.sleep", interrupt)
    top.main(["-o", "table"], standalone_mode=False, prog_name="pocketmq top")


def test_the_head_tells_of_the_store(fake: FakeBroker) -> None:
    moment = Snapshot(0.0, fake.status, {})
    text = "\n".join(head_lines(snapshot_document(moment, moment)))
    assert "disk 30.0 MB free of 100 MB" in text
    assert "log 3.0 kB, 0 B/s" in text
    assert "retention on" in text
