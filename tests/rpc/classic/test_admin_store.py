"""Requests of operators about consumption and the store's files."""

import json
import re
from typing import Any, Final

import pytest

from pocketmq.format.java_hash import tags_code
from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.rpc.classic.consumer import beat

KEY: Final = re.compile(r"([{,])\{([^{}]*)\}:\{")


def content(reply: Command) -> Any:
    """Returns the body of a reply; maps with object keys have the keys' texts."""
    assert reply.code == 0, reply.remark
    return json.loads(KEY.sub(lambda m: f"{m[1]}{json.dumps(m[2])}:{{", reply.body.decode()))


async def consumed(broker: StoreBroker, client: RemotingPair) -> None:
    """Stores a message each second, the last one now; a group has consumed two of three."""
    broker.auto_create_groups = True
    for body in (b"a", b"b", b"c"):
        broker.clock.advance(1_000)
        await broker.add("orders", body, TAGS="A")
    await beat(client, "readers", "orders")
    await client.ask(
        15, {"consumerGroup": "readers", "topic": "orders", "queueId": "0", "commitOffset": "2"}
    )


async def test_the_times_between_which_a_group_consumes(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await consumed(broker, client)
    now_ms = broker.clock.wall_ms()
    broker.clock.advance(5_000)
    reply = await client.ask(303, {"topic": "orders", "group": "readers"})
    first, empty = content(reply)["consumeTimeSpanSet"]
    assert first == {
        "consumeTimeStamp": now_ms - 1_000, "delayTime": 5_000, "maxTimeStamp": now_ms,
        "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "orders"},
        "minTimeStamp": now_ms - 2_000,
    }  # fmt: skip
    del empty["messageQueue"]
    assert empty == {
        "consumeTimeStamp": -1, "delayTime": 0, "maxTimeStamp": -1, "minTimeStamp": -1
    }  # fmt: skip
    assert (await client.ask(303, {"topic": "none", "group": "readers"})).code == 17


async def test_offsets_of_all_groups(broker: StoreBroker, client: RemotingPair) -> None:
    await consumed(broker, client)
    found = content(await client.ask(317, {"isOrder": "false"}))
    assert (found["brokerAddr"], found["totalDiff"], found["totalInflightDiff"]) == (
        "10.0.0.9:9876", 1, 0,
    )  # fmt: skip
    alone = content(await client.ask(208, {"consumerGroup": "readers"}))
    assert found["consumeStatsList"] == [{"readers": [alone]}]
    in_order = content(await client.ask(317, {"isOrder": "true"}))
    assert in_order["consumeStatsList"] == [{"readers": []}]


async def test_a_subscription(broker: StoreBroker, client: RemotingPair) -> None:
    await consumed(broker, client)
    found = content(await client.ask(345, {"group": "readers", "topic": "orders"}))
    assert found["subscriptionData"].pop("subVersion") >= 0
    assert found == {
        "group": "readers", "topic": "orders",
        "subscriptionData": {
            "classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*",
            "tagsSet": [], "topic": "orders",
        },
    }  # fmt: skip
    for group, topic in (("readers", "none"), ("none", "orders")):
        found = content(await client.ask(345, {"group": group, "topic": topic}))
        assert found["subscriptionData"] is None


async def test_units_of_a_consume_queue(broker: StoreBroker, client: RemotingPair) -> None:
    await consumed(broker, client)
    wanted = {"topic": "orders", "queueId": "0", "index": "1", "count": "5"}
    found = content(await client.ask(321, {**wanted, "consumerGroup": "readers"}))
    size = found["queueData"][0]["physicSize"]
    assert found.pop("subscriptionData")["subString"] == "*"
    assert found == {
        "maxQueueIndex": 3, "minQueueIndex": 0,
        "queueData": [
            {"eval": False, "physicOffset": size * number, "physicSize": size,
             "tagsCode": tags_code("A")}
            for number in (1, 2)
        ],
    }  # fmt: skip
    absent = await client.ask(321, {**wanted, "index": "3"})
    assert (content(absent)["queueData"], absent.remark) == (
        [], "Index 3 of 0@orders is not exist!",
    )  # fmt: skip
    assert (await client.ask(321, {**wanted, "topic": "none"})).code == 17
    assert (await client.ask(321, {**wanted, "queueId": "9"})).code == 1


@pytest.mark.parametrize("code", [306, 316])
async def test_what_retention_does_by_itself_succeeds(client: RemotingPair, code: int) -> None:
    assert (await client.ask(code)).code == 0


async def test_expired_files_are_deleted_soon_if_retention_is_on(
    broker: StoreBroker, client: RemotingPair
) -> None:
    assert (await client.ask(329)).code == 0
    broker.is_expiring = False
    refused = await client.ask(329)
    assert (refused.code, "retention.mode" in refused.remark) == (1, True)
