"""Topics: what a file may say of one, how many there may be, those known by queues alone."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pocketmq.model.errors import (
    IllegalNumber,
    IllegalTopic,
    LimitReached,
    TopicExists,
    TopicNotFound,
)
from pocketmq.model.topic import TopicConfig
from pocketmq.store.tables.topics import TopicTable
from tests.kit.store_language import turns
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk


class Topics:
    """The table of a store directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "config" / "topics.json"
        self.disk, self.pool = QuickDisk(), ThreadPoolExecutor(1)
        self.table = TopicTable(self.disk, directory, FakeClock(), self.pool)

    def read(self, **rows: Any) -> TopicTable:
        """Loads a file with these rows."""
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps({"topicConfigTable": rows}))
        self.table.load()
        return self.table

    @property
    def rows(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())["topicConfigTable"]
        return found

    @property
    def write_count(self) -> int:
        return len(self.disk.calls["write_file"])


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    made = Topics(tmp_path)
    yield made
    made.pool.shutdown()


def queues(config: TopicConfig) -> tuple[int, int]:
    return config.read_queue_count, config.write_queue_count


# -- what a file says ------------------------------------------------------------------------------


def test_a_row_without_members_has_no_queues_and_no_permission(topics: Topics) -> None:
    found = topics.read(orders={}).existing("orders")
    assert found == TopicConfig("orders", 0, 0, 0, False, {})
    assert found.is_kept


@pytest.mark.parametrize(
    ("said", "count"),
    [(-1, 0), (0, 0), (1_024, 1_024), (65_536, 65_536), (65_537, 65_536), (1 << 31, 65_536)],
)
def test_a_count_of_queues_is_read_within_bounds(topics: Topics, said: int, count: int) -> None:
    table = topics.read(r={"readQueueNums": said}, w={"writeQueueNums": said})
    assert queues(table.existing("r")) == (count, 0)
    assert queues(table.existing("w")) == (0, count)


def test_order_permission_and_attributes_are_read(topics: Topics) -> None:
    row = {"order": True, "perm": 9, "attributes": {"a": "b", "c": 1}}
    table = topics.read(orders=row, audit={"perm": 3, "attributes": 5})
    orders, audit = table.existing("orders"), table.existing("audit")
    assert (orders.order, orders.permission, orders.attributes) == (True, 7, {"a": "b"})
    assert (audit.order, audit.permission, audit.attributes) == (False, 3, {})


# -- limits ----------------------------------------------------------------------------------------


async def test_as_many_topics_as_the_limit_says_and_no_more(topics: Topics) -> None:
    topics.table.count_max = 2
    await topics.table.create("a", queue_count=1)
    await topics.table.create("b", queue_count=1)
    with pytest.raises(LimitReached, match=r"there are 2 of 2 topics, .*limits\.topics_max"):
        await topics.table.create("c", queue_count=1)
    await topics.table.create("b", queue_count=1)
    await topics.table.ensure("%RETRY%readers", 1)
    assert topics.table.names() == ["%RETRY%readers", "a", "b"]


async def test_as_many_queues_as_the_limit_says_and_no_more(topics: Topics) -> None:
    table, full = topics.table, r"there are 7 of 8 queues, .*limits\.queues_max"
    table.queue_count_max = 8
    await table.create("a", queue_count=3)
    await table.update("a", write_queue_count=4)  # Read and write queues are the same ones.
    await table.create("b", queue_count=3)
    with pytest.raises(LimitReached, match=full):
        await table.create("c", queue_count=2)
    for change in (table.update("a", read_queue_count=6), table.update("a", write_queue_count=6)):
        with pytest.raises(LimitReached, match=full):
            await change
    assert queues(await table.update("a", read_queue_count=5)) == (5, 4)
    assert queues(await table.update("a", write_queue_count=5)) == (5, 5)
    table.queue_count_max = 1
    assert queues(await table.update("a", write_queue_count=2)) == (5, 2)
    assert queues(await table.update("a", read_queue_count=2)) == (2, 2)


@pytest.mark.parametrize("count", [1, 1_024])
async def test_bounds_of_queue_counts_are_counts(topics: Topics, count: int) -> None:
    assert queues(await topics.table.create("orders", queue_count=count)) == (count, count)
    assert queues(await topics.table.update("orders", read_queue_count=count)) == (count, count)


@pytest.mark.parametrize("permission", [0, 7])
async def test_bounds_of_permissions_are_permissions(topics: Topics, permission: int) -> None:
    await topics.table.create("orders", queue_count=1)
    assert (await topics.table.update("orders", permission=permission)).permission == permission


async def test_a_refused_number_is_told_with_its_name_and_bounds(topics: Topics) -> None:
    await topics.table.create("orders", queue_count=1)
    told = [
        (("queue count", 0, 1, 1_024), topics.table.create("x", queue_count=0)),
        (("read queue count", 0, 1, 1_024), topics.table.update("orders", read_queue_count=0)),
        (("write queue count", 0, 1, 1_024), topics.table.update("orders", write_queue_count=0)),
        (("permission", 8, 0, 7), topics.table.update("orders", permission=8)),
    ]
    for expected, change in told:
        with pytest.raises(IllegalNumber) as caught:
            await change
        error = caught.value
        assert (error.field, error.value, error.lower, error.upper) == expected


# -- made once -------------------------------------------------------------------------------------


async def test_the_type_of_a_topic_without_one_is_that_of_normal_messages(topics: Topics) -> None:
    first = await topics.table.create("orders", queue_count=1)
    again = await topics.table.create(
        "orders", queue_count=1, attributes={"message.type": "NORMAL"}
    )
    assert again is first
    with pytest.raises(TopicExists) as caught:
        await topics.table.create("orders", queue_count=1, attributes={"message.type": "FIFO"})
    assert (caught.value.queue_count, caught.value.type_name) == (1, "NORMAL")


