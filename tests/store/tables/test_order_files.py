"""Changes of FIFO order since the table was written: read at a start, bound to that table."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from pocketmq.format.order_changes import (
    OrderChange,
    decode_changes,
    encode_changes,
    lost_rows_at,
    whole_change,
)
from pocketmq.format.order_row import OrderedDelivery, QueueOrder
from pocketmq.format.table_json import decode_table
from pocketmq.model.errors import DiskFull
from pocketmq.store.tables.order_files import OrderFiles
from pocketmq.store.tables.order_info import FOLD_INTERVAL_MS, OrderInfo
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.quick_disk import QuickDisk

FIRST = QueueOrder(3, frozenset(), {3: OrderedDelivery(1, 1_000, 61_000, "c 1")})
SIZE = 4_096
DRAWS = 32


class Orders:
    """The table of a store; `next` gives out one message more and settles the one before."""

    def __init__(
        self, disk: QuickDisk | SimDisk, directory: Path, *, is_sync: bool = True, size: int = SIZE
    ) -> None:
        self.disk, self.directory, self.clock = disk, directory, FakeClock()
        self.pool = ThreadPoolExecutor(1)
        self.path = directory / "config" / "consumerOrderInfo.json"
        self.journal = directory / "pocketmq" / "order.journal"
        files = OrderFiles(disk, directory, size)
        self.table = OrderInfo(files, self.clock, self.pool, is_sync=is_sync)
        self.table.load()
        self.is_sync = is_sync
        self.order = self.found

    @property
    def found(self) -> QueueOrder:
        return self.table.find("g", "orders", 0, 0)

    def change(self) -> None:
        begin = self.order.next_offset
        given_out = OrderedDelivery(1, 1_000 + begin, 61_000, "c 1")
        self.order = QueueOrder(begin + 1, frozenset(), {begin + 1: given_out})
        order, change = self.order, OrderChange(False, begin + 1, [], [(begin + 1, given_out)])
        self.table.change("g", "orders", 0, lambda: order, lambda: change)

    async def next(self) -> QueueOrder:
        self.change()
        await self.table.saved()
        return self.order

    @property
    def folded(self) -> QueueOrder:
        """The order that the table alone holds, as a real broker would read it."""
        row = decode_table(self.path.read_bytes())["table"]["orders@g"][0]
        own = row["pocketmq"]
        delivered = {one[0]: OrderedDelivery(*one[1:]) for one in own["delivered"]}
        return QueueOrder(own["next"], frozenset(), delivered)

    def closed(self) -> "Orders":
        self.pool.shutdown()
        self.table.close()
        return self

    def again(self) -> "Orders":
        """The state that a start finds now."""
        self.closed()
        return Orders(self.disk, self.directory, is_sync=self.is_sync)


@pytest.fixture(params=[True, False], ids=["sync", "async"])
def orders(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Orders]:
    made = Orders(QuickDisk(), tmp_path, is_sync=request.param)
    yield made
    made.closed()


async def test_what_was_answered_is_found_though_the_table_is_older(orders: Orders) -> None:
    first = await orders.next()
    for _ in range(5):
        last = await orders.next()
    assert orders.folded == first
    again = orders.again()
    assert again.found == last
    last = await again.next()
    assert again.folded == last, "the first write after a start is of the table"
    assert again.again().closed().found == last


async def test_the_table_follows_after_a_while_and_at_a_stop(orders: Orders) -> None:
    first = await orders.next()
    second = await orders.next()
    orders.table.save_soon()
    assert orders.folded == first
    orders.clock.advance(FOLD_INTERVAL_MS)
    orders.table.save_soon()
    await orders.table.saved()
    assert orders.folded == second
    third = await orders.next()
    await orders.table.folded()
    assert orders.folded == third
    assert isinstance(orders.disk, QuickDisk)
    writes = len(orders.disk.calls["write_file"])
    orders.clock.advance(FOLD_INTERVAL_MS)
    orders.table.save_soon()
    await orders.table.folded()
    assert len(orders.disk.calls["write_file"]) == writes, "nothing changed since"


async def test_what_the_journal_has_no_room_for_goes_into_the_table(orders: Orders) -> None:
    for _ in range(200):
        last = await orders.next()
    assert orders.journal.stat().st_size == SIZE
    assert orders.folded.next_offset > 100
    assert orders.again().closed().found == last


async def test_a_table_that_a_real_broker_wrote_makes_the_journal_void(orders: Orders) -> None:
    first = await orders.next()
    await orders.next()
    table = decode_table(orders.path.read_bytes())
    table.pop("pocketmqVersion")
    text = json.dumps(table)
    orders.path.write_text(text)
    again = orders.again()
    assert again.found == first
    last = await again.next()
    assert last.next_offset == first.next_offset + 1
    assert again.again().closed().found == last


async def test_a_journal_that_ends_within_a_row_counts_up_to_there(orders: Orders) -> None:
    found = [await orders.next() for _ in range(4)]
    content = orders.journal.read_bytes()
    used = len(content.rstrip(b"\0"))
    orders.journal.write_bytes(content[: used - 3] + bytes(SIZE - used + 3))
    assert orders.again().closed().found == found[-2]


async def test_rows_behind_a_damaged_one_are_told_and_not_read(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    found = [await orders.next()]
    ends = [0]
    for _ in range(3):
        found.append(await orders.next())
        ends.append(len(orders.journal.read_bytes().rstrip(b"\0")))
    content = orders.journal.read_bytes()
    for place in (ends[1], ends[1] + 4, ends[1] + 8, ends[1] + 16, ends[2] - 1):
        flipped = bytearray(content)
        flipped[place] ^= 1
        orders.journal.write_bytes(flipped)
        caplog.clear()
        assert orders.again().closed().found == found[1]
        (told,) = caplog.records
        assert (told.message, told.path, told.position) == (  # type: ignore[attr-defined]
            "order.damaged", str(orders.journal), ends[1]
        )  # fmt: skip
    orders.journal.write_bytes(content)
    caplog.clear()
    assert orders.again().closed().found == found[3]
    assert not caplog.records


async def test_a_full_disk_leaves_the_journal_to_answer(orders: Orders) -> None:
    assert isinstance(orders.disk, QuickDisk)
    first = await orders.next()
    orders.clock.advance(FOLD_INTERVAL_MS)
    orders.disk.full_below = orders.path.parent
    await orders.next()
    last = await orders.next()
    assert orders.folded == first
    with pytest.raises(DiskFull):
        for _ in range(99):
            last = await orders.next()
    with pytest.raises(DiskFull):
        await orders.next()
    orders.disk.full_below = None
    last = await orders.next()
    assert orders.folded == last
    last = await orders.next()
    assert orders.again().closed().found == last


async def test_without_room_for_a_journal_the_table_is_written_each_time(orders: Orders) -> None:
    assert isinstance(orders.disk, QuickDisk)
    orders.disk.full_below = orders.journal.parent
    await orders.next()
    assert await orders.next() == orders.folded
    assert not orders.journal.exists()


async def test_forgotten_changes_stay_so(orders: Orders) -> None:
    for _ in range(3):
        await orders.next()
    await orders.table.forget("g", "orders", [0])
    orders.order = QueueOrder()
    orders.change()
    orders.change()
    last = await orders.next()
    again = orders.again()
    assert again.found == last
    await again.next()
    await again.table.remove_group("g")
    assert again.again().closed().found == QueueOrder()


@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
async def test_a_crash_takes_nothing_that_was_answered_and_leaves_one_moment(
    is_sync: bool,
) -> None:
    """Before each call of the disk: kill -9, and power cuts, which take answers of async flush."""
    disk, answered, begun = SimDisk(), 0, 0
    found: list[tuple[Image, int, int]] = []

    def crash(call: str, path: Path) -> None:
        found.append((disk.image.copy(), answered, begun))
        for seed in range(DRAWS):
            found.append((disk.image.cut(Random(seed)), answered if is_sync else 0, begun))

    orders = Orders(disk, Path("/store"), is_sync=is_sync, size=512)
    disk.hook = crash
    for begun in range(1, 13):
        if not begun % 4:
            orders.clock.advance(FOLD_INTERVAL_MS)
        await orders.next()
        answered = begun
    crash("end", orders.path)
    disk.hook = None
    orders.closed()
    met = set()
    for image, least, most in found:
        order = Orders(SimDisk(image), Path("/store")).closed().found
        assert least <= order.next_offset <= most
        assert [*order.delivered] == ([order.next_offset] if order.next_offset else [])
        met.add(order.next_offset)
    assert met == {*range(13)}


async def test_rows_that_a_power_cut_left_over_do_not_count_later() -> None:
    """Later rows than the lost one may be on the disk, at positions that other rows reach."""
    disk = SimDisk()
    orders = Orders(disk, Path("/store"), is_sync=False)
    for _ in range(4):
        await orders.next()
    content = disk.read_file(orders.journal)
    again = orders.again()
    assert again.found.next_offset == 4
    last = await again.next()
    again = again.again()
    assert again.found == last
    assert disk.read_file(again.journal)[200:] == content[200:]
    again.closed()


def test_rows_of_another_make_end_the_journal() -> None:
    change = whole_change(FIRST)
    row = encode_changes([("orders@g", 0, change)], 7, 1)
    assert lost_rows_at(row, 10**30) is None
    assert [*decode_changes(row, 7)] == [("orders@g", 0, change)]
    assert [*decode_changes(row, 8)] == []
    for cut in range(len(row)):
        assert [*decode_changes(row[:cut], 7)] == []
    for place in range(len(row)):
        flipped = bytearray(row)
        flipped[place] ^= 1
        assert [*decode_changes(bytes(flipped), 7)] == []
