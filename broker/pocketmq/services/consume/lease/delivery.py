"""Delivery under leases: an unsettled message is redelivered when its lease expires.

    receive ─► receive.py   leases available messages
    ack …   ─► ack.py       by handles
    step    ─► revive.py    expired leases are redelivered with one more attempt
               journal.py   stores all of it as RocketMQ's own records in the log: kill -9 loses
                            nothing that a client had acknowledged; recovery.py reads them at start

Source: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor, PopReviveService.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress

from pocketmq.model.errors import BrokerError
from pocketmq.model.stats import Gauge, Stat
from pocketmq.services.consume.clients import Clients
from pocketmq.services.consume.delivery import DeliveryMode, HeldByQueue
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.lease.ack import LeaseAck
from pocketmq.services.consume.lease.offset_barrier import OffsetBarrier
from pocketmq.services.consume.lease.receive import LeaseReceive
from pocketmq.services.consume.lease.revive import Reviving, revive_gauges
from pocketmq.services.consume.lease.undelivered import UndeliveredLeases
from pocketmq.services.consume.leases import GroupQueue, Lease, LeaseTable
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.wakeup import Wakeup
from pocketmq.store.message_store import MessageStore


class LeaseDelivery(DeliveryMode):
    """Delivers under leases.

    leave_order   takes a queue over from FIFO order, before it is read first
    """

    __slots__ = (
        "_barrier", "_in_flight_max", "_journal_max", "_store", "_undelivered", "journal",
        "revive", "table",
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
        self._undelivered = UndeliveredLeases(store.clock, table, self.ack, wakeup)
        self.receive = LeaseReceive(
            store, table, journal, settings.in_flight_max, self._taken_back, leave_order
        )
        self._barrier = OffsetBarrier(store, table, journal)

    def _taken_back(self, leases: Sequence[Lease]) -> bool:
        self._undelivered.release_leases(leases)
        return False

    def release(self, group: str, topic: str, handles: Sequence[str]) -> bool:
        """Ends leases in a second."""
        self._undelivered.release(group, topic, handles)
        return False

    def leave(self, client_id: str, group: str, targets: Iterable[GroupTopic]) -> tuple[()]:
        """Ends leases that a client kept alive in a second."""
        self._undelivered.leave(client_id, group)
        return ()

    def frees(self, target: GroupTopic) -> bool:
        """Returns whether a queue had too many messages in flight."""
        was_capped, target.is_capped = target.is_capped, False
        return was_capped

    def watch_ends(self, target: GroupTopic) -> None:
        """Returns None: expired leases are redelivered, whether or not receives wait."""

    @property
    def next_end_ms(self) -> int | None:
        """When the next lease expires."""
        return self.table.next_end_ms

    @property
    def count(self) -> int:
        """Messages that are leased."""
        return self.table.count

    def add_held(self, found: HeldByQueue) -> None:
        """Adds the leased messages of each queue."""
        for names, queues in self.table.held(self._store.tables.offsets.find).items():
            found.setdefault(names, {}).update(queues)

    # -- background work -----------------------------------------------------------------------
    def write_offsets(self) -> None:
        """Persists offsets whose journal is durable."""
        self._barrier.write_down()

    def work(self, now_ms: int) -> Coroutine[None, None, None] | None:
        """Returns what is due next: a release, expired leases, or old ones to rewrite."""
        if self._undelivered.has_some:
            return self._undelivered.change_parts()
        if due := self.revive.due(now_ms):
            return self.revive.end(due, now_ms)
        if old := self.revive.old(self._journal_max):
            return self.revive.carry(old)
        return None

    async def close(self) -> None:
        """Rewrites partly settled leases, and persists all offsets."""
        await self.revive.carry_partly_settled()
        with suppress(BrokerError):  # A start reads more of the journal then.
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
