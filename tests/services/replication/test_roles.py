"""Promotion and demotion: what is written before what, and what a leader waits for."""

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.model.errors import (
    DiskFull,
    FollowersBehind,
    ReplicaNotFound,
    StoreDamaged,
    WrongRole,
)
from pocketmq.model.replication import FENCED, FOLLOWER, LEADER
from pocketmq.services.replication.confirming import InSync
from pocketmq.services.replication.leader import REMOVED, TELL_AGAIN_MS, Leader
from pocketmq.services.replication.protocol import REPORT, SlaveRefused, SlaveStream
from pocketmq.services.replication.roles import HEALTHY_LAG_BYTES as LIMIT
from pocketmq.services.replication.roles import WAIT_MS, Link, Roles
from pocketmq.store.tables.terms import Fence, Term, TermTable
from tests.kit.gauges import shown_by
from tests.kit.store_language import TalkingStore, store_at, turns
from tests.sim.disk import SimDisk

PLACE = Path("/terms")
LINKED = ("10.0.0.1:8081", True, 7, "")
ALONE = ("10.0.0.1:8081", False, 0, "connection refused")


class Broker:
    """A store with its role, and slaves that report what a test says."""

    def __init__(self, store: TalkingStore) -> None:
        self.store = store
        self.disk = SimDisk()
        self.terms = TermTable(self.disk, PLACE)
        self.leader = Leader(store.store, 1 << 40)
        self.events: list[str] = []
        self.roles = self._roles(None)

    def _roles(self, link: Link | None) -> Roles:
        return Roles(self.store.store, self.terms, self.leader, self._switch, link)

    def alone(self) -> Roles:
        """Makes it a leader of its present followers."""
        self.roles = self._roles(None)
        return self.roles

    def _switch(self) -> None:
        kept = TermTable(SimDisk(self.disk.image), PLACE)
        kept.load()
        self.events.append(f"restart as {kept.role} of epoch {kept.epoch}")

    def follows(self, state: tuple[str, bool, int, str]) -> Roles:
        """Makes it a follower."""

        async def finish() -> None:
            self.events.append("link finished")

        async def end() -> None:
            assert self.terms.epoch == 0, "the term began before the link ended"
            self.events.append("link ended")

        self.terms.follow(state[0])
        self.roles = self._roles(
            Link(
                lambda: state,
                finish,
                end,
                lambda: self.events.append("link begun"),
                lambda: self.events.append("cut"),
            )
        )
        return self.roles

    def slave(self, report: int) -> SlaveStream:
        stream = self.leader.connect("10.0.0.2:5000")
        self.leader.receive(stream, REPORT.pack(report))
        return stream


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with store_at(tmp_path / "s") as store:
        await store.send("orders", "a", "b")
        await store.settled()
        yield Broker(store)


async def test_a_leader_tells_its_followers(broker: Broker) -> None:
    broker.slave(60)
    found = broker.roles.status()
    assert (found.role, found.epoch, found.term_begin, found.leader) == (LEADER, 0, 0, "")
    (row,) = found.replicas
    assert (row.peer, row.acknowledged_offset, row.connected) == ("10.0.0.2:5000", 60, True)
    assert row.lag_bytes == found.appended_offset - 60 > 0


@pytest.mark.parametrize(
    ("is_connected", "lag_bytes", "is_in_sync"),
    [
        (True, 0, True),
        (True, LIMIT, True),
        (True, LIMIT + 1, False),
        (False, 0, False),
    ],
)
async def test_a_follower_is_in_sync_within_its_limit(
    broker: Broker, is_connected: bool, lag_bytes: int, is_in_sync: bool
) -> None:
    roles = broker.follows(("10.0.0.1:8081", is_connected, lag_bytes, ""))
    assert roles.is_in_sync() is is_in_sync


async def test_a_leader_is_in_sync_while_it_has_the_followers_it_needs(broker: Broker) -> None:
    assert broker.roles.is_in_sync(), "it needs none"
    assert role_shown(broker.roles) == LEADER
    broker.leader = Leader(broker.store.store, 1 << 40, InSync(2, counts_legacy=True))
    roles = broker.alone()
    assert (roles.is_in_sync(), missing(broker.leader)) == (False, 1.0)
    slave = broker.slave(60)
    assert (roles.is_in_sync(), missing(broker.leader)) == (True, 0.0)
    broker.leader.disconnect(slave, "the test ends")
    assert not roles.is_in_sync()


