"""Walks of a leader and its follower: faults of network, disks, clocks and operators.

    walk(7, Counter())         the same seed, the same walk

In the end both brokers are healed and compared (replica_pair.py).
"""

from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final

from pocketmq.model.errors import BrokerError, MessageDamaged
from pocketmq.model.replication import FENCED, FOLLOWER
from tests.faults.history import code_of
from tests.faults.replicas import Place, Seen
from tests.sim.clock import START_MS
from tests.sim.loop import SeededLoop
from tests.sim.replica_node import Node
from tests.sim.replica_pair import CUT_SHARE, QUEUES, ReplicaPair, pulled
from tests.sim.seeded_store import STORE, tell_seeded

HOUR_MS: Final = 3_600_000
STEPS: Final = (
    *("send",) * 14, *("read",) * 4, *("rest",) * 14, *("commit",) * 2, *("create",) * 2,
    *("purge",) * 4,
    *("cut",) * 2, "stall", *("heal",) * 6, "slow", "wait", *("kill",) * 2, *("arm",) * 2,
    "both", *("restart",) * 8, *("promote",) * 2, *("demote",) * 6, "hand_over", "stop", "wipe",
    *("damage",) * 3, "lose_end", *("jump",) * 3, *("fill",) * 2, *("room",) * 4,
)  # fmt: skip
MENDED: Final = (0.0, 0.0, 0.1, 0.3)
"""Shares of steps after which all faults are ended; a walk uses one of them."""


