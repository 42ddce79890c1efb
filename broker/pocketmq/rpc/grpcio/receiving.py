"""Bounds the memory of incomplete requests.

    headers ─► few are incoming? ─► quick lane: grpcio reads the message, then calls the handler
                     └ many      ─► careful lane: a slot, then the handler reads the message

grpcio keeps a partial message while the connection lasts. The server can abandon a partial message
only if the handler reads it, which costs each call 100 µs more. Calls use the careful lane while
all QUICK_MAX slots of the quick lane are taken. Until a call has a slot, its client may send no
more than a stream's window (server.py OPTIONS). While calls wait, a message that is incomplete
after SLOW_S ends its call and the waiting calls of its client.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pocketmq.model.errors import TooManyRequests

QUICK_MAX: Final = 24
"""Slots of the quick lane: 96 MiB of messages of 4 MiB."""
SLOTS: Final = 16
"""Slots of the careful lane: 64 MiB of messages of 4 MiB."""
SLOTS_OF_A_PEER: Final = 4
WAITING_MAX: Final = 512
"""Upper limit of calls that wait for a slot; each has sent at most 64 KiB of its message."""
SLOW_S: Final = 0.25
LATE_S: Final = 30.0
"""Timeout of an incomplete message while no call waits for a slot."""
SLOW_PEERS_MAX: Final = 10_000
LOOKED_AT_MAX: Final = 64
"""Upper limit of calls that one search passes over because they may not use a free slot."""
_FIELD: Final = "unfinished"


class Arrival:
    """A request in the quick lane.

    grpcio calls this object with the request's bytes once they are complete. If the call ends
    before that, grpcio deletes the object.
    """

    __slots__ = ("_is_here", "_receiving")

    def __init__(self, receiving: "Receiving") -> None:
        self._receiving = receiving
        self._is_here = False
        receiving.quick_count += 1

    def __call__(self, raw: bytes) -> bytes:
        """Frees the slot: the request is complete."""
        assert not self._is_here, "request received twice"
        self._is_here = True
        self._receiving.leave_quick()
        return raw

    def __del__(self) -> None:
        if not self._is_here:
            self._receiving.leave_quick()


class Receiving:
    """Incoming requests of a server; must be used on the server's event loop."""

    __slots__ = ("_by_peer", "_reading", "_slow", "_taken", "_waiting", "quick_count")

    def __init__(self) -> None:
        self.quick_count = 0
        """Incomplete requests in the quick lane."""
        self._reading: dict[asyncio.Future[None], float] = {}
        self._by_peer: dict[str, int] = {}
        self._taken = 0
        self._slow: dict[str, None] = {}
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    def leave_quick(self) -> None:
        """Frees a slot of the quick lane."""
        assert self.quick_count > 0, "more slots freed than taken"
        self.quick_count -= 1

    @property
    def is_busy(self) -> bool:
        """Whether the next call must use the careful lane."""
        return self.quick_count >= QUICK_MAX

    @property
    def is_full(self) -> bool:
        """Whether the next call is refused."""
        return len(self._waiting) >= WAITING_MAX

    async def read(self, peer: str, read: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Returns the result of `read`, awaited once a slot is free for this peer.

        Errors   TooManyRequests: too many calls wait, or the message is not complete in time
        """
        if self._waiting or not self._has_room(peer):
            await self._wait(peer)
        else:
            self._take(peer)
        loop = asyncio.get_running_loop()
        limit: asyncio.Future[None] = loop.create_future()
        self._reading[limit] = loop.time()
        timer = loop.call_later(SLOW_S if self._waiting else LATE_S, _expire, limit)
        reading = asyncio.Task(read(), loop=loop)
        try:
            await asyncio.wait((reading, limit), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                self._note_slow(peer)
                raise TooManyRequests(field=_FIELD, limit=QUICK_MAX + SLOTS)
            return reading.result()
        finally:
            timer.cancel()
            reading.cancel()
            del self._reading[limit]
            self._give_back(peer)

    def _has_room(self, peer: str) -> bool:
        return self._taken < SLOTS and self._by_peer.get(peer, 0) < SLOTS_OF_A_PEER

    def _take(self, peer: str) -> None:
        assert self._taken < SLOTS, "all slots are taken"
        self._taken += 1
        self._by_peer[peer] = self._by_peer.get(peer, 0) + 1
        assert self._by_peer[peer] <= SLOTS_OF_A_PEER, "a peer has more than its share"

    def _give_back(self, peer: str) -> None:
        self._taken -= 1
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]
        assert self._taken == sum(self._by_peer.values()), "taken slots miscounted"
        self._let_in()

    async def _wait(self, peer: str) -> None:
        """Waits until a slot is free for the peer, and takes it."""
        if self.is_full or peer in self._slow:
            raise TooManyRequests(field=_FIELD, limit=QUICK_MAX + SLOTS)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((peer, future))
        if len(self._waiting) == 1:
            loop = asyncio.get_running_loop()
            for limit, begun in self._reading.items():
                loop.call_at(begun + SLOW_S, _expire, limit)
        self._let_in()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # The call had a slot.
                self._give_back(peer)
            raise

    def _let_in(self) -> None:
        kept: list[tuple[str, asyncio.Future[None]]] = []
        while self._waiting and self._taken < SLOTS and len(kept) < LOOKED_AT_MAX:
            peer, future = self._waiting.popleft()
            if future.done():
                continue
            if self._has_room(peer):
                self._take(peer)
                future.set_result(None)
            else:
                kept.append((peer, future))
        self._waiting.extendleft(reversed(kept))

    def _note_slow(self, peer: str) -> None:
        if len(self._slow) >= SLOW_PEERS_MAX:
            self._slow.clear()
        self._slow[peer] = None
        waiting, self._waiting = self._waiting, deque()
        for other, future in waiting:
            if other != peer:
                self._waiting.append((other, future))
            elif not future.done():
                future.set_exception(TooManyRequests(field=_FIELD, limit=QUICK_MAX + SLOTS))


def _expire(limit: "asyncio.Future[None]") -> None:
    if not limit.done():
        limit.set_result(None)
