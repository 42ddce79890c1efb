"""Delivery under leases: an unsettled message is redelivered when its lease expires.

Leases (receive.py) and settlements (ack.py) are stored in the journal as RocketMQ's records, so a
settlement that was answered with success survives kill -9. When the broker starts, recovery.py
rebuilds the leases from the journal.

Source: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor, PopReviveService.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Final

from pocketmq.model.errors import BrokerError
from pocketmq.model.stats import Gauge, Stat
from pocketmq.services.consume.clients import Clients
from pocketmq.services.consume.delivery import DeliveryMode
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.handles import find
from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.lease.ack import LeaseAck
from pocketmq.services.consume.lease.offset_barrier import OffsetBarrier
from pocketmq.services.consume.lease.receive import LeaseReceive
from pocketmq.services.consume.lease.revive import Reviving, revive_gauges
from pocketmq.services.consume.leases import GroupQueue, Lease, LeaseTable
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.wakeup import Wakeup
from pocketmq.store.message_store import MessageStore

RELEASED_MS: Final = 1_000
"""Time until messages of a lost reply become visible again."""


class LeaseDelivery(DeliveryMode):
    """Delivers under leases.

    leave_order   converts the FIFO state of a queue to leases, before its first read under leases
    """

    __slots__ = (
        "_barrier", "_journal_max", "_lost_parts", "_store", "_wakeup", "journal", "revive",
        "table",
    )  # fmt: skip

    ack: LeaseAck
    receive: LeaseReceive

    def __init__(
        self,
        store: MessageStore,
        table: LeaseTable,
        journal: Journal,
        redelivery: Redelivery,
        clients: Clients,
        wakeup: Wakeup,
        leave_order: Callable[[GroupQueue], Awaitable[None]],
    ) -> None:
        settings = journal.settings
        self._store = store
        self._journal_max = settings.journal_max
        self.table = table
        self.journal = journal
        self.ack = LeaseAck(store, table, journal, redelivery)
        self.revive = Reviving(store, table, journal, redelivery, self.ack, clients)
        self.receive = LeaseReceive(
            store, table, journal, settings.in_flight_max, self._release, leave_order
        )
        self._barrier = OffsetBarrier(store, table, journal)
        self._wakeup = wakeup
        self._lost_parts: list[tuple[str, str, list[tuple[str, int]]]] = []

    # -- leases whose reply was never delivered ------------------------------------------------
    def _release(self, leases: Sequence[Lease]) -> bool:
        ends_ms = self._store.clock.monotonic_ms() + RELEASED_MS
        for lease in leases:
            self.table.release(lease, ends_ms)
        self._wakeup.by(ends_ms)
        return False

    def release(self, group: str, topic: str, handles: Sequence[str]) -> bool:
        """Makes undelivered messages visible after RELEASED_MS; always returns False.

        If only a part of a lease's messages is undelivered, this part gets a lease of RELEASED_MS.
        """
        by_lease: dict[Lease, list[str]] = {}
        for handle in handles:
            held = find(self.table, group, topic, handle)
            if held is not None:
                by_lease.setdefault(held.lease, []).append(handle)
        parts: list[tuple[str, int]] = []
        now_ms = self._store.clock.monotonic_ms()
        for lease, its in by_lease.items():
            if len(set(its)) == lease.pending_count:
                self._release([lease])
            else:
                # The new lease may begin 1 ms from now, as it must begin after the old lease:
                # hence RELEASED_MS - 1. It must not end after the old lease.
                left_ms = max(lease.ends_ms - now_ms, 0)
                parts += [(handle, min(RELEASED_MS - 1, left_ms)) for handle in its]
        if parts:
            self._lost_parts.append((group, topic, parts))
            self._wakeup.by(now_ms)
        return False

    async def _change_lost_parts(self) -> None:
        """Shortens the leases of messages of a lost reply; after an error, they expire as usual."""
        group, topic, parts = self._lost_parts.pop()
        assert parts, "lost reply without messages"
        with suppress(BrokerError):
            await self.ack.change_invisible(group, topic, parts)

    def leave(self, client_id: str, group: str, targets: Iterable[GroupTopic]) -> bool:
        """Ends the auto-renewed leases of a client in RELEASED_MS; always returns False.

        Cost     linear in the group's leased messages
        """
        queues = [queue for queue in self.table.queues.values() if queue.group == group]
        held = {lease for queue in queues for lease in queue.leased.values()}
        self._release([lease for lease in held if lease.client_id == client_id])
        return False

    def frees(self, target: GroupTopic) -> bool:
        """Returns whether a queue was skipped for its messages in flight; resets `is_capped`."""
        was_capped, target.is_capped = target.is_capped, False
        return was_capped

    def watch_ends(self, target: GroupTopic) -> None:
        """Does nothing: expired leases are redelivered even if no receive waits."""

    @property
    def next_end_ms(self) -> int | None:
        """Monotonic time of the next lease end."""
        return self.table.next_end_ms

    # -- background work -----------------------------------------------------------------------
    def write_offsets(self) -> None:
        """Persists group offsets whose leases are durable in the journal."""
        self._barrier.write_down()

    def work(self, now_ms: int) -> Coroutine[None, None, None] | None:
        """Returns the next due job; None if no job is due."""
        if self._lost_parts:
            return self._change_lost_parts()
        if due := self.revive.due(now_ms):
            return self.revive.end(due, now_ms)
        if old := self.revive.old(self._journal_max):
            return self.revive.carry(old)
        return None

    async def close(self) -> None:
        """Rewrites partly settled leases, and persists all offsets."""
        await self.revive.carry_partly_settled()
        with suppress(BrokerError):  # Without these offsets, recovery reads more of the journal.
            self.write_offsets()
            if await self._store.writing.durable():
                self.write_offsets()

    def stats(self) -> list[Stat]:
        """Returns counters and gauges of leases."""
        return [
            self.revive.expired,
            self.revive.retried,
            self.revive.dead_letters,
            self.journal.revive_in,
            Gauge(
                "rocketmq_pop_checkpoint_buffer_size", "Checkpoints that are not acknowledged.",
                lambda: self.table.open_count,
            ),
            Gauge(
                "rocketmq_pop_offset_buffer_size", "Offsets moved by leases and not yet on disk.",
                lambda: len(self._store.tables.offsets.leases.held),
            ),
            *revive_gauges(self.table, self._store.clock.monotonic_ms),
        ]  # fmt: skip
