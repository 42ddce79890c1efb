"""The methods of pocketmq.v1.Admin, called without a transport."""

from typing import Any

import pytest

from broker import __version__
from broker.model.errors import (
    BrokerError,
    IllegalNumber,
    IllegalPageToken,
    IllegalTopic,
    SystemTopic,
    TopicExists,
    TopicNotFound,
)
from broker.rpc.admin import DESCRIPTOR, proto_topic
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.service import CallClass
from broker.store.metadata import QUEUE_COUNT_MAX, TopicConfig, topic_row
from tests.fakes.call import FakeCall
from tests.fakes.memory_broker import MemoryBroker

CALL = FakeCall()


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


async def create(broker: MemoryBroker, **fields: Any) -> pb.Topic:
    request = pb.CreateTopicRequest(**{"name": "new", **fields})
    return (await broker.admin.create_topic(request, CALL)).topic


def names(broker: MemoryBroker, **fields: Any) -> tuple[list[str], str]:
    page = broker.admin.list_topics(pb.ListTopicsRequest(**fields), CALL)
    return [topic.name for topic in page.topics], page.next_page_token


def test_the_table_serves_every_method_of_the_proto(broker: MemoryBroker) -> None:
    service = broker.admin.service()
    assert service.name == "pocketmq.v1.Admin"
    classes = {row.name: row.call_class for row in service.methods}
    assert set(classes) == set(DESCRIPTOR.methods_by_name)
    assert classes.pop("PullMessage") is CallClass.POLL
    assert set(classes.values()) == {CallClass.ADMIN}


async def test_a_topic_is_made_with_defaults(broker: MemoryBroker) -> None:
    topic = await create(broker)
    assert (topic.write_queue_count, topic.read_queue_count, topic.permission) == (8, 8, 6)
    assert (topic.type, dict(topic.attributes)) == (pb.NORMAL, {"message.type": "NORMAL"})


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY"])
async def test_a_topic_has_a_type(broker: MemoryBroker, kind: str) -> None:
    topic = await create(broker, type=kind, queue_count=3)
    assert pb.TopicType.Name(topic.type) == kind
    config = broker.store.topics.find("new")
    assert config is not None
    assert (config.attributes, config.write_queue_count) == ({"message.type": kind}, 3)


async def test_the_same_topic_again_is_no_error(broker: MemoryBroker) -> None:
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
        ({"type": 6}, IllegalNumber),
    ],
)
async def test_topics_that_cannot_be_made(
    broker: MemoryBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        await create(broker, **fields)


def test_topics_are_listed_page_by_page(broker: MemoryBroker) -> None:
    for name in ("c", "a", "b", "SCHEDULE_TOPIC_XXXX", "%DLQ%g"):
        broker.store.topics.add(name)
    assert names(broker) == (["%DLQ%g", "a", "b", "c", "orders"], "")
    assert names(broker, page_size=2) == (["%DLQ%g", "a"], "a")
    assert names(broker, page_size=2, page_token="a") == (["b", "c"], "c")
    assert names(broker, page_size=2, page_token="c") == (["orders"], "")
    assert names(broker, include_system=True)[0][:2] == ["%DLQ%g", "SCHEDULE_TOPIC_XXXX"]
    with pytest.raises(IllegalNumber):
        names(broker, page_size=1001)
    with pytest.raises(IllegalPageToken):
        names(broker, page_token="a b")


def test_a_topic_is_described_with_its_queues(broker: MemoryBroker) -> None:
    for broker.store.now_ms in (10, 20):
        broker.store.add("orders", b"a", queue_id=1)
    found = broker.admin.describe_topic(pb.DescribeTopicRequest(name="orders"), CALL)
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
        broker.admin.describe_topic(pb.DescribeTopicRequest(name="unknown"), CALL)


def test_types_that_are_not_in_the_proto_stay_visible_as_attributes() -> None:
    mixed = proto_topic(TopicConfig("x", topic_row("x", 1, 6, {"message.type": "MIXED"})))
    assert (mixed.type, mixed.attributes["message.type"]) == (pb.TOPIC_TYPE_UNSPECIFIED, "MIXED")
    plain = proto_topic(TopicConfig("x", topic_row("x", 1, 6, {})))
    assert plain.type == pb.NORMAL
    system = proto_topic(TopicConfig("TBW102", topic_row("TBW102", 1, 7, {})))
    assert (system.system, system.permission) == (True, 7)


def test_the_store_tells_how_it_is(broker: MemoryBroker) -> None:
    broker.store.add("orders", b"a")
    end = broker.store.appended
    assert broker.admin.store_status(pb.StoreStatusRequest(), CALL) == pb.StoreStatusResponse(
        state="running",
        directory="/store",
        min_offset=0,
        appended_offset=end,
        flushed_offset=end,
        dispatched_offset=end,
        flush_mode="sync",
        version=__version__,
        topic_count=1,
        queue_count=2,
        cluster="DefaultCluster",
        broker="broker-a",
    )
