"""Admits PocketMQ followers to a leader: their handshake, and their streams.

A follower signs its hello as an admin if calls must be signed. One that connects again replaces
its earlier connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pocketmq.model.errors import BrokerError
from pocketmq.services.replication.handshake import (
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


class Greeting(NamedTuple):
    """Names of a leader, for its followers.

    address   "host:port" that clients use
    """

    broker: str
    cluster: str
    address: str


class Followers:
    """The PocketMQ followers of an open store.

    check_token   raises an error for a token that is not an admin's
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
        check_token: Callable[[str], None],
        fence: Callable[[Fence], Awaitable[None]],
    ) -> None:
        self._store = store
        self.leader = leader
        self._identity = identity
        self._terms = terms
        self._greeting = greeting
        self._check_token = check_token
        self._fence = fence

    async def admit(self, hello: Hello, peer: str) -> tuple[LeaderAnswer, OwnStream]:
        """Returns the answer to a hello, and its stream; `Leader.disconnect` must follow.

        Errors   FollowerRefused; DiskFull, FsyncFailed: the ids could not be saved
        """
        try:
            self._check_token(hello.token)
        except BrokerError as error:
            raise FollowerRefused(TOKEN, f"{error}; set replication.user") from error
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
        if hello.epoch > epoch:
            later = [begin for number, begin in hello.terms if number > epoch]
            await self._fence(Fence(hello.epoch, min(later, default=end), hello.leader))
        own = LeaderLog(
            epoch, identity.store, log.file_size_bytes, min(log.min_offset, end), end, log.read,
            self._terms.common_end(hello.epoch, hello.end),
        )  # fmt: skip
        begin = begin_for(hello, own)
        answer = LeaderAnswer(
            epoch, identity.store, begin, own.min_offset, end, *self._greeting,
            tuple((term.epoch, term.begin) for term in self._terms.history),
        )  # fmt: skip
        return answer, self.leader.admit(peer, hello.follower, begin)
