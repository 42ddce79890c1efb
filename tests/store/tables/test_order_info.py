"""Deliveries of ordered consumers: durable when saved, in the file a real broker reads."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.order_changes import OrderChange, whole_change
from pocketmq.format.order_row import OrderedDelivery, QueueOrder, encode_order
from pocketmq.format.table_json import decode_table, encode_compact
from pocketmq.store.tables.order_files import OrderFiles
from pocketmq.store.tables.order_info import OrderInfo, Row, text_of
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

REAL = """{
	"orderInfoCount":1,
	"orderedConsumptionLevel":"QUEUE",
	"table":{
		"GFifo@fifo-group":{
			0:{
				"cm":5,
				"i":60000,
				"l":1795221452479,
				"o":[3,1,2],
				"oc":{},
				"popTime":1795221452479
			},
			1:{
				"cm":6,
				"i":60000,
				"l":1795221452562,
				"o":[3,1,2],
				"oc":{},
				"popTime":1795221452561
			}
		}
	}
}"""
"""The golden store `semantics`: of two queues 3, 4, 5 were received; 3, 5 and 4, 5 are settled."""
ORDERS = st.builds(
    QueueOrder,
    st.integers(0, 99),
    st.frozensets(st.integers(100, 120), max_size=3),
    st.dictionaries(
        st.integers(200, 220),
        st.builds(
            OrderedDelivery, st.integers(1, 9), st.integers(0, 9), st.integers(0, 99), st.text()
        ),
        max_size=3,
    ),
)
HELD = QueueOrder(7, frozenset({9}), {8: OrderedDelivery(2, 1_000, 61_000, "c 1")})


class Orders:
    """The table of a store directory; `reopened` is what a start would find."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "config" / "consumerOrderInfo.json"
        self.pool = ThreadPoolExecutor(1)
        self.table = OrderInfo(
            OrderFiles(QuickDisk(), directory), FakeClock(), self.pool, is_sync=True
        )
        self.table.load()

    def reopened(self) -> OrderInfo:
        self.pool.shutdown()
        return Orders(self.directory).table


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    made = Orders(tmp_path)
    yield made
    made.pool.shutdown()


async def test_many_changes_are_one_write_of_what_holds_then(orders: Orders) -> None:
    calls: list[int] = []

    def since() -> OrderChange:
        calls.append(1)
        return whole_change(HELD)

    for _ in range(100):
        orders.table.change("g", "orders", 3, lambda: HELD, since)
    await orders.table.saved()
    assert len(calls) == 1
    assert orders.table.find("g", "orders", 3, 0) == HELD
    again = orders.reopened()
    assert again.find("g", "orders", 3, 0) == HELD
    assert again.find("g", "orders", 3, 9) == QueueOrder(10)
    assert again.find("g", "orders", 2, 5) == QueueOrder(5)


async def test_a_real_brokers_file_is_read_and_kept_in_its_form(orders: Orders) -> None:
    orders.path.parent.mkdir(parents=True)
    orders.path.write_text(REAL)
    orders.table.load()
    held = {4: OrderedDelivery(1, 1795221452479, 1795221512479)}
    assert orders.table.find("fifo-group", "GFifo", 0, 4) == QueueOrder(4, frozenset({5}), held)
    held = {3: OrderedDelivery(1, 1795221452561, 1795221512561)}
    assert orders.table.find("fifo-group", "GFifo", 1, 3) == QueueOrder(3, frozenset({4, 5}), held)
    orders.table.change("other", "GFifo", 0, lambda: HELD)
    await orders.table.saved()
    before, after = decode_table(REAL.encode()), decode_table(orders.path.read_bytes())
    assert after["orderInfoCount"] == 2
    assert after["orderedConsumptionLevel"] == "QUEUE"
    assert after["table"]["GFifo@fifo-group"] == before["table"]["GFifo@fifo-group"]
    assert after["table"]["GFifo@other"][0]["o"] == [8, 1]


