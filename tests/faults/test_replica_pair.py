"""A leader and its follower in one process: seeded walks, and the faults that walks have found."""

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from pocketmq.format.names import COMMIT_LOG_DIRECTORY, MARK_FILE, OWN_DIRECTORY
from pocketmq.model.batch import Destination
from pocketmq.model.errors import NotReplicated, StoreDamaged
from pocketmq.model.replication import FENCED, FOLLOWER, LEADER
from pocketmq.services.admin.purge import purge_topic
from tests.kit.rows import batch
from tests.kit.store_language import STORE_HOST, put_row
from tests.sim.disk_image import File, Image
from tests.sim.loop import SeededLoop
from tests.sim.replica_node import Node
from tests.sim.replica_pair import QUEUES, ReplicaPair, log_file, pulled
from tests.sim.replica_walk import walk
from tests.sim.seeded_store import STORE, tell_seeded

PARTS = 6
WALKS = 12
"""Of each part."""
pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("part", range(PARTS))
def test_seeded_walks_lose_nothing_and_end_equal(part: int) -> None:
    counts = Counter[str]()
    for seed in range(part * WALKS, (part + 1) * WALKS):
        walk(seed, counts, flush="async" if part == PARTS - 1 else "sync")
    assert counts["acknowledged"] > WALKS
    assert counts["promotions"] > WALKS // 4
    assert min(counts["kills"], counts["power cuts"], counts["fences"]) > 0


def story(
    tell: Callable[[ReplicaPair], Awaitable[None]], seed: int = 1, **settings: str
) -> ReplicaPair:
    """Tells a story of a pair that has begun."""
    pairs: list[ReplicaPair] = []

    async def told(loop: SeededLoop) -> None:
        pairs.append(ReplicaPair(loop, Counter(), **settings))
        await pairs[0].begin()
        await tell(pairs[0])

    tell_seeded(seed, told, tell.__name__)
    return pairs[0]


async def connected(pair: ReplicaPair) -> None:
    def is_in_sync() -> bool:
        return any(one.leader.confirming.connected for one in pair.leaders())

    await pair.until(is_in_sync, "a follower is in sync")


async def sent(pair: ReplicaPair, name: str, first: int, count: int = 3) -> None:
    for number in range(first, first + count):
        await pair.put(pair.nodes[name], [(7, number)])


def purged_alone(pair: ReplicaPair) -> Callable[[], Awaitable[tuple[str, int]]]:
    """Returns a coroutine function: purges a queue whose follower is cut off; returns the queue."""

    async def purged() -> tuple[str, int]:
        a = pair.nodes["a"]
        for topic in ("orders", "bills"):
            await pair.created_topic(a, topic)
        await sent(pair, "a", 0, 8)
        await a.store.caught_up()
        queue = max(QUEUES, key=lambda one: a.store.reading.queue_range(*one))
        pair.history.purging[queue] = a.store.reading.queue_range(*queue)[1]
        pair.network.stall("a", "b")
        pair.network.stall("b", "a")
        for _ in range(2):  # Nothing is left to purge, but still no follower has it.
            with pytest.raises(NotReplicated):
                await purge_topic(a.store, queue[0], queue_ids=[queue[1]])
        return queue

    return purged


def test_a_purge_that_no_follower_has_is_an_error_until_one_has_it() -> None:
    async def tell(pair: ReplicaPair) -> None:
        await connected(pair)
        topic, queue_id = await purged_alone(pair)()
        pair.network.heal()
        await pair.loop.pause(10)
        a, b = (node.store for node in pair.nodes.values())
        await purge_topic(a, topic, queue_ids=[queue_id])
        ends = [store.reading.queue_range(topic, queue_id) for store in (a, b)]
        assert ends[0][0] == ends[0][1] > 0
        await pair.settle()
        assert b.reading.queue_range(topic, queue_id) == ends[0]
        await pair.compare()

    story(tell)


