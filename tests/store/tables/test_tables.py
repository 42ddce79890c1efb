"""The small tables of one store: which topics are known, which are no more, what a commit voids."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.format.order_row import OrderedDelivery, QueueOrder
from pocketmq.format.timer_layout import TimerProgress
from pocketmq.model.errors import IllegalGroup, TableUnreadable
from pocketmq.store.tables.tables import Tables
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk, open_files

HELD = QueueOrder(7, frozenset({9}), {8: OrderedDelivery(2, 1_000, 61_000, "c 1")})
JOURNAL = "pocketmq/order.journal"


def made(directory: Path) -> Tables:
    tables = Tables(QuickDisk(), directory, FakeClock())
    tables.read()
    return tables


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    found = made(tmp_path)
    yield found
    found.close()


def test_topics_that_only_their_queues_show_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queues = [("orders", 0), ("orders", 3), ("SCHEDULE_TOPIC_XXXX", 2)]
    for found in ([], queues[-1:], queues):
        tables = made(tmp_path)
        tables.adopt(found)
        tables.close()
    (warning,) = [vars(entry) for entry in caplog.records if entry.message == "topics.found"]
    assert (warning["path"], warning["count"]) == (str(tmp_path / "config/topics.json"), 1)
    assert "types" in warning["lost"]
    assert "restore the file" in warning["next_step"]


async def test_a_topic_table_without_a_topic_of_the_queues_is_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = made(tmp_path)
    await tables.topics.create("orders", queue_count=2)
    tables.close()
    tables = made(tmp_path)
    tables.adopt([("payments", 0)])
    tables.close()
    assert "topics.found" not in caplog.messages


async def test_a_start_from_the_previous_version_of_a_table_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = made(tmp_path)
    await tables.topics.create("orders", queue_count=2)
    await tables.topics.create("payments", queue_count=2)
    tables.close()
    file = tmp_path / "config/topics.json"
    file.write_bytes(file.read_bytes()[:20])
    tables = made(tmp_path)
    tables.close()
    warned = [vars(entry)["path"] for entry in caplog.records if entry.message == "table.previous"]
    assert warned == [f"{file}.bak"]


async def hold(tables: Tables) -> None:
    """Gives a group a delivery of queue 0, in order."""
    tables.orders.change("readers", "orders", 0, lambda: HELD)
    await tables.orders.saved()


async def test_every_table_is_read_again(tables: Tables, tmp_path: Path) -> None:
    await tables.topics.create("orders", queue_count=2)
    await tables.commit("readers", "orders", 0, 3)
    await hold(tables)
    await tables.delay_offsets.put({1: 4}, 0, {})
    await tables.timer_check.put(TimerProgress(read_ms=5))
    await tables.timer_counts.put("orders", {"count": 6, "timeStamp": START_MS})
    await tables.removed.add("gone", {0: 7})
    tables.close()
    again = made(tmp_path)
    assert (again.topics.names(), again.groups.names()) == (["orders"], ["readers"])
    assert again.offsets.find("readers", "orders", 0) == 3
    assert again.orders.find("readers", "orders", 0, 0) == HELD
    assert again.delay_offsets.find(1) == 4
    assert again.timer_check.progress == TimerProgress(read_ms=5)
    assert again.timer_counts.rows == {"orders": {"count": 6, "timeStamp": START_MS}}
    assert not again.removed.has("gone"), "those are read before the log is"
    again.removed.load()
    assert again.removed.has("gone")
    again.close()


@pytest.mark.parametrize(
    "name",
    ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "consumerOrderInfo.json"],
)
def test_a_table_that_cannot_be_read_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / name).write_text("{")
    with pytest.raises(TableUnreadable, match=name):
        made(tmp_path)


def test_counts_of_the_timer_that_cannot_be_read_are_counted_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "timermetrics").write_text("{")
    tables = made(tmp_path)
    assert tables.timer_counts.rows == {}
    assert [record.message for record in caplog.records] == ["table.counted"]
    tables.close()


async def test_closed_the_journal_is_closed_and_no_table_is_written(
    tables: Tables, tmp_path: Path
) -> None:
    await hold(tables)
    assert tmp_path / JOURNAL in open_files(tmp_path)
    tables.close()
    assert open_files(tmp_path) == []
    with pytest.raises(RuntimeError, match="shutdown"):
        await tables.topics.create("orders", queue_count=1)


async def test_the_journal_is_synced_unless_the_flush_is_asynchronous(tmp_path: Path) -> None:
    synced: list[bool] = []
    for is_sync in (True, False):
        disk, directory = QuickDisk(), tmp_path / str(is_sync)
        by_default = Tables(disk, directory, FakeClock())
        tables = by_default if is_sync else Tables(disk, directory, FakeClock(), is_sync=False)
        await hold(tables)
        disk.synced.clear()
        await hold(tables)
        synced.append(disk.synced == [directory / JOURNAL])
        tables.close()
        by_default.close()
    assert synced == [True, False]
    assert (tmp_path / "True" / JOURNAL).stat().st_size == 1_048_576


# -- topics that are known by their queues ---------------------------------------------------------


def test_topics_with_queues_and_no_row_are_known_with_the_queues_they_have(tables: Tables) -> None:
    tables.adopt([("audit", 0), ("orders", 3), ("orders", 1)])
    found = [tables.topics.existing(name) for name in ("audit", "orders")]
    assert [(one.read_queue_count, one.is_kept) for one in found] == [(1, False), (4, False)]


def test_topics_of_batch_queues_are_known_and_not_served(tables: Tables) -> None:
    tables.adopt([("orders", 0)], ["batches", "two words"])
    assert tables.topics.names() == ["batches", "orders"]
    assert tables.topics.existing("batches").unsupported == "queue.type=BatchCQ"
    assert tables.topics.existing("orders").unsupported == ""


# -- topics that are no more -----------------------------------------------------------------------


async def test_a_topic_is_no_more_once_it_was_removed_and_until_it_is_made_again(
    tables: Tables,
) -> None:
    assert not tables.is_removed("orders"), "one that is only unknown"
    await tables.topics.create("orders", queue_count=1)
    await tables.removed.add("orders", {})
    assert not tables.is_removed("orders"), "it is there again"
    await tables.topics.remove("orders")
    assert tables.is_removed("orders")


@pytest.mark.parametrize(
    ("topic", "is_removed"),
    [
        ("%RETRY%readers", False),
        ("%DLQ%readers", False),
        ("%RETRY%others", True),
        ("%DLQ%others", True),
        ("%RETRY%readers_orders", False),
        ("%RETRY%readers+orders", False),
        ("%RETRY%readers-orders", True),
        ("%RETRY%readers_audit", True),
        ("%RETRY%others_orders", True),
        ("%RETRY%a_b_orders_new", False),
        ("%RETRY%a_b+orders_new", False),
        ("%RETRY%a_borders_new", True),
        ("readers", True),
        ("readers_orders", True),
    ],
)
async def test_topics_of_a_group_come_again_with_the_group_and_the_topic_they_are_of(
    tables: Tables, topic: str, is_removed: bool
) -> None:
    for group in ("readers", "a_b"):
        await tables.groups.ensure(group)
    for name in ("orders", "orders_new"):
        await tables.topics.create(name, queue_count=1)
    assert not tables.is_removed(topic)
    await tables.removed.add(topic, {})
    assert tables.is_removed(topic) == is_removed


# -- commits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "committed", "is_void"),
    [(None, 0, False), (7, 7, False), (7, 8, False), (7, 6, True), (1, 0, True)],
)
async def test_an_offset_set_back_makes_void_what_was_known_in_order(
    tables: Tables, before: int | None, committed: int, is_void: bool
) -> None:
    if before is not None:
        await tables.commit("readers", "orders", 0, before)
    await hold(tables)
    await tables.commit("readers", "orders", 0, committed)
    assert tables.offsets.find("readers", "orders", 0) == committed
    assert tables.orders.find("readers", "orders", 0, 0) == (QueueOrder() if is_void else HELD)
    assert tables.orders.forgotten_count("readers", "orders", 0) == int(is_void)


async def test_of_a_group_whose_name_is_none_nothing_is_forgotten(tables: Tables) -> None:
    with pytest.raises(IllegalGroup):
        await tables.commit("two words", "orders", 0, 1)
    assert tables.offsets.find("two words", "orders", 0) is None
