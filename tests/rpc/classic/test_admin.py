"""Requests of mqadmin, RocketMQ Dashboard and the exporter that change nothing."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.model.step import Now
from pocketmq.rpc.classic.admin.clients import BODY_SIZE_MAX
from pocketmq.wire.remoting import RESPONSE, Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker, store_broker
from tests.rpc.classic.consumer import beat, pull

EXPORTED: Final = frozenset(
    """autoCreateSubscriptionGroup autoCreateTopicEnable brokerClusterName brokerId brokerName
    brokerRole fileReservedTime filterServerNums flushDiskType maxMessageSize messageDelayLevel
    msgTraceTopicName slaveReadEnable traceOn traceTopicEnable useTLS""".split()
)
"""Names that mqadmin exportConfigs of 5.5.0 asks for."""
_KEY: Final = re.compile(r"([{,])\{([^{}]*)\}:\{")


def content(reply: Command) -> Any:
    """Returns the body of a reply; maps with object keys have the keys' texts."""
    assert reply.code == 0, reply.remark
    text = reply.body.decode()
    return json.loads(_KEY.sub(lambda m: f"{m[1]}{json.dumps(m[2])}:{{", text))


async def consumed(broker: StoreBroker, client: RemotingPair) -> None:
    """Stores three messages, of which a group has consumed two."""
    broker.auto_create_groups = True
    await broker.add("orders", b"a", b"b", b"c")
    await beat(client, "readers", "orders")
    await client.ask(
        15, {"consumerGroup": "readers", "topic": "orders", "queueId": "0", "commitOffset": "2"}
    )