def test_a_purge_that_only_a_former_leader_had_hides_nothing_on_it() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, b = pair.nodes.values()
        await connected(pair)
        queue = await purged_alone(pair)()
        await pair.ask(b, pair.promoted(b))
        pair.network.heal()
        await pair.settle()
        await purge_topic(b.store, next(one for one, _ in QUEUES if one != queue[0]))
        await pair.loop.pause(5)
        assert (b.roles.role, a.roles.role) == (LEADER, FOLLOWER)
        assert a.store.reading.queue_range(*queue) == b.store.reading.queue_range(*queue)
        assert b.store.reading.queue_range(*queue)[0] == 0

    story(tell)


def test_a_former_leader_that_lost_its_disk_does_not_lead_again() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, b = pair.nodes.values()
        await connected(pair)
        await sent(pair, "a", 0)
        pair.die(a)
        await pair.look()
        await pair.ask(b, pair.promoted(b))
        await pair.restart()
        await pair.until(lambda: a.is_up and a.roles.role == FENCED, "it is fenced")
        await pair.loop.pause(5)
        pair.die(a)
        await pair.look()
        pair.lose_disk(a)
        await pair.restart()
        assert (a.roles.role, a.terms.epoch) == (LEADER, 0)
        await pair.until(lambda: a.is_up and a.roles.role == FENCED, "it is fenced again")
        await pair.settle()
        await pair.compare()

    assert story(tell).counts["fences"] == 2


def test_of_two_leaders_of_one_epoch_one_is_fenced_and_follows() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, b = pair.nodes.values()
        await connected(pair)
        await pair.ask(a, pair.demoted(a, is_forced=True))
        pair.network.stall("a", "b")
        pair.network.stall("b", "a")
        for node in (a, b):
            await pair.ask(node, pair.promoted(node))
        assert [node.terms.epoch for node in (a, b)] == [1, 1]
        await sent(pair, "a", 0)
        await sent(pair, "b", 10, 1)
        later = max((a, b), key=lambda node: (node.terms.begin, node.identity.follower))
        pair.network.heal()
        await pair.until(lambda: FENCED in [node.roles.role for node in pair.up], "one is fenced")
        await pair.loop.pause(60)
        assert sorted(node.roles.role for node in pair.up) == sorted([FENCED, LEADER])
        assert later.roles.role == LEADER, "both must decide alike, also if both ask at once"
        await pair.settle()
        await pair.compare()

    for seed in range(4):  # Ids are random: either one of them is fenced.
        story(tell, seed)


def test_a_leader_keeps_on_its_own_disk_what_it_acknowledged() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, _ = pair.nodes.values()
        await connected(pair)
        await sent(pair, "a", 0)
        end = a.store.appended
        assert pair.counts["acknowledged"] == 3
        a.die(a.state_after(cut=True))
        await pair.look()
        await pair.restart()
        assert a.store.appended == end

    for seed in range(4):
        story(tell, seed, flush="async")


@pytest.mark.parametrize("end", ["kill", "cut", "stop"])
def test_a_restart_shows_only_what_both_have_until_both_have_the_rest(end: str) -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, _ = pair.nodes.values()
        await connected(pair)
        await sent(pair, "a", 0)
        acknowledged = pair.counts["acknowledged"]
        await pair.loop.pause(12)  # A power cut shows what was synced with the checkpoint.
        pair.network.stall("a", "b")
        await sent(pair, "a", 10)
        assert await shown(a) == acknowledged == 3
        if end == "stop":
            await a.stop()
            a.start()
        else:
            a.die(a.state_after(cut=end == "cut"))
            await pair.look()
            await pair.restart()
        await pair.until(lambda: a.is_up, "it is up again")
        assert await shown(a) == acknowledged
        pair.network.heal()
        await pair.until(lambda: pair.has_all_of(a), "the follower has everything")
        await pair.loop.pause(1)
        assert await shown(a) == 6
        await pair.settle()
        await pair.compare()

    story(tell)


