"""Topics are created, listed, counted, changed as told, and removed only with --yes."""

from typing import Any

import pytest

from pocketmq.rpc.pb import admin_pb2 as pb
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


@pytest.mark.parametrize(
    ("options", "type_name", "count"),
    [((), "NORMAL", 8), (("--type", "FIFO", "--queues", "4"), "FIFO", 4)],
)
def test_a_topic_is_created_as_told(
    broker: LocalBroker, options: tuple[str, ...], type_name: str, count: int
) -> None:
    document = run("topic", "create", "audit", *options).document
    assert (document["name"], document["type"]) == ("audit", type_name)
    assert broker.store.tables.topics.existing("audit").queue_count == count


def test_a_topic_that_is_there_with_other_settings_is_refused(broker: LocalBroker) -> None:
    done = run("topic", "create", "orders")
    assert done.code == 4
    assert "pocketmq topic info orders" in done.err


# -- changing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "change"),
    [
        (["--queues", "16"], {"read_queue_count": 16, "write_queue_count": 16}),
        (["--read-queues", "4"], {"read_queue_count": 4}),
        (["--write-queues", "4"], {"write_queue_count": 4}),
        (["--queues", "4", "--read-queues", "8"], {"read_queue_count": 8, "write_queue_count": 4}),
        (["--permission", "r"], {"permission": 4}),
        (["--permission", "none"], {"permission": 0}),
        (["--order"], {"order": True}),
        (["--no-order"], {"order": False}),
        (["--type", "fifo"], {"set_attributes": {"message.type": "FIFO"}}),
        (["--attribute", "a=b=c"], {"set_attributes": {"a": "b=c"}}),
        (["--remove-attribute", "a"], {"remove_attributes": ["a"]}),
    ],
)
def test_what_is_given_is_changed(
    broker: LocalBroker, options: list[str], change: dict[str, Any]
) -> None:
    code = run("topic", "edit", "orders", *options).code
    assert code == (4 if "attribute" in options[0] else 0)  # The broker knows of no attribute a.
    assert broker.requests("UpdateTopic") == [pb.UpdateTopicRequest(name="orders", **change)]


def test_fewer_queues_to_read_from_are_planned_without_yes(broker: LocalBroker) -> None:
    broker.fill(3, queue_id=1)
    done = run("topic", "edit", "orders", "--queues", "1")
    assert done.code == 4
    assert done.document == {
        "topic": "orders",
        "read_queue_count": 1,
        "read_queue_count_before": 2,
        "hidden_message_count": 3,
    }
    assert "--yes" in done.err
    assert broker.requests("UpdateTopic") == []


def test_without_messages_in_them_queues_go_at_once(broker: LocalBroker) -> None:
    broker.fill(3, queue_id=0)
    done = run("topic", "edit", "orders", "--read-queues", "1")
    assert done.code == 4
    assert "producers would continue to send to these queues" in done.err
    done = run("topic", "edit", "orders", "--queues", "1")
    assert (done.code, done.document["read_queue_count"]) == (0, 1)


def test_queues_out_of_reach_are_shown_and_not_read(broker: LocalBroker) -> None:
    broker.fill(3, queue_id=1)
    run("topic", "edit", "orders", "--queues", "1", "--yes")
    done = run("topic", "info", "orders")
    assert [queue["max_offset"] for queue in done.document["queues"]] == [0, 3]
    assert "pocketmq topic edit orders --read-queues 2" in done.err
    read = run("consume", "orders", "--pull", "-o", "jsonl")
    assert read == (0, "", "no message of orders to print\n")
    assert run("tail", "orders", "-n", "9", "--no-follow", "-o", "jsonl") == (0, "", "")


def test_messages_that_get_out_of_reach_are_told(broker: LocalBroker) -> None:
    broker.fill(3, queue_id=1)
    done = run("topic", "edit", "orders", "--read-queues", "1", "--yes")
    assert "3 messages are in queues from 1 on" in done.err
    assert "pocketmq topic edit orders --read-queues 2" in done.err
    assert run("topic", "edit", "orders", "--read-queues", "2").err == ""


# -- removing --------------------------------------------------------------------------------------


