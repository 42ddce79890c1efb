"""ListProducers: clients that name a topic in their settings, and senders of its last messages."""

import json

import pytest

from pocketmq.model.errors import TopicNotFound
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.services.admin.senders import LAST
from tests.kit.call import FakeCall
from tests.kit.official import OfficialDesk, sent
from tests.kit.official_stream import OfficialStream, publishing
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.rpc.classic.consumer import heartbeat

SEND = {"a": "shop", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}


async def listed(
    broker: StoreBroker, topic: str = "orders", call: FakeCall | None = None
) -> list[tuple[str, str, list[str], bool]]:
    """Returns address, client id, groups of each producer, and whether a message was found."""
    asked = pb.ListProducersRequest(topic=topic)
    answer = await broker.admin.list_producers(asked, call or FakeCall())
    return [
        (one.address, one.client_id, [*one.groups], one.sent_ms > 0) for one in answer.producers
    ]


async def test_a_producer_that_names_the_topic_is_listed_before_and_after_its_messages(
    broker: StoreBroker,
) -> None:
    desk = OfficialDesk(broker)
    async with OfficialStream(desk) as stream:
        await stream.asked(publishing("orders"))
        assert await listed(broker) == [("10.0.0.7:4711", "host@1@2@x", [], False)]
        await desk.ask("SendMessage", sent("orders", b"x"))
        await broker.talking.settled()
        answer = await broker.admin.list_producers(
            pb.ListProducersRequest(topic="orders"), FakeCall()
        )
        (found,) = answer.producers
        assert (found.language, found.version) == ("JAVA", "5.2.0")
        assert found.sent_ms == broker.clock.wall_ms()
        await stream.asked(publishing("more"))
        assert await listed(broker) == [("10.0.0.7:4711", "", [], True)]
    assert await listed(broker) == [("10.0.0.7:4711", "", [], True)]


async def test_a_classic_client_is_a_producer_of_the_topics_to_which_it_sent(
    broker: StoreBroker,
) -> None:
    client = RemotingPair(broker.classic.service())
    beat = json.loads(heartbeat("readers", "orders", id="10.0.0.4@7"))
    beat["producerDataSet"] = [{"groupName": "shop"}, {"groupName": "bank"}]
    beat["consumerDataSet"] = []
    await client.ask(34, {}, json.dumps(beat).encode())
    assert await listed(broker) == []
    assert (await client.ask(310, SEND, b"hello")).code == 0
    await broker.talking.settled()
    assert await listed(broker) == [("192.0.2.1:7", "10.0.0.4@7", ["bank", "shop"], True)]
    call = FakeCall()
    call.may = lambda need: need.name != "bank"
    assert await listed(broker, call=call) == [("192.0.2.1:7", "10.0.0.4@7", ["shop"], True)]
    client.server.cut_off()
    assert await listed(broker) == [("192.0.2.1:7", "", [], True)]


async def test_only_the_last_messages_of_each_queue_name_senders(broker: StoreBroker) -> None:
    await broker.add("orders", b"first", queue_id=1)
    client = RemotingPair(broker.classic.service())
    for _ in range(LAST):
        assert (await client.ask(310, SEND, b"x")).code == 0
    await broker.talking.settled()
    assert [one[0] for one in await listed(broker)] == ["10.0.0.7:4711", "192.0.2.1:7"]
    for _ in range(LAST):
        assert (await client.ask(310, {**SEND, "e": "1"}, b"x")).code == 0
    await broker.talking.settled()
    assert [one[0] for one in await listed(broker)] == ["192.0.2.1:7"]
    client.server.cut_off()


async def test_an_unknown_topic_is_refused(broker: StoreBroker) -> None:
    with pytest.raises(TopicNotFound):
        await listed(broker, "unknown")
