"""Consumers are told their settings again when what decides them changes, and at no other time."""

import asyncio
from typing import Any, cast

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2 import consumers
from pocketmq.rpc.v2.caller import caller_of
from pocketmq.rpc.v2.client_stream import UNREAD_MAX, ClientStream
from tests.kit.official import OfficialDesk
from tests.kit.official_stream import OfficialStream, publishing, subscribing

FIFO = {"message.type": "FIFO"}


async def test_a_group_that_changes_tells_its_consumers(desk: OfficialDesk) -> None:
    groups = desk.broker.store.tables.groups
    await groups.ensure("other")
    neighbour = OfficialDesk(desk.broker, "neighbour")
    async with OfficialStream(desk) as stream, OfficialStream(neighbour) as beside:
        first = await stream.asked(subscribing("g", "orders"))
        assert not first.settings.subscription.fifo
        await beside.asked(subscribing("other", "orders"))
        await groups.update("g", GroupSettings(fifo=True))
        again = await stream.read()
        assert again.status.code == pb.OK, "the client for Python takes no others"
        first.settings.subscription.fifo = True
        assert again == first
        await groups.update("g", GroupSettings(max_attempts=3))
        assert (await stream.read()).settings.backoff_policy.max_attempts == 3
        assert await stream.is_quiet()
        assert await beside.is_quiet()


async def test_a_topic_that_becomes_fifo_tells_who_subscribes_to_it(desk: OfficialDesk) -> None:
    topics = desk.broker.store.tables.topics
    await topics.create("t", queue_count=1)
    go = OfficialDesk(desk.broker, language="GO")
    simple = subscribing("g", "orders", "t", client_type=pb.SIMPLE_CONSUMER)
    async with OfficialStream(go) as stream:
        assert (await stream.asked(simple)).settings.subscription.receive_batch_size == 32
        await topics.update("t", attributes=FIFO)
        told = (await stream.read()).settings.subscription
        assert (told.fifo, told.receive_batch_size) == (True, 1)
        await topics.update("t", attributes={})
        assert not (await stream.read()).settings.subscription.fifo


async def test_a_topic_that_is_made_or_goes_tells_who_subscribed_to_it(desk: OfficialDesk) -> None:
    topics = desk.broker.store.tables.topics
    async with OfficialStream(desk) as stream:
        assert not (await stream.asked(subscribing("g", "t"))).settings.subscription.fifo
        await topics.create("t", queue_count=1, attributes=FIFO)
        assert (await stream.read()).settings.subscription.fifo
        await topics.remove("t")
        assert not (await stream.read()).settings.subscription.fifo


async def test_what_changes_nothing_for_a_client_is_not_told(desk: OfficialDesk) -> None:
    tables = desk.broker.store.tables
    async with OfficialStream(desk) as stream:
        await stream.asked(subscribing("g", "orders", "t"))
        await tables.groups.update("g", GroupSettings(retry_queue_count=2))
        await tables.groups.update("g", GroupSettings(fifo=False, max_attempts=17))
        await tables.topics.create("t", queue_count=1)
        await tables.topics.create("elsewhere", queue_count=1, attributes=FIFO)
        await tables.groups.remove("g")
        assert await stream.is_quiet()
        await tables.groups.create("g", GroupSettings(max_attempts=5))
        assert (await stream.read()).settings.backoff_policy.max_attempts == 5


async def test_the_newest_settings_of_a_client_count(desk: OfficialDesk) -> None:
    tables = desk.broker.store.tables
    async with OfficialStream(desk) as stream:
        await stream.asked(subscribing("g", "a"))
        await stream.asked(subscribing("g", "b"))
        await tables.topics.create("a", queue_count=1, attributes=FIFO)
        assert await stream.is_quiet()
        await tables.topics.create("b", queue_count=1, attributes=FIFO)
        told = (await stream.read()).settings.subscription
        assert [entry.topic.name for entry in told.subscriptions] == ["b"]
        await stream.asked(publishing("a"))
        await tables.groups.update("g", GroupSettings(max_attempts=3))
        assert await stream.is_quiet()


async def test_who_does_not_read_is_told_the_last_change_alone(desk: OfficialDesk) -> None:
    groups = desk.broker.store.tables.groups
    async with OfficialStream(desk) as stream:
        await stream.asked(subscribing("g", "orders"))
        for attempts in range(2, 3 * UNREAD_MAX):
            await groups.update("g", GroupSettings(max_attempts=attempts))
        told = []
        while not await stream.is_quiet():
            told.append((await stream.read()).settings.backoff_policy.max_attempts)
        assert told[-1] == 3 * UNREAD_MAX - 1
        assert len(told) <= UNREAD_MAX + 1


