"""Traced clients send what they do to RMQ_SYS_TRACE_TOPIC, in which mqadmin looks for it."""

import json
from typing import Final

import pytest

from pocketmq.format.record import decode_record
from pocketmq.model.topic import TRACE_TOPIC
from pocketmq.services.produce.rules import SendRules
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import STORE_HOST
from tests.rpc.classic.consumer import beat, bodies, pull
from tests.rpc.classic.test_send import short, text

BODY: Final = "\1".join(
    [
        "Pub", "1795696090896", "DefaultRegion", "p", "orders", "u7", "a", "k", "127.0.0.1:8081",
        "4", "3", "0", "7F00000100009FCF000000000001B3C0", "true", "192.0.2.1",
    ]
).encode() + b"\2"  # fmt: skip


def traced() -> dict[str, str]:
    """Returns the fields of a trace as AsyncTraceDispatcher sends them."""
    return short(TRACE_TOPIC, a="_INNER_TRACE_PRODUCER-p", i=text(KEYS="u7 k", UNIQ_KEY="t1"))


@pytest.mark.parametrize("creates", [True, False])
async def test_a_trace_is_stored_in_one_queue_also_where_sends_create_no_topics(
    broker: StoreBroker, client: RemotingPair, creates: bool
) -> None:
    broker.auto_create_topics = creates
    broker.send.take(SendRules(STORE_HOST, "DefaultCluster", auto_create_topics=creates))
    route = await client.ask(105, {"topic": TRACE_TOPIC})
    (queues,) = json.loads(route.body)["queueDatas"]
    assert (queues["perm"], queues["writeQueueNums"]) == (6, 1)
    for _ in range(2):
        assert (await client.ask(310, traced(), BODY)).code == 0
    assert [one.topic for one in await broker.messages()] == [TRACE_TOPIC] * 2
    assert broker.store.tables.topics.existing(TRACE_TOPIC).queue_count == 1


async def test_a_trace_with_a_delay_is_stored_too(
    broker: StoreBroker, client: RemotingPair
) -> None:
    assert (await client.ask(310, traced() | {"i": text(DELAY="1")}, BODY)).code == 0
    (parked,) = await broker.messages()
    assert parked.properties["REAL_TOPIC"] == TRACE_TOPIC


async def test_traces_are_found_by_message_id_and_key(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await client.ask(310, traced(), BODY)
    await broker.store.flush()
    await broker.talking.settled()
    for key in ("u7", "k"):
        wanted = {"topic": TRACE_TOPIC, "key": key, "maxNum": "8", "beginTimestamp": "0"}
        reply = await client.ask(12, wanted | {"endTimestamp": str(1 << 62)})
        assert reply.code == 0
        assert decode_record(reply.body).body == BODY


async def test_consumers_may_read_traces(broker: StoreBroker, client: RemotingPair) -> None:
    broker.auto_create_groups = True
    await client.ask(310, traced(), BODY)
    await broker.talking.settled()
    await beat(client, "readers", TRACE_TOPIC)
    assert bodies(await pull(client, "readers", TRACE_TOPIC, subscription="*", sysFlag="4")) == [
        BODY
    ]


async def test_other_system_topics_are_refused(client: RemotingPair) -> None:
    assert (await client.ask(310, short("SCHEDULE_TOPIC_XXXX"), b"x")).code == 13
    assert (await client.ask(105, {"topic": "OFFSET_MOVED_EVENT"})).code == 17
