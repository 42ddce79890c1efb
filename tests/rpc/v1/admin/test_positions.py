"""A reset moves a group wholly or not at all; a dry run reports the offsets."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pocketmq.model.errors import (
    BrokerError,
    GroupNotFound,
    IllegalGroup,
    IllegalNumber,
    OffsetOutOfRange,
    QueueOutOfRange,
    SystemGroup,
    TopicNotFound,
)
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.service import MalformedRequest
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker, store_broker

CALL = FakeCall()
EARLIEST, LATEST = pb.ResetOffsetsRequest.EARLIEST, pb.ResetOffsetsRequest.LATEST
Rows = list[tuple[str, int, int | None, int]]


@pytest.fixture
async def broker() -> AsyncIterator[StoreBroker]:
    """Queues 0 of orders holds messages of 100, 200 and 300, queue 1 one of 200."""
    async with store_broker() as made:
        for made.clock.wall, queue_id in ((100, 0), (200, 0), (200, 1), (300, 0)):
            await made.add("orders", b"a", queue_id=queue_id)
        await made.store.tables.offsets.commit("readers", "orders", 0, 2)
        yield made


def rows(answer: pb.MoveOffsetsResponse) -> Rows:
    return [
        (
            row.topic,
            row.queue_id,
            row.old_offset if row.HasField("old_offset") else None,
            row.new_offset,
        )
        for row in answer.offsets
    ]


async def reset(broker: StoreBroker, **fields: Any) -> Rows:
    request = pb.ResetOffsetsRequest(**{"group": "readers", "topic": "orders", **fields})
    return rows(await broker.admin.reset_offsets(request, CALL))


async def assign(broker: StoreBroker, offsets: dict[int, int], **fields: Any) -> Rows:
    pairs = [pb.QueueOffset(queue_id=queue, offset=place) for queue, place in offsets.items()]
    request = pb.SetOffsetsRequest(
        **{"group": "readers", "topic": "orders", **fields}, offsets=pairs
    )
    return rows(await broker.admin.set_offsets(request, CALL))


async def clone(broker: StoreBroker, **fields: Any) -> Rows:
    request = pb.CloneOffsetsRequest(
        **{"source_group": "readers", "target_group": "others", **fields}
    )
    return rows(await broker.admin.clone_offsets(request, CALL))


def stands(broker: StoreBroker, group: str = "readers") -> dict[int, int]:
    return broker.store.tables.offsets.all_of(group).get("orders", {})


def test_offsets_are_listed(broker: StoreBroker) -> None:
    def listed(**fields: Any) -> list[tuple[str, int, int]]:
        request = pb.ListOffsetsRequest(**{"group": "readers", **fields})
        answer = broker.admin.list_offsets(request, CALL)
        return [(row.topic, row.queue_id, row.offset) for row in answer.offsets]

    assert listed() == listed(topic="orders") == [("orders", 0, 2)]
    broker.store.tables.topics.adopt("audit", 1)
    assert listed(topic="audit") == []
    with pytest.raises(GroupNotFound):
        listed(group="unknown")
    with pytest.raises(TopicNotFound):
        listed(topic="unknown")


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ({"place": EARLIEST}, {0: 0, 1: 0}),
        ({"place": LATEST}, {0: 3, 1: 1}),
        ({"time_ms": 200}, {0: 1, 1: 0}),
        ({"time_ms": 201}, {0: 2, 1: 1}),
        ({"time_ms": 0}, {0: 0, 1: 0}),
        ({"time_ms": 999}, {0: 3, 1: 1}),
        ({"offset": 1}, {0: 1, 1: 1}),
        ({"offset": 3, "queue_ids": [0]}, {0: 3}),
        ({"place": LATEST, "queue_ids": [1, 1]}, {0: 2, 1: 1}),
    ],
)
async def test_a_reset_leads_where_it_says(
    broker: StoreBroker, to: dict[str, Any], expected: dict[int, int]
) -> None:
    dry = await reset(broker, **to, dry_run=True)
    assert stands(broker) == {0: 2}
    assert await reset(broker, **to) == dry
    assert stands(broker) == expected


async def test_a_reset_tells_old_and_new(broker: StoreBroker) -> None:
    assert await reset(broker, place=EARLIEST) == [("orders", 0, 2, 0), ("orders", 1, None, 0)]


async def test_retention_moves_the_earliest(broker: StoreBroker) -> None:
    await broker.expire()
    assert await reset(broker, place=EARLIEST, queue_ids=[0]) == [("orders", 0, 2, 3)]
    with pytest.raises(OffsetOutOfRange):
        await reset(broker, offset=2, queue_ids=[0])


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group": "unknown", "place": EARLIEST}, GroupNotFound),
        ({"group": "a b", "place": EARLIEST}, IllegalGroup),
        ({"topic": "unknown", "place": EARLIEST}, TopicNotFound),
        ({"queue_ids": [2], "place": EARLIEST}, QueueOutOfRange),
        ({"offset": 2}, OffsetOutOfRange),
        ({"offset": -1}, IllegalNumber),
        ({"time_ms": -1}, IllegalNumber),
        ({"place": 2}, IllegalNumber),
        ({}, MalformedRequest),
    ],
)
async def test_resets_that_change_nothing(
    broker: StoreBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        await reset(broker, **fields)
    assert stands(broker) == {0: 2}


async def test_offsets_are_set_together_or_not_at_all(broker: StoreBroker) -> None:
    assert await assign(broker, {1: 1, 0: 0}, dry_run=True) == [
        ("orders", 0, 2, 0),
        ("orders", 1, None, 1),
    ]
    with pytest.raises(OffsetOutOfRange):
        await assign(broker, {0: 0, 1: 2})
    assert stands(broker) == {0: 2}
    await assign(broker, {1: 1, 0: 0})
    assert stands(broker) == {0: 0, 1: 1}


async def test_a_clone_stands_where_its_source_stands(broker: StoreBroker) -> None:
    await broker.store.tables.offsets.commit("others", "orders", 1, 1)
    assert await clone(broker, dry_run=True) == [("orders", 0, None, 2)]
    assert stands(broker, "others") == {1: 1}
    await clone(broker)
    assert stands(broker, "others") == {0: 2}


async def test_a_clone_of_one_topic(broker: StoreBroker) -> None:
    broker.store.tables.topics.adopt("audit", 1)
    await broker.store.tables.offsets.commit("readers", "audit", 0, 0)
    assert await clone(broker, topic="audit") == [("audit", 0, None, 0)]
    assert stands(broker, "others") == {}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"source_group": "unknown"}, GroupNotFound),
        ({"target_group": "readers"}, IllegalGroup),
        ({"target_group": "a b"}, IllegalGroup),
        ({"target_group": "CID_RMQ_SYS_TRANS"}, SystemGroup),
        ({"topic": "unknown"}, TopicNotFound),
    ],
)
async def test_clones_that_cannot_be(
    broker: StoreBroker, fields: dict[str, Any], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        await clone(broker, **fields)
