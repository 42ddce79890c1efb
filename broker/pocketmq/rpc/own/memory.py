"""Bounds the memory that clients can use, over all connections of a server.

Two sums are kept. `held`: incomplete or untaken requests, their metadata, and streams without a
call. `unread`: bytes of answers that clients have not read. Each connection has limits of its own.
Beyond HELD_MAX in all, the most wasteful connection is cut off: it holds much and has not
progressed for long. Requests without progress are given up.
Room for an answer is reserved before it is made; the less is left, the less is given. Beyond
UNREAD_MAX a client with unread answers gets nothing large more, no client anything very large, and
one that reads too slowly is cut off. Beyond UNREAD_FACTOR times as much, the client with most is.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Final

from pocketmq.store.deadlines import Deadlines

HELD_MAX: Final = 24 * 1024 * 1024
"""Bytes of unfinished requests of all connections: one of the largest, and many small ones."""
IDLE_FREE_S: Final = 1.0
"""How long a connection may rest before its memory counts as wasted."""
PROGRESS_SIZE: Final = 65_536
"""Bytes by which an active connection moves on, or an eighth of its memory."""
LOOK_S: Final = 15.0
"""Unfinished requests are looked at so often; those that did not go on from one look to the next
are given up."""
UNREAD_MAX: Final = 16 * 1024 * 1024
"""Bytes of answers kept for all clients before those that keep much of it wait."""
UNREAD_TIGHT_MAX: Final = 65_536
"""Bytes kept for one client from which on it is one of these."""
STALLED_S: Final = 10.0
"""Time that such a client may take to read an eighth of what is kept for it."""
UNREAD_FACTOR: Final = 2
"""Leaves room for the largest answer, and for others' small ones."""
REPLY_MAX: Final = 1024 * 1024
"""Bytes of an answer that is kept for a client who reads steadily, whatever others do."""
TIGHT_REPLY_MAX: Final = 131_072
"""The same where UNREAD_MAX is reached: hundreds of slow readers are served, none is cut off."""
SMALL_REPLY_MAX: Final = 4_096
"""Bytes of an answer that is kept in any case: to refuse it would cost as much."""
QUIET_S: Final = 10.0
"""Connections that are cut off so soon after another are counted in the log, not named."""

logger = logging.getLogger(__name__)


