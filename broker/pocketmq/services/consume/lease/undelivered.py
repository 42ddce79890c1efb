"""Releases leases whose reply was never delivered.

leased, not handed out yet    its leases end in a second
handed out, reply lost        the same by handles; if only a part of a lease was lost, that part's
                              time is changed, which is journalled (`change_parts`)
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pocketmq.model.errors import BrokerError
from pocketmq.model.step import Clock
from pocketmq.services.consume.handles import find
from pocketmq.services.consume.lease.ack import LeaseAck
from pocketmq.services.consume.leases import Lease, LeaseTable
from pocketmq.services.consume.wakeup import Wakeup

RELEASED_MS: Final = 1_000
"""Time until messages of a lost reply become visible again."""


class UndeliveredLeases:
    """Releases leases that no client got."""

    __slots__ = ("_ack", "_clock", "_leases", "_waiting", "_wakeup")

    def __init__(
        self,
        clock: Clock,
        leases: LeaseTable,
        ack: LeaseAck,
        wakeup: Wakeup,
    ) -> None:
        self._clock = clock
        self._leases = leases
        self._ack = ack
        self._wakeup = wakeup
        self._waiting: list[tuple[str, str, list[tuple[str, int]]]] = []

    def release(self, group: str, topic: str, handles: Sequence[str]) -> None:
        """Makes messages visible soon whose receiver never got them."""
        by_lease: dict[Lease, list[str]] = {}
        for handle in handles:
            held = find(self._leases, group, topic, handle)
            if held is not None:
                by_lease.setdefault(held.lease, []).append(handle)
        parts: list[tuple[str, int]] = []
        for lease, its in by_lease.items():
            if len(set(its)) == lease.pending_count:
                self.release_leases([lease])
            else:
                # A changed lease begins a millisecond after the one it takes the place of. It ends
                # no later than that one: the others of it are still held.
                left_ms = max(lease.ends_ms - self._clock.monotonic_ms(), 0)
                parts += [(handle, min(RELEASED_MS - 1, left_ms)) for handle in its]
        if parts:
            self._waiting.append((group, topic, parts))
            self._wakeup.by(self._clock.monotonic_ms())

    def leave(self, client_id: str, group: str) -> None:
        """Releases soon the leases that a terminating client kept alive for a group.

        Cost     a look at every message that the group has leased
        """
        queues = [queue for queue in self._leases.queues.values() if queue.group == group]
        held = {lease for queue in queues for lease in queue.leased.values()}
        self.release_leases([lease for lease in held if lease.client_id == client_id])

    def release_leases(self, leases: Sequence[Lease]) -> None:
        """Releases leases soon."""
        ends_ms = self._clock.monotonic_ms() + RELEASED_MS
        for lease in leases:
            self._leases.release(lease, ends_ms)
        self._wakeup.by(ends_ms)

    @property
    def has_some(self) -> bool:
        """Whether `change_parts` has something to do."""
        return bool(self._waiting)

    async def change_parts(self) -> None:
        """Changes the time of an undelivered answer's leases; failed ones come at their end."""
        group, topic, parts = self._waiting.pop()
        assert parts, "nothing is changed for nothing"
        with suppress(BrokerError):
            await self._ack.change_invisible(group, topic, parts)
