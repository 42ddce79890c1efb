"""Which topics clients and operators may read."""

import pytest

from pocketmq.model.errors import (
    BrokerError,
    IllegalTopic,
    QueueOutOfRange,
    SystemTopic,
    TopicNotFound,
    TopicNotReadable,
)
from pocketmq.rpc.topic_access import (
    check_client_locates,
    check_client_reads,
    check_operator_reads,
    find_readable,
)
from tests.kit.store_broker import StoreBroker


@pytest.mark.parametrize(
    ("topic", "group"),
    [
        ("orders", ""),
        ("orders", "g"),
        ("%RETRY%g", "g"),
        ("%DLQ%g", "g"),
        ("%RETRY%g_orders", "g"),
        ("%DLQ%other", "g"),
    ],
)
def test_clients_read_their_own(topic: str, group: str) -> None:
    check_client_reads(topic, group)


@pytest.mark.parametrize(
    ("topic", "group"),
    [
        ("SCHEDULE_TOPIC_XXXX", "g"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "g"),
        ("rmq_sys_wheel_timer", "g"),
        ("%RETRY%other", "g"),
        ("%DLQ%", "g"),
        ("%DLQ%g", ""),
        ("%RETRY%", ""),
        ("%RETRY%_orders", ""),
    ],
)
def test_clients_do_not_read_what_is_not_theirs(topic: str, group: str) -> None:
    with pytest.raises(SystemTopic):
        check_client_reads(topic, group)


def test_offsets_of_a_group_topic_are_no_secret() -> None:
    check_client_locates("%DLQ%g", "")
    with pytest.raises(SystemTopic):
        check_client_locates("SCHEDULE_TOPIC_XXXX", "")


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("", IllegalTopic),
        ("a.b", IllegalTopic),
        ("x" * 128, IllegalTopic),
        ("unknown", TopicNotFound),
        ("closed", TopicNotReadable),
    ],
)
async def test_a_topic_has_to_exist_and_be_readable(
    broker: StoreBroker, topic: str, error: type[BrokerError]
) -> None:
    await broker.store.tables.topics.create("closed", queue_count=1, permission=2)
    with pytest.raises(error):
        find_readable(broker.store.tables.topics, topic, "", check_client_reads)


def test_operators_read_every_topic(broker: StoreBroker) -> None:
    topics = broker.store.tables.topics
    topics.adopt("SCHEDULE_TOPIC_XXXX", 18)
    config = find_readable(topics, "SCHEDULE_TOPIC_XXXX", "", check_operator_reads)
    assert config.read_queue_count == 18


async def test_queues_have_bounds(broker: StoreBroker) -> None:
    await broker.store.tables.topics.update("orders", write_queue_count=4)
    config = find_readable(broker.store.tables.topics, "orders", "", check_client_reads)
    config.check_queue(1)
    for queue_id in (-1, 2):
        with pytest.raises(QueueOutOfRange) as caught:
            config.check_queue(queue_id)
        assert caught.value.count == 2
