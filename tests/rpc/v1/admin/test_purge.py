"""Purging a topic: no reader finds its messages, and everything else stays."""

from typing import Any

import pytest

from pocketmq.model.errors import (
    BrokerError,
    IllegalNumber,
    IllegalTopic,
    MessageNotFound,
    OffsetOutOfRange,
    QueueOutOfRange,
    SystemTopic,
    TopicNotFound,
)
from pocketmq.rpc.pb import admin_pb2, broker_pb2
from tests.kit.store_broker import StoreBroker

DAY_MS = 86_400_000


async def purge(broker: StoreBroker, **fields: Any) -> list[tuple[str, int, int, int]]:
    request = admin_pb2.PurgeTopicRequest(**{"name": "orders", **fields})
    answer = await broker.answer("Admin/PurgeTopic", request)
    return [(q.topic, q.queue_id, q.old_min_offset, q.new_min_offset) for q in answer.queues]


async def pulled(broker: StoreBroker, offset: int = 0) -> broker_pb2.PullMessageResponse:
    request = broker_pb2.PullMessageRequest(topic="orders", offset=offset)
    answer: broker_pb2.PullMessageResponse = await broker.answer("PullMessage", request)
    return answer


async def test_a_purged_message_is_found_by_no_reader(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b", UNIQ_KEY="ID1", KEYS="k")
    placed = (await pulled(broker)).messages[0]
    assert await purge(broker) == [("orders", 0, 0, 2)]
    await broker.add("orders", b"c", UNIQ_KEY="ID2", KEYS="k")
    found = await pulled(broker)
    assert (found.status, found.next_begin_offset, found.min_offset) == (
        broker_pb2.OFFSET_TOO_SMALL, 2, 2,
    )  # fmt: skip
    assert [one.body for one in (await pulled(broker, 2)).messages] == [b"c"]
    by_key = await broker.answer(
        "QueryByKey", broker_pb2.QueryByKeyRequest(topic="orders", key="k")
    )
    assert ([one.body for one in by_key.messages], by_key.complete) == ([b"c"], True)
    for message_id in ("ID1", placed.offset_message_id):
        with pytest.raises(MessageNotFound):
            await broker.answer(
                "QueryById", broker_pb2.QueryByIdRequest(topic="orders", id=message_id)
            )
    by_time = await broker.answer(
        "QueryByTime", broker_pb2.QueryByTimeRequest(topic="orders", time_ms=1)
    )
    assert by_time.queue_offset == 2
    with pytest.raises(OffsetOutOfRange):
        await broker.answer(
            "CommitOffset", broker_pb2.CommitOffsetRequest(group="g", topic="orders", offset=1)
        )


async def test_a_plan_changes_nothing(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    await broker.add("orders", b"b", queue_id=1)
    plan = [("orders", 0, 0, 1), ("orders", 1, 0, 1)]
    assert await purge(broker, dry_run=True) == plan
    assert [one.body for one in (await pulled(broker)).messages] == [b"a"]
    assert await purge(broker) == plan
    assert await purge(broker) == []


async def test_a_planned_purge_takes_nothing_that_came_after_its_plan(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    await broker.add("orders", b"b", queue_id=1)
    plan = await purge(broker, dry_run=True)
    planned = [
        admin_pb2.PurgedQueue(topic=topic, queue_id=queue_id, new_min_offset=end)
        for topic, queue_id, _, end in plan
    ]
    await broker.add("orders", b"later")
    await broker.add("orders", b"elsewhere", queue_id=2)
    assert await purge(broker, planned=planned[1:]) == plan[1:]
    assert await purge(broker, planned=planned) == plan[:1]
    assert [one.body for one in (await pulled(broker, 1)).messages] == [b"later"]
    assert await purge(broker, planned=planned) == []
    assert await purge(broker) == [("orders", 0, 1, 2), ("orders", 2, 0, 1)]


async def test_one_queue_or_what_is_older_than_a_time(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    await broker.add("orders", b"b", queue_id=1)
    assert await purge(broker, queue_ids=[1, 1]) == [("orders", 1, 0, 1)]
    broker.clock.advance(DAY_MS)
    since_ms = broker.clock.wall_ms()
    await broker.add("orders", b"c")
    assert await purge(broker, before_ms=since_ms) == [("orders", 0, 0, 1)]
    assert [one.body for one in (await pulled(broker, 1)).messages] == [b"c"]


async def test_retries_of_the_topics_groups_go_with_it(broker: StoreBroker) -> None:
    retries = "%RETRY%g_orders"
    await broker.store.tables.offsets.set_many("g", "orders", {0: 0})
    broker.store.tables.topics.adopt(retries, 1)
    await broker.add("orders", b"a")
    await broker.add(retries, b"again")
    assert await purge(broker, queue_ids=[0]) == [("orders", 0, 0, 1)]
    assert await purge(broker) == [(retries, 0, 0, 1)]
    assert broker.store.tables.offsets.find("g", "orders", 0) == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "SCHEDULE_TOPIC_XXXX"}, SystemTopic),
        ({"name": "unknown"}, TopicNotFound),
        ({"name": "two words"}, IllegalTopic),
        ({"queue_ids": [7]}, QueueOutOfRange),
        ({"queue_ids": [-1]}, QueueOutOfRange),
        ({"before_ms": -1}, IllegalNumber),
    ],
)
async def test_wrong_requests_purge_nothing(
    broker: StoreBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    await broker.add("orders", b"a")
    with pytest.raises(error):
        await purge(broker, **fields)
    assert await purge(broker, dry_run=True) == [("orders", 0, 0, 1)]
