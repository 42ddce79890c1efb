"""Walks whose broker has a follower, which is promoted where other walks restart a killed broker.

The follower has the whole log, as with synchronous replication, and the tables that it was sent
when the leader was killed. The models permit what a kill permits: a promotion may lose nothing, and
repeat nothing more.
"""

import asyncio

from pocketmq.files.disk import Disk
from pocketmq.services.replication.table_copy import TableCopy
from pocketmq.services.replication.table_feed import Quorum, TableFeed
from pocketmq.services.replication.table_record import decode_record
from pocketmq.store.tables.tables import Tables
from tests.models.consume_walk import ConsumeWalk
from tests.models.later_walk import LaterWalk
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.seeded_store import STORE, SeededStore, stop_short

LOG = STORE / "commitlog"
QUORUM = Quorum(1, 3_600_000)


class Follower:
    """The disk of a follower; `follow` copies tables to it, in a task."""

    def __init__(self, leader: SeededStore) -> None:
        self.disk = SimDisk(seed=leader.seed)
        self._tables = Tables(self.disk, STORE, leader.loop.clock)
        self._copy = TableCopy(self._tables.files, lambda name: None, self._nothing)
        store = leader.store
        self._feed = TableFeed(
            store.tables.files, store.clock, lambda: store.appended, lambda: QUORUM
        )
        self._feed.begin()
        self._cursor = self._feed.connect()
        self._grew = asyncio.Event()
        self._task = asyncio.ensure_future(self._follow())

    async def _nothing(self) -> None:
        pass

    async def _follow(self) -> None:
        while True:
            record = await self._cursor.next_record()
            if record is None:
                await self._feed.arrived.reached(self._feed.arrived.value + 1)
                continue
            await self._copy.take(decode_record(record.encode()), record.at)
            self._feed.acknowledge(self._cursor, self._copy.seq)
            self._grew.set()

    async def end(self) -> None:
        """Ends the connection, once the follower has everything."""
        while self._cursor.acknowledged < self._feed.seq:
            self._grew.clear()
            await self._grew.wait()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._feed.disconnect(self._cursor)
        self._feed.close()

    def promoted(self, leader: Image) -> Image:
        """Returns the disk with the log of the leader; the leader's while not all was sent."""
        if not self._cursor.acknowledged:
            return leader
        self.disk.make_directory(LOG)
        copy_log(SimDisk(leader), self.disk)
        return self.disk.image.copy()  # A write may be under way.


def copy_log(source: Disk, target: Disk) -> None:
    for name in source.names(LOG):
        target.write_file(LOG / name, source.read_file(LOG / name))


class Promoted(SeededStore):
    """A store with a follower."""

    follower: Follower

    async def open(self, disk: SimDisk | None = None) -> None:
        await super().open(disk)
        self.follower = Follower(self)


class PromotedConsumeWalk(Promoted, ConsumeWalk):
    """A walk of consumers."""

    async def close(self) -> None:
        await self.follower.end()
        await super().close()

    async def open_crashed(self, image: Image) -> None:
        self.note("promotions")
        await stop_short()
        await super().open_crashed(self.follower.promoted(image))


class PromotedLaterWalk(Promoted, LaterWalk):
    """A walk of delays and transactions."""

    async def restart(self, rest_ms: int = 0) -> None:
        await self.follower.end()
        await super().restart(rest_ms)

    async def kill(self) -> None:
        self.note("promotions")
        await stop_short()
        await self.open_again(self.follower.promoted(self.disk.image.copy()))

    async def cut(self) -> None:
        await self.kill()
