"""Settles messages received in order: acknowledged, hidden longer, sent back or dead-lettered.

    handles ─► queues ─► settled in memory ─► persisted, many calls in one write ─► answered

While a message is put elsewhere, the broker itself holds its lease.
Source: AckMessageProcessor.ackOrderly, ChangeInvisibleTimeProcessor.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from pocketmq.format.order_row import OrderedDelivery
from pocketmq.format.receipt_handle import ORDERED, LeasePlace, read_handle
from pocketmq.model.administration import GroupConfig
from pocketmq.model.batch import Run
from pocketmq.model.consuming import INVISIBLE_MAX_MS, Settled, SettleStatus
from pocketmq.services.consume.fifo.queue import OrderedQueue
from pocketmq.services.consume.fifo.table import OrderTable
from pocketmq.services.consume.handles import actual_topic, runs_of
from pocketmq.services.consume.leases import GroupQueue, LeaseTable
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.reread import reread
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore

MOVE_LEASE_MS: Final = 60_000
"""How long the broker holds messages that it puts elsewhere."""
OK: Final = SettleStatus.OK
INVALID: Final = SettleStatus.INVALID_RECEIPT_HANDLE
ILLEGAL_TIME: Final = SettleStatus.ILLEGAL_INVISIBLE_TIME

_MARK: Final = f" {ORDERED} "
Entry = TypeVar("Entry", bound=str | tuple[str, int])
Settle = Callable[[Sequence[Entry]], Awaitable[list[Settled]]]
MadeRun = Callable[[bytes, "Move"], Run]
"""Returns the replacement of a record."""


class OrderedMessage(NamedTuple):
    """A message that a handle leads to."""

    queue: GroupQueue
    state: OrderedQueue
    place: LeasePlace
    queue_offset: int


InQueue = tuple[GroupQueue, OrderedQueue]
"""An ordered queue of a group, and its state."""


class Move(NamedTuple):
    """A message that is put elsewhere: its old state, its place in the call."""

    held: OrderedMessage
    before: OrderedDelivery
    place: int

    @property
    def tried(self) -> int:
        """Number of retries in the queue it is in."""
        return self.before.number - 1


class OrderedAck:
    """Settles messages that were received in order."""

    __slots__ = ("_leases", "_redelivery", "_store", "_table")

    def __init__(
        self, store: MessageStore, table: OrderTable, leases: LeaseTable, redelivery: Redelivery
    ) -> None:
        self._store = store
        self._table = table
        self._leases = leases
        self._redelivery = redelivery

    def find(self, group: str, topic: str, handle: str) -> OrderedMessage | None:
        """Returns a handle's message; None if it is settled or was delivered again."""
        read = read_handle(handle)
        found = None if read is None else self._queue_of(group, topic, read[0])
        if read is None or found is None:
            return None
        place, queue_offset = read
        queue, state = found
        is_held = state.is_current(queue_offset, place.popped_at_ms)
        return OrderedMessage(queue, state, place, queue_offset) if is_held else None

    def _queue_of(self, group: str, topic: str, place: LeasePlace) -> InQueue | None:
        """Returns the queue of a handle; None if it was not received in order."""
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
        """Settles messages for good; durable when it returns.

        Errors   DiskFull, FsyncFailed
        Cost     that of the write, and 1 µs a handle
        """
        settled: list[Settled] = []
        touched: dict[int, InQueue] = {}
        for place, some, queue_offsets in runs_of(handles):
            found = None if place is None else self._queue_of(group, topic, place)
            if place is None or found is None:
                settled += [Settled(INVALID, handle) for handle in some]
                continue
            touched[id(found[1])] = found
            is_done = found[1].settle_all(queue_offsets, place.popped_at_ms)
            settled += [
                Settled(OK if done else INVALID, handle)
                for done, handle in zip(is_done, some, strict=True)
            ]
        for queue, state in touched.values():
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
        """Hides messages, and those that follow them, from now on for another time.

        is_suspended   their delivery does not count as an attempt
        Old handles and new ones settle them; durable when it returns.
        Errors   DiskFull, FsyncFailed
        """
        settled: list[Settled] = []
        now_ms = self._store.clock.wall_ms()
        for handle, invisible_ms in entries:
            held = self.find(group, topic, handle)
            if not 0 <= invisible_ms <= INVISIBLE_MAX_MS:
                settled.append(Settled(ILLEGAL_TIME, handle))
            elif held is None:
                settled.append(Settled(INVALID, handle))
            else:
                settled.append(Settled(OK, self._changed(held, now_ms + invisible_ms)))
                if is_suspended:
                    held.state.suspend(held.queue_offset)
        await self._table.saved()
        return settled

    def _changed(self, held: OrderedMessage, visible_at_ms: int) -> str:
        """Changes the end of a lease; returns the new handle."""
        place = held.place
        is_changed = held.state.change(held.queue_offset, place.popped_at_ms, visible_at_ms)
        assert is_changed, "a handle was found for it"
        self._table.changed(held.queue, held.state)
        hidden_ms = max(visible_at_ms - place.popped_at_ms, 0)
        return f"{place._replace(invisible_ms=hidden_ms).prefix}{held.queue_offset}"

    def release(self, group: str, topic: str, handles: Sequence[str]) -> bool:
        """Takes back messages that did not reach their receiver; returns whether there were any."""
        found = [held for handle in handles if (held := self.find(group, topic, handle))]
        for held in found:
            held.state.release([held.queue_offset], held.place.popped_at_ms)
            self._table.changed(held.queue, held.state)
        return bool(found)

    # -- sent back, given up -------------------------------------------------------------------
    async def send_back(
        self, group: GroupConfig, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Puts messages again behind a delay level, 0 for the usual one; below 0: give them up.

        Effects  they come back by the group's retry topic: later messages may go out before
        Errors   those of a put: nothing was settled
        """
        levels = [level for _, level in entries]

        def made(record: bytes, move: Move) -> Run:
            source = move.held.queue.topic
            level = levels[move.place]
            return self._redelivery.back(record, group, source, level, tried=move.tried)

        return await self._move(group, topic, [handle for handle, _ in entries], made)

    async def give_up(
        self, group: GroupConfig, topic: str, handles: Sequence[str]
    ) -> list[Settled]:
        """Makes messages dead letters of their group.

        Errors   those of a put: nothing was settled
        """

        def made(record: bytes, move: Move) -> Run:
            source = move.held.queue.topic
            return self._redelivery.dead(record, group, source, tried=move.tried)

        return await self._move(group, topic, handles, made)

    async def _move(
        self, group: GroupConfig, topic: str, handles: Sequence[str], made: MadeRun
    ) -> list[Settled]:
        """Settles messages by putting others in their place; messages gone from the log need none.

        Those are durable first, in every flush mode: else a power cut might leave neither.
        Effects  runs to its end whatever becomes of the caller
        """
        await self._redelivery.prepare(group)
        settled: list[Settled] = []
        moves: list[Move] = []
        until_ms = self._store.clock.wall_ms() + MOVE_LEASE_MS
        for place, handle in enumerate(handles):
            held = self.find(group.name, topic, handle)
            before = held and held.state.seize(held.queue_offset, held.place.popped_at_ms, until_ms)
            settled.append(Settled(OK if before else INVALID, handle))
            if held is not None and before is not None:
                moves.append(Move(held, before, place))
        if moves:
            await Job(self._moved(moves, made))
        return settled

    async def _moved(self, moves: Sequence[Move], made: MadeRun) -> None:
        try:
            runs: list[Run] = []
            for move in moves:
                held = move.held
                found = await reread(self._store.reading, held.queue, [held.queue_offset])
                runs += [made(record, move) for record in found.values()]
            if runs:
                await self._store.writing.put(runs)
                await self._store.all_durable()
        except BaseException:
            for held, before, _ in moves:
                held.state.restore(held.queue_offset, before)
            raise
        for held, before, _ in moves:
            held.state.settle(held.queue_offset, before.popped_at_ms + 1)
            self._table.changed(held.queue, held.state)
        await self._table.saved()


async def settled_by_kind(
    entries: Sequence[Entry], leased: Settle[Entry], ordered: Settle[Entry]
) -> list[Settled]:
    """Settles each entry by the kind of its handle; results are in the order of the entries.

    A message delivered in order may have been leased without order since (fifo_exit.py).
    Shape    entries are handles, or begin with one
    """
    handles = [entry if isinstance(entry, str) else entry[0] for entry in entries]
    places: list[int] = []
    count = 0
    for place, some, _ in runs_of(handles) if any(_MARK in one for one in handles) else ():
        if place is not None and place.revive_queue == ORDERED:
            places += range(count, count + len(some))
        count += len(some)
    if not places:
        return await leased(entries)
    told = await ordered([entries[i] for i in places])
    if len(told) == len(entries) and not any(one.status is INVALID for one in told):
        return told
    answers = dict(zip(places, told, strict=True))
    others = [i for i in range(len(entries)) if i not in answers or answers[i].status is INVALID]
    if others:
        told = await leased([entries[i] for i in others])
        answers |= zip(others, told, strict=True)
    return [answers[i] for i in range(len(entries))]
