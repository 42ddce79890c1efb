"""Retry topics whose name several groups may have: each gets, and removes, what is its own alone.

`%RETRY%ship_orders` is where group ship gets messages of topic orders again, and where group
ship_orders finds what it sent back.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pocketmq.model.errors import AccessDenied
from pocketmq.rpc.pb import admin_pb2, broker_pb2
from tests.kit.authorised import AuthorisedBroker, authorised_broker

SHARED = "%RETRY%ship_orders"
OF_SHIP: dict[str, Any] = {"ORIGIN_GROUP": "ship", "RETRY_TOPIC": "orders", "KEYS": "k"}
SENT_BACK: dict[str, Any] = {"RETRY_TOPIC": "events", "KEYS": "k"}


async def shared(desk: AuthorisedBroker) -> AuthorisedBroker:
    """Creates the groups ship and ship_orders, with a message of each in the topic they share."""
    tables = desk.store.tables
    tables.topics.adopt("orders", 1)
    tables.topics.adopt(SHARED, 1)
    for group in ("ship", "ship_orders"):
        await tables.groups.ensure(group)
        await tables.offsets.set_many(group, SHARED, {0: 0})
    await desk.broker.add(SHARED, b"of ship", UNIQ_KEY="ID-SHIP", **OF_SHIP)
    await desk.broker.add(SHARED, b"sent back", UNIQ_KEY="ID-BACK", **SENT_BACK)
    return desk


@pytest.fixture
async def desk() -> AsyncIterator[AuthorisedBroker]:
    """Serves a user with permission to consume for group ship_orders, and to read it."""
    async with authorised_broker("sub,get group:ship_orders") as desk:
        yield await shared(desk)


def bodies(messages: Any) -> list[bytes]:
    return [message.body for message in messages]


OWN: dict[str, dict[str, Any]] = {
    "Broker/PullMessage": {"group": "ship_orders", "topic": SHARED},
    "Broker/Receive": {"group": "ship_orders", "topic": SHARED, "max_messages": 32},
    "MessagingService/PullMessage": {
        "group": {"name": "ship_orders"},
        "message_queue": {"topic": {"name": SHARED}},
        "batch_size": 32,
    },
}


def told(answer: Any) -> list[bytes]:
    if not isinstance(answer, list):
        return bodies(answer.messages)
    if isinstance(answer[0], broker_pb2.ReceiveResponse):
        return bodies(answer[0].messages)
    return [one.message.body for one in answer if one.HasField("message")]


@pytest.mark.parametrize("name", OWN)
async def test_a_group_reads_by_name_what_is_its_own(desk: AuthorisedBroker, name: str) -> None:
    asked = OWN[name]
    assert told(await desk.ask(name, **asked)) == [b"sent back"]
    is_resource = isinstance(asked["group"], dict)
    asked = {**asked, "group": {"name": "ship"} if is_resource else "ship"}
    with pytest.raises(AccessDenied):
        await desk.ask(name, **asked)
    desk.grant("sub group:ship")
    assert told(await desk.ask(name, **asked)) == [b"of ship"]


async def test_a_broadcast_group_gets_its_own(desk: AuthorisedBroker) -> None:
    answer = await desk.ask(
        "Broker/Receive",
        group="ship_orders", topic=SHARED, broadcast=True, client_id="c", max_messages=32,
    )  # fmt: skip
    assert told(answer) == [b"sent back"]


BY_NAME: dict[str, dict[str, Any]] = {
    "Admin/PullMessage": {"topic": SHARED},
    "Admin/QueryByKey": {"topic": SHARED, "key": "k"},
    "Admin/QueryById": {"topic": SHARED, "id": "ID-SHIP"},
    "Admin/DescribeTopic": {"name": SHARED},
    "Admin/TopicStats": {"name": SHARED},
    "Admin/UpdateTopic": {"name": SHARED, "permission": 0},
    "Admin/DeleteTopic": {"name": SHARED},
    "Admin/PurgeTopic": {"name": SHARED},
    "Broker/QueryOffsets": {"topic": SHARED},
    "Broker/QueryByTime": {"topic": SHARED},
}


@pytest.mark.parametrize("name", BY_NAME)
async def test_by_its_name_a_topic_is_of_all_its_owners(desk: AuthorisedBroker, name: str) -> None:
    desk.grant("all group:ship_orders")
    with pytest.raises(AccessDenied, match="'group:ship_orders'"):
        await desk.ask(name, **BY_NAME[name])
    desk.grant("all group:ship")
    assert await desk.refusal(name, **BY_NAME[name]) == ""


async def test_of_an_owner_that_is_gone_no_message_is_told(desk: AuthorisedBroker) -> None:
    await desk.store.tables.groups.remove("ship")
    assert bodies((await desk.ask("Admin/PullMessage", topic=SHARED)).messages) == [b"sent back"]
    found = await desk.ask("Admin/QueryByKey", topic=SHARED, key="k")
    assert bodies(found.messages) == [b"sent back"]
    asked = {"topic": SHARED, "id": "ID-SHIP"}
    assert await desk.refusal("Admin/QueryById", **asked) == "MessageNotFound"
    assert (await desk.ask("Admin/QueryById", "admin", **asked)).message.body == b"of ship"


async def delete(desk: AuthorisedBroker, name: str, **more: Any) -> list[str]:
    answer: admin_pb2.DeleteTopicResponse = await desk.ask(
        "Admin/DeleteTopic", "admin", name=name, **more
    )
    return list(answer.removed_topics)


PAIRS = [("order", "paid_events"), ("order_paid", "events")]
TWICE = "%RETRY%order_paid_events"


@pytest.fixture
async def pairs() -> AsyncIterator[AuthorisedBroker]:
    """Two groups, two topics, one retry topic."""
    async with authorised_broker() as desk:
        tables = desk.store.tables
        tables.topics.adopt(TWICE, 1)
        for group, topic in PAIRS:
            tables.topics.adopt(topic, 1)
            await tables.offsets.set_many(group, topic, {0: 0})
            await tables.offsets.set_many(group, TWICE, {0: 0})
        yield desk


async def test_what_another_group_waits_for_stays_as_a_topic_goes(pairs: AuthorisedBroker) -> None:
    assert await delete(pairs, "events", dry_run=True) == ["events"]
    assert pairs.store.tables.topics.find("events") is not None
    assert await delete(pairs, "events") == ["events"]
    assert pairs.store.tables.topics.find(TWICE) is not None
    assert await delete(pairs, "paid_events", dry_run=True) == ["paid_events", TWICE]
    assert await delete(pairs, "paid_events") == ["paid_events", TWICE]


async def test_what_a_group_sent_back_stays_as_a_topic_goes(pairs: AuthorisedBroker) -> None:
    await delete(pairs, "events")
    await pairs.store.tables.groups.ensure("order_paid_events")
    assert await delete(pairs, "paid_events") == ["paid_events"]


async def test_what_another_group_waits_for_stays_as_a_group_goes(pairs: AuthorisedBroker) -> None:
    asked = {"name": "order_paid", "with_topics": True}
    gone = await pairs.ask("Admin/DeleteGroup", "admin", **asked, dry_run=True)
    assert list(gone.removed_topics) == []
    assert pairs.store.tables.groups.find("order_paid") is not None
    await pairs.ask("Admin/DeleteGroup", "admin", **asked)
    gone = await pairs.ask("Admin/DeleteGroup", "admin", name="order", with_topics=True)
    assert list(gone.removed_topics) == [TWICE]
