"""A request that is asked again is stored once."""

import asyncio
from typing import Any

import pytest

from pocketmq.model import errors
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.services.admin.purge import purge_topic
from pocketmq.services.admin.topics import remove_topics
from pocketmq.services.produce import dedup
from pocketmq.services.produce.drafts import DeliveryRequest
from pocketmq.services.produce.rules import SendRules
from tests.kit.drafts import draft, drafts_of
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import BORN_HOST, STORE_HOST, until
from tests.sim.clock import FakeClock

WINDOW_MS = 60_000


def remembering(broker: StoreBroker, window_ms: int = WINDOW_MS) -> StoreBroker:
    """Turns deduplication of sends on."""
    rules = SendRules(STORE_HOST, "DefaultCluster", dedupe_window_ms=window_ms)
    broker.send.take(rules)
    return broker


async def send(broker: StoreBroker, *names: str, wait: bool = True, **fields: Any) -> Any:
    """Sends a request."""
    drafts = drafts_of(*(draft(message_id=name, **fields) for name in names), wait=wait)
    return await broker.send.send(drafts, BORN_HOST)


async def stored(broker: StoreBroker) -> list[str]:
    """Returns the ids of what lies in the log."""
    return [message.unique_key for message in await broker.messages()]


async def test_the_answer_is_that_of_the_first_time(broker: StoreBroker) -> None:
    remembering(broker)
    first = await send(broker, "a", "b")
    assert await send(broker, "a", "b") == first
    assert await stored(broker) == ["a", "b"]
    assert broker.send.repeats.answered.value == 1


async def test_other_requests_are_stored(broker: StoreBroker) -> None:
    remembering(broker)
    await send(broker, "a", "b")
    for names in (["b", "a"], ["a"], ["", ""], ["", ""]):
        await send(broker, *names)
    await send(broker, "a", topic="others")
    assert len(await stored(broker)) == 10


async def test_what_is_over_is_forgotten(broker: StoreBroker) -> None:
    remembering(broker)
    await send(broker, "a")
    broker.clock.advance(WINDOW_MS - 1)
    await send(broker, "a")
    assert await stored(broker) == ["a"]
    broker.clock.advance(1)
    await send(broker, "a")
    assert await stored(broker) == ["a", "a"]


async def test_so_many_are_known(broker: StoreBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "MESSAGES_KEPT_MAX", 3)
    remembering(broker)
    for names in (["a"], ["b", "c"], ["d"], ["b", "c"], ["a"]):
        await send(broker, *names)
    assert await stored(broker) == ["a", "b", "c", "d", "a"]


async def test_one_that_was_refused_is_tried_again(broker: StoreBroker) -> None:
    remembering(broker)
    broker.store.writing.refuse(errors.BrokerReadOnly(why="a test says so"))
    with pytest.raises(errors.BrokerReadOnly):
        await send(broker, "a")
    broker.store.writing.refuse(None)
    await send(broker, "a")
    assert await stored(broker) == ["a"]


@pytest.mark.parametrize("way", ["removed", "purged"])
async def test_one_whose_first_message_is_gone_is_stored_again(
    broker: StoreBroker, way: str
) -> None:
    remembering(broker)
    await send(broker, "a", queue_id=0)
    await broker.talking.settled()
    if way == "removed":
        await remove_topics(broker.store, ["orders"])
        await broker.store.tables.topics.create("orders", queue_count=2)
    else:
        await purge_topic(broker.store, "orders")
    again = await send(broker, "a", queue_id=0)
    assert again.result.queue_offset == 1
    assert await send(broker, "a", queue_id=0) == again


async def test_a_request_that_fails_late_leaves_the_one_that_was_made_after_its_window() -> None:
    clock = FakeClock()
    repeats: dedup.SendDedup[str] = dedup.SendDedup(clock)
    gate = asyncio.Event()

    async def fails() -> str:
        await gate.wait()
        raise errors.BrokerReadOnly(why="a test says so")

    async def stores() -> str:
        return "stored"

    key = ("orders", ("a",), ())
    first = asyncio.ensure_future(repeats.once(key, WINDOW_MS, fails))
    await asyncio.sleep(0)
    clock.advance(WINDOW_MS)
    assert await repeats.once(key, WINDOW_MS, stores) == ("stored", False)
    gate.set()
    with pytest.raises(errors.BrokerReadOnly):
        await first
    assert await repeats.once(key, WINDOW_MS, stores) == ("stored", True)


async def test_who_asks_again_while_it_is_under_way_gets_the_same_answer() -> None:
    async with store_broker(flush="sync") as broker:
        remembering(broker)
        first = asyncio.create_task(send(broker, "a"))
        second = asyncio.create_task(send(broker, "a"))
        await until(lambda: broker.store.appended > 0)
        first.cancel()
        sent = await second
        assert first.cancelled()
        assert await send(broker, "a") == sent
        assert await stored(broker) == ["a"]


async def test_messages_for_later_are_known_too(broker: StoreBroker) -> None:
    remembering(broker)
    first = await send(broker, "a", delivery=DeliveryRequest(delay_ms=9_000))
    assert await send(broker, "a", delivery=DeliveryRequest(delay_ms=9_000)) == first
    assert first.handles[0]
    assert await stored(broker) == ["a"]


async def test_the_same_ids_for_another_time_are_another_wish(broker: StoreBroker) -> None:
    remembering(broker)
    wishes = [
        DeliveryRequest(delay_ms=9_000),
        DeliveryRequest(delay_ms=8_000),
        DeliveryRequest(transactional=True),
    ]
    for _ in range(2):
        for wish in wishes:
            await send(broker, "a", delivery=wish)
    await send(broker, "a")
    assert await stored(broker) == ["a"] * 4
    assert broker.send.repeats.answered.value == 3


async def test_plain_requests_are_known_too(broker: StoreBroker) -> None:
    remembering(broker)
    named = pb.Message(topic="orders", body=b"x", message_id="ID1")
    unnamed = pb.Message(topic="orders", body=b"x")
    for messages in ([named], [named], [unnamed], [unnamed], [named, unnamed]):
        await broker.answer("SendMessage", pb.SendMessageRequest(messages=messages))
    assert len(await stored(broker)) == 1 + 2 + 2


async def test_without_a_window_everything_is_stored(broker: StoreBroker) -> None:
    await send(broker, "a")
    await send(broker, "a")
    assert await stored(broker) == ["a", "a"]


async def test_one_that_was_recalled_is_stored_again(broker: StoreBroker) -> None:
    remembering(broker)
    later = DeliveryRequest(delay_ms=9_000)
    sent = await send(broker, "a", "b", delivery=later)
    for handle, count in zip(sent.handles, (2, 4), strict=True):
        await broker.send.recall.recall("orders", handle, BORN_HOST)
        for _ in range(2):
            broker.clock.advance(1_000)
            await send(broker, "a", "b", delivery=later)
        markers = [one for one in await broker.messages() if one.tag == "_RECALL_TAG_"]
        assert len(await broker.messages()) == count + len(markers)


async def test_a_purged_message_with_a_priority_is_stored_again(broker: StoreBroker) -> None:
    remembering(broker)
    for count in (1, 2):
        for _ in range(2):
            await send(broker, "a", delivery=DeliveryRequest(priority=1))
        assert len(await stored(broker)) == count
        await broker.talking.settled()
        await purge_topic(broker.store, "orders")
