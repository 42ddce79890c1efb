"""Steps that classic clients traced are part of a message's history."""

from typing import Any, Final

import pytest

from pocketmq.cli import message_history
from pocketmq.model.errors import AccessDenied
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker, shown
from tests.format.test_client_trace import AFTER, AT_MS, BEFORE, PUB, body

TRACES: Final = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture(autouse=True)
def message(broker: LocalBroker) -> None:
    """The message u7."""
    broker.add("orders", b"a", UNIQ_KEY="u7")


def test_steps_follow_the_records_by_their_time(broker: LocalBroker) -> None:
    others = BEFORE.replace("u7", "u8")
    broker.add(TRACES, body(AFTER, others, BEFORE), KEYS="u7 u8 k", UNIQ_KEY="t1")
    broker.add(TRACES, body(PUB.replace(str(AT_MS), "7")), KEYS="u7 k", UNIQ_KEY="t2")
    sent, *steps = run("msg", "trace", "u7").document
    assert (sent["step"], sent["topic"]) == ("SENT", "orders")
    host = steps[0]["client"]
    assert steps == [
        {
            "step": "Pub", "message_id": "u7", "client_timestamp_ms": 7, "group": "p",
            "topic": "orders", "client": host, "cost_ms": 3, "status": "SUCCESS",
        },
        {
            "step": "SubBefore", "message_id": "u7", "client_timestamp_ms": AT_MS, "group": "g",
            "client": host, "reconsume_times": 2, "request_id": "r1",
        },
        {
            "step": "SubAfter", "message_id": "u7", "client_timestamp_ms": AT_MS + 5, "group": "g",
            "client": host, "cost_ms": 5, "status": "FAILED", "request_id": "r1",
        },
    ]  # fmt: skip
    assert host.count(".") == 3


def test_a_table_has_steps_apart_and_csv_one_line_of_names(broker: LocalBroker) -> None:
    broker.add(TRACES, body(f"{PUB}|192.0.2.1"), KEYS="u7", UNIQ_KEY="t1")
    records, steps = run("msg", "trace", "u7", "-o", "table").out.split("\n\n")
    assert "SENT" in records
    titles, row = steps.splitlines()
    assert titles.split() == [
        "CLIENT_TIMESTAMP", "STEP", "GROUP", "CLIENT", "COST_MS", "STATUS", "RECONSUME_TIMES",
    ]  # fmt: skip
    assert row.split()[2:] == ["Pub", "p", "192.0.2.1", "3", "SUCCESS"]
    titles, *rows = run("msg", "trace", "u7", "-o", "csv").out.splitlines()
    assert [line.count(",") for line in (titles, *rows)] == [titles.count(",")] * 3
    assert titles.endswith("client_timestamp_ms,client,cost_ms,status,request_id")


def test_clients_may_have_a_topic_of_their_own(broker: LocalBroker) -> None:
    broker.add("traces", body(PUB), KEYS="u7", UNIQ_KEY="t1")
    assert len(run("msg", "trace", "u7").document) == 1
    assert len(run("msg", "trace", "u7", "--trace-topic", "traces").document) == 2
    assert len(run("msg", "trace", "u7", "--trace-topic", "missing").document) == 1


def test_skipped_traces_are_noted(broker: LocalBroker) -> None:
    broker.add(TRACES, body("Pub|x", PUB, "Other"), KEYS="u7", UNIQ_KEY="t1")
    done = run("msg", "trace", "u7")
    assert [row["step"] for row in done.document] == ["SENT", "Pub"]
    assert done.err == f"Note: 2 damaged or unknown traces in topic '{TRACES}' skipped\n"


def test_many_traces_are_read_in_pages_up_to_a_limit(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_history, "PAGE_COUNT", 2)
    for number in range(5):
        pub = PUB.replace(str(AT_MS), str(number))
        broker.add(TRACES, body(pub), KEYS="u7", UNIQ_KEY=f"t{number}")
    times = [row.get("client_timestamp_ms") for row in run("msg", "trace", "u7").document]
    assert times == [None, 0, 1, 2, 3, 4]
    monkeypatch.setattr(message_history, "TRACES_MAX", 3)
    done = run("msg", "trace", "u7")
    assert [row.get("client_timestamp_ms") for row in done.document] == [None, 1, 2, 3, 4]
    assert done.err == f"Note: only the newest 4 messages of topic '{TRACES}' were read\n"


def test_who_may_not_read_traces_sees_the_records(broker: LocalBroker) -> None:
    def refuse(_: Any) -> Any:
        refusal = {"user": "app", "action": "get", "resource": f"topic:{TRACES}"}
        raise shown(AccessDenied(**refusal, why="no grant permits it", remedy="grant"))

    broker.answers["Admin/QueryByKey"] = refuse
    done = run("msg", "trace", "u7")
    assert (done.code, len(done.document)) == (0, 1)
    assert done.err.startswith("Note: steps of clients are not shown: user app may not get")


def test_traces_that_may_be_missing_are_noted(broker: LocalBroker) -> None:
    broker.answers["Admin/QueryByKey"] = lambda _: pb.QueryByKeyResponse(complete=False)
    done = run("msg", "trace", "u7")
    assert (done.code, len(done.document)) == (0, 1)
    damage = f"the index or the log is damaged: topic '{TRACES}' may have more traces"
    assert done.err == f"Note: {damage}\n"
