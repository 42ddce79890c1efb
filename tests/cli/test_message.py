"""Single messages are found by id, by place and by key."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from pocketmq.client import ClientError
from pocketmq.model.spans import derived_context, record_span_id
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker
from tests.kit.lakes import SmallLake
from tests.kit.log_bytes import LogBytes
from tests.kit.otlp_receiver import attributes, otlp_receiver


def test_a_message_is_got_by_its_id(broker: LocalBroker) -> None:
    broker.fill(3)
    assert run("msg", "get", "ID2", "--topic", "orders").document["queue_offset"] == 2


def test_without_a_topic_every_topic_is_asked(broker: LocalBroker) -> None:
    broker.fill(1, topic="apples")
    broker.fill(3, topic="zebras")
    assert run("msg", "get", "ID2").document["topic"] == "zebras"
    done = run("msg", "get", "nope")
    assert done.code == 3
    assert "'nope'" in done.err


def test_a_message_is_got_by_its_place(broker: LocalBroker) -> None:
    broker.fill(3)
    assert run("msg", "get", "--offset", "orders:0:1").document["message_id"] == "ID1"
    assert run("msg", "get", "--offset", "orders:1:0").code == 3
    done = run("msg", "get", "--offset", "orders:0:99")
    assert (done.code, "holds no message at offset 99" in done.err) == (3, True)


def test_a_place_before_the_queue_is_not_the_next_one(broker: LocalBroker) -> None:
    broker.fill(3)
    broker.do(broker.inner.expire())
    broker.fill(1)
    assert run("msg", "get", "--offset", "orders:0:1").code == 3


def test_a_message_that_is_not_there_is_not_found(broker: LocalBroker) -> None:
    done = run("msg", "get", "nope", "--topic", "orders")
    assert done.code == 3
    assert "by-key" in done.err


def test_an_id_of_no_message_leads_to_the_key(broker: LocalBroker) -> None:
    done = run("msg", "get", "nope")
    assert done.code == 3
    assert "Next:  search by key: pocketmq msg by-key TOPIC KEY" in done.err


@pytest.mark.parametrize("place", [(), ("--topic", "orders")])
def test_the_id_of_a_delayed_message_leads_to_it(
    broker: LocalBroker, place: tuple[str, ...]
) -> None:
    broker.fill(1)
    later = run("produce", "orders", "x", "--delay", "1h").document["message_id"]
    broker.do(broker.inner.talking.settled())
    done = run("msg", "get", later, *place)
    assert done.code == 3
    assert f"message {later} for topic orders waits for its delivery time" in done.err
    assert f"Next:  pocketmq delay show {later}" in done.err
    (row,) = run("msg", "trace", later, "-o", "json").document
    assert row["deliver_at_ms"] > row["store_timestamp_ms"] + 3_599_000
    first = run("msg", "get", "ID0").document["offset_message_id"]
    by_offset = f"{first[:-16]}{row['physical_offset']:016X}"
    done = run("msg", "get", by_offset, *place)
    assert done.code == 3
    assert f"message {by_offset} for topic orders waits for its delivery time" in done.err
    assert f"Next:  pocketmq delay show {later}" in done.err


def test_wrong_use_says_how(broker: LocalBroker) -> None:
    assert run("msg", "get").code == 2
    assert run("msg", "get", "ID", "--offset", "orders:0:1").code == 2
    assert "TOPIC:QUEUE:OFFSET" in run("msg", "get", "--offset", "orders").err
    assert "TOPIC:QUEUE:OFFSET" in run("msg", "get", "--offset", "orders:x:1").err


def test_matches_of_a_key_come_newest_first(broker: LocalBroker) -> None:
    broker.fill(3)
    done = run("msg", "by-key", "orders", "k", "-o", "jsonl")
    assert [row["queue_offset"] for row in done.rows] == [2, 1, 0]
    assert done.err == ""
    assert broker.calls == [
        ("Broker/QueryByKey", pb.QueryByKeyRequest(topic="orders", key="k", max=64))
    ]


def test_a_list_that_was_cut_says_so(broker: LocalBroker) -> None:
    broker.fill(5)
    done = run("msg", "by-key", "orders", "k", "--max", "2", "-o", "jsonl")
    assert len(done.rows) == 2
    assert done.err == "there may be more than 2; --all prints them\n"


def test_all_matches_are_paged_through(broker: LocalBroker) -> None:
    broker.fill(600)
    done = run("msg", "by-key", "orders", "k", "--all", "-o", "jsonl")
    assert [row["queue_offset"] for row in done.rows] == list(range(599, -1, -1))
    assert done.err == ""


def test_the_broker_s_own_topics_are_searched_as_an_operator(broker: LocalBroker) -> None:
    for topic in ("SCHEDULE_TOPIC_XXXX", "%DLQ%group"):
        broker.fill(1, topic=topic)
        run("msg", "by-key", topic, "k")
    assert [name for name, _ in broker.calls] == ["Admin/QueryByKey"] * 2


def test_times_bound_the_search(broker: LocalBroker) -> None:
    times = ("--since", "2026-11-21T02:30:00Z", "--until", "1795228200009")
    run("msg", "by-key", "orders", "k", *times)
    (query,) = broker.requests("QueryByKey")
    assert (query.begin_ms, query.end_ms) == (1_795_228_200_000, 1_795_228_200_009)
    assert run("msg", "by-key", "orders", "k", "--since", "yesterday").code == 2


def test_a_table_names_the_topic(broker: LocalBroker) -> None:
    broker.fill(1)
    done = run("msg", "by-key", "orders", "k", "-o", "table")
    assert done.out.splitlines()[1].startswith("orders  0")


def test_the_way_of_a_message_is_told_in_the_order_of_the_log(broker: LocalBroker) -> None:
    broker.add("orders", b"a", UNIQ_KEY="A")
    broker.add("orders", b"b", UNIQ_KEY="B")
    retried: dict[str, Any] = {"UNIQ_KEY": "A", "RETRY_TOPIC": "orders", "DELAY": "3"}
    delayed = {**retried, "REAL_TOPIC": "%RETRY%billing", "REAL_QID": "0"}
    broker.add("SCHEDULE_TOPIC_XXXX", b"a", queue_id=1, **delayed)
    broker.add("%RETRY%billing", b"a", **delayed)
    broker.add("%RETRY%billing_2_orders", b"a", UNIQ_KEY="A")
    broker.add("%RETRY%audit_orders", b"a", UNIQ_KEY="A", ORIGIN_GROUP="audit")
    broker.add("%DLQ%billing", b"a", **retried)
    broker.stand("billing", "orders", q0=1)
    broker.stand("billing_2", "orders", q0=0)
    rows = run("msg", "trace", "A").document
    assert [(row["step"], row.get("group"), row.get("target_topic")) for row in rows] == [
        ("SENT", None, None),
        ("SCHEDULED", "billing", "%RETRY%billing"),
        ("RETRIED", "billing", None),
        ("RETRIED", "billing_2", None),
        ("RETRIED", "audit", None),
        ("DEAD_LETTER", "billing", None),
    ]
    assert {row["origin_topic"] for row in rows} == {"orders"}
    shown = run("msg", "trace", "A", "-o", "table").out
    assert ("orders" in shown, "%" in shown) == (True, False)
    assert "%RETRY%billing_2_orders" in run("msg", "trace", "A", "-o", "wide").out
    assert (rows[0]["passed_by"], rows[0]["awaited_by"]) == (["billing"], ["billing_2"])
    assert (rows[1]["delay_level"], "delay_level" in rows[2]) == (3, False)
    assert run("msg", "trace", "A", "--topic", "orders").document == rows
    first = run("msg", "get", "A", "--topic", "orders").document
    assert run("msg", "trace", first["offset_message_id"]).document == rows


def test_a_message_nobody_has_has_no_way(broker: LocalBroker) -> None:
    broker.fill(1)
    done = run("msg", "trace", "nope")
    assert (done.code, "'nope'" in done.err) == (3, True)
    assert run("msg", "trace", "nope", "--topic", "orders").code == 3
    assert run("msg", "trace", "ID0", "--topic", "missing").code == 3


def test_the_records_of_a_message_are_exported_as_spans(broker: LocalBroker) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    broker.add("orders", b"a", UNIQ_KEY="A", traceparent=f"00-{trace}-b7ad6b7169203331-00")
    broker.add("%DLQ%billing", b"a", UNIQ_KEY="A", RETRY_TOPIC="orders")
    broker.stand("billing", "orders", q0=1)
    with otlp_receiver() as receiver:
        done = run("msg", "trace", "A", "--otlp", receiver.endpoint.removeprefix("http://"))
        again = run("msg", "trace", "A", "--otlp", receiver.endpoint)
    assert len(done.document) == 2
    assert done.err == again.err == f"exported 2 spans of trace {trace}\n"
    assert receiver.names == ["send orders", "dead letter orders"] * 2
    send, dead, *rest = receiver.spans
    assert [span.span_id for span in rest] == [send.span_id, dead.span_id]
    assert send.span_id.hex() == record_span_id(trace, 0)
    assert {span.parent_span_id.hex() for span in receiver.spans} == {"b7ad6b7169203331"}
    assert attributes(send)["pocketmq.passed_by"] == "billing"
    assert attributes(dead)["messaging.consumer.group.name"] == "billing"


def test_a_message_outside_a_trace_gets_one_from_its_id(broker: LocalBroker) -> None:
    broker.add("orders", b"a", UNIQ_KEY="A")
    with otlp_receiver() as receiver:
        done = run("msg", "trace", "A", "--otlp", receiver.endpoint)
    assert done.err == f"exported 1 spans of trace {derived_context('A').trace_id}\n"
    assert receiver.spans[0].parent_span_id == b""


def test_a_receiver_that_refuses_is_an_error_with_a_next_step(broker: LocalBroker) -> None:
    broker.add("orders", b"a", UNIQ_KEY="A")
    with otlp_receiver() as receiver:
        receiver.refusal = grpc.StatusCode.PERMISSION_DENIED
        done = run("msg", "trace", "A", "--otlp", receiver.endpoint)
    assert done.code == 5
    assert "did not accept the spans" in done.err
    assert "port 4317" in done.err
    assert run("msg", "trace", "A", "--otlp", "ftp://x:1").code == 2


def test_a_key_without_a_message_is_not_found(broker: LocalBroker) -> None:
    broker.fill(1)
    done = run("msg", "by-key", "orders", "none", "--since", "-1h")
    assert (done.code, done.document) == (3, [])
    assert "no message with key 'none' between --since and --until" in done.err
    assert "Next:  list the last hour: pocketmq tail orders --from -1h" in done.err
    assert "delayed or undecided: pocketmq delay ls orders, pocketmq txn ls" in done.err
    assert run("msg", "by-key", "orders", "k").code == 0


@pytest.mark.parametrize("form", ["parquet", "iceberg"])
def test_messages_of_log_and_archive_are_printed_once(
    broker: LocalBroker, tmp_path: Path, form: str
) -> None:
    target = str(tmp_path / "lake")
    broker.fill(3)
    assert run("archive", "run", "h:1", target, "--format", form).document["messages"] == 3
    broker.do(broker.inner.expire())
    broker.fill(2)

    def found(*options: str) -> list[int]:
        rows = run("msg", "by-key", "orders", "k", *options).document
        return [row["queue_offset"] for row in rows]

    assert found() == [4, 3]
    assert found("--archive", target) == [4, 3, 2, 1, 0]
    assert run("archive", "run", "h:1", target).document["messages"] == 2
    assert found("--archive", target) == [4, 3, 2, 1, 0]
    assert found("--archive", target, "--max", "3") == [4, 3, 2]
    few = run("msg", "by-key", "orders", "k", "--archive", target, "--max", "3")
    assert "there may be more" in few.err
    assert run("topic", "rm", "orders", "--yes").code == 0
    assert found("--archive", target, "--all") == [4, 3, 2, 1, 0]
    later = ("--since", str(broker.clock.wall_ms() + 1))
    assert run("msg", "by-key", "orders", "k", "--archive", target, *later).code == 3


def test_a_message_of_the_archive_is_got(broker: LocalBroker, tmp_path: Path) -> None:
    target = str(tmp_path / "lake")
    broker.fill(3)
    stored = run("msg", "get", "--offset", "orders:0:1").document
    assert run("archive", "run", "h:1", target).code == 0
    broker.do(broker.inner.expire())
    ids = (["ID1", "--topic", "orders"], ["ID1"], [stored["offset_message_id"]])
    for options in (["--offset", "orders:0:1"], *ids):
        assert run("msg", "get", *options).code == 3
        assert run("msg", "get", *options, "--archive", target).document == stored
    assert run("msg", "get", "ID7", "--archive", target).code == 3
    done = run("msg", "get", "ID7", "--archive", str(tmp_path / "none"))
    assert (done.code, "make an archive" in done.err) == (3, True)


def test_another_brokers_lake_is_refused(broker: LocalBroker, tmp_path: Path) -> None:
    own, others = str(tmp_path / "own"), SmallLake(tmp_path)
    log = LogBytes(tmp_path / "s")
    for number in range(3):
        log.add("orders", queue_offset=number, keys="k", body=b"%d" % number)
    log.close()
    others.run()
    broker.fill(2)
    assert run("archive", "run", "h:1", own).code == 0
    place = ("msg", "get", "--offset", "orders:0:2", "--archive", others.objects.target)
    assert run(*place).code == 4
    for more in (1, 3):  # As many messages as the lake, then more.
        broker.fill(more)
        found = run("msg", "by-key", "orders", "k", "--archive", others.objects.target)
        assert (found.code, found.out) == (4, "")
        assert "another broker's lake: it does not have message" in found.err
        same = run("msg", "by-key", "orders", "k", "--archive", own)
        assert (same.code, same.err) == (0, "")


def test_a_lake_that_cannot_be_compared_is_read_with_a_note(
    broker: LocalBroker, tmp_path: Path
) -> None:
    target = str(tmp_path / "lake")
    broker.fill(2)
    assert run("archive", "run", "h:1", target).code == 0
    broker.do(broker.inner.expire())
    broker.fill(1)
    done = run("msg", "by-key", "orders", "k", "--archive", target)
    assert [row["queue_offset"] for row in done.document] == [2, 1, 0]
    assert "whether the lake is of this broker was not checked" in done.err
    done = run("msg", "get", "ID1", "--topic", "orders", "--archive", target)
    assert (done.code, "was not checked" in done.err) == (0, True)


def test_damage_names_the_store_of_the_broker(broker: LocalBroker) -> None:
    def damaged(request: object) -> None:
        raise ClientError("Corruption", "damaged", status="DATA_LOSS")

    broker.fill(1)
    broker.answers["Broker/QueryByKey"] = damaged
    done = run("msg", "by-key", "orders", "k")
    assert f"pocketmq store verify {broker.store.settings.directory} --read-only" in done.err
    assert "DIR" not in done.err