async def test_a_fenced_leader_is_not_in_sync(broker: Broker) -> None:
    broker.terms.shut(Fence(3, 40, "b:1"))
    assert (broker.roles.is_in_sync(), role_shown(broker.roles)) == (False, FENCED)


def missing(leader: Leader) -> float:
    """Returns how many followers metrics show as missing."""
    return shown_by(leader.stats, "pocketmq_replicas_missing")[()]


def role_shown(roles: Roles) -> str:
    """Returns the only role whose sample is 1."""
    shown = shown_by(roles.stats, "pocketmq_replica_role")
    (found,) = [labels for labels, value in shown.items() if value]
    return str(*found)


async def test_a_promotion_ends_the_link_then_writes_the_term_then_restarts(broker: Broker) -> None:
    roles = broker.follows(ALONE)
    assert (roles.status().role, roles.status().trouble) == (FOLLOWER, "connection refused")
    end = broker.store.store.appended
    assert await roles.promote(is_forced=False) == Term(1, end)
    assert broker.events == ["link finished", "link ended", "restart as leader of epoch 1"]
    assert broker.terms.leader == ALONE[0], "the old leader is to be fenced"


async def test_a_follower_of_a_living_leader_is_promoted_by_force_only(broker: Broker) -> None:
    roles = broker.follows(LINKED)
    with pytest.raises(WrongRole, match="is alive; demote that one first"):
        await roles.promote(is_forced=False)
    assert broker.events == []
    assert (await roles.promote(is_forced=True)).epoch == 1


async def test_a_leader_is_not_promoted_but_a_fenced_one_is(broker: Broker) -> None:
    with pytest.raises(WrongRole, match="it leads already, since epoch 0"):
        await broker.roles.promote(is_forced=True)
    broker.terms.shut(Fence(3, 40, "b:1"))
    found = broker.roles.status()
    assert (found.role, found.leader, found.fenced_from) == (FENCED, "b:1", 40)
    assert (await broker.roles.promote(is_forced=False)).epoch == 4


async def test_a_full_disk_promotes_nobody(broker: Broker) -> None:
    roles = broker.follows(ALONE)
    broker.disk.fail("write", errno.ENOSPC)
    with pytest.raises(DiskFull):
        await roles.promote(is_forced=False)
    assert broker.events == ["link finished", "link ended", "link begun"]
    assert broker.terms.role == FOLLOWER


async def test_a_full_disk_leaves_a_follower_with_its_leader(broker: Broker) -> None:
    roles = broker.follows(ALONE)
    broker.disk.fail("write", errno.ENOSPC)
    with pytest.raises(DiskFull):
        await roles.follow("c:1", is_forced=True)
    assert broker.events == ["link ended", "link begun"]
    assert broker.terms.leader == ALONE[0]


async def test_a_full_disk_leaves_a_leader_that_accepts_messages(broker: Broker) -> None:
    slave, end = broker.slave(0), broker.store.store.appended
    slave.sent = end
    broker.leader.receive(slave, REPORT.pack(end))
    broker.disk.fail("write", errno.ENOSPC)
    with pytest.raises(DiskFull):
        await broker.roles.follow("b:1", is_forced=False)
    assert broker.roles.role == LEADER
    await broker.store.send("orders", "still accepted")


async def test_a_leader_hands_over_once_a_follower_has_all(broker: Broker) -> None:
    slave = broker.slave(0)
    handing = asyncio.create_task(broker.roles.follow("b:1", is_forced=False))
    await turns(5)
    with pytest.raises(WrongRole, match="it hands over to b:1"):
        await broker.store.send("orders", "late")
    with pytest.raises(WrongRole, match="another change"):
        await broker.roles.follow("c:1", is_forced=True)
    assert broker.events == []
    end = broker.store.store.appended
    slave.sent = end
    broker.leader.receive(slave, REPORT.pack(end))
    await handing
    assert broker.events == ["restart as follower of epoch 0"]
    assert broker.terms.leader == "b:1"


async def test_a_leader_that_no_follower_reaches_goes_on(broker: Broker) -> None:
    broker.slave(60)
    handing = asyncio.create_task(broker.roles.follow("b:1", is_forced=False))
    await turns(5)
    broker.store.clock.advance(WAIT_MS)
    with pytest.raises(FollowersBehind) as refusal:
        await handing
    assert refusal.value.lag_bytes == broker.store.store.appended - 60
    await broker.store.send("orders", "c")
    assert (broker.events, broker.roles.role) == ([], LEADER)
    await broker.roles.follow("b:1", is_forced=True)
    assert broker.events == ["restart as follower of epoch 0"]


