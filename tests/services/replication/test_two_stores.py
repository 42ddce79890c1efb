"""A follower's open store: it serves what its leader has, and is its leader once it is promoted."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from pocketmq.format.order_row import OrderedDelivery, QueueOrder
from pocketmq.model.step import Now
from pocketmq.services.replication.table_copy import TableCopy
from pocketmq.services.replication.table_feed import Quorum, TableFeed
from pocketmq.store.message_store import opened
from pocketmq.store.tables.copied_files import COPIED, JOURNAL
from tests.kit.store_language import TalkingStore, store_at
from tests.kit.two_stores import LEADER, TwoStores, two_stores
from tests.sim.clock import FakeClock


class Pair:
    """Both stores, and a connection between them without sockets."""

    def __init__(self, stores: TwoStores) -> None:
        self.stores, self.leader = stores, stores.leader.store
        self.follower = stores.follower.store
        self.feed = TableFeed(
            self.leader.tables.files, self.leader.clock, lambda: self.leader.appended,
            lambda: Quorum(0, 1),
        )  # fmt: skip
        self.feed.begin()
        self.cursor = self.feed.connect()
        files, store = self.follower.tables.files, self.follower
        self.tables = TableCopy(files, store.reload, store.drop_removed)

    async def run(self) -> None:
        """Sends everything that is due, the log below each table first; the follower shows it."""
        while (record := await self.cursor.next_record()) is not None:
            await self.stores.copy(upto=max(record.at, self.stores.log_copy.end))
            await self.follower.all_durable()
            await self.tables.take(record, self.follower.flushed)
            self.feed.acknowledge(self.cursor, self.tables.seq)
        await self.stores.copy()
        await self.stores.show()
        now = Now(self.leader.clock.monotonic_ms(), 0)
        while self.tables.step(now).at_ms is not None:
            pass

    def contents(self) -> list[dict[str, bytes | None]]:
        """Returns the files of both."""
        return [
            {name: one.tables.files.read(name) for name in COPIED}
            for one in (self.leader, self.follower)
        ]


async def test_a_follower_serves_reads_and_is_current_when_it_is_promoted(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as stores:
        pair = Pair(stores)
        tables, order = pair.leader.tables, QueueOrder(1, frozenset(), {})
        await tables.topics.create("orders", queue_count=2)
        await tables.topics.create("gone", queue_count=1)
        await stores.leader.send("orders", "a", "b", "c")
        await stores.leader.send("gone", "x", "y")
        await tables.commit("readers", "orders", 0, 2)
        await pair.run()
        assert await stores.follower.pulled("orders") == ["a", "b", "c"]
        assert await stores.follower.pulled("gone") == ["x", "y"]
        assert pair.follower.tables.topics.existing("orders").write_queue_count == 2
        assert pair.follower.tables.offsets.find("readers", "orders", 0) == 2

        await tables.topics.remove("gone")
        await pair.leader.remove_topic("gone")
        await tables.topics.create("gone", queue_count=1)
        await stores.leader.send("gone", "z")
        await pair.leader.purge({("orders", 0): 1})
        given_out = OrderedDelivery(1, 1_000, 61_000, "c 1")
        for number in (1, 2):
            order = QueueOrder(number, frozenset(), {number: given_out})
            tables.orders.change("workers", "orders", 0, partial(order._replace))
            await tables.orders.saved()
        await pair.run()
        assert await stores.follower.pulled("gone") == await stores.leader.pulled("gone") == ["z"]
        assert await stores.follower.pulled("orders") == ["b", "c"]
        (led, copied), settings = pair.contents(), pair.follower.settings
        assert copied == led
        assert led[JOURNAL] is not None
        await pair.follower.close()
        assert pair.contents()[1] == led, "a follower writes no table of its own"
        disk = stores.follower.disk
        async with opened(replace(settings, leader=""), pair.leader.clock, disk) as promoted:
            ours = promoted.tables
            assert ours.orders.find("workers", "orders", 0, 0) == order
            assert ours.offsets.find("readers", "orders", 0) == 2
            assert ours.topics.names() == tables.topics.names()
            assert promoted.queue_end("gone", 0) == pair.leader.queue_end("gone", 0) == 3


async def test_a_purge_of_messages_that_a_follower_shows_later_holds_there(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as stores:
        pair = Pair(stores)
        await stores.leader.send("orders", "a", "b", "c", "d")
        await stores.leader.settled()
        await stores.copy()
        pair.follower.marks.replicate(pair.leader.appended // 2, 1)
        await pair.follower.writing.durability.drain()
        await pair.leader.purge({("orders", 0): 3})
        while (record := await pair.cursor.next_record()) is not None:
            await pair.tables.take(record, pair.follower.flushed)
        pair.tables.step(Now(0, 0))
        assert 0 < pair.follower.reading.queue_range("orders", 0)[1] < 3
        await stores.show()
        assert await stores.follower.pulled("orders") == ["d"]
        settings, disk = pair.follower.settings, stores.follower.disk
        await pair.follower.close()
        async with opened(replace(settings, leader=""), pair.leader.clock, disk) as promoted:
            assert promoted.reading.queue_range("orders", 0) == (3, 4)


async def test_records_that_a_leader_wrote_without_a_crc_are_no_damage(tmp_path: Path) -> None:
    clock, places = FakeClock(), (tmp_path / "leader", tmp_path / "follower")
    async with (
        store_at(places[0]) as leader,
        store_at(places[1], leader=LEADER, property_crc=True) as follower,
    ):
        await leader.send("orders", "a")
        stores = TwoStores(leader, follower)
        await stores.copy()
        await stores.show()
        assert await follower.pulled("orders") == ["a"]
        settings, disk = follower.store.settings, follower.disk
    async with opened(replace(settings, leader=""), clock, disk) as promoted:
        talking = TalkingStore(promoted, clock, disk)
        await talking.send("orders", "b")
        assert await talking.pulled("orders") == ["a", "b"]
        assert promoted.log.property_crc_from is not None
