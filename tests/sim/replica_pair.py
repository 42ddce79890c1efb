"""A leader and its follower in one seeded loop, and what their clients and operators see.

    pair = ReplicaPair(loop, Counter())
    await pair.begin()
    await pair.put(pair.nodes["a"], [(0, 1)])       a message; acknowledged once both have it
    pair.die(pair.nodes["a"])                       a kill, or a power cut
    await pair.settle()                             heals: one leads in the end, the other follows
    await pair.compare()                            logs, queues, tables and histories

Acknowledgements wait for the follower, so that an operator may promote either broker at any time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.format.record import decode_record
from pocketmq.model.administration import PurgedQueue, TopicChange
from pocketmq.model.batch import Destination, PutStatus
from pocketmq.model.errors import BrokerError
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import ReadRange
from pocketmq.model.replication import FENCED, FOLLOWER, LEADER
from pocketmq.services.admin.purge import purge_topic
from pocketmq.services.admin.topics import delete_topic, update_topic
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.tables.copied_files import COPIED
from pocketmq.store.tables.terms import Fence
from tests.faults.history import Code, Queue, body_of, code_of
from tests.faults.replicas import Ack, Knows, Leads, PairHistory, Place, Purged, faults_of
from tests.kit.rows import batch
from tests.kit.store_language import STORE_HOST, put_row
from tests.kit.two_stores import log_bytes
from tests.sim.disk import SimDisk
from tests.sim.disk_image import File, Image
from tests.sim.loop import SeededLoop
from tests.sim.network import NODE, Network
from tests.sim.replica_node import Node
from tests.sim.seeded_store import STORE

QUEUES: Final[tuple[Queue, ...]] = (("orders", 0), ("orders", 1), ("bills", 0))
CUT_SHARE: Final = 0.5
"""Share of deaths that are power cuts."""
SETTLE_S: Final = 120.0


class ReplicaPair:
    """Nodes "a", which leads at first, and "b"; `history` lists the events."""

    def __init__(self, loop: SeededLoop, counts: Counter[str], **settings: Any) -> None:
        self.loop = loop
        self.random = loop.random
        self.counts = counts
        self.network = Network(loop)
        self.history = PairHistory()
        loop.set_task_factory(self._task)
        settings = {"in_sync_replicas": 2, **settings}
        self.nodes = {
            "a": Node("a", self.network, leads=self._leads, fenced=self._fenced, **settings),
            "b": Node(
                "b", self.network, leader="a", leads=self._leads, fenced=self._fenced, **settings
            ),
        }
        self.created: set[str] = set()
        self.removed: set[str] = set()
        self._lacking: set[str] = set()
        """Nodes that lost their disk, or a part, and must not lead before they have everything."""
        self._seq = 0
        self._work: list[asyncio.Task[Any]] = []
        self._errors_ignored = 0

    def _task(self, loop: Any, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(coroutine, loop=loop, **options)
        node = self.nodes.get(NODE.get()) if NODE.get() else None
        if node is not None:
            node.tasks[task] = None
            task.add_done_callback(lambda task: node.tasks.pop(task, None))
        return task

    def _leads(self, name: str, epoch: int) -> None:
        self.history.events.append(Leads(self.loop.time(), name, epoch))

    def _fenced(self, name: str, fence: Fence) -> None:
        self.counts["fences"] += 1
        self.history.events.append(Knows(self.loop.time(), name, fence.epoch))

    async def begin(self) -> None:
        """Starts both nodes."""
        for node in self.nodes.values():
            node.start()
        await self.until(lambda: all(node.is_up for node in self.nodes.values()), "begin")

    async def look(self) -> None:
        """Buries dead nodes, and raises errors of the others."""
        for node in self.nodes.values():
            if node.is_dead and node._image is not None:
                await node.bury()
                self.counts["deaths"] += 1
                self.loop.errors.clear()  # Errors of the dead node do not count.
            node.check()
        assert not self.loop.errors, self.loop.errors

    async def until(self, is_so: Callable[[], bool], what: str = "") -> None:
        until = self.loop.time() + SETTLE_S
        while not is_so():
            assert self.loop.time() < until, f"not in {SETTLE_S} s: {what}, {self.state()}"
            await self.loop.pause(0.02)
            await self.look()

    def state(self) -> dict[str, Any]:
        """Returns the state of both nodes for an error's text."""
        return {
            name: node.roles.status()._replace(replicas=[]) if node.is_up else "down"
            for name, node in self.nodes.items()
        }

    @property
    def up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_up and not node.is_dead]

    def other(self, node: Node) -> Node:
        return self.nodes["b" if node.name == "a" else "a"]

    def leaders(self) -> list[Node]:
        return [node for node in self.up if node.roles.role == LEADER]

    async def put(self, node: Node, codes: list[Code]) -> None:
        queue, sent_at = self.random.choice(QUEUES), self.loop.time()
        size = self.random.choice((0, 10, 200, 900))
        rows = [put_row(body_of(code, b"x" * size)) for code in codes]
        run = (Destination(*queue, STORE_HOST), batch(*rows))
        try:
            (result,) = await node.store.writing.put([run])
        except BrokerError as error:
            self.counts[f"refused: {type(error).__name__}"] += not node.is_dead
            return
        if node.is_dead:
            return
        if result.status is not PutStatus.OK:
            self.counts[f"put: {result.status.name}"] += 1
            return
        at = self.loop.time()
        for number, code in enumerate(codes):
            place = Place(queue, result.queue_offset + number)
            self.counts["acknowledged"] += 1
            self.history.events.append(Ack(at, node.name, place, code, sent_at))

    async def created_topic(self, node: Node, name: str) -> None:
        await node.store.tables.topics.create(name, queue_count=1)
        if not node.is_dead:
            self.created.add(name)
            self.counts["topics acknowledged"] += 1

    async def removed_topic(self, node: Node, name: str) -> None:
        """Deletes a topic; acknowledged, it exists on no broker in the end."""
        await delete_topic(node.store, name)
        if not node.is_dead:
            self.removed.add(name)
            self.counts["removals acknowledged"] += 1

    async def extended_topic(self, node: Node, name: str) -> None:
        """Adds queues to a topic."""
        change = TopicChange(read_queue_count=4, write_queue_count=4)
        await update_topic(node.store, name, change)
        self.counts["added queues"] += not node.is_dead

    async def purged(self, node: Node, queue: Queue) -> None:
        """Purges some of a queue's messages; acknowledged, no broker has them in the end."""
        topic, queue_id = queue
        if topic not in node.store.tables.topics.names():
            await node.store.tables.topics.create(topic, queue_count=2)
        lower, upper = node.store.reading.queue_range(*queue)
        floor = self.random.randint(lower, upper)
        self.history.purging[queue] = max(self.history.purging.get(queue, 0), floor)
        planned = [PurgedQueue(topic, queue_id, lower, floor)]
        found = await purge_topic(node.store, topic, queue_ids=[queue_id], planned=planned)
        if found and not node.is_dead:
            self.counts["purges acknowledged"] += 1
            place = Place(queue, found[0].new_min_offset)
            self.history.events.append(Purged(self.loop.time(), node.name, place))

    def die(self, node: Node) -> None:
        cut = self.random.random() < CUT_SHARE
        self.counts["power cuts" if cut else "kills"] += 1
        node.die(node.state_after(cut=cut))

    async def restart(self) -> None:
        for node in self.nodes.values():
            await self.look()  # This node may have died while the other one started.
            if node.is_dead:
                node.disk.capacity_bytes = None
                node.start()
                await self.until(lambda: node.is_up or node.is_dead, "start")  # noqa: B023

    def lose_disk(self, node: Node) -> None:
        self.counts["disks lost"] += 1
        node.wipe()
        self._lacking.add(node.name)

    def damage(self, node: Node) -> None:
        """Loses the oldest of a dead node's log files, a bit of it, or its end."""
        directory = STORE / COMMIT_LOG_DIRECTORY
        names = node.disk.names(directory) if node.disk.exists(directory) else []
        if len(names) < 3:  # The last but one may end with a record that a power cut tore.
            return
        image = node.disk.image.cut(self.random)
        content = bytearray(log_file(image, names[0]).durable)
        # Above the mark it would be a torn end, of which the other one may not know if it died too.
        below, oldest_base = _marked(node, image)
        if self.random.random() < 0.3 and oldest_base == int(names[0]) < below:
            self.counts["files lost"] += 1
            self._lose(node, image)
            node.disk.unlink(directory / names[0])
            node.disk.sync_directory(directory)
            return
        places = [at for at in range(1, below) if content[at - 1 : at + 2] == b"xxx"]  # Bodies.
        if not places:
            return
        at = self.random.choice(places)
        if self.random.random() < 0.5:
            self.counts["bits flipped"] += 1
            content[at] ^= 1 << self.random.randrange(8)
        else:
            self.counts["files truncated"] += 1
            content[at:] = bytes(len(content) - at)
        self._replace(node, image, names[0], bytes(content))

    def lose_end(self, node: Node) -> None:
        """Zeros the end of a dead node's log, which may be above the mark on its disk."""
        directory = STORE / COMMIT_LOG_DIRECTORY
        names = node.disk.names(directory) if node.disk.exists(directory) else []
        if not names:
            return
        image = node.disk.image.cut(self.random)
        content = bytearray(log_file(image, names[-1]).durable)
        at = self.random.randint(0, len(content.rstrip(b"\0")))
        content[at:] = bytes(len(content) - at)
        self.counts["ends lost"] += 1
        self._replace(node, image, names[-1], bytes(content))

    def _replace(self, node: Node, image: Image, name: str, content: bytes) -> None:
        file = log_file(image, name)
        file.durable = file.seen = content
        self._lose(node, image)

    def _lose(self, node: Node, image: Image) -> None:
        node.disk = SimDisk(image, seed=self.random.getrandbits(32))
        self._lacking.add(node.name)

    def has_all(self, node: Node) -> bool:
        """Returns whether a node has all acknowledged messages; only a new disk lacks some."""
        leader = self.other(node)
        if node.name in self._lacking and leader.is_up and node.roles.role == FOLLOWER:
            is_whole = node.store.appended >= leader.store.appended
            if is_whole and node.is_connected:
                self._lacking.discard(node.name)
        return node.name not in self._lacking

    async def promoted(self, node: Node) -> None:
        term = await node.roles.promote(is_forced=True)
        if not node.is_dead:
            self.counts["promotions"] += 1
            self._leads(node.name, term.epoch)

    async def demoted(self, node: Node, *, is_forced: bool) -> None:
        await node.roles.follow(self.other(node).name, is_forced=is_forced, wait_ms=5_000)
        self.counts["demotions"] += not node.is_dead

    async def ask(self, node: Node, work: Coroutine[Any, Any, None]) -> None:
        """Runs an operator's command on a node, and waits until its services run again."""
        starts = node.starts

        async def asked() -> bool:
            try:
                await work
            except BrokerError as error:
                self.counts[f"refused: {type(error).__name__}"] += not node.is_dead
                return False
            return True

        task = node.run(asked())
        await self.until(lambda: task.done() or node.is_dead, "an operator's work")
        if node.is_dead or not task.result():
            return
        await self.until(lambda: (node.is_up and node.starts > starts) or node.is_dead, "restart")

    async def settle(self) -> None:
        """Heals everything: one node leads in the end, the other one follows and has everything."""
        self.network.heal()
        for node in self.nodes.values():
            node.disk.hook = node.disk.capacity_bytes = None
        await self.restart()
        until = self.loop.time() + SETTLE_S
        while not self.is_settled():
            assert self.loop.time() < until, f"no leader and follower: {self.state()}"
            await self._settle_roles()
            await self.loop.pause(0.5)
            await self.look()
        await asyncio.gather(*self._work, return_exceptions=True)
        (leader,) = self.leaders()
        follower = self.other(leader)
        await self.until(lambda: self.has_all_of(leader), "the follower catches up")
        acknowledged = self.counts["acknowledged"]
        while self.counts["acknowledged"] == acknowledged:
            assert self.loop.time() < until + SETTLE_S, f"nothing is acknowledged: {self.state()}"
            self._seq += 1
            await self.put(leader, [(0, self._seq)])
            await self.loop.pause(0.5)
        await leader.store.tables.offsets.saved()
        await self.until(lambda: self.are_equal(leader, follower), "the follower is equal")
        await self.loop.pause(1.0)  # A follower reads replaced tables slightly later.

    async def _settle_roles(self) -> None:
        leaders = self.leaders()
        for node in self.up:
            role, other = node.roles.role, self.other(node)
            if node.store.damage is not None and role != FENCED:
                self.counts["damages noticed"] += 1
                if role == FOLLOWER:
                    await self.ask(node, node.roles.resync())
                    return
                if other.is_up and other.roles.role == FOLLOWER:
                    await self.ask(other, self.promoted(other))
                    return
            if role == FOLLOWER and "with an empty store" in node.roles.status().trouble:
                self.counts["stores emptied"] += 1
                self.die(node)
                await self.look()
                self.lose_disk(node)
                await self.restart()
                return
            if role == FENCED:
                await self.ask(node, self.demoted(node, is_forced=False))
                return
            if role == FOLLOWER and not leaders:
                chosen = node if self.has_all(node) else other
                await self.ask(chosen, self.promoted(chosen))
                return
        if len(leaders) > 1 and leaders[0].terms.epoch == leaders[1].terms.epoch:
            self.counts["same epoch twice"] += 1
            await self.ask(leaders[1], self.demoted(leaders[1], is_forced=True))

    def is_settled(self) -> bool:
        roles = sorted(node.roles.role for node in self.up)
        is_whole = all(node.store.damage is None for node in self.up)
        return (
            is_whole
            and roles == sorted([LEADER, FOLLOWER])
            and all(node.is_connected for node in self.up if node.roles.role == FOLLOWER)
        )

    def has_all_of(self, leader: Node) -> bool:
        """Returns whether the follower has reported the leader's whole log."""
        end = leader.store.appended if leader.is_up else -1
        return any(row.acknowledged == end for row in leader.leader.rows() if row.is_connected)

    def are_equal(self, leader: Node, follower: Node) -> bool:
        if not (leader.is_up and follower.is_up):
            return False
        one, other = leader.store, follower.store
        ends = {one.appended, one.flushed, one.dispatched, other.dispatched, other.appended}
        return len(ends) == 1 and not leader.leader.tables.is_behind

    async def compare(self) -> None:
        """Compares both nodes, and their histories."""
        a, b = (node.store for node in self.nodes.values())
        assert log_bytes(a) == log_bytes(b), "the logs differ"
        for name in COPIED:
            mine, theirs = (one.tables.files.read(name) for one in (a, b))
            assert mine == theirs, f"{name} differs: {mine!r}, {theirs!r}"
        for node in self.nodes.values():
            missing = self.created - set(node.store.tables.topics.names())
            assert not missing, f"{node.name} lacks topics that were acknowledged: {missing}"
            there = self.removed & set(node.store.tables.topics.names())
            assert not there, f"{node.name} has topics whose removal was acknowledged: {there}"
            self.history.ends[node.name] = {
                queue: [
                    (message.queue_offset, code_of(message.body))
                    for message in await pulled(node.store, queue, _first(node, queue))
                ]
                for queue in QUEUES
            }
        found = faults_of(self.history)
        assert not found, "\n".join(found)


def _marked(node: Node, image: Image) -> tuple[int, int]:
    """Returns the end of the log that a start expects, and its begin."""
    parts = StoreComponents(node.settings, SimDisk(image))
    parts.checkpoint.load()
    parts.mark.open()
    return parts.mark.valid_upto(parts.checkpoint.content) or 0, parts.mark.oldest_base


def _first(node: Node, queue: Queue) -> int:
    return node.store.reading.queue_range(*queue)[0]


def log_file(image: Image, name: str) -> File:
    """Returns a file of the commit log."""
    file = image.find(STORE / COMMIT_LOG_DIRECTORY / name)
    assert isinstance(file, File)
    return file


async def pulled(store: MessageStore, queue: Queue, begin: int) -> list[StoredMessage]:
    """Returns all messages of a queue from an offset on."""
    found: list[StoredMessage] = []
    end = store.reading.queue_range(*queue)[1]
    while begin < end:
        result = await value_of(store.reading.pull(ReadRange(*queue, begin, 32, 1 << 20)))
        if not result.records:
            break
        found += map(decode_record, result.records)
        begin = result.next_begin_offset
    return found