async def test_a_follower_of_ours_has_an_id_by_which_it_is_removed(broker: Broker) -> None:
    stream = broker.leader.admit("10.0.0.3:5000", "f1", 0)
    (row,) = broker.roles.status().replicas
    assert (row.peer, row.follower) == ("10.0.0.3:5000", "f1")
    broker.roles.remove("f1")
    assert stream.ended_by == REMOVED
    with pytest.raises(ReplicaNotFound):
        broker.roles.remove("f2")


async def test_a_removed_follower_is_disconnected_and_no_log_is_kept_for_it(broker: Broker) -> None:
    slave = broker.slave(60)
    watching = asyncio.create_task(broker.leader.watch(slave))
    await turns(2)
    broker.roles.remove("10.0.0.2")
    with pytest.raises(Exception, match="an operator removed it"):
        await watching
    broker.leader.disconnect(slave, "removed")
    assert broker.roles.status().replicas == []
    with pytest.raises(ReplicaNotFound, match=r"no follower is '10\.0\.0\.2'"):
        broker.roles.remove("10.0.0.2")
    broker.leader.disconnect(broker.slave(60), "cut")
    assert broker.leader.floor() == 60
    broker.roles.remove("10.0.0.2")
    assert broker.leader.floor() > 60


async def test_only_a_follower_copies_anew_once_its_link_has_ended(broker: Broker) -> None:
    with pytest.raises(WrongRole, match="only a follower"):
        await broker.roles.resync()
    await broker.follows(ALONE).resync()
    assert broker.events == ["link ended", "cut"]
    broker.terms.fence = Fence(3, 40, "b:1")
    with pytest.raises(WrongRole, match="only a follower"):
        await broker.roles.resync()


async def test_a_follower_copies_anew_only_if_its_disk_has_room_for_two_logs(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, roles = broker.store.store, broker.follows(ALONE)
    needed = store.appended - store.min_offset + store.settings.reserve_size_bytes
    free = [needed - 1]
    monkeypatch.setattr(type(store), "disk_space", lambda self: ("/s", 9, free[0]))
    with pytest.raises(WrongRole, match=r"set aside first, and the disk under /s has \d+"):
        await roles.resync()
    assert broker.events == [], "it still follows"
    free[0] = needed
    await roles.resync()
    assert broker.events == ["link ended", "cut"]


async def test_a_promoted_broker_keeps_how_much_its_leader_had_alone(broker: Broker) -> None:
    roles = broker.follows(("10.0.0.1:8081", False, 700, "connection refused"))
    assert roles.status().left_bytes == 0
    await roles.promote(is_forced=False)
    broker.terms = TermTable(SimDisk(broker.disk.image), PLACE)
    broker.terms.load()
    found = broker.alone().status()
    assert (found.role, found.leader, found.left_bytes) == (LEADER, "10.0.0.1:8081", 700)
    broker.terms.follow("10.0.0.3:8081")
    assert broker.alone().status().left_bytes == 0


async def test_a_refusal_is_logged_when_it_is_new_then_rarely(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(host: str, why: str) -> int:
        before = len(caplog.records)
        broker.leader.refuse(f"{host}:{5_000 + before}", why)
        return len(caplog.records) - before

    assert refuse("10.0.0.2", "its epoch is 3, this broker's 2") == 1
    assert refuse("10.0.0.2", "its epoch is 3, this broker's 4") == 0
    assert refuse("10.0.0.3", "its epoch is 3, this broker's 2") == 1
    assert refuse("10.0.0.2", "its signature is wrong") == 1
    broker.store.clock.advance(TELL_AGAIN_MS)
    assert refuse("10.0.0.2", "its epoch is 5, this broker's 4") == 1


async def test_a_follower_that_connects_again_ends_its_earlier_connection(broker: Broker) -> None:
    leader = broker.leader
    leader.tables.begin()
    first = leader.admit("10.0.0.2:5000", "f1", 0)
    leader.admit("10.0.0.2:5001", "f1", 0)
    with pytest.raises(SlaveRefused, match="it connected again"):
        await leader.watch(first)


async def test_a_damaged_follower_is_not_promoted(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = StoreDamaged(path="f", file_position=0, begin=0, end=9, why="bits flipped")
    monkeypatch.setattr(type(broker.store.store), "damage", found)
    with pytest.raises(StoreDamaged):
        await broker.follows(ALONE).promote(is_forced=True)
    monkeypatch.undo()  # The store is closed as usual.
    assert broker.events == []
