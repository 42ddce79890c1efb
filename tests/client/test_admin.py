"""The client's half for Admin against a served broker: every verb goes through and back."""

from collections.abc import AsyncIterator

import pytest

from pocketmq.client import ClientError
from pocketmq.model.administration import (
    GroupOffset,
    GroupSettings,
    MovedOffset,
    QueueLag,
    ResetTarget,
    SettingRow,
    TopicChange,
)
from pocketmq.model.listing import GroupOrder, GroupTotals, TopicOrder, TopicTotals
from tests.rpc.desk import Desk, opened_desk
from tests.sim.clock import START_MS


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with opened_desk() as opened:
        opened.broker.clock.wall = 1_000
        await opened.broker.add("orders", b"a", b"b", b"c")
        await opened.broker.store.tables.offsets.commit("readers", "orders", 0, 1)
        yield opened


async def test_topics_are_changed_and_removed(desk: Desk) -> None:
    change = TopicChange(read_queue_count=4, order=True, set_attributes={"message.type": "FIFO"})
    changed = await desk.admin.update_topic("orders", change)
    assert (changed.read_queue_count, changed.write_queue_count) == (4, 2)
    assert (changed.order, changed.type) == (True, "FIFO")
    changed = await desk.admin.update_topic(
        "orders", TopicChange(permission=4, remove_attributes=("message.type",))
    )
    assert (changed.permission, changed.type, changed.read_queue_count) == (4, "NORMAL", 4)
    assert await desk.admin.delete_topic("orders") == ["orders"]
    with pytest.raises(ClientError) as caught:
        await desk.admin.delete_topic("orders")
    assert caught.value.reason == "TopicNotFound"


async def test_topics_are_counted(desk: Desk) -> None:
    counts = await desk.admin.topic_counts("orders")
    assert (counts.message_count, counts.stored_count, counts.queue_count) == (3, 3, 2)
    assert (counts.first_store_timestamp_ms, counts.last_store_timestamp_ms) == (1_000, 1_000)
    assert [queue.max_offset for queue in counts.queues] == [3, 0]
    page = await desk.admin.all_topic_counts()
    assert [(row.name, row.stored_count, row.queues) for row in page.items] == [("orders", 3, [])]
    assert page.next_page_token == ""


async def test_topics_and_groups_are_found(desk: Desk) -> None:
    found = await desk.admin.find_topics(
        "ORD", order=TopicOrder.MESSAGES, with_stats=True, with_sums=True
    )
    assert [(one.name, one.counts and one.counts.message_count) for one in found.items] == [
        ("orders", 3)
    ]
    assert (found.found_count, found.total_count) == (1, 1)
    assert found.sums == TopicTotals(1, 3, 3, 0.0)
    groups = await desk.admin.find_groups(order=GroupOrder.LAG, with_stats=True, with_sums=True)
    assert [(one.name, one.stats and one.stats.lag_messages) for one in groups.items] == [
        ("readers", 2)
    ]
    assert groups.sums == GroupTotals(1, 2, 1, 0, 0)
    assert (await desk.admin.find_groups("x")).items == []
    assert (await desk.admin.find_groups()).sums is None


async def test_groups_live(desk: Desk) -> None:
    made = await desk.admin.create_group("new", GroupSettings(fifo=True, max_attempts=3))
    assert made.settings == GroupSettings(True, True, 3, 1, True, True, 15, "min")
    changed = await desk.admin.update_group("new", GroupSettings(enabled=False))
    assert changed.settings == made.settings._replace(enabled=False)
    page = await desk.admin.list_groups()
    assert ([group.name for group in page.items], page.next_page_token) == (["new", "readers"], "")
    described = await desk.admin.describe_group("readers")
    assert (described.topics, described.system) == (["orders"], False)
    assert await desk.admin.delete_group("new", with_topics=True) == []
    with pytest.raises(ClientError) as caught:
        await desk.admin.describe_group("new")
    assert (caught.value.reason, caught.value.status) == ("GroupNotFound", "NOT_FOUND")


async def test_lag_is_told(desk: Desk) -> None:
    desk.broker.clock.wall = 1_500
    (row,) = await desk.admin.group_lag("readers")
    assert (row.topic, row.lag_messages, row.lag_ms, row.committed_sum) == ("orders", 2, 500, 1)
    assert row.queues == [QueueLag(0, 1, 0, 3, 2, 500), QueueLag(1, None, 0, 0, 0, 0)]
    page = await desk.admin.all_lags()
    assert page.items == [row._replace(lag_ms=0, queues=[])]


async def test_groups_are_moved(desk: Desk) -> None:
    admin = desk.admin
    assert await admin.list_offsets("readers") == [GroupOffset("orders", 0, 1)]
    moved = [MovedOffset("orders", 0, 1, 2)]
    assert await admin.set_offsets("readers", "orders", {0: 2}, dry_run=True) == moved
    assert await admin.set_offsets("readers", "orders", {0: 2}) == moved
    earliest = [MovedOffset("orders", 0, 2, 0)]
    reset = admin.reset_offsets
    assert await reset("readers", "orders", ResetTarget(), queue_ids=(0,)) == earliest
    for target, place in (
        (ResetTarget(latest=True), 3),
        (ResetTarget(queue_offset=0), 0),
        (ResetTarget(time_ms=0), 0),
        (ResetTarget(time_ms=1_001), 3),
    ):
        rows = await reset("readers", "orders", target, queue_ids=(0,), dry_run=True)
        assert [row.new_offset for row in rows] == [place]
    assert await admin.clone_offsets("readers", "others") == [MovedOffset("orders", 0, None, 0)]
    assert await admin.list_offsets("others", "orders") == [GroupOffset("orders", 0, 0)]


async def test_the_store_and_its_process(desk: Desk) -> None:
    status = await desk.admin.store_status()
    assert (status.state, status.state_since_ms) == ("running", START_MS)
    _, used, free = desk.broker.store.disk_space()
    assert (status.disk_free_bytes, status.disk_total_bytes) == (free, used + free)
    assert (status.retention_state, status.index_file_count, status.group_count) == ("off", 0, 1)
    assert await desk.admin.flush() == desk.broker.store.appended
    assert await desk.admin.effective_config() == [SettingRow("store.flush", "async", "--set")]
    await desk.admin.drain()
    assert desk.broker.drains == ["asked"]


async def test_clients_that_are_not_there_are_not_asked(desk: Desk) -> None:
    await desk.broker.store.tables.groups.ensure("readers")
    for asked in (
        desk.admin.print_client_stack("readers", "nobody"),
        desk.admin.verify_message("readers", "nobody", "orders", "id"),
    ):
        with pytest.raises(ClientError) as caught:
            await asked
        assert caught.value.status == "NOT_FOUND"
