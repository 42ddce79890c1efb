"""The name server's requests on the broker's own port."""

import json
from typing import Any

import pytest

from tests.kit.remoting_pair import LOCAL, RemotingPair
from tests.kit.store_broker import StoreBroker


def content(body: bytes) -> Any:
    assert b" " not in body
    return json.loads(body)


async def test_a_route_has_the_queues_of_the_topic_and_the_address_that_was_reached(
    broker: StoreBroker, client: RemotingPair
) -> None:
    reply = await client.ask(105, {"topic": "orders"})
    assert reply.code == 0
    assert reply.body.decode() == (
        '{"brokerDatas":[{"brokerAddrs":{"0":"' + LOCAL + '"},"brokerName":"broker-a",'
        '"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
        '"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":2,"topicSysFlag":0,'
        '"writeQueueNums":2}]}'
    )


async def test_a_connection_without_an_address_gets_the_brokers_own(
    broker: StoreBroker, client: RemotingPair
) -> None:
    client.server.local = ""
    route = content((await client.ask(105, {"topic": "orders"})).body)
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.9:8081"}


async def test_a_missing_topic_is_not_created_by_its_query(
    broker: StoreBroker, client: RemotingPair
) -> None:
    reply = await client.ask(105, {"topic": "missing"})
    assert (reply.code, "missing" in reply.remark, reply.body) == (17, True, b"")
    assert broker.store.tables.topics.find("missing") is None


async def test_a_group_has_a_route_and_a_name_to_be_listed_by_before_its_first_retry(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.groups.ensure("readers")
    name = "%RETRY%readers"
    (queues,) = content((await client.ask(105, {"topic": name})).body)["queueDatas"]
    assert (queues["perm"], queues["readQueueNums"]) == (6, 1)
    assert name in content((await client.ask(206)).body)["topicList"]
    assert broker.store.tables.topics.find(name) is None
    assert (await client.ask(105, {"topic": "%RETRY%others"})).code == 17
    assert (await client.ask(105, {"topic": "readers"})).code == 17


async def test_the_default_topic_exists_while_topics_are_created(
    broker: StoreBroker, client: RemotingPair
) -> None:
    (queues,) = content((await client.ask(105, {"topic": "TBW102"})).body)["queueDatas"]
    assert (queues["perm"], queues["writeQueueNums"]) == (7, 2)
    broker.auto_create_topics = False
    assert (await client.ask(105, {"topic": "TBW102"})).code == 17


async def test_names_of_cluster_and_broker_have_routes_to_create_topics_by(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.auto_create_topics = False
    for name in ("DefaultCluster", "broker-a"):
        route = content((await client.ask(105, {"topic": name})).body)
        assert [one["brokerName"] for one in route["brokerDatas"]] == ["broker-a"]
        assert route["queueDatas"][0]["perm"] == 7
    assert (await client.ask(105, {"topic": "broker-b"})).code == 17


async def test_topics_in_order_have_their_queues_in_the_route_and_as_a_setting(
    broker: StoreBroker, client: RemotingPair
) -> None:
    topics = broker.store.tables.topics
    await topics.create("steps", queue_count=2)
    key = {"namespace": "ORDER_TOPIC_CONFIG", "key": "steps"}
    assert (await client.ask(101, key)).code == 22
    await topics.update("steps", order=True, write_queue_count=1)
    assert content((await client.ask(105, {"topic": "steps"})).body)["orderTopicConf"] == (
        "broker-a:1"
    )
    assert (await client.ask(101, key)).fields == {"value": "broker-a:1"}
    assert (await client.ask(101, {**key, "namespace": "other"})).code == 22


async def test_the_cluster_is_this_broker(broker: StoreBroker, client: RemotingPair) -> None:
    found = content((await client.ask(106)).body)
    assert found["clusterAddrTable"] == {"DefaultCluster": ["broker-a"]}
    assert found["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": LOCAL}


async def test_all_topics_are_listed(broker: StoreBroker, client: RemotingPair) -> None:
    await broker.store.tables.topics.create("steps", queue_count=2)
    assert content((await client.ask(206)).body) == {"topicList": ["orders", "steps"]}


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (318, "318 (UPDATE_NAMESRV_CONFIG); use pocketmq config"),
        (9_999, "9999; docs/howto/clients"),
    ],
)
async def test_other_codes_are_refused_with_what_to_use_in_their_place(
    client: RemotingPair, code: int, remark: str
) -> None:
    reply = await client.ask(code)
    assert reply.code == 3
    assert remark in reply.remark


async def test_heartbeats_of_producers_are_answered(client: RemotingPair) -> None:
    body = b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[{"groupName":"p"}]}'
    assert (await client.ask(34, {}, body)).code == 0
    assert (await client.ask(35, {"producerGroup": "p", "clientID": "c"})).code == 0
