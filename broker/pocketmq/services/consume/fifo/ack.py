"""Settles messages received in order: acknowledges, hides or sends them back.

A settlement is persisted before it is answered; one write persists many calls. While a message is
being sent back, the broker itself has a lease of the message.
Source: AckMessageProcessor.ackOrderly, ChangeInvisibleTimeProcessor.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from pocketmq.format.order_row import OrderedDelivery
from pocketmq.format.receipt_handle import ORDERED, LeasePlace, read_handle
from pocketmq.model.administration import GroupConfig
from pocketmq.model.batch import Run
from pocketmq.model.consuming import Settled
from pocketmq.services.consume.ack_mode import INVALID, OK, AckMode, answers_of
from pocketmq.services.consume.fifo.queue import OrderedQueue
from pocketmq.services.consume.fifo.table import PUT_LEASE_MS, OrderTable, Seized
from pocketmq.services.consume.handles import actual_topic, runs_of
from pocketmq.services.consume.leases import GroupQueue, LeaseTable
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.reread import reread
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore


class OrderedMessage(NamedTuple):
    """A message found by its handle."""

    queue: GroupQueue
    state: OrderedQueue
    place: LeasePlace
    queue_offset: int


InQueue = tuple[GroupQueue, OrderedQueue]
"""An ordered queue of a group, and its state."""


class _Move(NamedTuple):
    """A message to send back, its delivery, and the delay level."""

    held: OrderedMessage
    before: OrderedDelivery
    level: int


class FifoAck(AckMode):
    """Settles messages that were received in order."""

    __slots__ = ("_leases", "_redelivery", "_store", "_table", "on_acked")

    def __init__(
        self, store: MessageStore, table: OrderTable, leases: LeaseTable, redelivery: Redelivery
    ) -> None:
        self._store = store
        self._table = table
        self._leases = leases
        self._redelivery = redelivery
        self.on_acked: Callable[[GroupQueue, Sequence[int], int], None] | None = None
        """Called with a queue, acknowledged offsets and the wall time of the receive in ms."""

    def find(self, group: str, topic: str, handle: str) -> OrderedMessage | None:
        """Returns a handle's message; None if the message is settled or was delivered again."""
        read = read_handle(handle)
        found = None if read is None else self._queue_of(group, topic, read[0])
        if read is None or found is None:
            return None
        place, queue_offset = read
        queue, state = found
        is_held = state.is_current(queue_offset, place.popped_at_ms)
        return OrderedMessage(queue, state, place, queue_offset) if is_held else None

    def _queue_of(self, group: str, topic: str, place: LeasePlace) -> InQueue | None:
        """Returns the queue of a handle; None if the queue is not consumed in order."""
        if place.revive_queue != ORDERED:
            return None
        name = actual_topic(group, topic, place.retry)
        config = self._store.tables.topics.find(name)
        if config is None or place.queue_id >= config.queue_count:
            return None
        queue = self._leases.queue(group, name, place.queue_id, place.retry)
        if not queue.may_be_in_order:  # The queue left FIFO order (fifo_exit.py).
            return None
        return queue, self._table.of(queue)

    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Acknowledges messages; the next messages of their message groups become ready."""
        settled: list[Settled] = []
        touched: dict[OrderedQueue, GroupQueue] = {}
        for place, some, queue_offsets in runs_of(handles):
            found = None if place is None else self._queue_of(group, topic, place)
            if place is None or found is None:
                settled += [Settled(INVALID, handle) for handle in some]
                continue
            queue, state = found
            touched[state] = queue
            answers = answers_of(some, state.settle_all(queue_offsets, place.popped_at_ms))
            settled += answers
            if self.on_acked is not None:
                pairs = zip(queue_offsets, answers, strict=True)
                acked = [at for at, answer in pairs if answer.status is OK]
                self.on_acked(queue, acked, place.popped_at_ms)
        for state, queue in touched.items():
            self._table.changed(queue, state)
        await self._table.saved()
        return settled

    async def change_invisible(
        self,
        group: str,
        topic: str,
        entries: Sequence[tuple[str, int]],
        *,
        is_suspended: bool = False,
    ) -> list[Settled]:
        """Changes invisible durations; later messages of their message groups wait longer."""
        settled: list[Settled] = []
        now_ms = self._store.clock.wall_ms()
        for handle, invisible_ms in entries:
            held = self.find(group, topic, handle)
            if held is None:
                settled.append(Settled(INVALID, handle))
                continue
            settled.append(Settled(OK, self._changed(held, now_ms + invisible_ms)))
            if is_suspended:
                held.state.suspend(held.queue_offset)
        await self._table.saved()
        return settled

    def _changed(self, held: OrderedMessage, visible_at_ms: int) -> str:
        """Changes the end of a lease; returns the new handle."""
        place = held.place
        is_changed = held.state.change(held.queue_offset, place.popped_at_ms, visible_at_ms)
        assert is_changed, "message of a valid handle is settled"
        self._table.changed(held.queue, held.state)
        hidden_ms = max(visible_at_ms - place.popped_at_ms, 0)
        return f"{place._replace(invisible_ms=hidden_ms).prefix}{held.queue_offset}"

    def release(self, group: str, topic: str, handles: Sequence[str]) -> bool:
        """Ends leases of messages that never reached the client; returns whether any existed."""
        found = [held for handle in handles if (held := self.find(group, topic, handle))]
        for held in found:
            held.state.release([held.queue_offset], held.place.popped_at_ms)
            self._table.changed(held.queue, held.state)
        return bool(found)

    # -- sent back, dead-lettered --------------------------------------------------------------
    async def send_back(
        self, group: GroupConfig, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Sends messages back; later messages of their message groups may be delivered earlier.

        Effects   continues even if the caller is cancelled
        """
        await self._redelivery.prepare(group)
        found: list[OrderedDelivery | None] = []
        moves: list[_Move] = []
        until_ms = self._store.clock.wall_ms() + PUT_LEASE_MS
        for handle, level in entries:
            held = self.find(group.name, topic, handle)
            before = held and held.state.seize(held.queue_offset, held.place.popped_at_ms, until_ms)
            found.append(before)
            if held is not None and before is not None:
                moves.append(_Move(held, before, level))
        if moves:
            seized = [
                Seized(held.queue, held.state, held.queue_offset, before.popped_at_ms + 1)
                for held, before, _ in moves
            ]
            runs, undo = partial(self._runs, group, moves), partial(_restore, moves)
            await Job(self._table.replace(seized, runs, undo))
        return answers_of([handle for handle, _ in entries], found)

    async def _runs(self, group: GroupConfig, moves: Sequence[_Move]) -> list[Run]:
        runs: list[Run] = []
        for held, before, level in moves:
            records = await reread(self._store.reading, held.queue, [held.queue_offset])
            tried = before.number - 1  # The record does not contain FIFO redeliveries.
            runs += [
                self._redelivery.back(record, group, held.queue.topic, level, tried=tried)
                for record in records.values()
            ]
        return runs


def _restore(moves: Sequence[_Move]) -> None:
    for held, before, _ in moves:
        held.state.restore(held.queue_offset, before)
