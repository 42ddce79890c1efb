"""Consumers never get purged messages: no lease, no retry and no order returns one."""

import asyncio

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import SettleStatus
from pocketmq.services.admin.lag import group_lag
from pocketmq.services.admin.purge import purge_topic
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies

WAYS = pytest.mark.parametrize("fifo", [False, True])


@WAYS
async def test_a_group_receives_what_follows(desk: ConsumeDesk, *, fifo: bool) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a", "b", "c")
    got = await desk.receive(max_messages=1)
    await purge_topic(desk.store, TOPIC)
    await desk.send("d")
    assert bodies(await desk.receive()) == ([] if fifo else ["d"])  # In order: "a" is in flight.
    await desk.ack(got)
    assert bodies(await desk.receive()) == (["d"] if fifo else [])


@WAYS
async def test_a_leased_message_is_not_redelivered(desk: ConsumeDesk, *, fifo: bool) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a", "b")
    assert bodies(await desk.receive()) == ["a", "b"]
    await purge_topic(desk.store, TOPIC)
    await desk.step(INVISIBLE_MS + 1_000)
    assert bodies(await desk.receive()) == []
    await desk.send("c")
    assert bodies(await desk.receive()) == ["c"]
    (lag,) = await group_lag(desk.store, GROUP, TOPIC, desk.consume.leased)
    assert lag.lag_messages == 1


@WAYS
async def test_a_leased_message_can_still_be_acknowledged(desk: ConsumeDesk, *, fifo: bool) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a", "b")
    got = await desk.receive()
    await purge_topic(desk.store, TOPIC)
    assert await desk.ack(got) == [SettleStatus.OK, SettleStatus.OK]
    (lag,) = await group_lag(desk.store, GROUP, TOPIC, desk.consume.leased)
    assert lag.lag_messages == 0


@WAYS
async def test_a_receive_that_is_repeated_gets_others_than_purged_messages(
    desk: ConsumeDesk, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send_grouped("a", "b")
    asked = {"client_id": "c", "attempt_id": "1"}
    assert bodies(await desk.receive(**asked)) == ["a", "b"]
    await purge_topic(desk.store, TOPIC)
    waiting = await desk.parked(**asked)
    await desk.send_grouped("c")
    async with asyncio.timeout(5):
        assert bodies(await waiting) == ["c"]


async def test_a_retry_that_waits_is_purged(desk: ConsumeDesk) -> None:
    await desk.send("a")
    await desk.receive()
    await desk.step(INVISIBLE_MS + 1_000)
    purged = await purge_topic(desk.store, TOPIC)
    assert [queue.topic for queue in purged] == [TOPIC, f"%RETRY%{GROUP}_{TOPIC}"]
    assert bodies(await desk.receive()) == []


async def test_a_broadcast_client_continues_at_the_floor(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    first = await desk.receive(broadcast=True, client_id="c", max_messages=1)
    assert bodies(first) == ["a"]
    await purge_topic(desk.store, TOPIC)
    await desk.send("d")
    assert bodies(await desk.receive(broadcast=True, client_id="c")) == ["d"]


async def test_a_new_group_begins_at_the_floor(desk: ConsumeDesk) -> None:
    await desk.send("a")
    await purge_topic(desk.store, TOPIC)
    await desk.send("b")
    assert bodies(await desk.receive(begin_ms=0)) == ["b"]
