"""Topics are listed over all pages, described with their queues, and counted."""

import pytest

from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


def test_all_pages_are_listed(fake: FakeBroker) -> None:
    fake.queues |= {"a": [], "b": []}
    assert [row["name"] for row in run("topic", "ls", "-o", "jsonl").rows] == ["a", "b", "orders"]


def test_a_list_as_a_table(fake: FakeBroker) -> None:
    assert run("topic", "ls", "-o", "table").out.splitlines() == [
        "NAME    TYPE    READ  WRITE  PERMISSION",
        "orders  NORMAL  2     2      6",
    ]


def test_a_topic_is_described_with_its_queues(fake: FakeBroker) -> None:
    fake.fill(3)
    document = run("topic", "info", "orders").document
    assert document["write_queue_count"] == 2
    assert [queue["max_offset"] for queue in document["queues"]] == [3, 0]


def test_a_description_as_a_table_has_its_queues_below(fake: FakeBroker) -> None:
    fake.fill(3)
    lines = run("topic", "info", "orders", "-o", "table").out.splitlines()
    assert lines[0].split() == ["name", "orders"]
    assert lines[-3].split()[:3] == ["QUEUE", "MIN", "MAX"]
    assert lines[-2].split()[:3] == ["0", "0", "3"]
    assert lines[-1].split() == ["1", "0", "0"]


def test_an_unknown_topic_is_not_found(fake: FakeBroker) -> None:
    assert run("topic", "info", "none").code == 3


def test_a_wide_list_and_csv_have_more_columns(fake: FakeBroker) -> None:
    titles = run("topic", "ls", "-o", "wide").out.splitlines()[0].split()
    assert titles[-3:] == ["SYSTEM", "ORDER", "ATTRIBUTES"]
    assert run("topic", "ls", "-o", "csv").out.splitlines() == [
        "name,type,read,write,permission,system,order,attributes",
        "orders,NORMAL,2,2,6,false,false,{}",
    ]


def test_one_topic_is_counted_by_queue(fake: FakeBroker) -> None:
    fake.fill(3)
    document = run("topic", "stats", "orders").document
    assert (document["message_count"], document["queue_count"]) == (3, 2)
    assert [queue["message_count"] for queue in document["queues"]] == [3, 0]


def test_counts_as_tables(fake: FakeBroker) -> None:
    fake.fill(3)
    lines = run("topic", "stats", "orders", "-o", "table").out.splitlines()
    assert lines[0].split()[:3] == ["NAME", "QUEUES", "MESSAGES"]
    assert lines[1].split()[:4] == ["orders", "2", "3", "3"]
    assert lines[2].split()[:3] == ["QUEUE", "MIN", "MAX"]


def test_all_topics_are_counted(fake: FakeBroker) -> None:
    fake.queues["audit"] = []
    fake.fill(2)
    rows = run("topic", "stats", "-o", "jsonl").rows
    assert [(row["name"], row["message_count"]) for row in rows] == [("audit", 0), ("orders", 2)]


def test_counts_are_watched_until_ctrl_c(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        fake.fill(1)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", pause)
    done = run("topic", "stats", "orders", "--watch", "2", "-o", "jsonl")
    assert done.code == 0
    assert [row["message_count"] for row in done.rows] == [0, 1]
    assert pauses == [2.0, 2.0]
