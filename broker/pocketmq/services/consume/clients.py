"""Clients that were active lately; auto-renewed leases last as long as their client is alive.

A client is stored per group, as any caller may send its id: a caller without access to a group
cannot renew leases there. Only clients with auto-renewed leases are stored, so a flood of ids
evicts none. When too many are alive, the next one is refused.
"""

from collections import OrderedDict
from typing import Final

from pocketmq.model.consuming import RENEWED_MAX_MS, ReceiveRequest
from pocketmq.model.errors import TooManyRequests

ALIVE_MS: Final = 120_000
"""How long a client counts as alive after it was heard of (channelExpiredTimeout)."""
KEPT_MAX: Final = 20_000
"""Clients that are known: twice as many as receives may wait at once."""


class Clients:
    """When each client of a group was heard of last, in monotonic ms."""

    __slots__ = ("_heard_ms",)

    def __init__(self) -> None:
        self._heard_ms: OrderedDict[tuple[str, str], int] = OrderedDict()

    def receives(self, request: ReceiveRequest, now_ms: int) -> None:
        """Marks a client alive until the end of its wait; adds it if it auto-renews.

        Effects  of too many, the one seen longest ago is evicted if it is not alive
        Errors   TooManyRequests: all are alive
        """
        client, heard_ms = (request.client_id, request.group), self._heard_ms
        if request.auto_renew and client not in heard_ms:
            if len(heard_ms) >= KEPT_MAX:
                oldest = next(iter(heard_ms))
                if self.is_alive(*oldest, now_ms):
                    raise TooManyRequests(field="clients", limit=KEPT_MAX)
                del heard_ms[oldest]
            heard_ms[client] = now_ms
        self.touch(*client, now_ms + request.wait_ms)
        assert len(heard_ms) <= KEPT_MAX

    def touch(self, client_id: str, group: str, now_ms: int) -> None:
        """Notes that a client is alive until so long, where it is known."""
        assert client_id
        client, heard_ms = (client_id, group), self._heard_ms
        before_ms = heard_ms.get(client)
        if before_ms is not None:
            heard_ms[client] = max(now_ms, before_ms)
            heard_ms.move_to_end(client)

    def forget(self, client_id: str, group: str) -> None:
        """Removes a client that terminates."""
        self._heard_ms.pop((client_id, group), None)

    def is_alive(self, client_id: str, group: str, now_ms: int) -> bool:
        """Returns whether a client was heard of lately in a group."""
        heard_ms = self._heard_ms.get((client_id, group))
        return heard_ms is not None and now_ms < heard_ms + ALIVE_MS

    def renews(self, client_id: str, group: str, now_ms: int, held_ms: int) -> bool:
        """Returns whether a client's leases are renewed that have lasted so long."""
        return held_ms < RENEWED_MAX_MS and self.is_alive(client_id, group, now_ms)