def test_a_topic_goes_with_yes(broker: LocalBroker) -> None:
    done = run("topic", "rm", "orders", "--yes")
    assert done.document == {"topic": "orders", "removed_topics": ["orders"]}
    assert broker.store.tables.topics.names() == []


def test_without_yes_the_plan_is_shown(broker: LocalBroker) -> None:
    broker.fill(3)
    broker.stand("billing", "orders", q0=1)
    done = run("topic", "rm", "orders")
    assert done.code == 4
    assert done.document == {
        "topic": "orders",
        "queue_count": 2,
        "message_count": 3,
        "groups": ["billing"],
        "removed_topics": ["orders"],
        "delayed_messages": 0,
        "open_transactions": 0,
    }
    assert "--yes" in done.err
    assert broker.store.tables.topics.names() == ["orders"]


def test_the_plan_counts_what_waits_for_the_topic(broker: LocalBroker) -> None:
    for wish in (("--delay", "1h"), ("--delay-level", "3"), ("--delay", "2h")):
        assert run("produce", "orders", "x", *wish).code == 0
    done = run("topic", "rm", "orders")
    assert done.document["delayed_messages"] == 3
    assert "3 delayed or undecided ones would be discarded" in done.err


def test_all_pages_are_listed(broker: LocalBroker) -> None:
    for name in ("a", "b"):
        broker.store.tables.topics.adopt(name, 1)
    assert [row["name"] for row in run("topic", "ls", "-o", "jsonl").rows] == ["a", "b", "orders"]


def test_a_topic_is_described_with_its_queues(broker: LocalBroker) -> None:
    broker.fill(3)
    document = run("topic", "info", "orders").document
    assert document["write_queue_count"] == 2
    assert [queue["max_offset"] for queue in document["queues"]] == [3, 0]
    lines = run("topic", "info", "orders", "-o", "table").out.splitlines()
    assert lines[0].split() == ["name", "orders"]
    assert "permission         rw" in lines
    below = [line.split()[:3] for line in lines[-3:]]
    assert below == [["QUEUE_ID", "MIN_OFFSET", "MAX_OFFSET"], ["0", "0", "3"], ["1", "0", "0"]]


QUEUE_TITLES = "READ_QUEUE_COUNT  WRITE_QUEUE_COUNT"
COUNT_TITLES = "MESSAGE_COUNT  SIZE  IN_PER_S  LAST_STORE_TIMESTAMP"


def test_a_wide_list_and_csv_have_more_columns(broker: LocalBroker) -> None:
    assert run("topic", "ls", "-o", "table").out.splitlines() == [
        f"NAME    TYPE    {QUEUE_TITLES}  PERMISSION  {COUNT_TITLES}",
        "orders  NORMAL  2                 2                  rw          0              0 B   0.0",
    ]
    titles = run("topic", "ls", "-o", "wide").out.splitlines()[0].split()
    assert titles[-6:] == [
        "SYSTEM", "ORDER", "ATTRIBUTES", "RETENTION_MS", "RETENTION_BYTES", "SIZE_ESTIMATED",
    ]  # fmt: skip
    titles_of_csv, row = run("topic", "ls", "-o", "csv").out.splitlines()
    assert titles_of_csv == (
        "name,type,read_queue_count,write_queue_count,permission,message_count,"
        "size_bytes,in_per_s,last_store_timestamp_ms,system,order,attributes,retention_ms,"
        "retention_bytes,size_estimated"
    )
    assert row == "orders,NORMAL,2,2,6,0,0,0.0,0,false,false,{},0,0,false"


def test_one_topic_is_counted_by_queue(broker: LocalBroker) -> None:
    broker.fill(3)
    document = run("topic", "stats", "orders").document
    assert (document["message_count"], document["queue_count"]) == (3, 2)
    assert [queue["message_count"] for queue in document["queues"]] == [3, 0]
    lines = [
        line.split() for line in run("topic", "stats", "orders", "-o", "table").out.splitlines()
    ]
    assert lines[0][:3] == ["NAME", "QUEUE_COUNT", "MESSAGE_COUNT"]
    assert lines[1][:4] == ["orders", "2", "3", "3"]
    assert lines[2][:3] == ["QUEUE_ID", "MIN_OFFSET", "MAX_OFFSET"]