async def test_topics_have_the_members_of_rocketmqs(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.topics.create("steps", queue_count=3)
    reply = await client.ask(21, {"topicSeq": "0", "dataVersion": "", "maxTopicNum": "2000"})
    assert reply.fields == {"totalTopicNum": "2"}
    found = content(reply)
    assert found.keys() == {"dataVersion", "mappingDataVersion", "topicConfigTable"}
    expected = {
        "attributes": {"message.type": "NORMAL"}, "order": False, "perm": 6, "readQueueNums": 3,
        "topicFilterType": "SINGLE_TAG", "topicName": "steps", "topicSysFlag": 0,
        "writeQueueNums": 3,
    }  # fmt: skip
    shown = found["topicConfigTable"]["steps"]
    assert shown.keys() == expected.keys()
    assert {**shown, "attributes": expected["attributes"]} == expected
    assert content(await client.ask(351, {"topic": "steps", "lo": "true"})) == shown
    assert (await client.ask(351, {"topic": "none"})).code == 17
    page = content(await client.ask(21, {"topicSeq": "1", "maxTopicNum": "1"}))
    assert [*page["topicConfigTable"]] == ["steps"]


async def test_the_retry_topic_of_a_group_is_there_before_its_first_message(
    broker: StoreBroker, client: RemotingPair
) -> None:
    """rocketmq-exporter asks for the offsets and settings of each topic in the list."""
    await broker.store.tables.groups.create("idle", GroupSettings(retry_queue_count=2))
    topic = {"topic": "%RETRY%idle"}
    assert topic["topic"] in content(await client.ask(206))["topicList"]
    assert content(await client.ask(105, topic))["queueDatas"][0]["readQueueNums"] == 2
    assert content(await client.ask(351, topic))["writeQueueNums"] == 2
    rows = content(await client.ask(202, topic))["offsetTable"]
    assert [row["maxOffset"] for row in rows.values()] == [0, 0]
    for code in (105, 202, 351):
        assert (await client.ask(code, {"topic": "%RETRY%none"})).code == 17


async def test_groups_have_the_members_of_rocketmqs(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.groups.create("readers", GroupSettings(max_attempts=4))
    reply = await client.ask(201, {"groupSeq": "0", "dataVersion": "", "maxGroupNum": "2000"})
    assert reply.fields == {"totalGroupNum": "1"}
    shown = content(reply)["subscriptionGroupTable"]["readers"]
    assert shown == {
        "attributes": {}, "brokerId": 0, "consumeBroadcastEnable": True, "consumeEnable": True,
        "consumeFromMinEnable": True, "consumeMessageOrderly": False, "consumeTimeoutMinute": 15,
        "groupName": "readers", "groupRetryPolicy": {"type": "CUSTOMIZED"}, "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True, "retryMaxTimes": 3, "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }  # fmt: skip
    assert content(await client.ask(352, {"group": "readers"})) == shown
    assert (await client.ask(352, {"group": "none"})).code == 26


async def test_a_question_for_a_missing_group_creates_it_where_groups_are_created_on_demand(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.auto_create_groups = True
    assert content(await client.ask(352, {"group": "new"}))["groupName"] == "new"
    assert broker.store.tables.groups.find("new") is not None
    assert (await client.ask(352, {"group": "no such name!"})).code == 1


async def test_offsets_are_in_maps_with_object_keys(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await consumed(broker, client)
    stats = await client.ask(202, {"topic": "orders"})
    assert stats.body.startswith(
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:'
        b'{"lastUpdateTimestamp":'
    )
    first, empty = content(stats)["offsetTable"].values()
    assert (first["minOffset"], first["maxOffset"]) == (0, 3)
    assert empty == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    lag = content(await client.ask(208, {"consumerGroup": "readers"}))["offsetTable"]
    first, empty = lag.values()
    assert first == {
        "brokerOffset": 3, "consumerOffset": 2, "pullOffset": 2,
        "lastTimestamp": content(stats)["offsetTable"][next(iter(lag))]["lastUpdateTimestamp"],
    }  # fmt: skip
    assert empty == {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0, "pullOffset": 0}
    assert content(await client.ask(300, {"topic": "orders"})) == {"groupList": ["readers"]}
    assert content(await client.ask(343, {"group": "readers"})) == {"topicList": ["orders"]}
    assert content(await client.ask(208, {"consumerGroup": "none"}))["offsetTable"] == {}


async def test_connected_clients_are_listed(broker: StoreBroker, client: RemotingPair) -> None:
    await consumed(broker, client)
    found = content(await client.ask(203, {"consumerGroup": "readers"}))
    (connection,) = found.pop("connectionSet")
    assert connection == {
        "clientAddr": "192.0.2.1:7", "clientId": "c1", "language": "JAVA", "version": 513,
    }  # fmt: skip
    assert found["subscriptionTable"].pop("orders")["subString"] == "*"
    assert found == {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING", "subscriptionTable": {},
    }  # fmt: skip
    assert (await client.ask(203, {"consumerGroup": "none"})).code == 206
    inner = "CLIENT_INNER_PRODUCER"
    assert content(await client.ask(204, {"producerGroup": inner}))["connectionSet"] == [connection]
    assert (await client.ask(204, {"producerGroup": "none"})).code == 1
    (producer,) = content(await client.ask(328))["data"][inner]
    assert producer["remoteIP"] == "/192.0.2.1:7"
    assert producer["lastUpdateTimestamp"] == broker.clock.wall_ms()


async def test_a_question_reaches_the_client_and_its_answer_the_operator(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await consumed(broker, client)
    client.asked.clear()
    fields = {"consumerGroup": "readers", "clientId": "c1", "jstackEnable": "true"}
    number = client.send(307, {**fields, "AccessKey": "a", "Signature": "s"})
    await client.settled()
    (asked,) = client.asked
    assert (asked.code, asked.fields) == (307, fields)
    client.put(Command(0, {}, b"{}", asked.opaque, RESPONSE))
    await client.settled()
    assert client.replies[number].body == b"{}"
    refused = await client.ask(307, {**fields, "clientId": "c2"})
    assert (refused.code, "not online" in refused.remark) == (1, True)


async def test_a_clients_answer_that_fits_no_frame_is_an_error_to_the_operator(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await consumed(broker, client)
    fields, replies = {"consumerGroup": "readers", "clientId": "c1"}, []
    for size in (BODY_SIZE_MAX, BODY_SIZE_MAX + 1):
        client.asked.clear()
        number = client.send(307, fields)
        await client.settled()
        client.put(
            Command(0, {"threads": "\1" * 40_000}, bytes(size), client.asked[0].opaque, RESPONSE)
        )
        await client.idle()
        await client.settled()
        replies.append(client.replies[number])
    assert (replies[0].code, len(replies[0].body)) == (0, BODY_SIZE_MAX)
    assert (replies[1].code, replies[1].body) == (1, b"")
    assert f"answered with a body of {BODY_SIZE_MAX + 1} bytes" in replies[1].remark


async def test_the_broker_describes_itself(broker: StoreBroker, client: RemotingPair) -> None:
    await consumed(broker, client)
    table = content(await client.ask(28))["table"]
    assert table["commitLogMaxOffset"] == str(broker.store.appended)
    first = (await broker.messages())[0]
    assert table["earliestMessageTimeStamp"] == str(first.store_timestamp_ms)
    assert (table["brokerVersion"], table["putMessageDistributeTime"]) == ("513", "null")
    assert len(table["putTps"].split()) == len(table["getTotalTps"].split()) == 3
    lines = (await client.ask(26)).body.decode().splitlines()
    assert {"store.flush=async", "brokerName=broker-a", "brokerPermission=6"} <= {*lines}
    assert {"fileReservedTime=72", "maxMessageSize=4194304", "timerMaxDelaySec=86400"} <= {*lines}
    names = {line.partition("=")[0] for line in lines}
    assert names >= EXPORTED
    assert len(names) == len(lines)
    assert content(await client.ask(907))["masterCommitLogMaxOffset"] == broker.store.appended
    assert (await client.ask(319)).body.endswith(b"\n")


async def test_bytes_count_from_the_start_as_messages_do(tmp_path: Path) -> None:
    async with store_broker(tmp_path) as first:
        first.store.tables.topics.adopt("orders", 1)
        await first.add("orders", b"before")
    async with store_broker(tmp_path) as broker:
        begun = broker.store.appended
        client = RemotingPair(broker.classic.service())
        await broker.add("orders", b"after")
        table = content(await client.ask(28))["table"]
        assert table["putMessageSizeTotal"] == str(broker.store.appended - begun)
        client.server.cut_off()
    assert begun > 0


async def test_an_empty_log_has_no_earliest_message(client: RemotingPair) -> None:
    assert content(await client.ask(28))["table"]["earliestMessageTimeStamp"] == "-1"


async def test_lists_of_names(broker: StoreBroker, client: RemotingPair) -> None:
    assert content(await client.ask(304))["topicList"] == ["broker-a", "DefaultCluster"]
    assert content(await client.ask(305)) == {"topicList": []}
    assert content(await client.ask(224, {"cluster": "DefaultCluster"})) == {
        "topicList": ["orders"]
    }
    for code in (311, 312, 313):
        assert content(await client.ask(code)) == {"topicList": []}


# -- statistics ------------------------------------------------------------------------------------
@pytest.mark.parametrize("window", ["statsMinute", "statsHour", "statsDay"])
async def test_messages_of_a_window_are_counted(
    broker: StoreBroker, client: RemotingPair, window: str
) -> None:
    wanted = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "orders"}
    assert (await client.ask(315, wanted)).code == 1
    rates = broker.rates
    intervals = {"statsMinute": 70, "statsHour": 4_200, "statsDay": 90_000}

    def pass_s(seconds: int) -> None:
        for _ in range(0, seconds, 10):
            broker.clock.advance(10_000)
            rates.step(Now(broker.clock.monotonic_ms(), broker.clock.wall_ms()))

    broker.send.counts.count("orders", "normal", 6, 600)
    pass_s(10)
    shown = content(await client.ask(315, wanted))[window]
    assert shown == {"avgpt": 1.0, "sum": 6, "tps": pytest.approx(0.6)}
    sizes = content(await client.ask(315, {**wanted, "statsName": "TOPIC_PUT_SIZE"}))[window]
    assert (sizes["sum"], sizes["avgpt"]) == (600, 100.0)
    pass_s(intervals[window])
    shown = content(await client.ask(315, wanted))[window]
    assert shown == {"avgpt": 0.0, "sum": 0, "tps": 0.0}


async def test_statistics_contain_the_last_message(
    broker: StoreBroker, client: RemotingPair
) -> None:
    wanted = {"statsName": "GROUP_GET_NUMS", "statsKey": "orders@readers"}
    await consumed(broker, client)
    await pull(client, "readers", "orders", sysFlag="4", subscription="*")
    assert content(await client.ask(315, wanted))["statsDay"]["sum"] == 3
    await pull(client, "readers", "orders", sysFlag="4", subscription="*")
    assert content(await client.ask(315, wanted))["statsDay"]["sum"] == 6
