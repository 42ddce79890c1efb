"""Replies reach the producer that waits for them, as RocketMQ 5.5.0 sends them."""

import json
from dataclasses import dataclass
from typing import Final

import pytest

from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import until
from tests.rpc.classic.test_send import short, text

ASKER: Final = "127.0.0.1@3572#4895526049351"
GIVEN: Final = {
    "UNIQ_KEY": "7F0000010DF44E0E2F2A836BF78A0002", "MSG_TYPE": "reply", "TTL": "10000",
    "CORRELATION_ID": "490dff05-c504-4481-ad4d-7cce33a66b2a", "REPLY_TO_CLIENT": ASKER,
}  # fmt: skip
RECORDED: Final = {
    "queueId": "0", "flag": "0", "sysFlag": "0", "reconsumeTimes": "0", "unitMode": "false",
    "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "producerGroup": "p-rep",
    "topic": "DefaultCluster_REPLY_TOPIC", "bornTimestamp": "1795696091018",
}  # fmt: skip
"""Fields of the recorded code 326 that do not depend on addresses and times."""


def reply_fields(**changed: str) -> dict[str, str]:
    """Returns the fields of a reply as the client for Java sends them."""
    usual = {"a": "p-rep", "g": "1795696091018", "i": text(**GIVEN)}
    return short("DefaultCluster_REPLY_TOPIC", **usual | changed)


@dataclass
class Exchange:
    """A producer that waits for a reply, and a consumer that sends it."""

    asker: RemotingPair
    replier: RemotingPair

    async def push(self) -> tuple[int, Command]:
        """Sends a reply; returns its number, and the request that the producer gets."""
        return self.replier.send(325, reply_fields(), b"pong"), await self.pushed()

    async def pushed(self) -> Command:
        """Returns the next request that the producer gets."""
        await until(self._has_push)
        return self.asker.asked.pop()

    def _has_push(self) -> bool:
        self.asker.take()
        return bool(self.asker.asked)

    async def answer(self, number: int) -> Command:
        """Returns the broker's answer to a reply."""
        await self.replier.settled()
        assert number in self.replier.replies
        return self.replier.replies.pop(number)


@pytest.fixture
async def exchange(broker: StoreBroker, client: RemotingPair) -> Exchange:
    beat = {"clientID": ASKER, "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
    assert (await client.ask(34, {}, json.dumps(beat).encode())).code == 0
    return Exchange(client, RemotingPair(broker.classic.service()))


async def test_the_waiting_producer_gets_the_reply(broker: StoreBroker, exchange: Exchange) -> None:
    number, push = await exchange.push()
    assert (push.code, push.body, push.is_one_way) == (326, b"pong", False)
    assert {name: push.fields[name] for name in RECORDED} == RECORDED
    now_ms = str(broker.clock.wall_ms())
    assert push.fields["storeTimestamp"] == now_ms
    assert (push.fields["bornHost"], push.fields["storeHost"]) == ("192.0.2.1:7", "10.0.0.9:9876")
    pairs = dict(pair.split("\1") for pair in push.fields["properties"].split("\2") if pair)
    assert pairs == {
        **GIVEN, "PUSH_REPLY_TIME": now_ms, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    exchange.asker.put(Command(0, {}, b"", push.opaque, flag=1))
    answer = await exchange.answer(number)
    assert (answer.code, answer.remark) == (0, "")
    assert answer.fields == {
        "queueId": "0", "msgId": "0", "TRACE_ON": "true", "MSG_REGION": "DefaultRegion",
        "queueOffset": "0",
    }  # fmt: skip
    assert await broker.messages() == []


async def test_long_names_are_served(exchange: Exchange) -> None:
    long = {
        "producerGroup": "p-rep", "topic": "DefaultCluster_REPLY_TOPIC", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1795696091018", "properties": text(**GIVEN),
    }  # fmt: skip
    number = exchange.replier.send(324, long, b"pong")
    push = await exchange.pushed()
    assert push.fields["producerGroup"] == "p-rep"
    exchange.asker.put(Command(0, {}, b"", push.opaque, flag=1))
    assert (await exchange.answer(number)).code == 0


async def test_a_producer_that_refuses_the_reply_fails_it(exchange: Exchange) -> None:
    number, push = await exchange.push()
    exchange.asker.put(Command(1, {}, b"", push.opaque, flag=1))
    answer = await exchange.answer(number)
    assert (answer.code, answer.remark) == (1, f"push reply message to {ASKER}fail.")


async def test_a_producer_that_disconnects_meanwhile_fails_the_reply(exchange: Exchange) -> None:
    number, _ = await exchange.push()
    exchange.asker.lose()
    answer = await exchange.answer(number)
    assert (answer.code, answer.remark) == (1, f"push reply message to {ASKER}fail.")


async def test_a_producer_that_is_gone_fails_the_reply(exchange: Exchange) -> None:
    exchange.asker.lose()
    answer = await exchange.replier.ask(325, reply_fields(), b"pong")
    remark = f"push reply message fail, channel of <{ASKER}> not found."
    assert (answer.code, answer.remark) == (1, remark)


async def test_a_reply_to_nobody_is_refused_as_recorded(exchange: Exchange) -> None:
    answer = await exchange.replier.ask(325, reply_fields(i=text(MSG_TYPE="reply")), b"pong")
    assert (answer.code, answer.remark) == (
        1, "reply message properties[REPLY_TO_CLIENT] is null",
    )  # fmt: skip


async def test_a_client_id_belongs_to_its_last_connection(
    broker: StoreBroker, exchange: Exchange
) -> None:
    again = RemotingPair(broker.classic.service())
    beat = {"clientID": ASKER, "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
    assert (await again.ask(34, {}, json.dumps(beat).encode())).code == 0
    exchange.asker.lose()
    number, push = await Exchange(again, exchange.replier).push()
    again.put(Command(0, {}, b"", push.opaque, flag=1))
    assert (await exchange.answer(number)).code == 0


async def test_producers_find_the_topic_of_replies(client: RemotingPair) -> None:
    reply = await client.ask(105, {"topic": "DefaultCluster_REPLY_TOPIC"})
    (queues,) = json.loads(reply.body)["queueDatas"]
    assert (reply.code, queues["writeQueueNums"]) == (0, 1)
