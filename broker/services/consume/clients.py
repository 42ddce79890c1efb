"""Which clients were heard of lately: leases that renew themselves last as long as their client.

Each by the group that it is heard of in, since anybody can give its id: who may not consume for a
group keeps nothing of it leased.
"""

from typing import Final

ALIVE_MS: Final = 120_000
"""How long a client counts as alive after it was heard of (channelExpiredTimeout)."""
CLIENTS_KEPT_MIN: Final = 1_024


class Clients:
    """When each client of a group was heard of last, in monotonic ms."""

    __slots__ = ("_heard_ms", "_sweep_above")

    def __init__(self) -> None:
        self._heard_ms: dict[tuple[str, str], int] = {}
        self._sweep_above = CLIENTS_KEPT_MIN

    def touch(self, client_id: str, group: str, now_ms: int) -> None:
        """Note that a client is alive until so long: now, or the end of its wait."""
        assert client_id
        client = (client_id, group)
        if now_ms > self._heard_ms.get(client, 0):
            self._heard_ms[client] = now_ms
        if len(self._heard_ms) > self._sweep_above:
            kept = {one: at for one, at in self._heard_ms.items() if at + ALIVE_MS > now_ms}
            self._heard_ms = kept
            self._sweep_above = max(CLIENTS_KEPT_MIN, 2 * len(kept))

    def is_alive(self, client_id: str, group: str, now_ms: int) -> bool:
        """Return whether a client was heard of lately in a group."""
        heard_ms = self._heard_ms.get((client_id, group))
        return heard_ms is not None and now_ms < heard_ms + ALIVE_MS
