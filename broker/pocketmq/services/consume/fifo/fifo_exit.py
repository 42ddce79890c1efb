"""Carries over the state of queues that leave FIFO order.

    settled above the group's offset ─► skipped
    delivered and unsettled          ─► leases without order, with the same end
    delivered and released           ─► not delivered

The leases are written to the journal. Once they are durable (in every flush mode), the order table
records skipped and leased messages as settled. After a crash between these steps, recovery records
them as settled (lease/recovery.py), so that no message is leased twice. Only the order table
contains the attempts of FIFO deliveries, so attempts restart from the retry count in the record.
Source: none; RocketMQ redelivers all messages from the group's offset on.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, count

from pocketmq.format.order_row import OrderedDelivery, QueueOrder
from pocketmq.format.pop_records import CHECKPOINT_COUNT_MAX, Entry, PopCheckpoint
from pocketmq.services.consume.fifo.table import OrderTable
from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.leases import GroupQueue, Lease, LeaseTable
from pocketmq.store.message_store import MessageStore


class FifoExit:
    """Converts the FIFO state of queues to leases."""

    __slots__ = ("_journal", "_leases", "_store", "_table")

    def __init__(
        self, store: MessageStore, table: OrderTable, leases: LeaseTable, journal: Journal
    ) -> None:
        self._store = store
        self._table = table
        self._leases = leases
        self._journal = journal

    async def leave(self, queue: GroupQueue) -> None:
        """Converts settled and delivered offsets of a queue, before it is read without order.

        Shape    the queue has no other reader meanwhile
        Effects  advances the group's offset over settled messages: a crash may have lost that
                 offset
        Errors   those of a put: nothing changed; DiskFull of the order table: conversion is done
        """
        assert queue.is_busy
        leases, order = await self._leased(queue)
        offsets, key = self._store.tables.offsets, (queue.group, queue.topic, queue.queue_id)
        if offsets.find(*key) is not None:
            offsets.advance(*key, order.next_offset)
        leased = chain.from_iterable(one.queue_offsets for one in leases)
        ahead = order.settled.union(at for at in leased if at >= order.next_offset)
        queue.passed, queue.passed_from = ahead, order.next_offset
        if queue.passed or order.delivered:
            self._table.leave(queue, QueueOrder(order.next_offset, queue.passed))
        queue.may_be_in_order = False
        if leases:  # Otherwise a crash would lease acknowledged messages once more.
            await self._table.saved()

    async def _leased(self, queue: GroupQueue) -> tuple[list[Lease], QueueOrder]:
        """Leases the messages delivered in order; returns the leases and the final FIFO state."""
        leases: list[Lease] = []
        try:
            order, settled = await self._journalled(queue, leases)
        except BaseException:
            for lease in leases:
                self._leases.forget(lease)
            raise
        clock = self._store.clock
        for lease in leases:
            self._leases.add(lease, clock.monotonic_ms() + lease.end_ms - clock.wall_ms())
        for at in settled:
            lease = queue.leased[at]
            self._leases.take_one(lease, at)
            self._leases.close(lease, 1)
        return leases, order

    async def _journalled(
        self, queue: GroupQueue, leases: list[Lease]
    ) -> tuple[QueueOrder, set[int]]:
        """Writes all deliveries to the journal; returns the state, and offsets settled meanwhile.

        Deliveries that change or are settled during a write are written in a further round.
        """
        known, settled = dict[int, OrderedDelivery](), set[int]()
        for later_ms in count():
            order = self._table.left(queue)
            changed = _changed(order, known)
            ended = known.keys() - order.delivered.keys() - settled
            if not changed and not ended:
                break
            over = ended | (known.keys() & changed.keys())
            acks = [
                self._journal.ack(lease, some)
                for lease in leases
                if (some := [at for at in lease.queue_offsets if at in over])
            ]
            checkpoints = list(self._checkpoints(queue, changed, later_ms))
            leases += await self._put(queue, checkpoints, acks)
            if checkpoints:
                await self._store.all_durable()
            known |= changed
            settled |= ended
        return order, settled

    async def _put(
        self, queue: GroupQueue, checkpoints: list[PopCheckpoint], acks: list[Entry]
    ) -> list[Lease]:
        """Puts checkpoints, and acks of older ones; returns the leases, registered by `expect`."""
        first = await self._journal.put([*map(self._journal.checkpoint, checkpoints), *acks])
        renewed = self._table.renewed(queue)
        leases = [
            Lease(
                queue, one, first + i,
                first_popped_ms=one.first_popped_ms,
                client_id=renewed.get(one.queue_offsets[0], ""),
            )
            for i, one in enumerate(checkpoints)
        ]  # fmt: skip
        for lease in leases:  # Else a fence (offset_barrier.py) would hide them from recovery.
            self._leases.expect(lease)
        return leases

    def _checkpoints(
        self, queue: GroupQueue, changed: Mapping[int, OrderedDelivery], later_ms: int
    ) -> Iterator[PopCheckpoint]:
        """Yields checkpoints of deliveries, grouped by pop time, end and auto-renewing client.

        A checkpoint written in a later round has a later pop time. Otherwise the ack of the earlier
        checkpoint would settle the new one as well. These checkpoints do not advance offsets in
        recovery, since messages between theirs may not have been delivered.
        """
        renewed = self._table.renewed(queue)
        alike: dict[tuple[int, int, str], list[int]] = {}
        for at, one in sorted(changed.items()):
            key = one.popped_at_ms, one.visible_at_ms, renewed.get(at, "")
            alike.setdefault(key, []).append(at)
        revive_queue = self._journal.revive_queue()
        for (first_ms, visible_at_ms, _), offsets in alike.items():
            popped_at_ms = first_ms + later_ms
            hidden_ms = max(visible_at_ms - popped_at_ms, 0)
            for begin in range(0, len(offsets), CHECKPOINT_COUNT_MAX):
                some = offsets[begin : begin + CHECKPOINT_COUNT_MAX]
                yield self._journal.checkpoint_of(
                    queue, some, popped_at_ms, hidden_ms, revive_queue, first_ms
                )


def _changed(order: QueueOrder, known: Mapping[int, OrderedDelivery]) -> dict[int, OrderedDelivery]:
    """Returns the deliveries that differ from the known ones."""
    given = {at: one for at, one in order.delivered.items() if one.number or at in known}
    return {at: one for at, one in given.items() if known.get(at) != one}