class ReplicaWalk(ReplicaPair):
    """One walk; `at` is its present step."""

    at = "the begin"

    async def run(self, steps: int) -> None:
        """Takes some steps, heals, and compares everything."""
        await self.begin()
        mended = self.random.choice(MENDED)
        for number in range(steps):
            name = self.random.choice(STEPS)
            self.counts[name] += 1
            self.at = f"step {number}, {name}"
            await getattr(self, f"step_{name}")()
            await self.look()
            if self.random.random() < mended:
                await self.mend()
        self.at = "the end"
        await self.settle()
        await self.compare()
        self.counts["walks"] += 1

    async def mend(self) -> None:
        """Ends all faults and lets the follower connect, so that sends are acknowledged."""
        self.network.heal()
        await self.step_room()
        await self.restart()
        await self.step_demote()
        await self.loop.pause(self.random.choice((0.7, 6.0)))
        await self.look()

    async def step_send(self) -> None:
        chosen = self.leaders() if self.random.random() < 0.9 else self.up
        for node in chosen:
            for _ in range(self.random.choice((1, 1, 2, 4))):
                count = self.random.choice((1, 1, 1, 3))
                codes = [(0, self._seq + number) for number in range(count)]
                self._seq += count
                self._work.append(node.run(self.put(node, codes)))

    async def step_read(self) -> None:
        for node in self.up:
            queue, reading = self.random.choice(QUEUES), node.store.reading
            lower, upper = reading.queue_range(*queue)
            begin = max(lower, upper - self.random.randint(1, 8))
            at = self.loop.time()
            try:
                found = await pulled(node.store, queue, begin)
            except MessageDamaged:
                self.counts["reads refused: damage"] += 1
                continue
            for message in found:
                if node.is_dead:
                    break
                self.counts["read"] += 1
                place = Place(queue, message.queue_offset)
                self.history.events.append(Seen(at, node.name, place, code_of(message.body)))

    async def step_commit(self) -> None:
        for node in self.leaders():
            topic, queue_id = self.random.choice(QUEUES)
            end = node.store.reading.queue_range(topic, queue_id)[1]
            offset = self.random.randint(0, end)
            self._begin(node, node.store.tables.offsets.commit("readers", topic, queue_id, offset))

    async def step_create(self) -> None:
        for node in self.leaders():
            self._seq += 1
            self._begin(node, self._lives(node, f"topic-{self._seq}", self._seq % 3))

    async def step_purge(self) -> None:
        for node in self.leaders():
            self._begin(node, self.purged(node, self.random.choice(QUEUES)))

    async def _lives(self, node: Node, name: str, way: int) -> None:
        """Creates a topic, and then deletes it, adds queues to it, or leaves it."""
        await self.created_topic(node, name)
        if name in self.created and way == 0:
            self.created.discard(name)
            await self.removed_topic(node, name)
        elif name in self.created and way == 1:
            await self.extended_topic(node, name)

    def _begin(self, node: Node, work: Coroutine[Any, Any, Any]) -> None:
        async def refused() -> None:
            try:
                await work
            except BrokerError as error:
                self.counts[f"refused: {type(error).__name__}"] += not node.is_dead

        self._work.append(node.run(refused()))

    async def step_rest(self) -> None:
        await self.loop.pause(self.random.choice((0.001, 0.01, 0.1, 0.7, 1.5)))

    async def step_wait(self) -> None:
        await self.loop.pause(self.random.choice((3.0, 6.0, 25.0)))

    async def step_cut(self) -> None:
        self.network.cut()

    async def step_stall(self) -> None:
        source, target = self.random.choice((("a", "b"), ("b", "a")))
        self.network.stall(source, target)
        if self.random.random() < 0.3:
            self.network.stall(target, source)

    async def step_restart(self) -> None:
        await self.restart()

    async def step_heal(self) -> None:
        self.network.heal()

    async def step_slow(self) -> None:
        self.network.delay_s = self.random.choice((0.05, 0.4))

    async def step_kill(self) -> None:
        if self.up:
            self.die(self.random.choice(self.up))

    async def step_arm(self) -> None:
        if self.up:
            node = self.random.choice(self.up)
            node.arm(self.random.randint(1, 40), cut=self.random.random() < CUT_SHARE)

    async def step_both(self) -> None:
        self.counts["both died"] += len(self.up) > 1
        for node in self.up:
            self.die(node)

    async def step_stop(self) -> None:
        for node in self.up[:1] if self.random.random() < 0.5 else self.up[1:]:
            await node.stop()
            node.start()
            await self.until(lambda: node.is_up or node.is_dead, "stop")  # noqa: B023

    async def step_wipe(self) -> None:
        for leader in self.leaders():
            node = self.other(leader)
            is_later = leader.terms.epoch >= node.terms.epoch
            if node.is_dead and node.role == FOLLOWER and is_later and not self._lacking:
                self.lose_disk(node)

    async def step_damage(self) -> None:
        for node in self.nodes.values():
            if node.is_dead and not self._lacking:
                self.damage(node)

    async def step_lose_end(self) -> None:
        for node in self.nodes.values():
            if node.is_dead and node.role == FOLLOWER and not self._lacking:
                self.lose_end(node)

    async def step_jump(self) -> None:
        node = self.random.choice([*self.nodes.values()])
        node.clock.wall = START_MS + self.random.choice((-HOUR_MS, 0, HOUR_MS))

    async def step_fill(self) -> None:
        for node in self.up[:1] if self.random.random() < 0.5 else self.up[1:]:
            self.counts[f"disk full: {node.roles.role}"] += 1
            used, _ = node.disk.space(STORE)
            node.disk.capacity_bytes = used + self.random.choice((0, 4_096, 20_000))

    async def step_room(self) -> None:
        for node in self.nodes.values():
            node.disk.capacity_bytes = None

    async def step_promote(self) -> None:
        for node in self.up:
            if node.roles.role == FOLLOWER and self.has_all(node):
                await self.ask(node, self.promoted(node))
                return

    async def step_demote(self) -> None:
        for node in self.up:
            if node.roles.role == FENCED:
                await self.ask(node, self.demoted(node, is_forced=False))

    async def step_hand_over(self) -> None:
        for node in self.leaders()[:1]:
            await self.ask(node, self.demoted(node, is_forced=False))
            other = self.other(node)
            if other.is_up and other.roles.role == FOLLOWER and self.has_all(other):
                await self.ask(other, self.promoted(other))


def walk(seed: int, counts: Counter[str], *, steps: int = 40, **settings: Any) -> None:
    """Takes one walk.

    Errors   AssertionError, or whatever escaped; the seed is part of its notes
    """
    options = "".join(f", {name}={value!r}" for name, value in settings.items())
    repro = f"tests.sim.replica_walk.walk({seed}, Counter(), steps={steps}{options})"

    async def story(loop: SeededLoop) -> None:
        walks.append(ReplicaWalk(loop, counts, **settings))
        await walks[0].run(steps)

    walks: list[ReplicaWalk] = []
    try:
        tell_seeded(seed, story, repro)
    except BaseException as error:
        error.add_note(f"at {walks[0].at}")
        raise
