"""A broker's store with all of its replication, on a simulated disk and network.

    node = Node("b", network, leader="a")
    await node.start()                 as a process: opens, and opens again when its role changes
    node.die(image)                    kill -9 or a power cut now: nothing of it is seen afterwards
    node.arm(7, cut=True)              the same within the seventh call of the disk from now on
    await node.bury()                  ends the tasks of a dead node; it can be started again

It is wired as `pocketmq serve` does it, without the services of clients. Tasks are known by the
node that began them, so that one of two nodes in a loop can die.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from pocketmq.app.replication import leader_of
from pocketmq.config.port_sections import ReplicationSection
from pocketmq.config.sections import Config
from pocketmq.model.errors import DiskFull
from pocketmq.model.replication import FOLLOWER
from pocketmq.rpc.replication.fencing import Claim, Fencer
from pocketmq.rpc.replication.follower_port import FollowerPort
from pocketmq.rpc.replication.following import Dial, FollowerLink
from pocketmq.services.replication.confirming import InSync
from pocketmq.services.replication.followers import Followers, Greeting, always_admitted
from pocketmq.services.replication.leader import Leader
from pocketmq.services.replication.roles import Link, Roles
from pocketmq.services.replication.table_copy import TableCopy
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.recovery.cut import cut_if_room
from pocketmq.store.runner import Runner
from pocketmq.store.tables.identity import StoreIdentity
from pocketmq.store.tables.terms import Fence, TermTable
from tests.kit.store_language import small_settings
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.loop import LoopClock
from tests.sim.network import NODE, Network
from tests.sim.seeded_store import STORE, in_order

LAG_BYTES_MAX: Final = 1 << 30


class Node:
    """One broker of a pair.

    leader   name of the node that it follows at first, "" without one
    leads    called at each start as a leader, with the epoch
    fenced   called once the node knows of a later term
    """

    store: MessageStore
    roles: Roles
    terms: TermTable

    def __init__(
        self,
        name: str,
        network: Network,
        *,
        leader: str = "",
        leads: Callable[[str, int], None],
        fenced: Callable[[str, Fence], None],
        **settings: Any,
    ) -> None:
        self.name = name
        self.loop = network.loop
        self.disk = SimDisk(seed=self.loop.random.getrandbits(32))
        self.clock = LoopClock(self.loop)
        """The node's own clock, which may be set."""
        self.is_dead = False
        self.is_up = False
        self.role = ""
        """The role at the death."""
        self.starts = 0
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._network = network
        self._config = Config(replication=ReplicationSection(leader=leader))
        self.settings = small_settings(STORE, **settings)
        self._leads = leads
        self._fenced = fenced
        self._asked = asyncio.Event()
        self._cut_at = -1
        self._process: asyncio.Task[None] | None = None
        self._image: Image | None = None
        self._link: FollowerLink | None = None

    # -- the process ---------------------------------------------------------------------------
    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs a coroutine as a task of the node."""
        context = copy_context()
        context.run(NODE.set, self.name)
        return context.run(self.loop.create_task, work)

    def start(self) -> None:
        """Starts the process."""
        assert self._process is None, "it runs"
        self.is_dead, self._asked = False, asyncio.Event()
        self._process = self.run(self._run())

    async def _run(self) -> None:
        while True:
            await self._open()
            self.is_up = True
            await self._asked.wait()
            self._asked.clear()
            await self._close()

    def check(self) -> None:
        """Raises the error with which the process ended, or its store failed."""
        if self._process is not None and self._process.done() and not self.is_dead:
            if isinstance(self._process.exception(), DiskFull):  # The process could not start.
                self.die(self.state_after(cut=False))
                return
            self._process.result()
            raise AssertionError(f"the process of {self.name} ended")
        if self.is_up and self.store.failure.done() and not self.is_dead:
            raise AssertionError(f"the store of {self.name} failed: {self.store.failure}")

    async def _open(self) -> None:
        disk, network = self.disk, self._network
        self.terms, self.identity = TermTable(disk, STORE), StoreIdentity(disk, STORE)
        self.terms.load()
        self.identity.load()
        leader = leader_of(self._config, self.terms)
        settings = replace(self.settings, leader=leader)
        cut_at, self._cut_at = self._cut_at, -1
        if leader and cut_at >= 0:
            await asyncio.to_thread(cut_if_room, settings, disk, cut_at)
        self.store = store = await open_store(settings, self.clock, disk)
        in_order(store)
        self.starts += 1
        self.leader = Leader(store, LAG_BYTES_MAX, InSync(settings.in_sync_replicas))
        self._runner = Runner(self.clock)
        self._link = self._link_to(leader) if leader else None
        if self._link is None:
            self.leader.tables.begin()
            self._runner.run(self.leader.step, self.leader.tables.step)
        else:
            self._runner.run(self._link.step)
        link, own = None, self._link
        if own is not None:
            link = Link(own.state, own.finish, own.end, own.start, own.cut)
        self.roles = Roles(store, self.terms, self.leader, self._asked.set, link)
        self._port = FollowerPort()
        network.listen(self.name, self._port.connection)
        self._begin()

    def _link_to(self, leader: str) -> FollowerLink:
        store = self.store
        tables = TableCopy(store.tables.files, store.reload, store.drop_removed)
        return FollowerLink(store, self._dial(leader), self.identity, self.terms, tables, self._cut)

    def _dial(self, target: str) -> Dial:
        async def dialled() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if self.is_dead:  # Its tasks continue until `bury`.
                raise ConnectionRefusedError("it is dead")
            return await self._network.dial(self.name, target)

        return Dial(target, dialled, lambda: "")

    def _cut(self, physical_offset: int) -> None:
        self._cut_at = physical_offset
        self._asked.set()

    def _begin(self) -> None:
        async def fence(fence: Fence) -> None:
            await self.roles.fence(fence)
            if not self.is_dead:
                self._fenced(self.name, fence)

        greeting = Greeting(self.name, "DefaultCluster", self.name)
        self._port.serve(
            Followers(
                self.store, self.leader, self.identity, self.terms, greeting,
                lambda token: always_admitted, fence,
            )
        )  # fmt: skip
        if self.terms.fence is not None:
            return
        if self._link is not None:
            self._link.start()
            return
        if not self.is_dead:
            self._leads(self.name, self.terms.epoch)
        if self.terms.epoch and self.terms.leader:
            size = self.store.log.file_size_bytes
            claim = Claim(self.identity, self.terms, size, self.name, fence)
            self._port.fence(Fencer(self._dial(self.terms.leader), claim))

    async def _close(self) -> None:
        self.is_up = False
        await self._end_connections()
        await self.store.close()

    async def _end_connections(self) -> None:
        await self._port.close()
        self._runner.close()
        if self._link is not None:
            await self._link.end()
        else:
            self.leader.tables.close()

    async def stop(self) -> None:
        """Stops the process cleanly."""
        assert self._process is not None, "it does not run"
        self._process.cancel()
        self._process = None
        if self.is_up:
            await self.run(self._close())

    @property
    def is_connected(self) -> bool:
        """Whether the node is connected to its leader."""
        return self._link is not None and self._link.is_connected

    # -- death ---------------------------------------------------------------------------------
    def state_after(self, *, cut: bool) -> Image:
        """Returns the disk as a kill or a power cut would leave it now."""
        image = self.disk.image
        return image.cut(Random(self.loop.random.getrandbits(32))) if cut else image.copy()

    def die(self, image: Image) -> None:
        """Ends the node with a state of its disk; its later writes have no effect."""
        if self.is_dead:
            return
        self.is_dead, self._image = True, image
        self.role = self.roles.role if self.starts else FOLLOWER
        self.disk.hook = None
        self._network.sever(self.name)

    def arm(self, calls: int, *, cut: bool) -> None:
        """Makes the node die within a later call of its disk."""
        left = [calls]

        def called(call: str, path: Path) -> None:
            left[0] -= 1
            if left[0] == 0:
                self.die(self.state_after(cut=cut))

        self.disk.hook = called

    async def bury(self) -> None:
        """Ends the tasks of a dead node; its disk has the state of its death."""
        assert self._image is not None, "it is alive"
        process, self._process = self._process, None
        if self.is_up:
            self.is_up = False
            await asyncio.gather(self.run(self._end_connections()), return_exceptions=True)
        own = [task for task in self.tasks if task is not asyncio.current_task()]
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)
        assert process is None or process.done(), "the process goes on"
        self.tasks.clear()
        self.disk = SimDisk(self._image, seed=self.loop.random.getrandbits(32))
        self._image, self._cut_at = None, -1

    def wipe(self) -> None:
        """Empties the disk of a dead node."""
        self.disk = SimDisk(seed=self.loop.random.getrandbits(32))
