"""Topics through Admin: made, changed, listed, described, counted, removed."""

import asyncio
from typing import Any

import pytest

from pocketmq.model.errors import (
    BrokerError,
    IllegalAttribute,
    IllegalNumber,
    IllegalPageToken,
    IllegalTopic,
    SystemTopic,
    TopicExists,
    TopicNotFound,
)
from pocketmq.model.topic import QUEUE_COUNT_MAX, TopicConfig
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.v1.admin import proto_topic
from pocketmq.services.admin.topics import changed_attributes
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import until

CALL = FakeCall()


async def create(broker: StoreBroker, **fields: Any) -> pb.Topic:
    request = pb.CreateTopicRequest(**{"name": "new", **fields})
    return (await broker.admin.create_topic(request, CALL)).topic


async def names(broker: StoreBroker, **fields: Any) -> tuple[list[str], str]:
    page = await broker.admin.list_topics(pb.ListTopicsRequest(**fields), CALL)
    return [topic.name for topic in page.topics], page.next_page_token


async def update(broker: StoreBroker, **fields: Any) -> pb.Topic:
    request = pb.UpdateTopicRequest(**{"name": "orders", **fields})
    return (await broker.admin.update_topic(request, CALL)).topic


async def delete(broker: StoreBroker, name: str) -> list[str]:
    request = pb.DeleteTopicRequest(name=name)
    return list((await broker.admin.delete_topic(request, CALL)).removed_topics)


async def stats(broker: StoreBroker, **fields: Any) -> list[pb.TopicStats]:
    answer = await broker.admin.topic_stats(pb.TopicStatsRequest(**fields), CALL)
    return list(answer.topics)


# -- making and listing ----------------------------------------------------------------------------


async def test_a_topic_is_made_with_defaults(broker: StoreBroker) -> None:
    topic = await create(broker)
    assert (topic.write_queue_count, topic.read_queue_count, topic.permission) == (8, 8, 6)
    assert (topic.type, dict(topic.attributes)) == (pb.NORMAL, {})


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED"])
async def test_a_topic_has_a_type(broker: StoreBroker, kind: str) -> None:
    topic = await create(broker, type=kind, queue_count=3)
    assert pb.TopicType.Name(topic.type) == kind
    config = broker.store.tables.topics.find("new")
    assert config is not None
    assert (config.attributes, config.write_queue_count) == ({"message.type": kind}, 3)


async def test_a_topic_has_a_retention_of_its_own(broker: StoreBroker) -> None:
    given = {"pocketmq.retention.ms": "60000", "pocketmq.retention.bytes": "9000"}
    topic = await create(broker, attributes=given)
    assert (topic.retention_ms, topic.retention_bytes) == (60_000, 9_000)
    assert await create(broker, attributes=given) == topic
    with pytest.raises(TopicExists):
        await create(broker)
    with pytest.raises(IllegalAttribute):
        await create(broker, name="other", attributes={"color": "red"})
    assert broker.store.tables.topics.find("other") is None


