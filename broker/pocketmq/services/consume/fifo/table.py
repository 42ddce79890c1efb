"""Delivery states of ordered queues of all groups, and their persistence.

FIFO leases are persisted in the order table (store/tables/order_info.py) before their receive is
answered. The lease journal does not contain them.
Source: QueueLevelConsumerManager, ConsumerOffsetManager.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, final

from pocketmq.format.order_row import QueueOrder
from pocketmq.model.batch import Run
from pocketmq.model.consuming import NOTHING_HELD, Held
from pocketmq.model.due_time import JUMP_MS
from pocketmq.services.consume.fifo.queue import OrderedQueue
from pocketmq.services.consume.leases import GroupQueue, GroupQueueKey
from pocketmq.services.consume.position import first_offset
from pocketmq.store.message_store import MessageStore

PUT_LEASE_MS: Final = 60_000
"""Duration for which the broker itself leases messages while it replaces them."""


class Seized(NamedTuple):
    """A message that the broker itself has leased."""

    queue: GroupQueue
    state: OrderedQueue
    queue_offset: int
    popped_at_ms: int


@final
class Ordered:
    """The state of an ordered queue, and the offset that this state has committed."""

    __slots__ = ("committed", "forgotten_count", "state")

    def __init__(self, state: OrderedQueue, forgotten_count: int) -> None:
        self.state = state
        self.forgotten_count = forgotten_count
        self.committed = state.next_offset


class OrderTable:
    """All ordered queues that were used since the broker started."""

    __slots__ = (
        "_begun_ms", "_clock", "_offsets", "_orders", "_queues", "_reading", "_skew_ms", "_store",
    )  # fmt: skip

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._reading = store.reading
        self._clock = store.clock
        self._skew_ms = self._skew()
        self._begun_ms = store.clock.monotonic_ms()
        self._offsets = store.tables.offsets
        self._orders = store.tables.orders
        self._queues: dict[GroupQueueKey, Ordered] = {}

    def of(self, queue: GroupQueue) -> OrderedQueue:
        """Returns the state of a queue; sets the group's offset if the group has none.

        Effects  a change of the wall clock moves all lease ends, so that each lease keeps its
                 duration
        """
        self._follow_clock()
        queue.may_be_in_order = True
        group, topic, queue_id = key = queue.group, queue.topic, queue.queue_id
        committed = self._offsets.find(*key)
        held, forgotten_count = self._queues.get(key), self._orders.forgotten_count(*key)
        if held is not None and committed == held.committed:
            if forgotten_count == held.forgotten_count:
                return held.state
        lower, upper = self._reading.queue_range(topic, queue_id)
        if committed is None or committed > self._reading.whole_end(topic, queue_id):
            committed = first_offset(self._store, queue, lower, upper)
        begin = max(committed, lower)
        # An offset that was set by an operator or a client makes the earlier state invalid.
        order = QueueOrder(begin) if held else self._orders.find(group, topic, queue_id, begin)
        state = OrderedQueue(order, held.state.last_popped_ms if held else -1)
        state.bound_ends(self._clock.wall_ms(), self._skew() + self._begun_ms)
        held = self._queues[key] = Ordered(state, forgotten_count)
        self._offsets.advance(group, topic, queue_id, held.committed)
        assert self._offsets.find(*key) == held.committed
        return held.state

    def left(self, queue: GroupQueue) -> QueueOrder:
        """Returns the last state of a queue that is no longer consumed in order."""
        group, topic, queue_id = key = queue.group, queue.topic, queue.queue_id
        if key in self._queues:
            return self.of(queue).order()
        committed = self._offsets.find(*key) or 0
        return self._orders.find(group, topic, queue_id, committed)

    def renewed(self, queue: GroupQueue) -> dict[int, str]:
        """Returns the clients of auto-renewed leases by queue offset."""
        held = self._queues.get((queue.group, queue.topic, queue.queue_id))
        return {} if held is None else held.state.renewed()

    def leave(self, queue: GroupQueue, order: QueueOrder) -> None:
        """Removes a queue from memory, and starts to persist its last state."""
        group, topic, queue_id = key = queue.group, queue.topic, queue.queue_id
        self._queues.pop(key, None)
        self._orders.change(group, topic, queue_id, lambda: order)
        self._orders.save_soon()

    def forget(self, place: GroupQueueKey) -> None:
        """Removes a queue of a removed group from memory."""
        self._queues.pop(place, None)

    def _skew(self) -> int:
        return self._clock.wall_ms() - self._clock.monotonic_ms()

    def _follow_clock(self) -> None:
        skew_ms = self._skew()
        jump_ms, self._skew_ms = skew_ms - self._skew_ms, skew_ms
        if abs(jump_ms) > JUMP_MS:
            for (group, topic, queue_id), held in self._queues.items():
                state = held.state
                if state.move_ends(jump_ms):
                    self._orders.change(group, topic, queue_id, state.order, state.since)

    def changed(self, queue: GroupQueue, state: OrderedQueue) -> None:
        """Registers a changed state for persistence; ignores a state that `of` has replaced."""
        group, topic, queue_id = queue.group, queue.topic, queue.queue_id
        if (group, topic, queue_id) not in self._queues or self.of(queue) is not state:
            return
        self._orders.change(group, topic, queue_id, state.order, state.since)
        held = self._queues[group, topic, queue_id]
        if state.next_offset != held.committed:
            assert state.next_offset > held.committed, "next offset went back"
            self._offsets.advance(group, topic, queue_id, state.next_offset)
            held.committed = state.next_offset

    def when_saved(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` with None once every change so far is durable, or with the error."""
        self._orders.when_saved(then)

    async def saved(self) -> None:
        """Waits until every change so far is durable.

        Errors   DiskFull, StoreFailed
        """
        await self._orders.saved()

    def save_soon(self) -> None:
        """Starts to write the changes."""
        self._orders.save_soon()

    async def replace(
        self,
        seized: Sequence[Seized],
        runs: Callable[[], Awaitable[Sequence[Run]]],
        undo: Callable[[], object],
    ) -> None:
        """Puts replacements of messages, and then settles the messages.

        In every flush mode the replacements are durable before the settlement: a power cut must not
        lose both the message and the replacement.

        runs     returns the replacements; deleted messages have no replacement
        undo     called after an error
        Errors   errors of `runs` and of a put: nothing was settled; those of `saved`
        """
        try:
            made = await runs()
            if made:
                await self._store.writing.put(made)
                await self._store.all_durable()
        except BaseException:
            undo()
            raise
        for _, state, queue_offset, popped_at_ms in seized:
            state.settle(queue_offset, popped_at_ms)
        for state, queue in {one.state: one.queue for one in seized}.items():
            self.changed(queue, state)
        await self.saved()

    def add_held(
        self,
        found: dict[tuple[str, str], dict[int, Held]],
        renews: Callable[[str, str, int], bool],
    ) -> None:
        """Adds the counts of leased messages, by (group, topic) and queue id.

        Messages whose leases have ended are not leased, though their queue still has the
        deliveries. After a moved offset `of` replaces the state, so it does not count.

        renews   (client id, group, ms since the delivery) -> whether the client's lease is renewed
        """
        now_ms = self._clock.wall_ms()
        for (group, topic, queue_id), ordered in self._queues.items():
            if self._offsets.find(group, topic, queue_id) != ordered.committed:
                continue
            count = ordered.state.leased_count(now_ms, partial(_renews, renews, group))
            if count:
                queues = found.setdefault((group, topic), {})
                held = queues.get(queue_id, NOTHING_HELD)
                queues[queue_id] = held._replace(ahead=held.ahead + count)

    @property
    def delivered_count(self) -> int:
        """Number of messages that are delivered and not settled."""
        return sum(held.state.delivered_count for held in self._queues.values())


def _renews(renews: Callable[[str, str, int], bool], group: str, client: str, held_ms: int) -> bool:
    return renews(client, group, held_ms)
