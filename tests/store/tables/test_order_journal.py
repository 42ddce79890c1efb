"""The journal beside the table of orders: where rows go, when there is room, which table counts."""

import errno
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.order_changes import OrderChange, QueueChange, decode_changes, encode_changes
from pocketmq.format.order_row import OrderedDelivery, QueueOrder
from pocketmq.format.table_json import decode_table
from pocketmq.model.errors import DiskFull, FsyncFailed
from pocketmq.store.tables.order_files import OrderFiles
from pocketmq.store.tables.order_info import OrderInfo
from tests.sim.clock import START_MS, FakeClock
from tests.sim.quick_disk import QuickDisk, full_disk, open_files

CHANGE: QueueChange = ("orders@g", 0, OrderChange(True, 3, [], []))
ROW = len(encode_changes([CHANGE], 1, 1))
HELD = QueueOrder(7, frozenset({9}), {8: OrderedDelivery(2, 1_000, 61_000, "c 1")})
TABLE, JOURNAL = "config/consumerOrderInfo.json", "pocketmq/order.journal"


class Files:
    """Table and journal of a store directory."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.disk = directory, QuickDisk()
        self.journal = directory / JOURNAL
        self.files = self.made(2 * ROW)

    def made(self, size_bytes: int) -> OrderFiles:
        return OrderFiles(self.disk, self.directory, size_bytes)

    def rows(self, version: int) -> list[QueueChange]:
        return [*decode_changes(self.journal.read_bytes(), version)]


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Files]:
    made = Files(tmp_path)
    yield made
    made.files.close()


def test_no_row_goes_before_the_first_table(on: Files) -> None:
    assert not on.files.append([CHANGE])
    assert not on.files.append([])
    assert [*on.files.changes(1)] == []
    assert on.files.table() == {}
    on.files.close()
    assert not on.journal.exists()


def test_rows_go_one_behind_the_other_as_long_as_there_is_room(on: Files) -> None:
    on.files.fold(b'{"table":{}}', 1)
    assert on.files.append([])
    assert [on.files.append([CHANGE]) for _ in range(3)] == [True, True, False]
    assert on.files.append([]), "what needs no room has it"
    assert [*on.files.changes(1)] == on.rows(1) == [CHANGE] * 2
    on.files.fold(b'{"table":{}}', 2)
    assert on.rows(2) == []
    assert on.files.append([CHANGE])
    assert on.rows(2) == [CHANGE]
    assert on.journal.stat().st_size == 2 * ROW


def test_a_row_without_room_on_the_disk_is_none_and_the_next_takes_its_place(on: Files) -> None:
    on.files.fold(b'{"table":{}}', 1)
    on.disk.fail("write_at", full_disk())
    assert not on.files.append([CHANGE])
    assert on.files.append([CHANGE])
    assert on.rows(1) == [CHANGE]


def test_a_journal_keeps_the_size_it_was_made_with(on: Files) -> None:
    on.files.fold(b'{"table":{}}', 1)
    on.files.close()
    again = on.made(4 * ROW)
    again.fold(b'{"table":{}}', 2)
    assert [again.append([CHANGE]) for _ in range(3)] == [True, True, False]
    again.close()
    assert on.journal.stat().st_size == 2 * ROW


def test_a_closed_journal_takes_no_rows_and_is_not_open(on: Files) -> None:
    on.files.fold(b'{"table":{}}', 1)
    assert open_files(on.directory) == [on.journal]
    on.files.close()
    on.files.close()
    assert open_files(on.directory) == []
    assert not on.files.append([CHANGE])


def test_a_journal_for_which_there_was_no_room_is_made_with_a_later_table(on: Files) -> None:
    on.disk.full_below = on.journal.parent
    on.files.fold(b'{"table":{}}', 1)
    assert not on.files.append([CHANGE])
    on.disk.full_below = None
    on.files.fold(b'{"table":{}}', 2)
    assert on.files.append([CHANGE])
    assert on.rows(2) == [CHANGE]


# -- the table -------------------------------------------------------------------------------------


class Orders:
    """The orders of group g in queues of `orders`; `again` is what a start finds."""

    def __init__(self, directory: Path, *, is_sync: bool = True) -> None:
        self.directory, self.disk, self.clock = directory, QuickDisk(), FakeClock()
        self.pool = ThreadPoolExecutor(1)
        files = OrderFiles(self.disk, directory, 4_096)
        self.table = OrderInfo(files, self.clock, self.pool, is_sync=is_sync)
        self.table.load()

    def hold(self, queue_id: int = 0, order: QueueOrder = HELD) -> None:
        self.table.change("g", "orders", queue_id, lambda: order)

    async def save(self, queue_id: int = 0, order: QueueOrder = HELD) -> None:
        self.hold(queue_id, order)
        await self.table.saved()

    def found(self, queue_id: int = 0) -> QueueOrder:
        return self.table.find("g", "orders", queue_id, 0)

    def closed(self) -> "Orders":
        self.pool.shutdown()
        self.table.close()
        return self

    def again(self) -> "Orders":
        self.closed()
        return Orders(self.directory)

    @property
    def members(self) -> dict[str, Any]:
        return decode_table((self.directory / TABLE).read_bytes())

    @property
    def folds(self) -> int:
        return len(self.disk.calls["write_file"])

    @property
    def rows(self) -> int:
        """Rows of the journal that follow on the table."""
        journal = (self.directory / JOURNAL).read_bytes()
        return len([*decode_changes(journal, self.members["pocketmqVersion"])])


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    made = Orders(tmp_path)
    yield made
    made.closed()


def write(directory: Path, text: str) -> Orders:
    (directory / "config").mkdir(exist_ok=True)
    (directory / TABLE).write_text(text)
    return Orders(directory)


async def test_the_table_is_written_every_five_seconds_while_it_changes(orders: Orders) -> None:
    await orders.save()
    assert (orders.folds, orders.rows) == (1, 0), "the first save begins the journal"
    orders.clock.advance(4_999)
    await orders.save()
    assert (orders.folds, orders.rows) == (1, 1)
    orders.clock.advance(1)
    await orders.save()
    assert (orders.folds, orders.rows) == (2, 0)
    orders.clock.advance(4_999)
    await orders.save()
    assert (orders.folds, orders.rows) == (2, 1)
    orders.table.save_soon()
    await orders.table.saved()
    assert orders.folds == 2
    orders.clock.advance(1)
    orders.table.save_soon()
    await orders.table.saved()
    assert (orders.folds, orders.rows) == (3, 0)


async def test_versions_rise_by_the_clock_and_also_where_that_stands_or_goes_back(
    orders: Orders,
) -> None:
    found = []
    for wall_ms in (START_MS, START_MS, START_MS - 5, START_MS + 9):
        orders.clock.wall = wall_ms
        orders.hold()
        await orders.table.folded()
        found.append(orders.members["pocketmqVersion"])
    assert found == [START_MS, START_MS + 1, START_MS + 2, START_MS + 9]


async def test_the_table_is_as_a_real_broker_writes_it(orders: Orders) -> None:
    orders.clock.advance(7)
    await orders.save(3)
    await orders.table.folded()
    members = orders.members
    row = members.pop("table")["orders@g"][3]
    expected = {"orderInfoCount": 1, "orderedConsumptionLevel": "QUEUE"}
    assert members == {**expected, "pocketmqVersion": START_MS + 7}
    assert row["o"] == [8, 1]


@pytest.mark.parametrize("version", [0, -1, True, "7", None, (1 << 62) + 1])
async def test_a_table_without_a_version_has_no_journal(tmp_path: Path, version: object) -> None:
    orders = Orders(tmp_path)
    await orders.save()
    await orders.save(order=QueueOrder(9))
    members = {**orders.closed().members, "pocketmqVersion": version}
    row = members.pop("table")["orders@g"][0]
    members["table"] = {"orders@g": {"0": row}}
    again = write(tmp_path, json.dumps(members))
    assert again.found() == HELD
    await again.table.folded()
    assert again.folds == 0, "the file is as it should be"
    again.closed()


@pytest.mark.parametrize("version", [1, 7])
async def test_rows_that_follow_on_a_table_are_found_and_go_into_it(
    tmp_path: Path, version: int
) -> None:
    files = OrderFiles(QuickDisk(), tmp_path, 4_096)
    files.fold(b'{"pocketmqVersion":%d,"table":{"orders@g":{}}}' % version, version)
    files.append([("orders@g", 0, OrderChange(False, 5, [], [])), CHANGE])
    files.append([("orders@g", 0, OrderChange(False, 4, [], [])), ("a@g", 1, CHANGE[2])])
    files.close()
    orders = Orders(tmp_path)
    assert orders.found() == QueueOrder(4)
    assert orders.table.find("g", "a", 1, 0) == QueueOrder(3)
    await orders.table.folded()
    assert orders.folds == 1
    assert {*orders.members["table"]} == {"orders@g", "a@g"}
    await orders.table.folded()
    assert orders.folds == 1
    orders.closed()


async def test_what_stands_beside_the_table_is_kept(tmp_path: Path) -> None:
    orders = write(tmp_path, '{"somethingNew":[1],"table":{"orders@g":{"x":{},"0":5,"1":{}}}}')
    await orders.save(2)
    assert orders.members["somethingNew"] == [1]
    assert {*orders.members["table"]["orders@g"]} == {1, 2}, "rows that are none are left out"
    orders.closed()


async def test_a_change_is_written_though_nobody_waits_for_it(orders: Orders) -> None:
    orders.hold()
    orders.table.save_soon()
    told: list[BaseException | None] = []
    orders.table.when_saved(told.append)
    await orders.table.saved()
    assert (orders.folds, orders.found(), told) == (1, HELD, [None])
    orders.clock.advance(4_999)
    orders.hold(1)
    orders.table.save_soon()
    assert (orders.folds, orders.rows) == (1, 1)


async def test_a_row_of_a_queue_whose_first_message_is_not_settled_goes_on_from_it(
    orders: Orders,
) -> None:
    first = QueueOrder(0, frozenset({2}))
    await orders.save(order=first)
    change = OrderChange(False, 0, [4], [])
    orders.table.change("g", "orders", 0, lambda: first, lambda: change)
    await orders.table.saved()
    assert orders.again().closed().found() == QueueOrder(0, frozenset({2, 4}))


async def test_an_earlier_form_of_a_row_begins_where_it_says(tmp_path: Path) -> None:
    own = '"pocketmq":{"delivered":{"8":[2,1000,61000,"c 1"]},"next":0,"settled":[[2,3]]}'
    orders = write(tmp_path, '{"table":{"orders@g":{"0":{"i":60000,"o":[8],' + own + "}}}}")
    held = {8: OrderedDelivery(2, 1_000, 61_000, "c 1")}
    assert orders.found() == QueueOrder(0, frozenset({2}), held)
    await orders.table.saved()
    assert orders.folds == 1
    assert orders.again().closed().found() == QueueOrder(0, frozenset({2}), held)


# -- what is void ----------------------------------------------------------------------------------


async def test_what_was_not_known_is_forgotten_without_a_write(orders: Orders) -> None:
    await orders.save()
    await orders.table.forget("g", "orders", [1])
    await orders.table.remove_topic("audit")
    await orders.table.remove_group("others")
    assert (orders.folds, orders.rows) == (1, 0)
    assert [orders.table.forgotten_count("g", "orders", n) for n in range(3)] == [0, 1, 0]


async def test_a_queue_is_forgotten_in_the_table_at_once(orders: Orders) -> None:
    await orders.save(0)
    await orders.save(1)
    await orders.table.forget("g", "orders", [0])
    assert orders.folds == 2, "no row of the journal tells of it"
    assert {*orders.members["table"]["orders@g"]} == {1}
    await orders.table.forget("g", "orders", [0, 1])
    assert orders.members["table"] == {}
    assert orders.table.forgotten_count("g", "orders", 0) == 2
    assert orders.again().closed().found(1) == QueueOrder()


async def test_a_change_that_was_not_written_is_forgotten_with_its_queue(orders: Orders) -> None:
    await orders.save(1)
    orders.hold(0)
    await orders.table.forget("g", "orders", [0])
    assert orders.found(0) == QueueOrder()
    orders.hold(2)
    await orders.table.remove_group("g")
    again = orders.again().closed()
    assert [again.found(n) for n in range(3)] == [QueueOrder()] * 3


async def test_a_group_that_only_the_journal_knows_is_removed_and_others_stay(
    orders: Orders,
) -> None:
    await orders.save()
    orders.table.change("h", "orders", 0, lambda: HELD)
    orders.table.change("h", "audit", 0, lambda: HELD)
    await orders.table.saved()
    await orders.table.remove_group("h")
    again = orders.again().closed()
    assert again.found() == HELD
    assert again.table.find("h", "orders", 0, 0) == QueueOrder()
    assert again.table.find("h", "audit", 0, 0) == QueueOrder()


@pytest.mark.parametrize(
    ("order", "left"),
    [
        (QueueOrder(10), None),
        (QueueOrder(11), QueueOrder(10)),
        (QueueOrder(0, frozenset({2, 9})), None),
        (QueueOrder(0, frozenset({2, 10})), QueueOrder(0, frozenset({2}))),
        (
            QueueOrder(
                0, delivered={2: OrderedDelivery(1, 1, 2, ""), 9: OrderedDelivery(1, 1, 2, "")}
            ),
            None,
        ),
        (
            QueueOrder(
                0, delivered={2: OrderedDelivery(1, 1, 2, ""), 10: OrderedDelivery(1, 1, 2, "")}
            ),
            QueueOrder(0, delivered={2: OrderedDelivery(1, 1, 2, "")}),
        ),
    ],
)
async def test_what_lies_at_or_behind_an_end_is_not_known_any_more(
    orders: Orders, order: QueueOrder, left: QueueOrder | None
) -> None:
    await orders.save(order=order)
    again = orders.again()
    assert await again.table.clamp(lambda topic, queue_id: 10) == int(left is not None)
    assert again.folds == int(left is not None)
    assert again.again().closed().found() == (order if left is None else left)


# -- full and broken disks -------------------------------------------------------------------------


async def test_with_no_room_for_the_table_the_journal_answers_and_the_table_is_tried_later(
    orders: Orders,
) -> None:
    await orders.save()
    orders.clock.advance(5_000)
    orders.disk.full_below = orders.directory / "config"
    orders.disk.synced.clear()
    await orders.save(order=QueueOrder(9))
    assert orders.disk.synced == [orders.directory / JOURNAL]
    orders.disk.full_below = None
    orders.clock.advance(5_000)
    orders.table.save_soon()
    await orders.table.saved()
    assert orders.folds == 2
    assert orders.again().closed().found() == QueueOrder(9)


async def test_a_table_that_could_not_be_written_for_what_a_row_does_not_tell_is_an_error(
    orders: Orders,
) -> None:
    await orders.save()
    orders.disk.full_below = orders.directory / "config"
    with pytest.raises(DiskFull):
        await orders.table.forget("g", "orders", [0])
    with pytest.raises(DiskFull):
        await orders.save(1)
    orders.disk.full_below = None
    await orders.save(2)
    again = orders.again().closed()
    assert [again.found(n) for n in range(3)] == [QueueOrder(), HELD, HELD]


async def test_a_failed_sync_of_the_table_is_an_error_though_the_journal_has_it_all(
    orders: Orders,
) -> None:
    await orders.save()
    orders.clock.advance(5_000)
    orders.disk.sync_error = FsyncFailed(why=errno.errorcode[errno.EIO])
    orders.disk.sync_error_below = orders.directory / "config"
    with pytest.raises(FsyncFailed):
        await orders.save(order=QueueOrder(9))
    orders.disk.sync_error = None
    await orders.save(order=QueueOrder(11))
    assert orders.rows == 0, "no row follows on the table before"
    assert orders.again().closed().found() == QueueOrder(11)
