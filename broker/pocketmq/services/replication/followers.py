"""Admits PocketMQ followers to a leader: their handshake, and their streams.

A follower signs its hello as an admin if calls must be signed. Its connection ends when that user
loses the rights of an admin, or gets a new secret. If a follower connects again, its earlier
connection ends.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from pocketmq.model.errors import BrokerError, StoreDamaged
from pocketmq.services.replication.handshake import (
    LATER_EPOCH,
    NOT_LEADER,
    SAME_FOLLOWER,
    TOKEN,
    FollowerRefused,
    Hello,
    LeaderAnswer,
    LeaderLog,
    begin_for,
)
from pocketmq.services.replication.leader import Leader
from pocketmq.services.replication.own_stream import OwnStream
from pocketmq.store.message_store import MessageStore
from pocketmq.store.tables.identity import StoreIdentity
from pocketmq.store.tables.terms import Fence, TermTable

NO_ADMIN: Final = (
    "the user that signed its hello has a new secret, or is no longer an enabled admin; check "
    "replication.user and the file of replication.secret_path of the follower"
)
"""Reason for which a connection of a follower ends."""
WhenLost = Callable[[Callable[[], None]], Callable[[], None]]
"""Registers a function to call when a user is no longer an admin; returns one to unregister it."""


def always_admitted(end: Callable[[], None], /) -> Callable[[], None]:
    """Never calls `end`: used without authentication."""
    return lambda: None


class Greeting(NamedTuple):
    """Names of a leader, for its followers.

    address   "host:port" that clients use
    """

    broker: str
    cluster: str
    address: str


class Followers:
    """The PocketMQ followers of an open store.

    check_token   raises an error for a token that is not an admin's; returns a function that
                  reports when its user is no longer an admin
    fence         called with a later term than this broker's
    """

    __slots__ = ("_check_token", "_fence", "_greeting", "_identity", "_store", "_terms", "leader")

    def __init__(
        self,
        store: MessageStore,
        leader: Leader,
        identity: StoreIdentity,
        terms: TermTable,
        greeting: Greeting,
        check_token: Callable[[str], WhenLost],
        fence: Callable[[Fence], Awaitable[None]],
    ) -> None:
        self._store = store
        self.leader = leader
        self._identity = identity
        self._terms = terms
        self._greeting = greeting
        self._check_token = check_token
        self._fence = fence

    def _yields_to(self, hello: Hello) -> bool:
        """Returns whether another broker leads a later term.

        Two brokers begin terms of the same epoch if each was promoted while it could not learn of
        the other one. Both decide in the same way which of them leads.
        """
        own, rows = self._terms, hello.terms
        if hello.epoch != own.epoch or not hello.leader or not rows:
            return hello.epoch > own.epoch
        return (rows[-1][1], hello.follower) > (own.begin, self._identity.follower)

    async def admit(self, hello: Hello, peer: str) -> tuple[LeaderAnswer, OwnStream]:
        """Returns the answer to a hello, and its stream; `Leader.disconnect` must follow.

        Errors   FollowerRefused; DiskFull, StoreFailed: the ids could not be saved
        """
        try:
            when_lost = self._check_token(hello.token)
        except BrokerError as error:
            raise FollowerRefused(TOKEN, f"{error}; {_remedy(hello)}") from error
        if self._store.settings.leader:
            leader = self._store.settings.leader
            raise FollowerRefused(NOT_LEADER, f"this broker follows {leader} itself", leader)
        identity, store = self._identity, self._store
        await asyncio.to_thread(identity.lead)
        if hello.follower == identity.follower:
            why = "its directory is a copy of the leader's; it has to make another id"
            raise FollowerRefused(SAME_FOLLOWER, why)
        log, end = store.log, store.marks.committed.value
        epoch = self._terms.epoch
        if self._yields_to(hello):
            later = [row[1] for row in hello.terms if epoch < row[0] or row[0] == hello.epoch]
            await self._fence(Fence(hello.epoch, min(later, default=end), hello.leader))
            why = f"its epoch is {hello.epoch}, this broker's {epoch}, and its leader leads"
            raise FollowerRefused(LATER_EPOCH, why)
        if store.damage is not None:  # A follower would cut what this broker cannot read.
            raise FollowerRefused(NOT_LEADER, f"its store is damaged: {store.damage}")
        own = LeaderLog(
            epoch, identity.store, log.file_size_bytes, min(log.min_offset, end), end, log.read,
            self._terms.common_end(hello.epoch, hello.end), self._terms.begin,
        )  # fmt: skip
        begin = begin_for(hello, own)
        self._check_whole(hello, begin)
        answer = LeaderAnswer(
            epoch, identity.store, begin, own.min_offset, end, *self._greeting,
            tuple((term.epoch, term.begin) for term in self._terms.history),
        )  # fmt: skip
        stream = self.leader.admit(peer, hello.follower, begin, hello.timer)
        stream.forget = when_lost(partial(self.leader.end, stream, NO_ADMIN))
        return answer, stream

    def _check_whole(self, hello: Hello, common: int) -> None:
        """Ends the lead of a broker whose log lacks what it showed to consumers before.

        Only a follower whose last term is this broker's proves that: a forced promotion may give up
        messages that followers of an earlier term have.
        Errors   FollowerRefused
        """
        store = self._store
        own = [(term.epoch, term.begin) for term in self._terms.history[-1:]]
        is_kept = common >= min(hello.confirmed, hello.end) or hello.terms != tuple(own)
        if is_kept or not store.settings.is_sync:
            return
        upto = max(min(hello.confirmed, hello.end), common)
        path, position = store.log.place_of(common)
        why = f"its follower has other bytes up to {upto}, which were confirmed: promote it"
        store.refuse_damaged(
            StoreDamaged(path=path, file_position=position, begin=common, end=upto, why=why)
        )
        raise FollowerRefused(NOT_LEADER, f"its store is damaged: {store.damage}")


def _remedy(hello: Hello) -> str:
    """Returns the next step of a follower whose token was refused."""
    if not hello.token:
        return "set replication.user and replication.secret_path of the follower"
    return "check replication.user and the file of replication.secret_path of the follower"
