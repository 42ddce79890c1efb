"""Converts the FIFO state of queues to leases, when a group no longer consumes them in order.

Unsettled deliveries become leases with the same end; settled messages above the group's offset are
skipped later. The leases are written to the journal. When they are durable (in every flush mode),
the order table records skipped and leased messages as settled. After a crash between these steps,
recovery records them as settled (lease/recovery.py), so that no message is leased twice. The number
of FIFO deliveries is lost: attempts continue from the retry count in the record.
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
        """Converts the FIFO state of a queue, before the queue is read under leases.

        Requires queue.is_busy, so that no receive reads the queue
        Effects  advances the group's offset over settled messages, as a crash may have set it back
        Errors   errors of a put: nothing changed; those of `OrderTable.saved`: the conversion is
                 done
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
        if leases:  # Without this save, a crash could make acknowledged messages leases again.
            await self._table.saved()

    async def _leased(self, queue: GroupQueue) -> tuple[list[Lease], QueueOrder]:
        """Leases unsettled deliveries; returns the leases and the final FIFO state."""
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

        Deliveries that change during a write are written again.
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
        """Puts checkpoints, and acks of older checkpoints; returns the new leases."""
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
        for lease in leases:
            self._leases.expect(lease)
        return leases

    def _checkpoints(
        self, queue: GroupQueue, changed: Mapping[int, OrderedDelivery], later_ms: int
    ) -> Iterator[PopCheckpoint]:
        """Yields checkpoints of deliveries, grouped by pop time, end and auto-renewing client.

        If a delivery is written again, its new checkpoint has a later pop time: the ack of the
        earlier checkpoint must not settle the new checkpoint. As `first_popped_ms` is set, recovery
        does not advance offsets by these checkpoints: they may have gaps of undelivered messages.
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
    """Returns the deliveries that are new or differ from the known deliveries.

    A new delivery that was given back before a client got it (number 0) is left out.
    """
    given = {at: one for at, one in order.delivered.items() if one.number or at in known}
    return {at: one for at, one in given.items() if known.get(at) != one}
