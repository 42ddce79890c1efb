"""Queues that were received in order until now: what is known of them goes on without order.

    settled ahead of the group's offset ─► passed by
    given out, not settled ─► leases, as if received without order: they end when they would have
    given out, and taken back ─► not given out

The journal tells of the leases; once that is durable, the table of what is received in order says
of both that they are settled. After a crash in between a start has it say so (`has_left`): what was
leased comes again by its lease, and is not leased once more. How often a message was given out in
order the table alone has told: its attempts count anew from what its record says.
Source: none; a real broker gives everything behind the group's offset out again.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from broker.format.order_row import Delivery, QueueOrder
from broker.format.pop_records import CHECKPOINT_COUNT_MAX, Batched, Checkpoint
from broker.services.consume.journal import Journal
from broker.services.consume.leases import GroupQueue, Lease, LeaseTable
from broker.services.consume.order_table import OrderTable
from broker.store.message_store import MessageStore
from broker.store.tables.tables import Tables


class LeavingOrder:
    """Takes queues over from those who receive in order."""

    __slots__ = ("_journal", "_leases", "_store", "_table")

    def __init__(
        self, store: MessageStore, table: OrderTable, leases: LeaseTable, journal: Journal
    ) -> None:
        self._store = store
        self._table = table
        self._leases = leases
        self._journal = journal

    async def leave(self, queue: GroupQueue) -> None:
        """Know of a queue what was given out and settled in order, before it is read without.

        Shape    nobody else reads it meanwhile
        Effects  the group's offset follows what is settled, behind which a crash may have left it
        Errors   those of a put: nothing changed; DiskFull of the table: what is left is done
        """
        assert queue.is_busy
        order = self._table.left(queue)
        checkpoints = list(self._checkpoints(queue, order))
        if checkpoints:
            order = await self._leased(queue, checkpoints)
        offsets, key = self._store.tables.offsets, (queue.group, queue.topic, queue.queue_id)
        if offsets.find(*key) is not None:
            offsets.advance(*key, order.next_offset)
        leased = chain.from_iterable(one.queue_offsets for one in checkpoints)
        ahead = order.settled.union(at for at in leased if at >= order.next_offset)
        queue.passed, queue.passed_from = ahead, order.next_offset
        if queue.passed or order.delivered:
            self._table.leave(queue, QueueOrder(order.next_offset, queue.passed))
        queue.may_be_in_order = False
        if checkpoints:  # Else a kill would lease once more what is acknowledged by then.
            await self._table.saved()

    async def _leased(self, queue: GroupQueue, checkpoints: list[Checkpoint]) -> QueueOrder:
        """Lease what was given out in order; returns what is known of the queue then."""
        told = [self._journal.checkpoint(one) for one in checkpoints]
        first = await self._journal.put(told)
        await self._journal.durable()
        order = self._table.left(queue)  # Some may have been settled meanwhile.
        renewed = self._table.renewed(queue)
        leases = [_lease_of(queue, one, first + i, renewed) for i, one in enumerate(checkpoints)]
        settled = {
            lease: gone
            for lease in leases
            if (gone := [at for at in lease.queue_offsets if at not in order.delivered])
        }
        if settled:
            await self._journal.put([self._journal.ack(*pair) for pair in settled.items()])
        clock = self._store.clock
        for lease in leases:
            left_ms = lease.end_ms - clock.wall_ms()
            self._leases.add(lease, clock.monotonic_ms() + left_ms)
            self._leases.take(lease, settled.get(lease, ()))
            self._leases.close(lease, len(settled.get(lease, ())))
        return order

    def _checkpoints(self, queue: GroupQueue, order: QueueOrder) -> Iterator[Checkpoint]:
        """Yield what is written down of messages that are given out, those of one time together.

        What a client renews by being alive stands by itself.
        They move no offset at a start: messages between them may not have been given out.
        """
        by_time: dict[tuple[int, int, str], list[int]] = {}
        renewed = self._table.renewed(queue)
        for at, delivery in sorted(order.delivered.items()):
            if delivery.number:
                key = (*_times(delivery), renewed.get(at, ""))
                by_time.setdefault(key, []).append(at)
        revive_queue = self._journal.revive_queue()
        for (popped_at_ms, hidden_ms, _), offsets in by_time.items():
            for begin in range(0, len(offsets), CHECKPOINT_COUNT_MAX):
                some = offsets[begin : begin + CHECKPOINT_COUNT_MAX]
                batched = Batched(
                    queue.group, queue.topic, queue.queue_id, some[0], popped_at_ms,
                    self._journal.broker,
                )  # fmt: skip
                yield Checkpoint(batched, some, hidden_ms, revive_queue, popped_at_ms)


def has_left(tables: Tables, checkpoint: Checkpoint) -> None:
    """Note that messages are leased without order, where a crash came before the table said so."""
    group, topic, queue_id, _, popped_at_ms, _ = checkpoint.batched
    committed = tables.offsets.find(group, topic, queue_id) or 0
    order = tables.orders.find(group, topic, queue_id, committed)
    delivered = order.delivered
    gone = {
        at
        for at in checkpoint.queue_offsets
        if at in delivered and delivered[at].popped_at_ms == popped_at_ms
    }
    if gone:
        left = order._replace(
            settled=order.settled | gone,
            delivered={at: one for at, one in delivered.items() if at not in gone},
        )
        tables.orders.change(group, topic, queue_id, lambda: left)
        tables.orders.save_soon()


def _lease_of(
    queue: GroupQueue, checkpoint: Checkpoint, journal_offset: int, renewed: Mapping[int, str]
) -> Lease:
    clients = {renewed.get(at, "") for at in checkpoint.queue_offsets}
    return Lease(
        queue, checkpoint, journal_offset,
        first_popped_ms=checkpoint.batched.popped_at_ms,
        client_id=max(clients),  # One, and nobody where a time was asked for meanwhile.
    )  # fmt: skip


def _times(delivery: Delivery) -> tuple[int, int]:
    return delivery.popped_at_ms, max(delivery.visible_at_ms - delivery.popped_at_ms, 0)
