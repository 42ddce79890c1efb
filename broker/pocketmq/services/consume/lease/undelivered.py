"""Releases leases whose reply was never delivered.

leased, not handed out yet    its leases end in a second; in order: as if never delivered
handed out, reply lost        the same by handles; if only a part of a lease was lost, that part's
                              time is changed, which is journalled (`let_come`)
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pocketmq.model.errors import BrokerError
from pocketmq.model.step import Clock
from pocketmq.services.consume.fifo.fifo import Fifo
from pocketmq.services.consume.fifo.receive import OrderedTaken
from pocketmq.services.consume.lease.ack import LeaseAck
from pocketmq.services.consume.lease.receive import Taken
from pocketmq.services.consume.leases import Lease, LeaseTable
from pocketmq.services.consume.wakeup import Wakeup

RELEASED_MS: Final = 1_000
"""Time until messages of a lost reply become visible again."""


class UndeliveredLeases:
    """Releases leases that no client got."""

    __slots__ = ("_alarm", "_clock", "_in_order", "_leases", "_settling", "_waiting")

    def __init__(
        self,
        clock: Clock,
        leases: LeaseTable,
        settling: LeaseAck,
        in_order: Fifo,
        alarm: Wakeup,
    ) -> None:
        self._clock = clock
        self._leases = leases
        self._settling = settling
        self._in_order = in_order
        self._alarm = alarm
        self._waiting: list[tuple[str, str, list[tuple[str, int]]]] = []

    def release(self, group: str, topic: str, handles: Sequence[str]) -> bool:
        """Makes messages visible soon whose receiver never got them.

        Returns  whether some of them may be received at once
        """
        is_free = self._in_order.settling.release(group, topic, handles)
        by_lease: dict[Lease, list[str]] = {}
        for handle in handles:
            held = self._settling.find(group, topic, handle)
            if held is not None:
                by_lease.setdefault(held.lease, []).append(handle)
        parts: list[tuple[str, int]] = []
        for lease, its in by_lease.items():
            if len(set(its)) == lease.pending_count:
                self._release([lease])
            else:
                # A changed lease begins a millisecond after the one it takes the place of. It ends
                # no later than that one: the others of it are still held.
                left_ms = max(lease.ends_ms - self._clock.monotonic_ms(), 0)
                parts += [(handle, min(RELEASED_MS - 1, left_ms)) for handle in its]
        if parts:
            self._waiting.append((group, topic, parts))
            self._alarm.by(self._clock.monotonic_ms())
        return is_free

    def release_taken(self, taken: Taken | OrderedTaken) -> None:
        """Releases soon the messages of a receive whose caller is gone."""
        if isinstance(taken, OrderedTaken):
            self._in_order.taking.release(taken)
        else:
            self._release(taken.leases)

    def leave(self, client_id: str, group: str) -> None:
        """Releases soon the leases that a terminating client kept alive for a group.

        Cost     a look at every message that the group has leased
        """
        queues = [queue for queue in self._leases.queues.values() if queue.group == group]
        held = {lease for queue in queues for lease in queue.leased.values()}
        self._release([lease for lease in held if lease.client_id == client_id])

    def _release(self, leases: Sequence[Lease]) -> None:
        ends_ms = self._clock.monotonic_ms() + RELEASED_MS
        for lease in leases:
            self._leases.release(lease, ends_ms)
        self._alarm.by(ends_ms)

    @property
    def has_some(self) -> bool:
        """Whether `let_come` has something to do."""
        return bool(self._waiting)

    async def let_come(self) -> None:
        """Changes the time of an undelivered answer's leases; failed ones come at their end."""
        group, topic, parts = self._waiting.pop()
        assert parts, "nothing is changed for nothing"
        with suppress(BrokerError):
            await self._settling.change_invisible(group, topic, parts)
