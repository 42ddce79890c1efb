"""State of a client's connection on the event loop, common to HTTP/2 and remoting."""

import asyncio
from typing import Final, cast

from pocketmq.rpc.admission import Holder, address_name
from pocketmq.rpc.call import host_from_peer
from pocketmq.rpc.own.server_state import ServerConnection, ServerState
from pocketmq.rpc.own.waiting_calls import WaitingCall

WRITE_HIGH: Final = 262_144
WRITE_LOW: Final = 65_536
"""Bytes in the transport's write buffer at which writing pauses, and at which it resumes."""


class LoopConnection(ServerConnection, asyncio.Protocol):
    """A connection from its first byte to its last.

    peer   the client's address in gRPC's form
    """

    __slots__ = (
        "_is_dirty", "_is_paused", "_moved_size", "_rest", "_transport", "calls", "edge", "held",
        "holder", "host", "is_draining", "moved_s", "now_s", "peer", "sent", "unread",
    )  # fmt: skip

    def __init__(self, edge: ServerState, peer: str) -> None:
        self.edge = edge
        self.peer, self.host = peer, host_from_peer(peer)
        self.holder = Holder(peer, self.host)
        self.calls: set[WaitingCall] = set()
        self.held = self.unread = self.sent = 0
        self.moved_s = self.now_s = 0.0
        self._moved_size = 0
        """Bytes received until `moved_s`."""
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        """Received bytes that wait for this connection's turn."""
        self._is_paused = self._is_dirty = self.is_draining = False

    @property
    def is_open(self) -> bool:
        """Whether the connection is open."""
        return self._transport is not None

    def _join(self, transport: asyncio.BaseTransport) -> asyncio.Transport:
        assert self._transport is None, "the connection is made twice"
        # uvloop's class is not derived from asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH, WRITE_LOW)
        self.edge.join(self, address_name(self.host))
        return self._transport

    def pause_writing(self) -> None:
        """Pauses reading and writing until the socket accepts bytes again."""
        self._is_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def identify(self, user: str, *, is_admin: bool) -> Holder:
        """Returns the holder that is charged for the calls of a user on this connection."""
        holder = self.holder
        if holder.user != user or holder.is_admin != is_admin:
            holder = self.holder = holder.of(user, is_admin=is_admin)
        return holder

    def write_soon(self) -> None:
        """Schedules one write of the connection's output for the next loop iteration."""
        if not self._is_dirty:
            self._is_dirty = True
            self.edge.write_soon(self)

    def close(self) -> None:
        """Closes the connection once the transport's buffer is sent; other answers are lost."""
        self.drain()
        if self._transport is not None:
            self._transport.close()

    def _give_back(self) -> None:
        assert not self.is_open, "an open connection has buffers"
        held, unread, self.held, self.unread = self.held, self.unread, 0, 0
        self.edge.memory.count(-held, -unread)
