"""Rows that become messages, and how they are sent; all but Spark itself."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from pocketmq.client import ClientError, Message, Unreachable
from pocketmq.client.client_error import told_error
from pocketmq.spark.data_source import PocketSource
from pocketmq.spark.message_rows import (
    RowRefused,
    SinkTask,
    check_columns,
    messages_from,
    sink_request_from,
)
from pocketmq.spark.sending import BATCH_COUNT_MAX, BatchSender, batches_of, place_of
from pocketmq.spark.sink import BatchSink, SentCount
from pocketmq.testing import RocketMQ

TASK = SinkTask("seed", "partition 3")


def made(columns: dict[str, list[Any]], topic: str = "orders", first: int = 0) -> list[Message]:
    return [message for _, message in messages_from(columns, topic, TASK, first)]


def written(broker: RocketMQ, table: Any, **options: str) -> int:
    """Writes a table as Spark does, with the writer sent to a worker."""
    source = PocketSource({"endpoint": broker.endpoint, **options})
    writer = source.writer(from_arrow_schema(table.schema), False)
    assert isinstance(writer, BatchSink)
    result = pickle.loads(pickle.dumps(writer)).write(iter(table.to_batches(max_chunksize=3)))
    assert isinstance(result, SentCount)
    writer.commit([result])
    return result.count


def test_columns_are_fields_of_messages() -> None:
    at = datetime(2026, 11, 28, tzinfo=UTC)
    rows = made(
        {
            "topic": ["a", None], "value": ["text", b"\0"], "keys": [["k", "l"], None],
            "tag": ["t", None], "properties": [[("p", "q")], []], "deliver_at": [at, None],
            "message_group": [None, "g"], "queue_id": [None, 2], "message_id": ["ID", None],
        },
        first=7,
    )  # fmt: skip
    assert rows[0] == Message(
        "a", b"text", keys=["k", "l"], tag="t", properties={"p": "q"}, message_id="ID",
        deliver_at_ms=int(at.timestamp() * 1000),
    )  # fmt: skip
    made_id = rows[1].message_id
    assert rows[1] == Message("orders", b"\0", message_group="g", queue_id=2, message_id=made_id)
    assert len(made_id) == 32
    assert made({"body": ["x"]}, first=8)[0].message_id == made_id, "ids depend on the row's number"
    assert made({"body": ["x"]}, first=9)[0].message_id != made_id
    assert made({"body": ["x"], "key": [b"k"]})[0].keys == ["k"]


def test_columns_of_kafka_are_fields_of_messages() -> None:
    given = [
        ("UNIQ_KEY", b"ID"),
        ("TIMER_X", b"1"),
        ("color", b"blue"),
        ("größe", "12 m²".encode()),
    ]
    headers = [[{"key": name, "value": value} for name, value in given]]
    (row,) = made({"key": [b"k"], "value": [b"v"], "partition": [3], "headers": headers})
    properties = {"color": "blue", "größe": "12 m²"}
    expected = Message("orders", b"v", keys=["k"], queue_id=3, properties=properties)
    assert row == replace(expected, message_id=row.message_id)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ([("a", b"1"), ("a", b"2")], "two headers have the key 'a'"),
        ([("a", None)], "a header's key or value is null"),
        ([("a", b"\xff")], "invalid start byte"),
    ],
)
def test_headers_that_are_no_properties_are_refused(headers: list[Any], told: str) -> None:
    rows = [{"key": name, "value": value} for name, value in headers]
    with pytest.raises(RowRefused, match=f"partition 3, row 0, column headers: .*{told}"):
        made({"value": [b"v"], "headers": [rows]})


@pytest.mark.parametrize(
    ("types", "topic", "told"),
    [
        ({"body": "string", "queue_offset": "bigint"}, "t", "have no column 'queue_offset'"),
        ({"body": "int"}, "t", "column body is int, not binary or string"),
        ({"body": "string", "value": "string"}, "t", "body and value exclude each other"),
        ({"body": "string", "headers": "map<string,string>"}, "t", "not array<struct<key:"),
        ({"keys": "string"}, "t", r"no column body \(or value\)"),
        ({"body": "string"}, "", "neither a column topic nor the option topic"),
    ],
)
def test_wrong_columns_are_told(types: dict[str, str], topic: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        check_columns(types, topic)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"body": ["x", None]}, "partition 3, row 1, column body is null"),
        ({"body": ["x"], "keys": [["a", None]]}, "row 0, column keys: a key is null"),
        ({"body": ["x"], "key": [b"\xff"]}, "row 0, column key: 'utf-8' codec"),
    ],
)
def test_rows_that_are_no_messages_are_told(columns: dict[str, list[Any]], told: str) -> None:
    with pytest.raises(RowRefused, match=told):
        made(columns)
    with pytest.raises(RowRefused, match="column topic is null"):
        made({"body": ["x"]}, topic="")


def test_wrong_options_are_told() -> None:
    for options, told in [
        ({}, "no broker is named"),
        ({"path": "/x"}, "not to a path"),
        ({"endpoint": "h:1", "topics": "a"}, "no option 'topics'"),
    ]:
        with pytest.raises(ValueError, match=told):
            sink_request_from(options)
    source = PocketSource({"endpoint": "h:1"})
    with pytest.raises(ValueError, match="only appended"):
        source.writer(from_arrow_schema(pa.schema([("body", pa.string())])), True)


class Broker:
    """A broker that refuses some bodies, and breaks some times."""

    def __init__(self, *, refuses: bytes = b"-", breaks: int = 0, retryable: bool = True) -> None:
        self.refuses, self.breaks, self.retryable = refuses, breaks, retryable
        self.batches: list[list[Message]] = []

    def send(self, messages: Sequence[Message]) -> None:
        if self.breaks:
            self.breaks -= 1
            raise Unreachable("Unreachable", "broken", retryable=self.retryable)
        assert len({place_of(message) for message in messages}) == 1
        if any(message.body == self.refuses for message in messages):
            fields = {"tag": "|"}
            raise told_error(
                "IllegalTag", "no tag", "INVALID_ARGUMENT", retryable=False, fields=fields
            )
        self.batches.append(list(messages))


def sent(broker: Broker, messages: list[Message]) -> list[float]:
    pauses: list[float] = []
    sender = BatchSender(broker.send, "partition 3", pauses.append)
    for number, message in enumerate(messages):
        sender.add(number, message)
    sender.flush()
    assert sender.count == len(messages)
    return pauses


def test_batches_have_one_place_and_groups_their_order() -> None:
    broker = Broker()
    groups = [Message("t", b"%d" % n, message_group=f"g{n % 3}") for n in range(5_000)]
    plain = [Message("t", b"p"), Message("u", b"p"), Message("t", b"p", delay_ms=5)]
    assert sent(broker, groups + plain) == []
    assert max(map(len, broker.batches)) == BATCH_COUNT_MAX
    for group in ("g0", "g1", "g2"):
        bodies = [int(m.body) for b in broker.batches for m in b if m.message_group == group]
        assert bodies == list(range(int(group[1]), 5_000, 3))
    assert sum(map(len, broker.batches)) == 5_003


def test_large_bodies_are_divided() -> None:
    rows = [(number, Message("t", bytes(400_000))) for number in range(5)]
    assert [len(batch) for batch in batches_of(rows)] == [2, 2, 1]
    assert [len(batch) for batch in batches_of([(0, Message("t", bytes(9_000_000)))])] == [1]


def test_a_refused_row_is_named() -> None:
    broker = Broker(refuses=b"37")
    with pytest.raises(RowRefused) as told:
        sent(broker, [Message("t", b"%d" % n) for n in range(100)])
    assert "partition 3, row 37, column tag (topic t):" in str(told.value)


def test_broken_sends_are_repeated_with_the_same_ids() -> None:
    broker = Broker(breaks=3)
    assert sent(broker, [Message("t", b"x", message_id="A")]) == [0.1, 0.2, 0.5]
    assert [message.message_id for batch in broker.batches for message in batch] == ["A"]
    with pytest.raises(ClientError, match="broken"):
        sent(Broker(breaks=3, retryable=False), [Message("t", b"x")])
    with pytest.raises(ClientError, match="broken"):
        sent(Broker(breaks=99), [Message("t", b"x")])


def test_the_broker_has_what_was_written(rocketmq: RocketMQ) -> None:
    rocketmq.create_topic("audit")
    table = pa.table(
        {
            "topic": ["orders", "audit"] * 5,
            "body": [f"{n}" for n in range(10)],
            "keys": [[f"k{n}"] for n in range(10)],
            "properties": pa.array([[("size", "7")]] * 10, pa.map_(pa.string(), pa.string())),
        }
    )
    assert written(rocketmq, table) == 10
    found = rocketmq.messages("orders", 5)
    assert sorted(message.body for message in found) == [b"0", b"2", b"4", b"6", b"8"]
    assert {message.properties["KEYS"] for message in found} == {"k0", "k2", "k4", "k6", "k8"}
    wrong = pa.table({"body": ["a", "b"], "tag": ["ok", "a|b"]})
    with pytest.raises(RowRefused, match="row 1, column tag"):
        written(rocketmq, wrong, topic="orders")


@pytest.mark.rocketmq("broker.dedupe_window_ms=60s")
def test_a_repeated_task_is_stored_once_within_the_window(rocketmq: RocketMQ) -> None:
    source = PocketSource({"endpoint": rocketmq.endpoint, "topic": "orders"})
    table = pa.table({"body": [f"{n}" for n in range(3_000)]})
    writer = source.writer(from_arrow_schema(table.schema), False)
    assert isinstance(writer, BatchSink)
    for size in (1_000, 700):  # Another division into batches of Arrow changes nothing.
        writer.write(iter(table.to_batches(max_chunksize=size)))
    found = rocketmq.messages("orders", 3_000)
    assert sorted(int(message.body) for message in found) == list(range(3_000))
