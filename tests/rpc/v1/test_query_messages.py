"""Lookups of messages: the same for clients and operators but for what may be read."""

import pytest

from pocketmq.model.errors import IllegalTag
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.topic_access import check_client_reads, check_operator_reads
from pocketmq.rpc.v1.query_messages import QueryMessages
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
CALL = FakeCall()


@pytest.fixture
async def stocked(broker: StoreBroker) -> StoreBroker:
    broker.store.tables.topics.adopt(HALF, 1)
    for topic in ("orders", HALF):
        await broker.add(topic, b"first", UNIQ_KEY=f"id-{topic}", KEYS="k1 k2", TAGS="a tag")
        await broker.add(topic, b"second", KEYS="k2")
    return broker


def lookups(broker: StoreBroker, *, operator: bool = False) -> QueryMessages:
    check = check_operator_reads if operator else check_client_reads
    return QueryMessages(broker.query, broker.store.tables, check=check)


def bodies(answer: pb.QueryByKeyResponse) -> list[bytes]:
    return [message.body for message in answer.messages]


async def test_a_tag_finds_its_messages_also_one_with_a_space(stocked: StoreBroker) -> None:
    request = pb.QueryByKeyRequest(topic="orders", key="a tag")
    assert bodies(await lookups(stocked, operator=True).by_tag(request, CALL)) == [b"first"]
    with pytest.raises(IllegalTag):
        await lookups(stocked).by_tag(pb.QueryByKeyRequest(topic="orders", key="a|b"), CALL)


async def test_operators_look_into_system_topics(stocked: StoreBroker) -> None:
    operator = lookups(stocked, operator=True)
    assert len(bodies(await operator.by_key(pb.QueryByKeyRequest(topic=HALF, key="k2"), CALL))) == 2
    assert (
        await operator.by_id(pb.QueryByIdRequest(topic=HALF, id=f"id-{HALF}"), CALL)
    ).message.body


async def test_a_page_is_as_large_as_there_is_room_for(broker: StoreBroker) -> None:
    await broker.add("orders", *[bytes(3_000)] * 4, KEYS="k")
    call = FakeCall(room=5_000)
    request = pb.QueryByKeyRequest(topic="orders", key="k")
    page = await lookups(broker).by_key(request, call)
    assert (len(page.messages), page.complete) == (2, False)
    assert call.rooms == [5_000, 5_000]
    request.page_token = page.next_page_token
    assert len((await lookups(broker).by_key(request, CALL)).messages) == 2