async def test_one_of_the_brokers_own_is_made_once_and_keeps_the_queues_it_has(
    topics: Topics,
) -> None:
    with pytest.raises(IllegalTopic):
        await topics.table.ensure("two words", 1)
    made = await topics.table.ensure("%RETRY%readers", 3)
    assert (queues(made), made.permission, made.attributes) == ((3, 3), 6, {})
    assert topics.rows["%RETRY%readers"]["readQueueNums"] == 3
    assert await topics.table.ensure("%RETRY%readers", 5) is made
    assert topics.write_count == 1


async def test_who_needs_one_of_the_brokers_own_second_waits_for_the_first(topics: Topics) -> None:
    with topics.disk.held():
        calls = [asyncio.create_task(topics.table.ensure("%RETRY%g", 1)) for _ in range(2)]
        await turns()
        assert not any(call.done() for call in calls)
    assert await calls[0] is await calls[1]
    assert topics.write_count == 1


async def test_a_change_of_nothing_waits_for_the_change_before(topics: Topics) -> None:
    await topics.table.create("orders", queue_count=1)
    with topics.disk.held():
        calls = [asyncio.create_task(topics.table.update("orders", permission=4)) for _ in range(2)]
        await turns()
        assert not any(call.done() for call in calls)
    assert await calls[0] is await calls[1]


# -- leaving ---------------------------------------------------------------------------------------


async def test_a_topic_is_made_again_once_it_has_left(topics: Topics) -> None:
    calls: list[asyncio.Task[TopicConfig]] = []
    async with topics.table.leaving("orders"):
        calls.append(asyncio.create_task(topics.table.create("orders", queue_count=1)))
        calls.append(asyncio.create_task(topics.table.ensure("orders", 1)))
        other = await topics.table.create("audit", queue_count=1)
        await turns()
        assert topics.table.names() == [other.name]
    assert await calls[0] is await calls[1]
    assert topics.table.names() == ["audit", "orders"]


async def test_one_removal_of_a_topic_waits_for_the_other(topics: Topics) -> None:
    begun: list[str] = []

    async def leave(name: str) -> None:
        async with topics.table.leaving("orders"):
            begun.append(name)
            await turns()
            begun.append(name)

    await asyncio.wait_for(asyncio.gather(leave("first"), leave("second")), 5)
    assert begun == ["first", "first", "second", "second"]


async def test_a_topic_whose_removal_failed_can_be_made(topics: Topics) -> None:
    with pytest.raises(OSError, match="broken"):
        async with topics.table.leaving("orders"):
            raise OSError("broken")
    await asyncio.wait_for(topics.table.create("orders", queue_count=1), 5)


# -- known by queues alone -------------------------------------------------------------------------


async def test_an_adopted_topic_is_kept_once_and_then_stands_in_the_file(topics: Topics) -> None:
    topics.table.adopt("orders", 3)
    found = topics.table.existing("orders")
    assert (queues(found), found.permission, found.is_kept) == ((3, 3), 6, False)
    topics.table.adopt("orders", 9)
    assert topics.table.existing("orders") is found
    kept = await topics.table.keep("orders")
    assert kept.is_kept
    assert topics.table.existing("orders") is kept
    assert topics.rows["orders"]["writeQueueNums"] == 3
    assert await topics.table.keep("orders") is kept
    assert topics.write_count == 1


async def test_one_of_the_brokers_own_that_was_adopted_is_kept_where_it_is_needed(
    topics: Topics,
) -> None:
    topics.table.adopt("%RETRY%readers", 2)
    found = await topics.table.ensure("%RETRY%readers", 1)
    assert (found.is_kept, queues(found)) == (True, (2, 2))
    assert topics.rows["%RETRY%readers"]["readQueueNums"] == 2


@pytest.mark.parametrize(("count", "known"), [(65_536, 65_536), (65_537, 65_536)])
def test_an_adopted_topic_has_as_many_queues_as_a_file_may_say(
    topics: Topics, count: int, known: int
) -> None:
    topics.table.adopt("orders", count)
    assert queues(topics.table.existing("orders")) == (known, known)


async def test_light_queues_are_read_and_never_stand_in_the_file(topics: Topics) -> None:
    topics.table.adopt("%LMQ%chat", 1)
    found = topics.table.existing("%LMQ%chat")
    assert (found.permission, found.is_kept) == (4, True)
    assert await topics.table.keep("%LMQ%chat") is found
    await topics.table.create("orders", queue_count=1)
    assert [*topics.rows] == ["orders"]
    with pytest.raises(TopicNotFound):
        await topics.table.update("%LMQ%chat", permission=6)


async def test_nothing_is_kept_of_a_topic_that_is_unknown_or_none(topics: Topics) -> None:
    with pytest.raises(TopicNotFound):
        await topics.table.keep("orders")
    with pytest.raises(IllegalTopic):
        await topics.table.keep("two words")


async def test_batch_queues_make_a_topic_one_that_is_not_served_and_not_kept(
    topics: Topics,
) -> None:
    await topics.table.create("orders", queue_count=2, attributes={"a": "b"})
    topics.table.know_batch_queues(["orders", "batches", "two words"])
    orders, batches = topics.table.existing("orders"), topics.table.existing("batches")
    assert (queues(orders), orders.attributes) == ((2, 2), {"a": "b", "queue.type": "BatchCQ"})
    assert (queues(batches), batches.is_kept) == ((0, 0), False)
    assert topics.table.names() == ["batches", "orders"]
    assert await topics.table.keep("batches") is batches
    assert topics.write_count == 1
    with pytest.raises(TopicNotFound):
        await topics.table.update("batches", permission=4)
