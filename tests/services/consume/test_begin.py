"""Where a group without offsets begins: at its first receive, and at no later one."""

import pytest

from pocketmq.model.administration import GroupSettings, ResetTarget
from pocketmq.model.begin import (
    BEGIN_MAX,
    BEGIN_UNLESS_RECENT,
    BEGIN_UNSET,
    begin_from_text,
    begin_text,
)
from pocketmq.services.admin.positions import reset_offsets
from tests.kit.consuming import GROUP, TOPIC, ConsumeDesk, bodies

WAYS = pytest.mark.parametrize("fifo", [False, True])


async def sent_over_time(desk: ConsumeDesk) -> int:
    """Stores a message in each queue, and later another; returns the time between."""
    await desk.send("a0")
    await desk.send("a1", queue_id=1)
    desk.clock.advance(1_000)
    between_ms = desk.clock.wall_ms()
    desk.clock.advance(1_000)
    await desk.send("b0")
    await desk.send("b1", queue_id=1)
    return between_ms


async def received(desk: ConsumeDesk, **asked: object) -> list[str]:
    """Receives until nothing is left; returns the bodies, sorted."""
    found: list[str] = []
    while got := bodies(await desk.receive(**asked)):
        found += got
    return sorted(found)


@WAYS
@pytest.mark.parametrize(
    ("begin", "expected"),
    [("min", ["a0", "a1", "b0", "b1"]), ("max", []), ("between", ["b0", "b1"])],
)
async def test_the_first_receive_begins_where_it_states(
    desk: ConsumeDesk, begin: str, expected: list[str], *, fifo: bool
) -> None:
    at_max = GroupSettings(begin="max" if begin == "min" else "min", fifo=fifo)
    await desk.store.tables.groups.update(GROUP, at_max)
    between_ms = await sent_over_time(desk)
    begin_ms = between_ms if begin == "between" else begin_from_text(begin)
    assert await received(desk, begin_ms=begin_ms) == expected


@WAYS
async def test_a_groups_setting_begins_at_a_time(desk: ConsumeDesk, *, fifo: bool) -> None:
    between = begin_text(await sent_over_time(desk))
    await desk.store.tables.groups.update(GROUP, GroupSettings(begin=between, fifo=fifo))
    assert await received(desk) == ["b0", "b1"]


async def test_a_group_with_an_offset_continues_at_it(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    assert bodies(await desk.receive(max_messages=1)) == ["a"]
    assert await received(desk, begin_ms=BEGIN_MAX) == ["b"]


async def test_the_begin_at_the_end_is_kept(desk: ConsumeDesk) -> None:
    await desk.send("old")
    assert await received(desk, begin_ms=BEGIN_MAX) == []
    find = desk.store.tables.offsets.find
    assert [find(GROUP, TOPIC, queue_id) for queue_id in (0, 1)] == [1, 0]
    await desk.send("new")
    assert await received(desk, begin_ms=BEGIN_MAX) == ["new"]


async def test_a_receive_that_waits_begins_before_it_waits(desk: ConsumeDesk) -> None:
    await desk.send("old")
    waiting = await desk.parked(begin_ms=BEGIN_MAX)
    await desk.send("new")
    assert bodies(await waiting) == ["new"]


async def test_retries_come_whatever_the_begin(desk: ConsumeDesk) -> None:
    await desk.send("retried")
    got = await desk.receive()
    await desk.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 0)])
    await desk.step(1_000)
    await desk.store.tables.offsets.remove_topic(TOPIC)
    assert await received(desk, begin_ms=BEGIN_MAX) == ["retried"]


@pytest.mark.parametrize(
    ("begin", "expected"), [("min", ["a0", "a1", "b0", "b1"]), ("max", []), ("", ["b0", "b1"])]
)
async def test_a_client_of_a_broadcast_begins_where_it_states(
    desk: ConsumeDesk, begin: str, expected: list[str]
) -> None:
    between_ms = await sent_over_time(desk)
    begin_ms = begin_from_text(begin) if begin else between_ms
    await desk.store.tables.groups.update(GROUP, GroupSettings(begin="max"))
    assert await received(desk, broadcast=True, client_id="c", begin_ms=begin_ms) == expected


@WAYS
@pytest.mark.parametrize("begin_ms", [BEGIN_UNSET, BEGIN_MAX, BEGIN_UNLESS_RECENT])
async def test_a_group_begins_at_the_first_message_of_a_queue_added_later(
    desk: ConsumeDesk, begin_ms: int, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(begin="max", fifo=fifo))
    await desk.send("old")
    await desk.send("older", queue_id=1)
    first_ms = BEGIN_MAX if begin_ms == BEGIN_UNLESS_RECENT else begin_ms
    assert await received(desk, begin_ms=first_ms) == []
    await desk.store.tables.topics.update(TOPIC, read_queue_count=4, write_queue_count=4)
    await desk.send("new", queue_id=2)
    await desk.send("newer", queue_id=3)
    assert await received(desk, begin_ms=begin_ms) == ["new", "newer"]


async def test_a_client_of_a_broadcast_begins_at_the_first_message_of_an_added_queue(
    desk: ConsumeDesk,
) -> None:
    asked = {"broadcast": True, "client_id": "c", "begin_ms": BEGIN_MAX}
    await desk.send("old", queue_id=1)
    assert await received(desk, **asked) == []
    await desk.store.tables.topics.update(TOPIC, read_queue_count=3, write_queue_count=3)
    await desk.send("new", queue_id=2)
    assert await received(desk, **asked) == ["new"]


async def test_a_reset_of_one_queue_begins_at_the_end_of_the_others(desk: ConsumeDesk) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(begin="max"))
    await sent_over_time(desk)
    await reset_offsets(desk.store, GROUP, TOPIC, ResetTarget(), queue_ids=[1])
    assert await received(desk) == ["a1", "b1"]
