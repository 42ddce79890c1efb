"""Lookups of messages: the same for clients and operators but for what may be read."""

import pytest

from broker.model.errors import IllegalKey, IllegalTag, MessageNotFound, SystemTopic, TopicNotFound
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.topic_access import check_client_reads, check_operator_reads
from broker.rpc.v1.query_messages import QueryMessages
from tests.fakes.call import FakeCall
from tests.fakes.store_broker import StoreBroker

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
    return QueryMessages(broker.query, broker.store.tables.topics, check=check)


def bodies(answer: pb.QueryByKeyResponse) -> list[bytes]:
    return [message.body for message in answer.messages]


async def test_a_key_finds_its_messages_newest_first(stocked: StoreBroker) -> None:
    answer = await lookups(stocked).by_key(pb.QueryByKeyRequest(topic="orders", key="k2"), CALL)
    assert bodies(answer) == [b"second", b"first"]
    assert answer.complete


async def test_an_id_finds_its_message(stocked: StoreBroker) -> None:
    request = pb.QueryByIdRequest(topic="orders", id="id-orders")
    assert (await lookups(stocked).by_id(request, CALL)).message.body == b"first"


async def test_a_tag_finds_its_messages_also_one_with_a_space(stocked: StoreBroker) -> None:
    request = pb.QueryByKeyRequest(topic="orders", key="a tag")
    assert bodies(await lookups(stocked, operator=True).by_tag(request, CALL)) == [b"first"]


async def test_clients_do_not_look_into_system_topics(stocked: StoreBroker) -> None:
    client = lookups(stocked)
    with pytest.raises(SystemTopic):
        await client.by_key(pb.QueryByKeyRequest(topic=HALF, key="k2"), CALL)
    with pytest.raises(SystemTopic):
        await client.by_id(pb.QueryByIdRequest(topic=HALF, id=f"id-{HALF}"), CALL)


async def test_operators_do(stocked: StoreBroker) -> None:
    operator = lookups(stocked, operator=True)
    assert len(bodies(await operator.by_key(pb.QueryByKeyRequest(topic=HALF, key="k2"), CALL))) == 2
    assert (
        await operator.by_id(pb.QueryByIdRequest(topic=HALF, id=f"id-{HALF}"), CALL)
    ).message.body


async def test_what_cannot_be_looked_for_is_refused(stocked: StoreBroker) -> None:
    client = lookups(stocked)
    with pytest.raises(TopicNotFound):
        await client.by_key(pb.QueryByKeyRequest(topic="nobody", key="k"), CALL)
    with pytest.raises(IllegalKey):
        await client.by_key(pb.QueryByKeyRequest(topic="orders", key=" "), CALL)
    with pytest.raises(IllegalTag):
        await client.by_tag(pb.QueryByKeyRequest(topic="orders", key="a|b"), CALL)
    with pytest.raises(MessageNotFound):
        await client.by_id(pb.QueryByIdRequest(topic="orders", id="nothing"), CALL)
