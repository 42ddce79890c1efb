"""Streams of a running broker, as Spark drives them; all but Spark itself."""

import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pocketmq.client import ClientError, Message, PullQuery
from pocketmq.model.errors import TopicNotFound
from pocketmq.spark.data_source import PocketSource
from pocketmq.spark.queue_offsets import MessagesLost
from pocketmq.spark.queue_stream import BrokerReader, BrokerStream
from pocketmq.testing import RocketMQ

ALL = ReadAllAvailable()


def source(broker: RocketMQ, **options: str) -> PocketSource:
    given = {"endpoint": broker.endpoint, "columns": "topic,queue_id,queue_offset,tag,body"}
    return PocketSource(given | options)


def stream(broker: RocketMQ, **options: str) -> BrokerStream:
    made = source(broker, **options)
    reader = made.streamReader(made.schema())
    assert isinstance(reader, BrokerStream)
    return reader


def rows_of(reader: Any, parts: Any) -> list[dict[str, Any]]:
    sent = pickle.loads(pickle.dumps((reader, parts)))
    return [row for part in sent[1] for batch in sent[0].read(part) for row in batch.to_pylist()]


def sent(broker: RocketMQ, topic: str, begin: int, end: int) -> None:
    """Sends numbers, and waits until each is visible."""
    for number in range(begin, end):
        tag = ("red", "blue")[number % 2]
        properties = {"size": str(number), "color": tag}
        message = Message(topic, b"%d" % number, tag=tag, properties=properties)
        receipt = broker.client.send(message)
        query = PullQuery(topic, receipt.queue_id, receipt.queue_offset, wait_ms=10_000)
        assert broker.client.pull(query).messages


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(int(row["body"]) for row in rows)


def test_each_message_is_in_one_batch(rocketmq: RocketMQ) -> None:
    rocketmq.create_topic("orders", queues=3)
    sent(rocketmq, "orders", 0, 30)
    reader = stream(rocketmq, topic="orders", maxOffsetsPerTrigger="8")
    start, batches = reader.initialOffset(), []
    assert start == {"orders": {"0": 0, "1": 0, "2": 0}}
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        batches.append(numbers(rows_of(reader, reader.partitions(start, end))))
        start = end
    assert max(map(len, batches)) <= 8
    assert sorted(number for batch in batches for number in batch) == list(range(30))
    assert reader.reportLatestOffset() == start
    sent(rocketmq, "orders", 30, 33)
    end = reader.latestOffset(start, ALL)
    assert numbers(rows_of(reader, reader.partitions(start, end))) == [30, 31, 32]
    reader.stop()


def test_a_batch_waits_for_enough_messages(rocketmq: RocketMQ) -> None:
    rocketmq.create_topic("orders", queues=2)
    sent(rocketmq, "orders", 0, 5)
    reader = stream(rocketmq, topic="orders", minOffsetsPerTrigger="6")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    now = stream(rocketmq, topic="orders", minOffsetsPerTrigger="6")
    now.prepareForTriggerAvailableNow()
    assert now.latestOffset(start, ALL) != start, "AvailableNow has no minimum"
    sent(rocketmq, "orders", 5, 6)
    end = reader.latestOffset(start, ALL)
    assert numbers(rows_of(reader, reader.partitions(start, end))) == list(range(6))


def test_the_broker_filters(rocketmq: RocketMQ) -> None:
    sent(rocketmq, "orders", 0, 20)
    for options, wanted in [
        ({"tags": "blue"}, range(1, 20, 2)),
        ({"sql": "size > 12 AND color = 'red'"}, range(14, 20, 2)),
    ]:
        reader = stream(rocketmq, topic="orders", **options)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        assert numbers(rows_of(reader, reader.partitions(start, end))) == list(wanted)
        sent(rocketmq, "orders", 100, 104)
        again = rows_of(reader, reader.partitions(start, end))
        assert numbers(again) == list(wanted), "a batch that is repeated has other rows"
        rocketmq.client.admin.purge_topic("orders")
        sent(rocketmq, "orders", 0, 20)


