"""Deliveries that do not count as attempts: suspended ones, and those of before a dead letter."""

import pytest

from pocketmq.format.record import decode_record
from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import Received, SettleStatus
from pocketmq.model.topic import dead_letter_topic
from tests.kit.consuming import GROUP, INVISIBLE_MS, ConsumeDesk, bodies, statuses
from tests.kit.consuming import TOPIC as ORDERS

either_way = pytest.mark.parametrize("fifo", [False, True], ids=["plainly", "in-order"])
DEAD = dead_letter_topic(GROUP)
READERS = "readers"


async def suspended(desk: ConsumeDesk, received: Received, for_ms: int = 5_000) -> None:
    entries = [(handle, for_ms) for handle in received.handles]
    settled = await desk.consume.change_invisible(GROUP, ORDERS, entries, is_suspended=True)
    assert statuses(settled) == [SettleStatus.OK] * len(entries)


@either_way
async def test_a_suspended_delivery_is_no_attempt(desk: ConsumeDesk, fifo: bool) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(max_attempts=2, fifo=fifo))
    await desk.send("a")
    for _ in range(4):
        received = await desk.receive()
        assert (bodies(received), received.attempts) == (["a"], [1])
        await suspended(desk, received)
        assert (await desk.receive()).records == []
        await desk.step(5_000)
    for attempt in (1, 2):
        assert (await desk.receive()).attempts == [attempt]
        await desk.step(INVISIBLE_MS)
    assert (await desk.receive()).records == []
    assert await desk.talking.pulled(DEAD) == ["a"]


@either_way
async def test_a_time_that_is_changed_without_suspending_counts(
    desk: ConsumeDesk, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a")
    first = await desk.receive()
    await suspended(desk, first)
    await desk.step(5_000)
    again = await desk.receive()
    await desk.consume.change_invisible(GROUP, ORDERS, [(again.handles[0], 5_000)])
    await desk.step(5_000)
    assert (await desk.receive()).attempts == [2]


@either_way
async def test_who_reads_dead_letters_begins_with_the_first_attempt(
    desk: ConsumeDesk, fifo: bool
) -> None:
    groups = desk.store.tables.groups
    await groups.update(GROUP, GroupSettings(max_attempts=3))
    await groups.ensure(READERS)
    await groups.update(READERS, GroupSettings(max_attempts=3, begins_at_min=True, fifo=fifo))
    await desk.send("a")
    for _ in range(3):
        await desk.receive()
        await desk.step(INVISIBLE_MS)
    assert await desk.talking.pulled(DEAD) == ["a"]
    for attempt in (1, 2, 3):
        received = await desk.receive(group=READERS, topic=DEAD)
        assert (bodies(received), received.attempts) == (["a"], [attempt])
        await desk.step(INVISIBLE_MS)
    assert (await desk.receive(group=READERS, topic=DEAD)).records == []
    assert await desk.talking.pulled(dead_letter_topic(READERS)) == ["a"]


async def test_a_dead_letter_that_is_sent_back_waits_as_after_the_first_attempt(
    desk: ConsumeDesk,
) -> None:
    groups = desk.store.tables.groups
    await groups.update(GROUP, GroupSettings(max_attempts=1))
    await groups.ensure(READERS)
    await groups.update(READERS, GroupSettings(max_attempts=3, begins_at_min=True))
    await desk.send("a")
    await desk.receive()
    await desk.step(INVISIBLE_MS)
    received = await desk.receive(group=READERS, topic=DEAD)
    assert decode_record(received.records[0]).reconsume_times == 1, "it lies as RocketMQ has it"
    await desk.consume.send_back(READERS, DEAD, [(received.handles[0], 0)])
    await desk.settled()
    waiting = desk.store.tables.topics.find("SCHEDULE_TOPIC_XXXX")
    assert waiting is not None
    lengths = [
        desk.store.reading.queue_range(waiting.name, queue_id)[1]
        for queue_id in range(waiting.queue_count)
    ]
    assert lengths.index(1) == 2, "level 3, as after the first attempt"
