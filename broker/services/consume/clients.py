"""Which clients were heard of lately: leases that renew themselves last as long as their client.

Each by the group that it is heard of in, since anybody can give its id: who may not consume for a
group keeps nothing of it leased.
"""

from collections import OrderedDict
from typing import Final

ALIVE_MS: Final = 120_000
"""How long a client counts as alive after it was heard of (channelExpiredTimeout)."""
KEPT_MAX: Final = 20_000
"""Clients that are known; of more the one heard of longest ago is forgotten."""


class Clients:
    """When each client of a group was heard of last, in monotonic ms."""

    __slots__ = ("_heard_ms",)

    def __init__(self) -> None:
        self._heard_ms: OrderedDict[tuple[str, str], int] = OrderedDict()

    def touch(self, client_id: str, group: str, now_ms: int) -> None:
        """Note that a client is alive until so long: now, or the end of its wait."""
        assert client_id
        client, heard_ms = (client_id, group), self._heard_ms
        heard_ms[client] = max(now_ms, heard_ms.get(client, 0))
        heard_ms.move_to_end(client)
        if len(heard_ms) > KEPT_MAX:
            heard_ms.popitem(last=False)

    def is_alive(self, client_id: str, group: str, now_ms: int) -> bool:
        """Return whether a client was heard of lately in a group."""
        heard_ms = self._heard_ms.get((client_id, group))
        return heard_ms is not None and now_ms < heard_ms + ALIVE_MS