def test_a_follower_gives_up_a_leader_that_is_silent() -> None:
    async def tell(pair: ReplicaPair) -> None:
        b = pair.nodes["b"]
        await connected(pair)
        await pair.loop.pause(6)
        pair.network.stall("a", "b")
        await pair.loop.pause(14)
        assert [node.is_connected for node in pair.nodes.values()] == [False, True]
        await pair.loop.pause(7)
        assert not b.is_connected
        assert b.roles.status().trouble == "the leader was silent"

    story(tell)


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("seed", range(8))  # Flips, truncations and lost files.
def test_damage_in_the_oldest_file_is_noticed_and_loses_nothing(name: str, seed: int) -> None:
    async def tell(pair: ReplicaPair) -> None:
        await connected(pair)
        await sent(pair, "a", 0, 40)
        await pair.loop.pause(12)  # So that a start need not read this file again.
        node = pair.nodes[name]
        pair.die(node)
        await pair.look()
        pair.damage(node)
        kinds = ("bits flipped", "files truncated", "files lost")
        assert sum(pair.counts[kind] for kind in kinds) == 1
        await pair.restart()
        assert node.store.damage is not None
        await pair.settle()
        await pair.compare()
        assert pair.counts["damages noticed"] > 0

    story(tell, seed)


def erase_from(node: Node, begin: int) -> None:
    """Erases a log from an offset on."""
    for name in node.disk.names(STORE / COMMIT_LOG_DIRECTORY):
        file, place = log_file(node.disk.image, name), max(begin - int(name), 0)
        kept = file.durable[:place]
        file.durable = file.seen = kept + bytes(len(file.durable) - len(kept))


def test_a_damaged_leader_shows_nothing_that_its_follower_may_lack() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a = pair.nodes["a"]
        await connected(pair)
        await sent(pair, "a", 0, 2)
        await pair.loop.pause(1)
        confirmed = a.store.appended
        shown = {queue: a.store.reading.queue_range(*queue)[1] for queue in QUEUES}
        pair.network.stall("a", "b")
        unconfirmed = [a.run(pair.put(a, [(7, 100 + number)])) for number in range(3)]
        await pair.loop.pause(1)
        assert not any(one.done() for one in unconfirmed)
        for has_damage in (False, True):  # The first start adds all messages to the queues.
            pair.die(a)
            await pair.look()
            if has_damage:
                erase_from(a, confirmed)
            await pair.restart()
            assert (a.store.damage is not None) is has_damage
            assert any(a.store.queue_end(*queue) > shown[queue] for queue in QUEUES)
            for queue, end in shown.items():
                assert a.store.reading.queue_range(*queue)[1] <= end
            await pair.loop.pause(12)

    for seed in range(8):  # Messages of other sizes.
        story(tell, seed)


def test_a_cut_keeps_every_record_that_both_brokers_have() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, b = pair.nodes.values()
        await connected(pair)
        await sent(pair, "a", 0, 60)
        confirmed = a.store.appended
        pair.network.stall("a", "b")
        await pair.loop.pause(25)
        await sent(pair, "a", 100, 30)
        pair.die(a)
        await pair.look()
        await pair.ask(b, pair.promoted(b))
        await sent(pair, "b", 200, 2)
        pair.network.heal()
        await pair.restart()
        await pair.until(lambda: a.is_up and a.roles.role == FENCED, "it is fenced")
        await pair.ask(a, pair.demoted(a, is_forced=False))
        ends = list[int]()
        cut = a._cut

        def noted(end: int) -> None:
            ends.append(end)
            cut(end)

        assert a._link is not None
        a._link._cut = noted
        await pair.settle()
        await pair.compare()
        assert ends == [confirmed]

    for seed in range(3):
        story(tell, seed)