async def test_a_change_while_an_answer_waits_is_in_that_answer(desk: OfficialDesk) -> None:
    groups = desk.broker.store.tables.groups
    async with OfficialStream(desk) as stream:
        for _ in range(UNREAD_MAX + 3):
            stream.say(subscribing("g", "orders"))
        assert not await stream.is_quiet()
        await groups.update("g", GroupSettings(max_attempts=3))
        told = [(await stream.read()).settings.backoff_policy.max_attempts]
        while not await stream.is_quiet():
            told.append((await stream.read()).settings.backoff_policy.max_attempts)
        assert told == [17] + [3] * (len(told) - 1)


async def test_nothing_is_kept_of_a_stream_that_ended(desk: OfficialDesk) -> None:
    groups = desk.broker.store.tables.groups
    before = asyncio.all_tasks()
    async with OfficialStream(desk) as stream:
        await stream.asked(subscribing("g", "orders"))
        stream.say(None)
        with pytest.raises(StopAsyncIteration):
            await stream.read()
    await groups.update("g", GroupSettings(max_attempts=3))
    async with OfficialStream(desk) as stream:
        answer = await stream.asked(subscribing("g", "orders"))
        assert answer.settings.backoff_policy.max_attempts == 3
    for _ in range(10):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_for_whom_there_is_no_room_asks_again(
    desk: OfficialDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = subscribing("g", "orders")
    monkeypatch.setattr(
        consumers, "KEPT_BYTES_MAX", 2 * (command.settings.ByteSize() + consumers.TOPIC_SIZE) - 1
    )
    groups, late = desk.broker.store.tables.groups, OfficialDesk(desk.broker, "late")
    async with OfficialStream(late) as second:
        async with OfficialStream(desk) as first:
            for stream in (first, first, second):
                assert (await stream.asked(command)).status.code == pb.OK
            await groups.update("g", GroupSettings(max_attempts=3))
            assert (await first.read()).settings.backoff_policy.max_attempts == 3
            assert await second.is_quiet()
        answer = await second.asked(command)
        assert answer.settings.backoff_policy.max_attempts == 3
        await groups.update("g", GroupSettings(max_attempts=4))
        assert (await second.read()).settings.backoff_policy.max_attempts == 4


def kept_by(consumers_: consumers.Consumers) -> tuple[Any, ...]:
    return consumers_._kept_bytes, consumers_._by_group, consumers_._by_topic


async def test_32_mib_of_settings_are_kept_and_nothing_of_who_ended(desk: OfficialDesk) -> None:
    together = consumers.Consumers(desk.broker.store.tables)
    stream = cast(ClientStream, None)
    one, other = consumers.Consumer(together, stream), consumers.Consumer(together, stream)
    caller, topics = caller_of(desk.call()), frozenset({"a", "b"})
    large = consumers.Subscribed(bytes(33_554_431 - 512 - 512), caller, "g", topics)
    small = consumers.Subscribed(b"x", caller, "g", topics)
    for taken, kept_bytes in ((large, 33_553_919), (small, 513), (large, 33_553_919)):
        one.take(taken)
        assert together._kept_bytes == kept_bytes
    other.take(small)
    assert together._kept_bytes == 33_554_432
    consumers.Consumer(together, stream).take(small)
    assert together._kept_bytes == 33_554_432
    for each in (one, other):
        each.end()
        each.end()
    assert kept_by(together) == (0, {}, {})


@pytest.mark.parametrize("max_attempts", [0, 1])
async def test_a_message_is_delivered_once_at_least(desk: OfficialDesk, max_attempts: int) -> None:
    await desk.broker.store.tables.groups.update("g", GroupSettings(max_attempts=max_attempts))
    async with OfficialStream(desk) as stream:
        answer = await stream.asked(subscribing("g", "orders"))
        assert answer.settings.backoff_policy.max_attempts == 1


async def test_who_is_told_of_a_group_that_is_gone_keeps_what_it_was_told(
    desk: OfficialDesk,
) -> None:
    groups = desk.broker.store.tables.groups
    await groups.update("g", GroupSettings(max_attempts=5, fifo=True))
    async with OfficialStream(desk) as stream:
        before = await stream.asked(subscribing("g", "orders"))
        await groups.update("g", GroupSettings(max_attempts=6, fifo=False))
        await groups.remove("g")
        assert await stream.read() == before


async def test_who_asks_while_its_group_goes_is_told_the_least(desk: OfficialDesk) -> None:
    together = consumers.Consumers(desk.broker.store.tables)
    given = subscribing("g", "orders").settings.SerializeToString()
    caller = caller_of(desk.call())
    consumer = consumers.Consumer(together, cast(ClientStream, None))
    answer = consumer.take(consumers.Subscribed(given, caller, "g", frozenset()))
    await desk.broker.store.tables.groups.remove("g")
    settings = answer().settings
    assert (settings.backoff_policy.max_attempts, settings.subscription.fifo) == (1, False)