def test_all_topics_are_counted(broker: LocalBroker) -> None:
    broker.store.tables.topics.adopt("audit", 1)
    broker.fill(2)
    rows = run("topic", "stats", "-o", "jsonl").rows
    assert [(row["name"], row["message_count"]) for row in rows] == [("audit", 0), ("orders", 2)]


def test_counts_are_watched_until_ctrl_c(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        broker.fill(1)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("pocketmq.cli.watching.sleep", pause)
    done = run("topic", "stats", "orders", "--watch", "2s", "-o", "jsonl")
    assert done.code == 0
    assert [row["message_count"] for row in done.rows] == [0, 1]
    assert pauses == [2.0, 2.0]


# -- purging ---------------------------------------------------------------------------------------


def test_a_purge_shows_its_plan_first(broker: LocalBroker) -> None:
    broker.fill(3)
    broker.fill(1, queue_id=1)
    done = run("topic", "purge", "orders", "-o", "json")
    assert done.code == 4
    assert [(row["queue_id"], row["message_count"]) for row in done.document] == [(0, 3), (1, 1)]
    assert "4 messages could no longer be read" in done.err
    assert "--yes" in done.err
    assert broker.store.reading.queue_range("orders", 0) == (0, 3)
    assert run("topic", "purge", "orders", "--yes").code == 0
    assert broker.store.reading.queue_range("orders", 0) == (3, 3)
    counts = run("topic", "stats", "orders", "-o", "json").document
    assert (counts["message_count"], counts["stored_count"]) == (0, 4)


def test_a_purge_of_a_queue_up_to_a_time(broker: LocalBroker) -> None:
    broker.fill(2)
    broker.fill(2, queue_id=1)
    broker.clock.advance(60_000)
    since = str(broker.clock.wall_ms())
    broker.fill(1)
    done = run(
        "topic", "purge", "orders", "--queue", "0", "--before", since, "--yes", "-o", "table"
    )
    assert done.out.split()[-5:] == ["orders", "0", "0", "2", "2"]
    assert broker.store.reading.queue_range("orders", 1) == (0, 2)


def test_a_purge_of_a_topic_that_is_none_is_refused(broker: LocalBroker) -> None:
    assert run("topic", "purge", "unknown", "--yes").code == 3
    assert run("topic", "purge", "orders", "--queue", "7", "--yes").code == 4


# -- retention -------------------------------------------------------------------------------------


def test_a_topic_has_a_retention_of_its_own(broker: LocalBroker) -> None:
    limits = ("--retention-age", "36h", "--retention-size", "1GiB")
    made = run("topic", "create", "logs", *limits).document
    assert (made["retention_ms"], made["retention_bytes"]) == (36 * 3_600_000, 1 << 30)
    shown = run("topic", "info", "logs", "-o", "table").out
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("retention_")] == [
        "36h", "1GiB",
    ]  # fmt: skip
    edited = run(
        "topic", "edit", "logs", "--retention-age", "0", "--retention-size", "5MiB"
    ).document
    assert (edited["retention_ms"], edited["retention_bytes"]) == (0, 5 << 20)
    assert edited["attributes"] == {"pocketmq.retention.bytes": str(5 << 20)}
    assert run("topic", "edit", "logs", "--retention-age", "0").code == 0
    assert run("topic", "create", "plain").document["retention_ms"] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--retention-age", "72"), "72 has no unit"),
        (("--retention-age", "5ms"), "a number of ms from 1000"),
        (("--retention-size", "-1"), "a number of bytes from 1"),
    ],
)
def test_a_retention_that_is_none_is_refused(
    broker: LocalBroker, options: tuple[str, ...], says: str
) -> None:
    done = run("topic", "create", "logs", *options)
    assert done.code in (2, 4)
    assert says in done.err


def test_a_topic_without_a_declared_type_says_whom_it_binds(broker: LocalBroker) -> None:
    run("topic", "create", "declared", "--type", "normal")
    broker.fill(1)
    declared, undeclared = (
        dict(
            line.split(maxsplit=1)
            for line in run("topic", "info", name, "-o", "table").out.splitlines()[:5]
        )
        for name in ("declared", "orders")
    )
    assert declared["type"] == "NORMAL"
    assert undeclared["type"] == "NORMAL, undeclared: checked only for RocketMQ 5 clients (gRPC)"