def test_a_leader_that_lost_its_end_leads_no_longer_once_its_follower_is_there() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, b = pair.nodes.values()
        await connected(pair)
        await sent(pair, "a", 0, 3)
        await pair.loop.pause(12)
        end = a.store.appended
        mark = a.disk.image.find(STORE / OWN_DIRECTORY / MARK_FILE)
        assert isinstance(mark, File)
        synced = mark.durable
        await sent(pair, "a", 10, 3)
        await pair.loop.pause(1)
        assert pair.counts["acknowledged"] == 6
        image = a.disk.image.copy()
        old = image.find(STORE / OWN_DIRECTORY / MARK_FILE)
        assert isinstance(old, File)
        old.durable = old.seen = synced
        file = log_file(image, f"{0:020}")
        file.durable = file.seen = file.durable[:end] + bytes(len(file.durable) - end)
        a.die(image)
        await pair.look()
        await pair.restart()
        assert a.store.appended == end
        assert a.store.damage is None
        await pair.until(lambda: a.store.damage is not None, "its follower tells what is lost")
        assert b.store.appended > end
        await pair.until(lambda: "promote it" in b.roles.status().trouble, "it is refused")
        with pytest.raises(StoreDamaged):
            await a.store.writing.put([(Destination(*QUEUES[0], STORE_HOST), batch(put_row(b"x")))])
        await pair.settle()
        await pair.compare()
        assert b.roles.role == LEADER

    for seed in range(3):
        story(tell, seed)


async def shown(node: Node) -> int:
    """Returns the number of messages that consumers see."""
    return sum([len(await pulled(node.store, queue, 0)) for queue in QUEUES])


def test_a_change_that_is_being_written_at_a_stop_is_not_acknowledged() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, b = pair.nodes.values()
        await connected(pair)
        await pair.until(lambda: not a.leader.tables.is_behind, "the follower has all tables")
        creating = a.run(pair.created_topic(a, "late"))
        await pair.loop.pause(0)
        a.leader.tables.close()
        await pair.until(creating.done, "the creation ends")
        assert "late" not in pair.created
        assert "NotReplicated" in repr(creating.exception())
        assert b.is_up

    story(tell)


def test_a_follower_has_everything_of_a_log_that_ends_with_a_file() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, b = pair.nodes.values()
        await connected(pair)
        await sent(pair, "a", 0, 4)
        file_size, store = a.store.log.file_size_bytes, a.store
        await pair.until(lambda: b.store.appended == store.appended, "the follower catches up")
        size = store.appended // file_size * file_size + file_size
        pair.network.stall("a", "b")
        images = list[Image]()

        def look(call: str, path: object) -> None:
            if call == "sync" and store.appended > size and not images:
                images.append(a.disk.image.copy())  # Before this sync is marked.

        a.disk.hook = look
        number = 10_000
        while not images:
            await pair.put(a, [(7, number := number + 1)])
        file = images[0].find(STORE / COMMIT_LOG_DIRECTORY / f"{size:020}")
        assert isinstance(file, File)
        file.durable = bytes(len(file.durable))
        a.die(images[0])  # It died after the BLANK, before the first record of the next file.
        await pair.look()
        pair.network.heal()
        await pair.restart()
        assert a.store.appended == size
        await pair.until(lambda: pair.has_all_of(a), "it is at the end")
        await connected(pair)
        await pair.ask(a, pair.demoted(a, is_forced=False))
        await pair.ask(b, pair.promoted(b))
        await pair.settle()
        await pair.compare()
        assert (a.roles.role, b.roles.role) == (FOLLOWER, LEADER)

    story(tell)


def test_a_damaged_leader_takes_nothing_from_its_follower() -> None:
    async def tell(pair: ReplicaPair) -> None:
        a, b = pair.nodes.values()
        await connected(pair)
        await sent(pair, "a", 0, 12)
        end = a.store.appended
        await pair.until(lambda: b.store.flushed == end, "the follower has everything")
        assert pair.counts["acknowledged"] == 12
        image = a.disk.image.copy()
        file = image.find(STORE / COMMIT_LOG_DIRECTORY / f"{0:020}")
        assert isinstance(file, File)
        file.durable = file.durable[:600] + bytes(900) + file.durable[1_500:]
        a.die(image)
        await pair.look()
        await pair.restart()
        assert a.store.damage is not None
        await pair.until(lambda: "damaged" in b.roles.status().trouble, "it is refused")
        assert b.store.appended == end
        await pair.ask(b, pair.promoted(b))
        assert [b.store.reading.queue_range(*queue)[1] for queue in QUEUES] != [0, 0, 0]
        await pair.until(lambda: a.is_up and a.roles.role == FENCED, "it is fenced")

    story(tell)
