"""Receives that wait, and those who run the broker: offsets set back, groups and topics removed."""

import asyncio

import pytest

from pocketmq.model.administration import GroupSettings, ResetTarget
from pocketmq.model.consuming import SettleStatus
from pocketmq.model.errors import GroupDisabled, GroupNotFound, TopicNotFound, TopicNotReadable
from pocketmq.model.topic import PERMISSION_READ, PERMISSION_WRITE
from pocketmq.services.admin.groups import delete_group
from pocketmq.services.admin.positions import reset_offsets, set_offsets
from pocketmq.services.admin.topics import delete_topic
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies, statuses
from tests.kit.store_language import turns


@pytest.mark.parametrize("fifo", [False, True])
async def test_who_waits_gets_what_an_offset_set_back_brings_again(
    desk: ConsumeDesk, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a", "b")
    await desk.ack(await desk.receive())
    waiting = await desk.parked()
    await reset_offsets(desk.store, GROUP, TOPIC, ResetTarget(queue_offset=1), queue_ids=[0])
    await desk.step()
    assert bodies(await waiting) == ["b"]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_the_same_goes_for_retries(desk: ConsumeDesk, *, is_shared: bool) -> None:
    await desk.send("a")
    got = await desk.receive()
    if is_shared:
        await desk.consume.send_back(GROUP, TOPIC, [(got.handles[0], 1)])
        name = f"%RETRY%{GROUP}"
        await desk.send("sent back", topic=name)
    else:
        await desk.step(INVISIBLE_MS)
        name = f"%RETRY%{GROUP}_{TOPIC}"
    again = await desk.receive()
    await desk.ack(again)
    assert len(again.records) == 1
    waiting = await desk.parked()
    await set_offsets(desk.store, GROUP, name, [(0, 0)])
    await desk.step()
    assert (await waiting).records == again.records


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("what", ["group", "topic"])
async def test_who_waits_for_what_is_removed_is_told(
    desk: ConsumeDesk, what: str, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    waiting = [await desk.parked() for _ in range(3)]
    if what == "group":
        await delete_group(desk.store, GROUP, with_topics=False)
    else:
        await delete_topic(desk.store, TOPIC)
    await desk.step()
    error = GroupNotFound if what == "group" else TopicNotFound
    for one in waiting:
        with pytest.raises(error):
            await one
    assert desk.consume.waiter_count == 0
    left = desk.store.tables.offsets.all_of(GROUP)
    assert (TOPIC not in left) if what == "topic" else (left == {})


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_group_that_is_turned_off_settles_what_it_has(
    desk: ConsumeDesk, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send_grouped("a", "b", "c", "d", "e")
    got = await desk.receive(max_messages=4)
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo, enabled=False))
    consume, (one, two, three, four) = desk.consume, got.handles
    settled = [
        *await consume.ack(GROUP, TOPIC, [one]),
        *await consume.change_invisible(GROUP, TOPIC, [(two, 5_000)]),
        *await consume.send_back(GROUP, TOPIC, [(three, 1)]),
        *await consume.forward_to_dead_letters(GROUP, TOPIC, [four]),
    ]
    assert statuses(settled) == [SettleStatus.OK] * 4
    assert desk.in_flight == 1
    with pytest.raises(GroupDisabled):
        await desk.receive()


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("what", ["group", "topic"])
async def test_who_waits_as_its_group_or_topic_is_turned_off_gets_no_message(
    desk: ConsumeDesk, what: str, *, fifo: bool
) -> None:
    tables, settings = desk.store.tables, GroupSettings(fifo=fifo)
    await tables.groups.update(GROUP, settings)
    waiting = await desk.parked()
    if what == "group":
        await tables.groups.update(GROUP, settings._replace(enabled=False))
    else:
        await tables.topics.update(TOPIC, permission=PERMISSION_WRITE)
    await desk.send("a")
    assert not waiting.done()
    await desk.step()
    await turns()
    assert isinstance(waiting.exception(), GroupDisabled if what == "group" else TopicNotReadable)
    await tables.groups.update(GROUP, settings._replace(enabled=True))
    await tables.topics.update(TOPIC, permission=PERMISSION_READ | PERMISSION_WRITE)
    assert bodies(await desk.receive()) == ["a"]


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_removed_group_leaves_nothing_in_memory(desk: ConsumeDesk, *, fifo: bool) -> None:
    await desk.send("a")
    first = await desk.receive()  # Another group, which stays.
    tables, lease, order = desk.store.tables, desk.consume._lease.table, desk.consume._fifo.table
    before = len(lease.queues), len(order._queues), len(desk.consume._targets)
    for number in range(3):
        name = f"group-{number}"
        await tables.groups.create(name, GroupSettings(fifo=fifo))
        got = await desk.receive(group=name)
        assert bodies(got) == ["a"]
        if number:  # The first one leaves an open lease.
            await desk.consume.ack(name, TOPIC, got.handles)
        await delete_group(desk.store, name, with_topics=True)
        await desk.step()
    await desk.step(INVISIBLE_MS - 1)
    left = [key for key in lease.queues if key[0] not in (GROUP, "group-0")]
    assert (left, len(desk.consume._targets)) == ([], before[2])
    assert len(order._queues) == before[1]
    await tables.groups.create("group-1", GroupSettings(fifo=fifo))
    again = await desk.receive(group="group-1")
    assert statuses(await desk.consume.ack("group-1", TOPIC, again.handles)) == [SettleStatus.OK]
    assert await desk.ack(first) == [SettleStatus.OK]


async def test_a_client_of_a_broadcast_gets_no_message_of_a_group_that_is_turned_off(
    desk: ConsumeDesk,
) -> None:
    waiting = await desk.parked(broadcast=True, client_id="c")
    await desk.store.tables.groups.update(GROUP, GroupSettings(enabled=False))
    await desk.send("a")
    async with asyncio.timeout(5):
        with pytest.raises(GroupDisabled):
            await waiting


@pytest.mark.parametrize("is_retried", [False, True])
async def test_a_lease_of_a_removed_topic_brings_no_topic_back(
    desk: ConsumeDesk, caplog: pytest.LogCaptureFixture, *, is_retried: bool
) -> None:
    await desk.send("a")
    await desk.receive()
    if is_retried:
        await desk.step(INVISIBLE_MS)
        assert bodies(await desk.receive()) == ["a"]
    await delete_topic(desk.store, TOPIC)
    there = set(desk.store.tables.topics.names())
    await desk.step(INVISIBLE_MS)
    assert desk.in_flight == 0
    assert not {TOPIC, f"%RETRY%{GROUP}_{TOPIC}"} & set(desk.store.tables.topics.names())
    assert set(desk.store.tables.topics.names()) == there
    assert "lease.discarded" in [one.message for one in caplog.records]


async def test_a_message_that_comes_as_its_group_goes_makes_no_new_offset(
    desk: ConsumeDesk,
) -> None:
    waiting = await desk.parked()
    await desk.store.tables.groups.remove(GROUP)
    await desk.send("a")
    await turns()
    await desk.store.tables.offsets.remove_group(GROUP)
    await desk.send("b")
    await turns()
    assert desk.store.tables.offsets.all_of(GROUP) == {}
    await desk.step()
    with pytest.raises(GroupNotFound):
        await waiting