async def test_the_same_topic_again_is_no_error(broker: StoreBroker) -> None:
    assert await create(broker) == await create(broker)
    for fields in ({"queue_count": 9}, {"type": pb.FIFO}):
        with pytest.raises(TopicExists):
            await create(broker, **fields)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": ""}, IllegalTopic),
        ({"name": "a/b"}, IllegalTopic),
        ({"name": "SCHEDULE_TOPIC_XXXX"}, SystemTopic),
        ({"name": "%DLQ%g"}, SystemTopic),
        ({"queue_count": -1}, IllegalNumber),
        ({"queue_count": QUEUE_COUNT_MAX + 1}, IllegalNumber),
        ({"type": 7}, IllegalNumber),
    ],
)
async def test_topics_that_cannot_be_made(
    broker: StoreBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        await create(broker, **fields)


async def test_topics_are_listed_page_by_page(broker: StoreBroker) -> None:
    for name in ("c", "a", "b", "SCHEDULE_TOPIC_XXXX", "%DLQ%g"):
        broker.store.tables.topics.adopt(name, 1)
    assert await names(broker) == (["%DLQ%g", "a", "b", "c", "orders"], "")
    assert await names(broker, page_size=2) == (["%DLQ%g", "a"], "a")
    assert await names(broker, page_size=2, page_token="a") == (["b", "c"], "c")
    assert await names(broker, page_size=2, page_token="c") == (["orders"], "")
    assert (await names(broker, include_system=True))[0][:2] == ["%DLQ%g", "SCHEDULE_TOPIC_XXXX"]
    with pytest.raises(IllegalNumber):
        await names(broker, page_size=1001)
    with pytest.raises(IllegalPageToken):
        await names(broker, page_token="a b")


async def test_a_topic_is_described_with_its_queues(broker: StoreBroker) -> None:
    for broker.clock.wall in (10, 20):
        await broker.add("orders", b"a", queue_id=1)
    found = await broker.admin.describe_topic(pb.DescribeTopicRequest(name="orders"), CALL)
    assert found.topic.name == "orders"
    assert list(found.queues) == [
        pb.QueueState(queue_id=0),
        pb.QueueState(
            queue_id=1,
            min_offset=0,
            max_offset=2,
            min_store_timestamp_ms=10,
            max_store_timestamp_ms=20,
        ),
    ]
    with pytest.raises(TopicNotFound):
        await broker.admin.describe_topic(pb.DescribeTopicRequest(name="unknown"), CALL)


def test_types_that_are_not_in_the_proto_stay_visible_as_attributes() -> None:
    lite = proto_topic(TopicConfig("x", 1, 1, 6, attributes={"message.type": "LITE"}))
    assert (lite.type, lite.attributes["message.type"]) == (pb.TOPIC_TYPE_UNSPECIFIED, "LITE")
    plain = proto_topic(TopicConfig("x", 1, 1))
    assert plain.type == pb.NORMAL
    system = proto_topic(TopicConfig("TBW102", 1, 1, 7))
    assert (system.system, system.permission) == (True, 7)


# -- changing --------------------------------------------------------------------------------------


async def test_what_is_given_is_changed_and_the_rest_stays(broker: StoreBroker) -> None:
    topic = await update(broker, write_queue_count=1)
    assert (topic.read_queue_count, topic.write_queue_count, topic.permission) == (2, 1, 6)
    topic = await update(broker, read_queue_count=5, permission=4, order=True)
    assert (topic.read_queue_count, topic.write_queue_count) == (5, 1)
    assert (topic.permission, topic.order) == (4, True)
    assert await update(broker) == topic
    assert (await update(broker, permission=0, order=False)).permission == 0


async def test_attributes_are_set_and_removed(broker: StoreBroker) -> None:
    topic = await update(broker, set_attributes={"message.type": "FIFO", "reserve.time": "5"})
    assert topic.type == pb.FIFO
    topic = await update(broker, remove_attributes=["message.type"])
    assert (topic.type, dict(topic.attributes)) == (pb.NORMAL, {"reserve.time": "5"})


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "unknown"}, TopicNotFound),
        ({"name": "a/b"}, IllegalTopic),
        ({"name": "SCHEDULE_TOPIC_XXXX"}, SystemTopic),
        ({"read_queue_count": 0}, IllegalNumber),
        ({"write_queue_count": 0}, IllegalNumber),
        ({"read_queue_count": QUEUE_COUNT_MAX + 1}, IllegalNumber),
        ({"permission": 8}, IllegalNumber),
        ({"permission": -1}, IllegalNumber),
        ({"set_attributes": {"color": "red"}}, IllegalAttribute),
    ],
)
async def test_changes_that_cannot_be_made(
    broker: StoreBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    before = broker.store.tables.topics.find("orders")
    with pytest.raises(error):
        await update(broker, **fields)
    assert broker.store.tables.topics.find("orders") is before


@pytest.mark.parametrize(
    ("given", "removed", "why"),
    [
        ({"message.type": "ODD"}, [], "its value is one of"),
        ({"message.type": "TOPIC_TYPE_UNSPECIFIED"}, [], "its value is one of"),
        ({"reserve.time": "soon"}, [], "a number"),
        ({"reserve.time": "-2"}, [], "a number"),
        ({"queue.type": "BatchCQ"}, [], "cannot be changed"),
        ({"pocketmq.retention.ms": "999"}, [], "a number of ms from 1000"),
        ({"pocketmq.retention.bytes": "0"}, [], "remove it for no limit"),
        ({}, ["cleanup.policy"], "cannot be changed"),
        ({}, ["reserve.time"], "does not have it"),
        ({"message.type": "FIFO"}, ["message.type"], "both set and removed"),
    ],
)
def test_attributes_have_rules(given: dict[str, str], removed: list[str], why: str) -> None:
    with pytest.raises(IllegalAttribute, match=why):
        changed_attributes({"message.type": "NORMAL"}, given, removed)


def test_attributes_that_may_be() -> None:
    assert changed_attributes({}, {"reserve.time": "-1", "message.type": "MIXED"}, []) == {
        "reserve.time": "-1",
        "message.type": "MIXED",
    }


# -- removing --------------------------------------------------------------------------------------


async def test_a_topic_goes_with_its_queues_and_offsets(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    broker.store.tables.topics.adopt("audit", 1)
    await broker.store.tables.offsets.commit("readers", "orders", 0, 1)
    await broker.store.tables.offsets.commit("readers", "audit", 0, 0)
    assert await delete(broker, "orders") == ["orders"]
    assert broker.store.tables.topics.names() == ["audit"]
    assert broker.store.reading.queue_range("orders", 0) == (0, 0)
    assert broker.store.tables.offsets.all_of("readers") == {"audit": {0: 0}}
    with pytest.raises(TopicNotFound):
        await delete(broker, "orders")


async def test_retry_topics_that_were_for_it_go_too(broker: StoreBroker) -> None:
    for name in ("%RETRY%readers_orders", "%RETRY%others_orders", "%RETRY%readers"):
        broker.store.tables.topics.adopt(name, 1)
    await broker.store.tables.offsets.commit("readers", "orders", 0, 0)
    await broker.store.tables.offsets.commit("others", "audit", 0, 0)
    assert await delete(broker, "orders") == ["orders", "%RETRY%readers_orders"]
    assert broker.store.tables.topics.names() == ["%RETRY%others_orders", "%RETRY%readers"]


async def test_topics_of_the_broker_stay(broker: StoreBroker) -> None:
    broker.store.tables.topics.adopt("SCHEDULE_TOPIC_XXXX", 1)
    with pytest.raises(SystemTopic):
        await delete(broker, "SCHEDULE_TOPIC_XXXX")
    assert "SCHEDULE_TOPIC_XXXX" in broker.store.tables.topics.names()


# -- counting --------------------------------------------------------------------------------------


async def test_a_topic_is_counted_queue_by_queue(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", queue_id=1)
    await broker.expire()
    begun = broker.clock.wall
    for queue_id in (0, 1):
        broker.clock.advance(10)
        await broker.add("orders", b"a", queue_id=queue_id)
    (found,) = await stats(broker, name="orders")
    assert (found.name, found.queue_count) == ("orders", 2)
    assert (found.message_count, found.stored_count) == (2, 3)
    assert found.first_store_timestamp_ms == begun + 10
    assert found.last_store_timestamp_ms == begun + 20
    assert [(q.min_offset, q.max_offset) for q in found.queues] == [(0, 1), (1, 2)]


async def test_an_empty_topic_has_no_times(broker: StoreBroker) -> None:
    (found,) = await stats(broker, name="orders")
    assert (found.message_count, found.first_store_timestamp_ms) == (0, 0)


async def test_all_topics_are_counted_page_by_page(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b")
    broker.store.tables.topics.adopt("audit", 1)
    broker.store.tables.topics.adopt("SCHEDULE_TOPIC_XXXX", 1)
    found = await stats(broker, totals_only=True)
    assert [(row.name, row.message_count, len(row.queues)) for row in found] == [
        ("audit", 0, 0),
        ("orders", 2, 0),
    ]
    assert [row.name for row in await stats(broker, page_size=1, page_token="audit")] == ["orders"]
    assert len(await stats(broker, include_system=True)) == 3
    with pytest.raises(TopicNotFound):
        await stats(broker, name="unknown")
    with pytest.raises(IllegalPageToken):
        await stats(broker, page_token="a b")


async def test_a_caller_who_gives_up_half_way_leaves_no_half_a_topic(broker: StoreBroker) -> None:
    await broker.store.tables.offsets.commit("readers", "orders", 0, 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await delete(broker, "orders")
    assert broker.store.tables.offsets.find("readers", "orders", 0) == 1
    await until(lambda: broker.store.tables.offsets.find("readers", "orders", 0) is None)
    assert broker.store.tables.topics.find("orders") is None


# -- counts beside the list ------------------------------------------------------------------------
async def listed_stats(broker: StoreBroker) -> dict[str, pb.TopicStats]:
    await broker.talking.settled()
    page = await broker.admin.list_topics(pb.ListTopicsRequest(with_stats=True), CALL)
    assert [one.name for one in page.stats] == [topic.name for topic in page.topics]
    return {one.name: one for one in page.stats}


async def sizes_of(broker: StoreBroker, count: int) -> int:
    """Returns the bytes of the records of queue 0."""
    found = broker.talking.pull("orders", 0)
    total, position = 0, 0
    while position < count:
        found = broker.talking.pull("orders", position)
        total += sum(len(record) for record in found.records)
        position += len(found.records)
    return total


async def test_a_list_has_the_size_of_a_short_queue_exactly(broker: StoreBroker) -> None:
    for length in (1, 10, 100):
        await broker.talking.send("orders", "x" * length, queue_id=0)
    found = (await listed_stats(broker))["orders"]
    assert (found.message_count, found.size_estimated) == (3, False)
    assert found.size_bytes == await sizes_of(broker, 3)
    assert found.last_store_timestamp_ms == broker.clock.wall_ms()
    assert not found.queues


async def test_the_size_of_a_long_queue_is_estimated_from_all_its_parts(
    broker: StoreBroker,
) -> None:
    for number in range(400):
        await broker.talking.send("orders", "x" * (1 + number), queue_id=0)
    found = (await listed_stats(broker))["orders"]
    assert (found.message_count, found.size_estimated) == (400, True)
    assert found.size_bytes == pytest.approx(await sizes_of(broker, 400), rel=0.1)


async def test_the_size_of_a_queue_with_a_few_large_messages_fits_into_the_log(
    broker: StoreBroker,
) -> None:
    for number in range(400):
        await broker.talking.send("orders", "x" * (5_000 if number > 390 else 1), queue_id=0)
    found = (await listed_stats(broker))["orders"]
    assert found.size_estimated
    assert found.size_bytes == await sizes_of(broker, 400)


async def test_a_list_has_the_rate_of_the_last_minute(broker: StoreBroker) -> None:
    broker.send.counts.count("orders", "normal", 60, 6_000)
    assert (await listed_stats(broker))["orders"].in_per_s == pytest.approx(6.0)
    broker.clock.advance(20_000)
    assert (await listed_stats(broker))["orders"].in_per_s == pytest.approx(3.0)


async def test_a_list_has_no_counts_unless_asked_for(broker: StoreBroker) -> None:
    assert not (await broker.admin.list_topics(pb.ListTopicsRequest(), CALL)).stats
