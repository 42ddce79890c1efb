"""The file of removed topics: next offsets by topic and queue, which never go back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pocketmq.model.errors import DiskFull, TableUnreadable
from pocketmq.store.tables.removed_queues import RemovedQueues
from tests.sim.quick_disk import QuickDisk


class Removed:
    """The table of a store directory; `again` is what a start finds."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.path = directory, directory / "pocketmq" / "removed.json"
        self.disk, self.pool = QuickDisk(), ThreadPoolExecutor(1)
        self.table = RemovedQueues(self.disk, directory, self.pool)

    def again(self) -> RemovedQueues:
        self.pool.shutdown()
        table = RemovedQueues(QuickDisk(), self.directory, self.pool)
        table.load()
        return table


@pytest.fixture
def removed(tmp_path: Path) -> Iterator[Removed]:
    made = Removed(tmp_path)
    yield made
    made.pool.shutdown()


async def test_where_queues_go_on_is_durable_and_told_to_who_holds_the_table(
    removed: Removed,
) -> None:
    held = removed.table.next_offsets
    await removed.table.add("orders", {1: 1, 0: 3})
    await removed.table.add("audit", {})
    assert held == {("orders", 0): 3, ("orders", 1): 1}
    await removed.table.add("orders", {1: 1, 2: 0})
    assert held == {("orders", 0): 3, ("orders", 1): 1, ("orders", 2): 0}
    again = removed.again()
    assert again.next_offsets == held
    assert [again.has(topic) for topic in ("orders", "audit", "others")] == [True, True, False]
    expected = '{\n  "audit": {},\n  "orders": {\n    "0": 3,\n    "1": 1,\n    "2": 0\n  }\n}'
    assert removed.path.read_text() == expected


async def test_a_store_that_has_removed_nothing_has_no_file(removed: Removed) -> None:
    for table in (removed.table, removed.again()):
        assert not table.has("orders")
        assert table.next_offsets == {}
    assert not removed.path.parent.exists()


async def test_a_queue_goes_on_behind_its_old_offsets_once_they_are_durable(
    removed: Removed,
) -> None:
    removed.disk.full_below = removed.directory
    with pytest.raises(DiskFull):
        await removed.table.add("orders", {0: 3})
    assert removed.table.next_offsets == {}
    removed.disk.full_below = None
    await removed.table.add("orders", {0: 3})
    assert removed.again().next_offsets == {("orders", 0): 3}


def test_rows_that_name_no_queue_are_left_out(removed: Removed) -> None:
    removed.path.parent.mkdir()
    removed.path.write_text('{"a":{"0":0,"x":1,"1":-1,"2":true},"b":5,"c":{}}')
    table = removed.again()
    assert table.next_offsets == {("a", 0): 0}
    assert [table.has(topic) for topic in "abc"] == [True, False, True]
    removed.path.write_text("[]")
    with pytest.raises(TableUnreadable, match=r"removed\.json"):
        removed.again()