def test_new_topics_that_match_are_read_from_their_begin(rocketmq: RocketMQ) -> None:
    sent(rocketmq, "orders-eu", 0, 3)
    sent(rocketmq, "payments", 0, 3)
    reader = stream(rocketmq, topicsPattern="orders-.*", startingOffsets="latest")
    start = reader.initialOffset()
    assert list(start) == ["orders-eu"]
    sent(rocketmq, "orders-us", 10, 15)
    sent(rocketmq, "orders-eu", 20, 22)
    end = reader.latestOffset(start, ALL)
    found = numbers(rows_of(reader, reader.partitions(start, end)))
    assert found == [10, 11, 12, 13, 14, 20, 21]


def test_a_stream_begins_at_a_time(rocketmq: RocketMQ) -> None:
    rocketmq.create_topic("orders", queues=2)
    sent(rocketmq, "orders", 0, 6)
    rocketmq.advance_clock(60)
    middle_ms = int(rocketmq.now() * 1000) - 30_000
    sent(rocketmq, "orders", 6, 9)
    reader = stream(rocketmq, topic="orders", startingTimestamp=str(middle_ms))
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, ALL))
    assert numbers(rows_of(reader, parts)) == [6, 7, 8]
    late = stream(rocketmq, topic="orders", startingTimestamp=str(middle_ms + 10**7))
    latest = stream(rocketmq, topic="orders", startingOffsets="latest")
    assert late.initialOffset() == latest.initialOffset()


def test_available_now_ends_at_what_was_there(rocketmq: RocketMQ) -> None:
    sent(rocketmq, "orders", 0, 5)
    reader = stream(rocketmq, topic="orders")
    reader.prepareForTriggerAvailableNow()
    sent(rocketmq, "orders", 5, 9)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert numbers(rows_of(reader, reader.partitions(start, end))) == [0, 1, 2, 3, 4]
    assert reader.latestOffset(end, ALL) == end


def test_removed_messages_end_a_stream(rocketmq: RocketMQ) -> None:
    rocketmq.create_topic("orders", queues=1)
    sent(rocketmq, "orders", 0, 6)
    reader = stream(rocketmq, topic="orders")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    planned = reader.partitions(start, end)
    rocketmq.client.admin.purge_topic("orders")
    sent(rocketmq, "orders", 6, 8)
    told = "messages 0 to 5 of queue 0 of orders were removed before the stream read them"
    for fails in (
        lambda: reader.latestOffset(start, ALL),
        lambda: reader.partitions(start, end),
        lambda: rows_of(reader, planned),
    ):
        with pytest.raises(MessagesLost, match=told):
            fails()
    tolerant = stream(rocketmq, topic="orders", failOnDataLoss="false")
    assert rows_of(tolerant, planned) == []
    end = tolerant.latestOffset(start, ALL)
    assert numbers(rows_of(tolerant, tolerant.partitions(start, end))) == [6, 7]


def test_a_batch_reads_what_is_there(rocketmq: RocketMQ) -> None:
    sent(rocketmq, "orders", 0, 9)
    made = source(rocketmq, topic="orders")
    reader = made.reader(made.schema())
    assert isinstance(reader, BrokerReader)
    parts = reader.partitions()
    sent(rocketmq, "orders", 9, 12)
    assert numbers(rows_of(reader, parts)) == list(range(9))


def test_what_is_wrong_is_told(rocketmq: RocketMQ) -> None:
    with pytest.raises(ClientError) as told:
        stream(rocketmq, topic="nothing").initialOffset()
    assert isinstance(told.value, TopicNotFound)
    with pytest.raises(ValueError, match="needs topic or topicsPattern"):
        stream(rocketmq)
    with pytest.raises(ValueError, match="tags and sql exclude each other"):
        stream(rocketmq, topic="orders", tags="a", sql="b = 1")
    with pytest.raises(ValueError, match="reads either a directory"):
        stream(rocketmq, topic="orders", path="/tmp")
