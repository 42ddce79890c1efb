"""How far groups are behind: messages, and the age of the first one they missed."""

from typing import Any

import pytest

from pocketmq.model.errors import GroupNotFound, IllegalGroup, IllegalPageToken, TopicNotFound
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.pb import broker_pb2 as rpc
from pocketmq.services.admin.lag import queue_lag
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker

CALL = FakeCall()


async def lag(broker: StoreBroker, **fields: Any) -> list[pb.TopicLag]:
    answer = await broker.admin.group_lag(pb.GroupLagRequest(**fields), CALL)
    return list(answer.topics)


async def consumed(broker: StoreBroker, **offsets: int) -> None:
    """Commits the offsets of the group `readers`; q0 is queue 0 of orders."""
    for name, queue_offset in offsets.items():
        await broker.store.tables.offsets.commit("readers", "orders", int(name[1:]), queue_offset)


async def test_messages_left_and_the_age_of_the_first(broker: StoreBroker) -> None:
    for broker.clock.wall in (100, 200, 300):
        await broker.add("orders", b"a")
    await consumed(broker, q0=1)
    broker.clock.wall = 1_000
    (row,) = await lag(broker, group="readers")
    assert (row.group, row.topic) == ("readers", "orders")
    assert (row.lag_messages, row.lag_ms, row.committed_sum) == (2, 800, 1)
    assert list(row.queues) == [
        pb.QueueLag(
            queue_id=0, committed_offset=1, min_offset=0, max_offset=3, lag_messages=2, lag_ms=800
        ),
        pb.QueueLag(queue_id=1),
    ]


async def test_who_has_read_all_is_not_behind(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    await consumed(broker, q0=1)
    (row,) = await lag(broker, group="readers")
    assert (row.lag_messages, row.lag_ms) == (0, 0)


async def test_what_is_under_leases_is_not_consumed(broker: StoreBroker) -> None:
    for broker.clock.wall in (100, 200, 300):
        await broker.add("orders", b"a")
    await consumed(broker, q0=1)
    received = await broker.answer(
        "Receive", rpc.ReceiveRequest(group="readers", topic="orders", max_messages=1)
    )
    broker.clock.wall = 1_000
    (row,) = await lag(broker, group="readers")
    assert (row.committed_sum, row.lag_messages, row.lag_ms) == (2, 2, 800)
    assert [queue.lag_messages for queue in row.queues] == [2, 0]
    (row,) = await lag(broker)
    assert row.lag_messages == 2
    ack = rpc.AckRequest(group="readers", topic="orders", receipt_handles=received.receipt_handles)
    await broker.answer("Ack", ack)
    (row,) = await lag(broker, group="readers")
    assert (row.lag_messages, row.lag_ms) == (1, 700)


async def test_a_clock_that_went_back_makes_no_negative_age(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    await consumed(broker, q0=0)
    broker.clock.wall -= 5
    assert (await lag(broker, group="readers"))[0].lag_ms == 0


@pytest.mark.parametrize(
    ("committed", "lower", "upper", "left"),
    [(None, 0, 9, 0), (0, 0, 9, 9), (3, 5, 9, 4), (9, 0, 9, 0), (12, 0, 9, 0), (0, 0, 0, 0)],
)
def test_what_counts_as_left(committed: int | None, lower: int, upper: int, left: int) -> None:
    assert queue_lag(0, committed, lower, upper).lag_messages == left


def test_a_group_that_begins_at_the_begin_has_all_of_a_queue_it_has_not_come_to() -> None:
    assert queue_lag(0, None, 2, 9, begins_at_min=True).lag_messages == 7
    assert queue_lag(0, 9, 2, 9, begins_at_min=True).lag_messages == 0


async def test_one_topic_of_a_group(broker: StoreBroker) -> None:
    broker.store.tables.topics.adopt("audit", 1)
    await broker.store.tables.offsets.commit("readers", "audit", 0, 0)
    await consumed(broker, q0=0)
    assert [row.topic for row in await lag(broker, group="readers")] == ["audit", "orders"]
    assert [row.topic for row in await lag(broker, group="readers", topic="orders")] == ["orders"]
    broker.store.tables.topics.adopt("fresh", 1)
    (row,) = await lag(broker, group="readers", topic="fresh")
    assert (row.lag_messages, row.queues[0].HasField("committed_offset")) == (0, False)


async def test_queues_beyond_the_topics_count_are_still_shown(broker: StoreBroker) -> None:
    await consumed(broker, q7=3)
    assert [queue.queue_id for queue in (await lag(broker, group="readers"))[0].queues] == [0, 1, 7]


async def test_all_groups_page_by_page_without_queues(broker: StoreBroker) -> None:
    await broker.add("orders", b"a", b"b")
    for group in ("b", "a"):
        await broker.store.tables.offsets.commit(group, "orders", 0, 1)
    answer = await broker.admin.group_lag(pb.GroupLagRequest(page_size=1), CALL)
    (row,) = answer.topics
    assert (row.group, row.lag_messages, list(row.queues)) == ("a", 1, [])
    assert answer.next_page_token == "a@orders"
    following = await lag(broker, page_token=answer.next_page_token)
    assert [row.group for row in following] == ["b"]
    assert await lag(broker, topic="orders") != []


async def test_what_cannot_be_asked(broker: StoreBroker) -> None:
    with pytest.raises(GroupNotFound):
        await lag(broker, group="unknown")
    with pytest.raises(IllegalGroup):
        await lag(broker, group="a b")
    with pytest.raises(TopicNotFound):
        await lag(broker, topic="unknown")
    with pytest.raises(IllegalPageToken):
        await lag(broker, page_token="x")