async def test_what_is_forgotten_stays_so(orders: Orders) -> None:
    for topic, group in (("orders", "a"), ("orders", "b"), ("bills", "a"), ("bills", "c")):
        orders.table.change(group, topic, 0, lambda: HELD)
    await orders.table.saved()
    orders.table.change("a", "bills", 1, lambda: HELD)
    await orders.table.forget("a", "bills", [0, 1])
    await orders.table.remove_group("b")
    await orders.table.remove_topic("orders")
    again = orders.reopened()
    for topic, group in (("orders", "a"), ("orders", "b"), ("bills", "a")):
        assert again.find(group, topic, 0, 0) == QueueOrder()
    assert again.find("c", "bills", 0, 0) == HELD


async def test_nothing_is_known_of_offsets_that_are_given_again(orders: Orders) -> None:
    orders.table.change("g", "orders", 0, lambda: HELD)
    orders.table.change("g", "orders", 1, lambda: HELD)
    orders.table.change("g", "bills", 0, lambda: QueueOrder(7))
    await orders.table.saved()
    again = orders.reopened()
    assert await again.clamp(lambda topic, queue_id: 10 if queue_id else 9) == 1
    assert again.find("g", "orders", 0, 0) == HELD._replace(settled=frozenset())
    assert again.find("g", "orders", 1, 0) == HELD
    assert await again.clamp(lambda topic, queue_id: 5) == 3
    for topic, queue_id in (("orders", 0), ("orders", 1), ("bills", 0)):
        assert again.find("g", topic, queue_id, 0) == QueueOrder(5)


@given(
    st.dictionaries(
        st.text(max_size=6).map(lambda name: f"{name}@g"),
        st.dictionaries(st.integers(0, 9), ORDERS, max_size=3),
        max_size=4,
    )
)
def test_the_text_is_that_of_the_whole_table(rows: dict[str, dict[int, QueueOrder]]) -> None:
    others = {"orderInfoCount": len(rows), "zz": {"table": {}}, "a": [1], "7": 2}
    encoded = {name: {i: encode_order(o, 5) for i, o in its.items()} for name, its in rows.items()}
    kept = {name: {i: Row(row) for i, row in its.items()} for name, its in encoded.items()}
    wanted = encode_compact(dict(sorted({**others, "table": encoded}.items())))
    assert decode_table(text_of(others, kept)) == decode_table(wanted)
    assert text_of(others, kept) == wanted
    assert text_of(others, kept) == wanted, "rows keep their text"


EARLIER = """{"table":{"orders@g":{3:{"cm":2,"i":60000,"l":5,"o":[8,1],"oc":{8:1},"ot":{8:61000},
"pocketmq":{"delivered":{8:[2,1000,61000,"c 1"]},"next":7,"settled":[[9,10]]},"popTime":1000}}}}"""


async def test_a_row_of_an_earlier_form_is_written_so_that_a_real_broker_can_read_it(
    orders: Orders,
) -> None:
    orders.path.parent.mkdir(parents=True)
    orders.path.write_text(EARLIER)
    orders.table.load()
    assert orders.table.find("g", "orders", 3, 0) == HELD
    await orders.table.saved()
    own = orders.path.read_text().partition('"pocketmq":')[2].partition('"popTime"')[0]
    json.loads(own.rstrip(","))
    assert orders.reopened().find("g", "orders", 3, 0) == HELD


async def test_what_changed_is_found_before_it_is_written(orders: Orders) -> None:
    orders.table.change("g", "orders", 3, lambda: HELD)
    await orders.table.saved()
    orders.table.change("g", "orders", 3, lambda: QueueOrder(7, frozenset({8, 9})))
    assert orders.table.find("g", "orders", 3, 7) == QueueOrder(7, frozenset({8, 9}))
    assert orders.table.find("g", "orders", 3, 8) == QueueOrder(10)
