"""Changes of a broker's role by an operator: promotion of a follower, demotion of a leader.

    follower ── promote ──► leader ── follow ──► follower
                              │ learns of a higher epoch
                              ▼
                            fenced ── follow ──► follower

There is no election: an operator who promotes must know that the old leader is gone, or will be
fenced by the new one. A change is written to the term table first. Then the broker restarts its
services, so that each role begins with the ordinary recovery of a store.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from pocketmq.model.endpoint import ROCKETMQ
from pocketmq.model.errors import FollowersBehind, NotLeader, ReplicaNotFound, WrongRole
from pocketmq.model.replication import FENCED, FOLLOWER, LEADER, ROLES, Replica, ReplicationStatus
from pocketmq.model.stats import Gauge, Stat
from pocketmq.services.replication.leader import Leader
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore
from pocketmq.store.recovery.cut import NOTHING_ASIDE, Aside
from pocketmq.store.tables.terms import Fence, Term, TermTable

WAIT_MS: Final = 10_000
"""Default limit of the wait until a follower has the whole log."""
LOOK_S: Final = 0.05
HEALTHY_LAG_BYTES: Final = 64 << 20
"""Upper limit of the lag of a follower that is in sync."""

logger = logging.getLogger(__name__)


class Link(NamedTuple):
    """A follower's connection to its leader.

    read     returns (leader's address, whether it is connected, lag in bytes, why it is not)
    finish   copies what the leader still has before a promotion; raises WrongRole on failure
    end      closes the connection; nothing is acknowledged to the leader afterwards
    start    connects again
    cut      sets the whole log aside and restarts the services
    """

    read: Callable[[], tuple[str, bool, int, str]]
    finish: Callable[[], Awaitable[None]]
    end: Callable[[], Awaitable[None]]
    start: Callable[[], None]
    cut: Callable[[], None]


class Roles:
    """The role of one broker.

    switch          restarts the broker's services
    link            a follower's connection to its leader; None: the broker led when its services
                    started. A fenced broker does not use it
    aside           size of the records that were set aside, because the leader's log differed
    """

    __slots__ = (
        "_aside", "_is_changing", "_leader", "_link", "_store", "_switch", "_terms", "stats"
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        terms: TermTable,
        leader: Leader,
        switch: Callable[[], None],
        link: Link | None = None,
        aside: Aside = NOTHING_ASIDE,
    ) -> None:
        self._store = store
        self._terms = terms
        self._leader = leader
        self._switch = switch
        self._link = link
        self._aside = aside
        self._is_changing = False
        self.stats: list[Stat] = [
            Gauge(
                "pocketmq_replica_role", "1 for the broker's role in replication.",
                lambda: {(role,): float(role == self.role) for role in ROLES}, ("role",),
            ),
            Gauge(
                "pocketmq_replica_diverged_bytes",
                "Bytes of the own log that were set aside, as the leader's differed.",
                lambda: float(aside.size_bytes),
            ),
        ]  # fmt: skip

    @property
    def role(self) -> str:
        """LEADER, FOLLOWER or FENCED."""
        if self._terms.fence is not None:
            return FENCED
        return LEADER if self._link is None else FOLLOWER

    def is_in_sync(self) -> bool:
        """Returns whether replication works as configured.

        A leader must have the followers that acknowledgements need. A follower must be connected,
        and lag by at most HEALTHY_LAG_BYTES. A fenced broker is never in sync.
        """
        if self._terms.fence is not None:
            return False
        if self._link is None:
            return not self._leader.confirming.is_short
        _, is_connected, lag_bytes, _ = self._link.read()
        return is_connected and lag_bytes <= HEALTHY_LAG_BYTES

    def status(self) -> ReplicationStatus:
        """Returns the role, its term, and the connections."""
        terms, end = self._terms, self._store.appended
        fence, left_bytes = terms.fence, terms.left_bytes
        leader, is_connected, lag_bytes, trouble = "", False, 0, ""
        if fence is not None:
            leader = fence.leader
        elif self._link is not None:
            leader, is_connected, lag_bytes, trouble = self._link.read()
        elif left_bytes:
            leader = terms.leader
        replicas = [
            Replica(
                row.peer, row.follower, row.acknowledged, row.sent, row.lag_bytes, row.is_connected
            )
            for row in self._leader.rows()
        ]  # fmt: skip
        return ReplicationStatus(
            self.role, terms.epoch, terms.begin, end, leader, is_connected, lag_bytes, trouble,
            min(fence.begin, end) if fence else end, replicas, self._aside.message_count,
            left_bytes,
        )  # fmt: skip

    async def promote(self, *, is_forced: bool) -> Term:
        """Makes a follower the leader of a new term, durably; its services restart afterwards.

        Errors   WrongRole, StoreDamaged; DiskFull, StoreFailed: this process keeps its role
        """
        link = self._link
        if self._store.damage is not None:
            raise self._store.damage
        if link is None and self._terms.fence is None:
            raise WrongRole(role=LEADER, why=f"it leads already, since epoch {self._terms.epoch}")
        if link is not None and link.read()[1] and not is_forced:
            raise WrongRole(role=FOLLOWER, why=_why_alive(link.read()[0]))
        self._begin_change()
        try:
            if link is not None:
                await link.finish()
            async with self._ended_link():
                await self._store.flush()
                former, left_bytes = "", 0
                if link is not None and self._terms.fence is None:
                    former, _, left_bytes, _ = link.read()
                lead = partial(self._terms.lead, self._store.flushed, former, left_bytes)
                await Job(asyncio.to_thread(lead))
                assert self._terms.role == LEADER, "the term was not written"
        finally:
            self._is_changing = False
        logger.warning(
            "replica.promoted",
            extra={
                "epoch": self._terms.epoch, "begin": self._terms.begin, "left_bytes": left_bytes
            },
        )  # fmt: skip
        self._switch()
        return Term(self._terms.epoch, self._terms.begin)

    async def follow(self, leader: str, *, is_forced: bool, wait_ms: int = 0) -> None:
        """Makes the broker a follower of the one at "host:port"; its services restart afterwards.

        A leader refuses messages, then waits until a follower has its whole log. After an error it
        accepts messages again.
        Errors   FollowersBehind, WrongRole; DiskFull, StoreFailed: this process keeps its role
        """
        self._begin_change()
        before = self._store.writing.refusal
        try:
            if self.role == LEADER and not is_forced:
                await self._hand_over(leader, wait_ms or WAIT_MS)
            async with self._ended_link():
                await Job(asyncio.to_thread(self._terms.follow, leader))
        except Exception:
            self._store.writing.refuse(before)
            raise
        finally:
            self._is_changing = False
        logger.warning("replica.demoted", extra={"leader": leader})
        self._switch()

    async def resync(self) -> None:
        """Makes a follower discard its copy, restart, and copy its leader's log and tables again.

        Errors   WrongRole: also if its disk has no room to set the copy aside
        """
        if self._link is None or self._terms.fence is not None:
            why = "only a follower copies a leader's log (pocketmq replica demote makes one)"
            raise WrongRole(role=self.role, why=why)
        self._check_room()
        self._begin_change()
        try:
            await self._link.end()
            self._link.cut()
        finally:
            self._is_changing = False

    @asynccontextmanager
    async def _ended_link(self) -> AsyncIterator[None]:
        """Ends the connection to the leader; begins it again if the change of the role fails."""
        link = self._link if self._terms.fence is None else None
        if link is not None:
            await link.end()
        try:
            yield
        except Exception:
            if link is not None:
                link.start()
            raise

    def _check_room(self) -> None:
        """Refuses to set the whole log aside on a disk without room for a second one."""
        no_room = self._store.no_room_aside(self._store.min_offset)
        if no_room:
            why = f"{no_room}; free space there, or stop it and start it on an empty store"
            raise WrongRole(role=FOLLOWER, why=why)

    def _begin_change(self) -> None:
        if self._is_changing:
            raise WrongRole(role=self.role, why="another change of its role is under way")
        self._is_changing = True

    async def _hand_over(self, leader: str, wait_ms: int) -> None:
        """Refuses messages, and waits until connected followers have the log and the tables."""
        why = f"it hands over to {leader}; send there"
        before = self._store.writing.refusal
        self._store.writing.refuse(WrongRole(role=FOLLOWER, why=why))
        until_ms = self._store.clock.monotonic_ms() + wait_ms
        has_follower = any(row.is_connected for row in self._leader.rows())
        try:
            while (lag_bytes := self._lag_bytes()) > 0 or self._leader.tables.is_behind:
                if not has_follower or self._store.clock.monotonic_ms() >= until_ms:
                    raise FollowersBehind(lag_bytes=lag_bytes, wait_ms=wait_ms)
                await asyncio.sleep(LOOK_S)
        except BaseException:
            self._store.writing.refuse(before)
            raise

    def _lag_bytes(self) -> int:
        """Returns how much of the log the best connected follower lacks."""
        end = self._store.appended
        ends = [row.acknowledged for row in self._leader.rows() if row.is_connected]
        return end - max([0, *ends])

    async def fence(self, fence: Fence) -> None:
        """Ends the term of this leader, because another one leads; then the services restart.

        Waiting sends are not acknowledged: the new leader may not have their messages.
        """
        writing, marks = self._store.writing, self._store.marks
        refusal = NotLeader(leader=fence.leader or "another broker")
        writing.refuse_for_good(refusal)
        for mark in (marks.flushed, marks.visible()):
            mark.release()
        end = self._store.appended
        logger.critical(
            "replica.fenced",
            extra={
                "epoch": fence.epoch, "leader": fence.leader, "begin": min(fence.begin, end),
                "end": end,
            },
        )  # fmt: skip
        await Job(asyncio.to_thread(self._terms.shut, fence))
        self._switch()

    def remove(self, name: str) -> None:
        """Forgets a follower, and ends its connection.

        name     its follower id, peer or host
        Errors   ReplicaNotFound
        """
        if not self._leader.remove(name):
            raise ReplicaNotFound(replica=name)


def _why_alive(leader: str) -> str:
    """Returns why a follower of a live leader is not promoted."""
    if leader.startswith(ROCKETMQ):
        return (
            f"its master {leader} is alive, and cannot be fenced; stop its producers, add --force "
            "(its tables are copied once more), then stop the master"
        )
    return (
        f"its leader {leader} is alive; demote that one first (pocketmq replica demote), or add "
        "--force"
    )
