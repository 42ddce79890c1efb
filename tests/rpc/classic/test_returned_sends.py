"""Sends to a group's retry topic, which consumers make if a message cannot be sent back."""

import json
from typing import Final

import pytest

from pocketmq.model.topic import dead_letter_topic, retry_topic
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.rpc.classic.consumer import beat
from tests.rpc.classic.test_send import short, text

PROPERTIES: Final = {"UNIQ_KEY": "u1", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "u0"}


def again(times: int, most: int | None = 16, **more: str) -> dict[str, str]:
    """Returns the fields of a send to the retry topic of the group g."""
    fields = short(retry_topic("g"), i=text(**PROPERTIES, **more), j=str(times))
    return fields if most is None else fields | {"l": str(most)}


@pytest.fixture
async def client(client: RemotingPair, broker: StoreBroker) -> RemotingPair:
    """A member of the group g."""
    broker.auto_create_groups = True
    assert (await beat(client, "g", "orders", retry_topic("g"))).code == 0
    return client


async def test_the_retry_waits_on_its_delay_level(
    broker: StoreBroker, client: RemotingPair
) -> None:
    assert (await client.ask(310, again(1, DELAY="4"), b"a")).code == 0
    (parked,) = await broker.messages()
    assert (parked.topic, parked.queue_id, parked.reconsume_times) == ("SCHEDULE_TOPIC_XXXX", 3, 1)
    assert parked.properties["REAL_TOPIC"] == retry_topic("g")
    assert parked.properties["RETRY_TOPIC"] == "orders"


async def test_the_retry_without_a_level_is_stored_at_once(
    broker: StoreBroker, client: RemotingPair
) -> None:
    assert (await client.ask(310, again(2), b"a")).code == 0
    (message,) = await broker.messages()
    assert (message.topic, message.queue_id, message.reconsume_times) == (retry_topic("g"), 0, 2)


@pytest.mark.parametrize(("times", "most"), [(3, 2), (1, 0), (17, None)])
async def test_after_the_last_retry_it_is_a_dead_letter(
    broker: StoreBroker, client: RemotingPair, times: int, most: int | None
) -> None:
    groups = broker.store.tables.groups
    await groups.update("g", groups.existing("g").settings._replace(max_attempts=17))
    assert (await client.ask(310, again(times, most, DELAY="5"), b"a")).code == 0
    (letter,) = await broker.messages()
    assert (letter.topic, letter.reconsume_times) == (dead_letter_topic("g"), times)
    assert letter.properties["RETRY_TOPIC"] == "orders"
    assert "DELAY" not in letter.properties


@pytest.mark.parametrize(("times", "most"), [(2, 2), (16, None)])
async def test_the_last_retry_itself_is_none(
    broker: StoreBroker, client: RemotingPair, times: int, most: int | None
) -> None:
    groups = broker.store.tables.groups
    await groups.update("g", groups.existing("g").settings._replace(max_attempts=17))
    assert (await client.ask(310, again(times, most), b"a")).code == 0
    assert (await broker.messages())[0].topic == retry_topic("g")


async def test_a_group_that_consumes_in_order_has_no_retries(
    broker: StoreBroker, client: RemotingPair
) -> None:
    queue = {"topic": "orders", "brokerName": "broker-a", "queueId": 0}
    body = {"consumerGroup": "g", "clientId": "c1", "mqSet": [queue]}
    assert (await client.ask(41, {}, json.dumps(body).encode())).code == 0
    assert (await client.ask(310, again(16, DELAY="5"), b"a")).code == 0
    assert (await broker.messages())[0].topic == dead_letter_topic("g")


async def test_dead_letters_cannot_be_sent_by_clients(client: RemotingPair) -> None:
    assert (await client.ask(310, short(dead_letter_topic("g")), b"a")).code == 13


async def test_a_group_that_does_not_exist_gets_code_26(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.auto_create_groups = False
    assert (await client.ask(310, short(retry_topic("other")), b"a")).code == 26
