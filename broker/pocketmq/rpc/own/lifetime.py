"""How long a connection lives: silent ones are asked, dead ones cut off, old and idle ones drained.

One deadline a connection, looked at when it has come: nothing is done per call or per read.
"""

from math import inf
from typing import Final

from pocketmq.rpc.own.connection import Http2Connection

FIRST_LOOK_S: Final = 5.0
"""Time that a client may take for its preface and settings."""
KEEPALIVE_S: Final = 60.0
KEEPALIVE_TIMEOUT_S: Final = 20.0
"""A client from which nothing came for so long is pinged, and has so long to answer."""
AGE_GRACE_S: Final = 60.0
"""Time that calls of an old connection may take to end: the longest poll twice."""


class Lifetime:
    """Looks after one connection from its begin until it is gone.

    idle_ms, age_ms   how long it may be without calls, and how old it may get; 0: any
    """

    __slots__ = (
        "_age_s", "_begun_s", "_connection", "_idle_s", "_is_asked", "_is_over", "_over_s",
        "_used_s",
    )  # fmt: skip

    def __init__(self, connection: Http2Connection, *, idle_ms: int, age_ms: int) -> None:
        assert min(idle_ms, age_ms) >= 0, "a limit is a time"
        self._connection = connection
        self._idle_s = idle_ms / 1000
        self._age_s = age_ms / 1000
        self._begun_s = self._used_s = connection.edge.loop.time()
        self._is_asked = self._is_over = False
        self._over_s = inf
        """When calls that have not ended by themselves are ended, or the connection, at last."""
        self._look_at(self._begun_s + FIRST_LOOK_S)

    def _look_at(self, at_s: float) -> None:
        ends = [at_s, self._over_s]
        if not self._connection.is_draining:
            ends += [self._begun_s + self._age_s] if self._age_s else []
            ends += [self._used_s + self._idle_s] if self._idle_s else []
        self._connection.edge.deadlines.add(min(ends), self._look)

    def _look(self) -> None:
        """Does the checks that are due, and schedules the next one."""
        connection = self._connection
        if not connection.is_open:
            return
        if not connection.wire.begun:
            connection.cut_off()
            return
        now = connection.edge.loop.time()
        if connection.is_used or connection.wire.open_count:
            self._used_s = now
        is_new = now - self._begun_s < KEEPALIVE_S and not self._is_asked
        is_silent = not connection.is_heard or (is_new and not connection.is_used)
        connection.is_used = connection.is_heard = False
        if not is_silent:
            self._is_asked = False
        elif self._is_asked:
            connection.cut_off()
            return
        else:
            self._is_asked = True
            connection.ping()
        self._drain_if_over(now)
        if now >= self._over_s and not self._end(now):
            return
        self._look_at(now + (KEEPALIVE_TIMEOUT_S if self._is_asked else KEEPALIVE_S))

    def _drain_if_over(self, now: float) -> None:
        connection = self._connection
        is_old = 0 < self._age_s <= now - self._begun_s
        is_idle = 0 < self._idle_s <= now - self._used_s
        if is_old or is_idle:  # The second time for a client that answers no ping.
            connection.drain()
            self._over_s = min(self._over_s, now + AGE_GRACE_S)

    def _end(self, now: float) -> bool:
        """Gives up a drained connection's calls, then cuts it off; returns whether it continues."""
        connection = self._connection
        if self._is_over or not connection.is_open:
            connection.cut_off()
            return False
        self._is_over = True
        self._over_s = now + KEEPALIVE_TIMEOUT_S
        for call in [*connection.calls]:
            call.give_up()
        return True
