"""How far a group is behind: administration and metrics say the same, leases included."""

import asyncio

import pytest

from pocketmq.metrics.lag import Lag, Queues
from pocketmq.metrics.numbers import known_queues, retries_of_groups
from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import Leased
from pocketmq.model.system_topics import lease_retry_topic
from pocketmq.services.admin.lag import GROUPS_PIECE, all_lags, group_lag, lag_sums
from tests.kit.consuming import GROUP, TOPIC, ConsumeDesk
from tests.kit.store_language import turns

LABELS = (GROUP, TOPIC, "false", "false")
COUNT, READY = "rocketmq_consumer_lag_messages", "rocketmq_consumer_ready_messages"


async def lags(desk: ConsumeDesk) -> tuple[float, float, float]:
    """Returns (lag as administration has it, lag and ready messages as metrics have them)."""
    store = desk.store
    (topic,) = await group_lag(store, GROUP, TOPIC, desk.consume.leased)
    lag = Lag(
        store.reading.queue_range,
        store.reading.store_timestamp_at,
        store.tables.offsets.positions,
        desk.clock.wall_ms,
        read_leased=desk.consume.leased,
    )
    await lag.refresh()
    shown: dict[str, float] = {}
    for gauge in lag.gauges:
        rows = gauge.read()
        assert isinstance(rows, dict)
        shown[gauge.name] = rows[LABELS]
    assert shown["rocketmq_consumer_lag_latency_milliseconds"] == topic.lag_ms
    return topic.lag_messages, shown[COUNT], shown[READY]


async def test_leases_are_left_in_both(desk: ConsumeDesk) -> None:
    await desk.send(*"abcde")
    got = await desk.receive(max_messages=3)
    desk.clock.advance(1_000)
    assert await lags(desk) == (5, 5, 2)
    await desk.ack(got)
    assert await lags(desk) == (2, 2, 2)


async def test_a_queue_that_was_added_counts_from_its_first_message(desk: ConsumeDesk) -> None:
    tables = desk.store.tables
    await tables.groups.update(GROUP, GroupSettings(begin="max"))
    await desk.send("old")
    assert (await desk.receive()).records == []
    await tables.topics.update(TOPIC, read_queue_count=3, write_queue_count=3)
    await desk.send("new", queue_id=2)
    assert (await lag_sums(desk.store, [GROUP]))[GROUP].lag_messages == 1
    assert known_queues(tables, GROUP, TOPIC) == Queues(3, begins_at_min=True)


async def test_what_waits_for_its_first_redelivery_is_left_in_both(desk: ConsumeDesk) -> None:
    await desk.send(*"abc")
    await desk.receive(max_messages=2, invisible_ms=10_000)
    await desk.step(by_ms=11_000)
    retries = lease_retry_topic(GROUP, TOPIC)
    found = await group_lag(desk.store, GROUP, read_leased=desk.consume.leased)
    assert {one.topic: one.lag_messages for one in found} == {TOPIC: 1, retries: 2}
    page = await all_lags(desk.store)
    assert [(one.topic, one.lag_messages) for one in page.items] == [(retries, 2), (TOPIC, 1)]
    assert (await lag_sums(desk.store, [GROUP]))[GROUP].lag_messages == 3
    pairs = retries_of_groups(desk.store.tables)
    assert pairs == [(GROUP, retries)]
    assert known_queues(desk.store.tables, *pairs[0]) == Queues(1, begins_at_min=True)


async def test_what_is_being_put_again_is_left_meanwhile(desk: ConsumeDesk) -> None:
    await desk.send(*"abc")
    await desk.receive(max_messages=2, invisible_ms=10_000)
    with desk.talking.quick_disk.held():
        stepping = asyncio.ensure_future(desk.step(by_ms=11_000))
        await turns(50)
        assert not stepping.done()
        found = await group_lag(desk.store, GROUP, read_leased=desk.consume.leased)
        assert {one.topic: one.lag_messages for one in found if one.lag_messages} == {TOPIC: 3}
    await stepping
    found = await group_lag(desk.store, GROUP, read_leased=desk.consume.leased)
    assert sum(one.lag_messages for one in found) == 3


async def test_leases_ahead_of_an_offset_that_was_set_back_are_left_once(desk: ConsumeDesk) -> None:
    await desk.send(*"abcde")
    await desk.receive(max_messages=4)
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 1})
    assert await lags(desk) == (5, 5, 1)


async def test_what_was_given_out_in_order_is_left_and_not_ready(desk: ConsumeDesk) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
    await desk.send(*"abc")
    got = await desk.receive(max_messages=2)
    assert await lags(desk) == (3, 3, 1)
    await desk.ack(got)
    assert await lags(desk) == (1, 1, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
async def test_pages_of_lags_have_each_pair_of_group_and_topic_once(
    desk: ConsumeDesk, size: int
) -> None:
    for group in ("a", "a-b", "a_b", "b", "A"):  # "-" sorts before "@", and "_" after it.
        for topic in ("x", "y", TOPIC):
            await desk.store.tables.offsets.set_many(group, topic, {0: 1})
    found, token = [], ""
    while True:
        page = await all_lags(desk.store, page_size=size, page_token=token)
        found += [(one.group, one.topic) for one in page.items]
        token = page.next_page_token
        if not token:
            break
        assert len(page.items) == size
    whole = await all_lags(desk.store)
    assert found == [(one.group, one.topic) for one in whole.items]
    assert len({*found}) == len(found) == 15
    only = await all_lags(desk.store, topic=TOPIC, page_size=2, page_token=f"a-b@{TOPIC}")
    assert [one.group for one in only.items] == ["a", "a_b"]


async def test_leases_are_read_with_the_offsets_and_not_after_a_pause(desk: ConsumeDesk) -> None:
    offsets = desk.store.tables.offsets
    async with asyncio.TaskGroup() as tasks:
        for number in range(GROUPS_PIECE + 1):
            tasks.create_task(offsets.set_many(f"g{number}", TOPIC, {0: 0}))
    others: list[str] = []
    ran_before: list[int] = []

    def read_leased() -> Leased:
        ran_before.append(len(others))
        return {}

    asyncio.get_running_loop().call_soon(others.append, "a receive")
    page = await all_lags(desk.store, page_size=1_000, read_leased=read_leased)
    assert len(page.items) == GROUPS_PIECE + 1
    assert (ran_before, len(others)) == ([0], 1)
