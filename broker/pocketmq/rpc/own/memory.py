"""Bounds the memory that clients can use, over all connections of a server.

    held     bytes of requests that are unfinished or wait for a handler, with their metadata, and
             an estimate for each stream that has no call or no request yet
    unread   bytes of answers that clients have not read

If `held` exceeds HELD_MAX, the connection with the largest product of held bytes and time without
progress is cut off. If `unread` exceeds UNREAD_MAX, answers are limited to REPLY_MAX, or to
SMALL_REPLY_MAX for clients with many unread bytes, and clients that read too slowly are cut off. If
it exceeds UNREAD_FACTOR * UNREAD_MAX, the client with the most unread bytes is cut off.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Final

from pocketmq.store.deadlines import Deadlines

HELD_MAX: Final = 24 * 1024 * 1024
"""Upper limit of `held`: one request of the largest size and many small ones."""
IDLE_FREE_S: Final = 1.0
"""Time without progress before a connection's memory counts as wasted."""
PROGRESS_SIZE: Final = 65_536
"""Received bytes that count as progress, or an eighth of the held bytes if that is less."""
LOOK_S: Final = 15.0
"""Interval of checks; an unfinished request without progress since the last check is refused."""
UNREAD_MAX: Final = 16 * 1024 * 1024
"""Unread bytes of all clients beyond which clients above UNREAD_TIGHT_MAX have to wait."""
UNREAD_TIGHT_MAX: Final = 65_536
"""Unread bytes of one client beyond which its next calls wait while UNREAD_MAX is exceeded."""
STALLED_S: Final = 10.0
"""While UNREAD_MAX is exceeded, a client with more than UNREAD_TIGHT_MAX unread bytes is cut off if
it reads less than an eighth of them in this time."""
UNREAD_FACTOR: Final = 2
"""Multiple of UNREAD_MAX beyond which clients are cut off: one answer of the largest size fits."""
REPLY_MAX: Final = 1024 * 1024
"""While UNREAD_MAX is exceeded: largest answer to a client with few unread bytes."""
TIGHT_REPLY_MAX: Final = 131_072
"""Upper limit of bytes reserved for an answer once UNREAD_MAX is reached."""
SMALL_REPLY_MAX: Final = 4_096
"""Answers up to this size are always buffered: a refusal would be as large."""
QUIET_S: Final = 10.0
"""Time after a logged cut-off in which further cut-offs are only counted for the next log line."""

logger = logging.getLogger(__name__)


class Keeping(ABC):
    """A connection, as the memory budget sees it.

    peer     the client's address, as gRPC writes it
    held     bytes of unfinished requests, as last counted
    unread   bytes of unread answers, as last counted
    sent     bytes written to the socket so far
    moved_s  time of the requests' last progress, by the clock of `BufferBudget`
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
        """Whether the connection is open."""

    @abstractmethod
    def give_up_stalled(self) -> None:
        """Refuses calls whose unfinished requests progressed too little since the last check."""

    @abstractmethod
    def cut_off(self) -> None:
        """Closes the connection at once, with all its calls."""


class BufferBudget:
    """Memory used for all connections.

    connections   open connections; a closing connection frees its memory by `count`
    clock         monotonic seconds, by the same clock as the deadlines
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
        """Bytes of unfinished requests."""
        self.unread = 0
        """Bytes of answers that clients have not read."""
        self.reserved = 0
        """Bytes reserved for answers that are being made."""
        self.unread_max = UNREAD_MAX
        self._is_looking = self._is_watching = False
        self._quiet_until_s = 0.0
        self._left_out = 0
        self._last = ("", 0, 0)
        """(Peer, held bytes, unread bytes) of the last cut-off that was not logged."""

    def count(self, held_more: int, unread_more: int) -> None:
        """Adds changes to the sums, and cuts off connections if a limit is exceeded."""
        self.held += held_more
        self.unread += unread_more
        assert self.held >= 0, "more held bytes freed than counted"
        assert self.unread >= 0, "more unread bytes freed than counted"
        while self.held > HELD_MAX:
            now_s = self.clock()
            worst = max(self._connections, key=lambda one: (_waste(one, now_s), one.held))
            assert worst.held > 0, "held bytes of no connection"
            self._cut_off(worst)
        while self.unread > UNREAD_FACTOR * self.unread_max:
            worst = max(self._connections, key=lambda one: one.unread)
            assert worst.unread > 0, "unread bytes of no connection"
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
        self._is_looking = False
        for one in [*self._connections]:
            if one.held:
                one.give_up_stalled()
        self.count(0, 0)

    def _cut_off_stalled(self, slow: Mapping[Keeping, int]) -> None:
        self._is_watching = False
        for one, wanted in slow.items():
            if one.is_open and one.sent < wanted and one.unread > UNREAD_TIGHT_MAX:
                self._cut_off(one)
        self.count(0, 0)

    def reserve(self, wanted: int, reserved: int) -> int:
        """Reserves bytes for an answer; returns how many were granted.

        reserved   earlier reservation for this answer, which is freed
        """
        self.reserved -= reserved
        assert self.reserved >= 0, "more bytes freed than reserved"
        if wanted > TIGHT_REPLY_MAX:
            free = self.unread_max - self.unread - self.reserved
            wanted = min(wanted, max(free, REPLY_MAX if free > 0 else TIGHT_REPLY_MAX))
        self.reserved += wanted
        return wanted

    def has_room_for(self, reply_size: int, pending: int) -> bool:
        """Returns whether an answer may be buffered until its client reads it.

        pending   unread bytes of this client so far
        """
        if reply_size <= SMALL_REPLY_MAX or self.unread <= self.unread_max:
            return True
        return reply_size <= REPLY_MAX and pending <= UNREAD_TIGHT_MAX

    # -- clients that are cut off

    def _cut_off(self, one: Keeping) -> None:
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
        if self._left_out:
            self._left_out -= 1
            self._tell(self._last)


def _waste(one: Keeping, now_s: float) -> float:
    return one.held * max(0.0, now_s - one.moved_s - IDLE_FREE_S)
