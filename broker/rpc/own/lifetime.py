"""How long a connection lives: silent ones are asked, dead ones cut off, old and idle ones drained.

One deadline a connection, looked at when it has come: nothing is done per call or per read.
"""

from typing import Final

from broker.rpc.own.connection import Http2Connection

FIRST_LOOK_S: Final = 5.0
"""What a client may take for its preface and settings."""
KEEPALIVE_S: Final = 60.0
KEEPALIVE_TIMEOUT_S: Final = 20.0
"""A client from which nothing came for so long is pinged, and has so long to answer."""


class Lifetime:
    """Looks after one connection from its begin until it is gone.

    idle_ms, age_ms   how long it may be without calls, and how old it may get; 0: any
    """

    __slots__ = ("_age_s", "_begun_s", "_connection", "_idle_s", "_is_asked", "_used_s")

    def __init__(self, connection: Http2Connection, *, idle_ms: int, age_ms: int) -> None:
        assert min(idle_ms, age_ms) >= 0, "a limit is a time"
        self._connection = connection
        self._idle_s = idle_ms / 1000
        self._age_s = age_ms / 1000
        self._begun_s = self._used_s = connection.edge.loop.time()
        self._is_asked = False
        self._look_at(self._begun_s + FIRST_LOOK_S)

    def _look_at(self, at_s: float) -> None:
        ends = [at_s]
        if not self._connection.is_draining:
            ends += [self._begun_s + self._age_s] if self._age_s else []
            ends += [self._used_s + self._idle_s] if self._idle_s else []
        self._connection.edge.deadlines.add(min(ends), self._look)

    def _look(self) -> None:
        """Do what is due, and look again when something else may be."""
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
        self._look_at(now + (KEEPALIVE_TIMEOUT_S if self._is_asked else KEEPALIVE_S))

    def _drain_if_over(self, now: float) -> None:
        connection = self._connection
        is_old = 0 < self._age_s <= now - self._begun_s
        is_idle = 0 < self._idle_s <= now - self._used_s
        if is_old or is_idle:  # The second time for a client that answers no ping.
            connection.drain()
