"""Recently active clients, whose auto-renewed leases are renewed.

Only clients that request auto-renewal are stored, by client id and group. Any caller may send the
id of another client, but can renew only leases of groups to which the caller has access.
"""

from collections import OrderedDict
from typing import Final

from pocketmq.model.consuming import RENEWED_MAX_MS, ReceiveRequest
from pocketmq.model.errors import TooManyRequests

ALIVE_MS: Final = 120_000
"""A client is alive for this time after its last call (channelExpiredTimeout)."""
KEPT_MAX: Final = 20_000
"""Upper limit of stored clients: twice the limit of parked receives."""


class Clients:
    """Times of the last calls of clients, in monotonic ms."""

    __slots__ = ("_heard_ms",)

    def __init__(self) -> None:
        self._heard_ms: OrderedDict[tuple[str, str], int] = OrderedDict()

    def receives(self, request: ReceiveRequest, now_ms: int) -> None:
        """Records a receive, which counts as a call until its wait ends.

        Effects  a client that requests auto-renewal is stored; if there are KEPT_MAX clients, the
                 least recently active client is removed unless it is alive
        Errors   TooManyRequests: KEPT_MAX clients are alive
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
        """Records a call of a client at `now_ms`; ignores clients that are not stored."""
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
        """Returns whether a client of a group made a call within the last ALIVE_MS."""
        heard_ms = self._heard_ms.get((client_id, group))
        return heard_ms is not None and now_ms < heard_ms + ALIVE_MS

    def renews(self, client_id: str, group: str, now_ms: int, held_ms: int) -> bool:
        """Returns whether a client's leases that have lasted `held_ms` are renewed."""
        return held_ms < RENEWED_MAX_MS and self.is_alive(client_id, group, now_ms)