class Keeping(ABC):
    """A connection, as far as memory goes.

    peer     the client, as gRPC writes it
    held     memory of its requests here, as last counted
    unread   bytes of answers that wait here, as last counted
    sent     bytes given to the socket so far
    moved_s  when its requests last went on, by the clock of `BufferBudget`
    """

    __slots__ = ()

    peer: str
    held: int
    unread: int
    sent: int
    moved_s: float

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether anything can still come or go."""

    @abstractmethod
    def give_up_stalled(self) -> None:
        """Refuses calls whose requests have hardly gone on since this was last asked twice."""

    @abstractmethod
    def cut_off(self) -> None:
        """Ends the connection now, whatever is under way."""


class BufferBudget:
    """Memory kept by all connections.

    connections   the open ones; one that ends calls `count` for its memory
    clock         seconds that only grow, those of the deadlines
    """

    __slots__ = (
        "_connections", "_deadlines", "_is_looking", "_is_watching", "_last", "_left_out",
        "_quiet_until_s", "clock", "held", "reserved", "unread", "unread_max",
    )  # fmt: skip

    def __init__(
        self,
        connections: Collection[Keeping],
        deadlines: Deadlines,
        clock: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._deadlines = deadlines
        self.clock = clock
        self.held = 0
        """Memory of requests."""
        self.unread = 0
        """Bytes of answers that wait for their clients."""
        self.reserved = 0
        """Bytes of answers that are being made."""
        self.unread_max = UNREAD_MAX
        self._is_looking = self._is_watching = False
        self._quiet_until_s = 0.0
        self._left_out = 0
        self._last = ("", 0, 0)
        """Of the last one that the log left out."""

    def count(self, held_more: int, unread_more: int) -> None:
        """Notes that connections keep more, or less."""
        self.held += held_more
        self.unread += unread_more
        assert self.held >= 0, "what was not held is let go"
        assert self.unread >= 0, "what was not kept is read"
        while self.held > HELD_MAX:
            now_s = self.clock()
            worst = max(self._connections, key=lambda one: (_waste(one, now_s), one.held))
            assert worst.held > 0, "what is held is some connection's"
            self._cut_off(worst)
        while self.unread > UNREAD_FACTOR * self.unread_max:
            worst = max(self._connections, key=lambda one: one.unread)
            assert worst.unread > 0, "what is unread is some connection's"
            self._cut_off(worst)
        if self.held and not self._is_looking:
            self._is_looking = True
            self._deadlines.add(self.clock() + LOOK_S, self._look)
        if self.unread > self.unread_max and not self._is_watching:
            self._is_watching = True
            slow = {
                one: one.sent + (one.unread >> 3)
                for one in self._connections
                if one.unread > UNREAD_TIGHT_MAX
            }
            at_s = self.clock() + STALLED_S
            self._deadlines.add(at_s, lambda: self._cut_off_stalled(slow))

    def _look(self) -> None:
        """Gives up requests that do not go on."""
        self._is_looking = False
        for one in [*self._connections]:
            if one.held:
                one.give_up_stalled()
        self.count(0, 0)

    def _cut_off_stalled(self, slow: Mapping[Keeping, int]) -> None:
        """Cuts off those that have read too little since."""
        self._is_watching = False
        for one, wanted in slow.items():
            if one.is_open and one.sent < wanted and one.unread > UNREAD_TIGHT_MAX:
                self._cut_off(one)
        self.count(0, 0)

    def reserve(self, wanted: int, reserved: int) -> int:
        """Sets room aside for an answer, and returns how many bytes it may have.

        reserved   bytes that were set aside for it before; they are given back
        """
        self.reserved -= reserved
        assert self.reserved >= 0, "what was not set aside is given back"
        if wanted > TIGHT_REPLY_MAX:
            free = self.unread_max - self.unread - self.reserved
            wanted = min(wanted, max(free, REPLY_MAX if free > 0 else TIGHT_REPLY_MAX))
        self.reserved += wanted
        return wanted

    def has_room_for(self, reply_size: int, pending: int) -> bool:
        """Returns whether an answer may be kept until its client reads it.

        pending   bytes that are kept for this client already
        """
        if reply_size <= SMALL_REPLY_MAX or self.unread <= self.unread_max:
            return True
        return reply_size <= REPLY_MAX and pending <= UNREAD_TIGHT_MAX

    # -- clients that are cut off

    def _cut_off(self, one: Keeping) -> None:
        """Cuts a connection off and logs it, or counts it where another was logged before."""
        told = (one.peer, one.held, one.unread)
        if self.clock() < self._quiet_until_s:
            self._left_out += 1
            self._last = told
        else:
            self._tell(told)
        one.cut_off()

    def _tell(self, told: tuple[str, int, int]) -> None:
        peer, held, unread = told
        logger.warning(
            "rpc.cut_off",
            extra={
                "peer": peer,
                "unfinished_bytes": held,
                "unread_bytes": unread,
                "left_out": self._left_out,
            },
        )
        self._left_out = 0
        self._quiet_until_s = self.clock() + QUIET_S
        self._deadlines.add(self._quiet_until_s, self._tell_left_out)

    def _tell_left_out(self) -> None:
        """Name the last of those that were counted."""
        if self._left_out:
            self._left_out -= 1
            self._tell(self._last)


def _waste(one: Keeping, now_s: float) -> float:
    """Returns for how long how much has been held for nothing, in byte seconds."""
    return one.held * max(0.0, now_s - one.moved_s - IDLE_FREE_S)
