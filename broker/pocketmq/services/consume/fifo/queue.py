"""Delivery state of one ordered queue for a group; without I/O, event loop or clock.

A message group is idle, or some of its messages are leased by one receive. It becomes idle when all
its leases have ended, and is then delivered from its first unsettled message on. Messages without a
message group form one group.

Invariants
    1. At most one receive has leased messages of a message group.
    2. A message is delivered only with or after all lower messages of its message group.
    3. All offsets below `next_offset` are settled; `next_offset` is not.
Source: QueueLevelConsumerManager, which locks a whole queue.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from pocketmq.format.order_changes import OrderChange, whole_change
from pocketmq.format.order_row import OrderedDelivery, QueueOrder
from pocketmq.model.consuming import INVISIBLE_MAX_MS, RENEWED_MS
from pocketmq.services.consume.fifo.message_groups import IdleGroups, MessageGroup

WINDOW_MAX: Final = 4_096
"""Upper limit of offsets scanned from `next_offset` on."""
ENDS_KEPT_MAX: Final = 64
"""The heap of ends is rebuilt when it is longer than this, plus twice the message groups."""
BROKER_CLAIM: Final = "broker"
"""Claim of the broker's own leases, which end when it stops; no client's claim can equal it."""
LATE_CLAIMS_MAX: Final = 16
"""Outdated claims (receive ids) are dropped when there are more than this, plus the delivered
messages."""


class OrderedQueue:
    """Delivery state of one queue and group; times are wall times in ms.

    order            persisted state; the messages that a broker was replacing are visible at once
    popped_after_ms  latest pop time in earlier handles of the queue
    """

    __slots__ = (
        "_claims", "_delivered", "_ends", "_groups", "_idle", "_is_whole", "_keys",
        "_popped_after_ms", "_renewed", "_settled", "_suspended", "_touched", "_unseen_end",
        "last_popped_ms", "next_offset", "scanned",
    )  # fmt: skip

    def __init__(self, order: QueueOrder, popped_after_ms: int = -1) -> None:
        self.next_offset = order.next_offset
        """Lowest unsettled queue offset."""
        self.scanned = order.next_offset
        """Lowest queue offset that is not scanned."""
        self._settled = set(order.settled)
        self._delivered = {
            queue_offset: delivery._replace(visible_at_ms=1)
            if delivery.claim == BROKER_CLAIM
            else delivery
            for queue_offset, delivery in order.delivered.items()
        }
        self._keys: dict[int, str] = {}
        self._groups: dict[str, MessageGroup] = {}
        self._idle = IdleGroups()
        self._ends: list[tuple[int, str]] = []
        self._claims: dict[str, tuple[int, ...]] = {}
        self._renewed: dict[int, str] = {}
        self._suspended: set[int] = set()
        self.last_popped_ms = popped_after_ms
        """Latest pop time in handles of the queue."""
        self._popped_after_ms = popped_after_ms
        self._touched: set[int] = set()
        """Queue offsets that changed after the last call of `since`."""
        self._is_whole = True
        """Whether the next call of `since` returns the whole state."""
        self._unseen_end = max(order.delivered, default=-1) + 1
        for queue_offset, delivery in sorted(order.delivered.items()):
            if delivery.claim:
                claimed = self._claims.get(delivery.claim, ())
                self._claims[delivery.claim] = (*claimed, queue_offset)

    # -- scanning ------------------------------------------------------------------------------
    @property
    def must_scan(self) -> bool:
        """Whether a message that was delivered before a restart is not scanned yet.

        While its message group is unknown, no message is delivered.
        """
        return self.scanned < self._unseen_end

    @property
    def room(self) -> int:
        """Number of further messages that may be scanned."""
        return max(self.next_offset + WINDOW_MAX - self.scanned, 0)

    @property
    def delivered_count(self) -> int:
        """Number of messages that are delivered and not settled, even if their leases expired."""
        return len(self._delivered)

    def leased_count(self, now_ms: int, renews: Callable[[str, int], bool]) -> int:
        """Returns the number of delivered messages whose leases last, or would be renewed now.

        renews   as for `end_leases`, which this does not call: a lease stays as it is
        """
        count = 0
        for queue_offset, delivery in self._delivered.items():
            client = self._renewed.get(queue_offset, "")
            lasts = delivery.visible_at_ms > now_ms
            count += lasts or (bool(client) and renews(client, now_ms - delivery.popped_at_ms))
        return count

    def skip_settled(self) -> int:
        """Returns the first offset to scan."""
        while self.scanned in self._settled:
            self.scanned += 1
        return self.scanned

    def scan(self, queue_offset: int, key: str) -> None:
        """Adds a message of message group `key`; settles unscanned offsets before the message."""
        self._pass_to(queue_offset)
        self.scanned = queue_offset + 1
        if queue_offset in self._settled:
            return
        group = self._groups.get(key)
        self._keys[queue_offset] = key
        if group is None:
            group = self._groups[key] = MessageGroup()
            group.offsets.append(queue_offset)
            self._idle.add(key, group)
        else:
            group.offsets.append(queue_offset)
        delivery = self._delivered.get(queue_offset)
        if delivery is not None:
            self._hold((queue_offset,), delivery.visible_at_ms)

    def pass_by(self, end: int) -> None:
        """Settles unscanned messages below an offset: they are unwanted or deleted."""
        self._pass_to(end)
        self.scanned = max(self.scanned, end)

    def is_passable(self, end: int) -> bool:
        """Returns whether `pass_by` is cheap: near, or while no scanned message is unsettled."""
        return end - self.scanned <= WINDOW_MAX or self.next_offset == self.scanned

    def _pass_to(self, end: int) -> None:
        assert end >= self.scanned, "offset was scanned before"
        if self.next_offset == self.scanned:
            self._jump_to(end)
            return
        for queue_offset in range(self.scanned, end):
            self._settle(queue_offset)

    def _jump_to(self, end: int) -> None:
        """Settles all messages below an offset; none of them is scanned."""
        for queue_offset in [at for at in self._delivered if at < end]:
            del self._delivered[queue_offset]
            self._suspended.discard(queue_offset)
        self._settled = {at for at in self._settled if at >= end}
        self._touched = {at for at in self._touched if at >= end}
        self.next_offset = end
        while self.next_offset in self._settled:
            self._settled.remove(self.next_offset)
            self._touched.discard(self.next_offset)
            self.next_offset += 1
        self.scanned = max(self.scanned, self.next_offset)

    # -- delivering ----------------------------------------------------------------------------
    def end_leases(self, now_ms: int, renews: Callable[[str, int], bool]) -> bool:
        """Makes message groups idle whose leases have ended; returns whether leases were renewed.

        renews   (client id, ms since the delivery) -> whether the client's lease is renewed
        """
        is_renewed = False
        while self._ends and self._ends[0][0] <= now_ms:
            _, key = heappop(self._ends)
            group = self._groups.get(key)
            if group is None or not group.held:
                continue
            for queue_offset in group.held:
                is_renewed |= self._renew(queue_offset, now_ms, renews)
            until_ms = self._ends_at(key)
            if until_ms > now_ms:
                heappush(self._ends, (until_ms, key))
            else:
                group.held.clear()
                self._idle.add(key, group)
        return is_renewed

    def _renew(self, queue_offset: int, now_ms: int, renews: Callable[[str, int], bool]) -> bool:
        delivery = self._delivered[queue_offset]
        client = self._renewed.get(queue_offset, "")
        if delivery.visible_at_ms > now_ms or not client:
            return False
        if not renews(client, now_ms - delivery.popped_at_ms):
            return False
        self._deliver(queue_offset, delivery._replace(visible_at_ms=now_ms + RENEWED_MS))
        return True

    def move_ends(self, by_ms: int) -> bool:
        """Adds a duration to all lease ends; returns whether there are delivered messages.

        Released messages stay visible.
        """
        for queue_offset, delivery in self._delivered.items():
            if delivery.visible_at_ms:
                visible_at_ms = max(delivery.visible_at_ms + by_ms, 1)
                self._delivered[queue_offset] = delivery._replace(visible_at_ms=visible_at_ms)
        self._is_whole = True
        self._ends = [(max(end_ms + by_ms, 0), key) for end_ms, key in self._ends]
        heapify(self._ends)
        return bool(self._delivered)

    def bound_ends(self, now_ms: int, begun_ms: int) -> None:
        """Shortens leases that were made while the clock was ahead: they last from `begun_ms` on.

        begun_ms   time of the broker's start by the present wall clock
        """
        for queue_offset, delivery in self._delivered.items():
            length_ms = delivery.visible_at_ms - delivery.popped_at_ms
            if length_ms <= 0:  # `lease` raised the pop time above the pop time of other handles.
                length_ms = INVISIBLE_MAX_MS
            if delivery.popped_at_ms > now_ms and delivery.visible_at_ms > begun_ms + length_ms:
                bounded = delivery._replace(visible_at_ms=begun_ms + length_ms)
                self._delivered[queue_offset] = bounded

    def next_end_ms(self) -> int | None:
        """Returns the earliest time at which a lease may end; None if there are no leases."""
        return self._ends[0][0] if self._ends else None

    def ready(self, count_max: int) -> list[int]:
        """Returns queue offsets that can be delivered, ascending.

        Cost     independent of the number of message groups
        """
        if self.must_scan:
            return []
        return self._idle.lowest(count_max)

    def is_ready(self, queue_offset: int) -> bool:
        """Returns whether the message group of a scanned offset is idle."""
        return self._keys.get(queue_offset) in self._idle

    def deliveries(self, queue_offset: int) -> int:
        """Returns the number of deliveries of a message."""
        delivery = self._delivered.get(queue_offset)
        return 0 if delivery is None else delivery.number

    def attempts(self, queue_offset: int) -> int:
        """Returns the number of deliveries, without the last delivery if it was suspended."""
        return self.deliveries(queue_offset) - (queue_offset in self._suspended)

    def suspend(self, queue_offset: int) -> None:
        """Excludes the last delivery of a message from its attempts, until a restart."""
        assert queue_offset in self._delivered, "message was not delivered"
        self._suspended.add(queue_offset)

    def lease(
        self, offsets: Sequence[int], now_ms: int, until_ms: int, claim: str = "", client: str = ""
    ) -> int:
        """Leases ready messages; returns the pop time in their handles.

        claim    identifies the receive, if its client may repeat it
        client   client whose activity renews the leases; "": they are not renewed
        Shape    the lowest offsets of each message group
        """
        assert all(map(self.is_ready, offsets)), "message group is held"
        found = (self._delivered.get(queue_offset) for queue_offset in offsets)
        # A later pop time makes handles of earlier deliveries invalid.
        now_ms = max(now_ms, self._popped_after_ms + 1)
        popped_at_ms = max([now_ms, *(d.popped_at_ms + 1 for d in found if d is not None)])
        self.last_popped_ms = max(self.last_popped_ms, popped_at_ms)
        for queue_offset in offsets:
            count = self.attempts(queue_offset) + 1
            self._suspended.discard(queue_offset)
            self._deliver(queue_offset, OrderedDelivery(count, popped_at_ms, until_ms, claim))
            self._renewed.pop(queue_offset, None)
            if client:
                self._renewed[queue_offset] = client
        self._hold(offsets, until_ms)
        if claim:
            self._forget_claims()
            self._claims[claim] = tuple(offsets)
        return popped_at_ms

    def claimed(self, claim: str, now_ms: int) -> list[tuple[int, OrderedDelivery]]:
        """Returns (queue offset, delivery) of messages still leased by a receive, ascending."""
        found = ((number, self._delivered.get(number)) for number in self._claims.get(claim, ()))
        return [
            (number, delivery)
            for number, delivery in found
            if delivery is not None and delivery.claim == claim and delivery.visible_at_ms > now_ms
        ]

    # -- settling ------------------------------------------------------------------------------
    def settle(self, queue_offset: int, popped_at_ms: int) -> bool:
        """Settles a message; returns False if it is settled or was delivered again."""
        if not self.is_current(queue_offset, popped_at_ms):
            return False
        self._settle(queue_offset)
        return True

    def settle_all(self, queue_offsets: Sequence[int], popped_at_ms: int) -> list[bool]:
        """Settles messages of one receive; returns the result of `settle` for each message."""
        return [self.settle(queue_offset, popped_at_ms) for queue_offset in queue_offsets]

    def change(self, queue_offset: int, popped_at_ms: int, visible_at_ms: int) -> bool:
        """Changes the end of a lease; False if the message is settled or was delivered again.

        An auto-renewed lease is no longer renewed. A released message counts as delivered: its
        client has the handle.
        """
        if not self.is_current(queue_offset, popped_at_ms):
            return False
        delivery = self._delivered[queue_offset]
        if not delivery.visible_at_ms:
            self._deliver(queue_offset, delivery._replace(number=delivery.number + 1))
        self._renewed.pop(queue_offset, None)
        self._visible_at(queue_offset, visible_at_ms)
        return True

    def leave(self, client: str) -> bool:
        """Ends the auto-renewed leases of a client; returns whether there were any."""
        held = [queue_offset for queue_offset, name in self._renewed.items() if name == client]
        for queue_offset in held:
            del self._renewed[queue_offset]
            self._visible_at(queue_offset, 1)
        return bool(held)

    def release(self, offsets: Iterable[int], popped_at_ms: int) -> None:
        """Makes messages visible that never reached their client; the delivery does not count."""
        for queue_offset in offsets:
            delivery = self._delivered.get(queue_offset)
            # A released message has a `visible_at_ms` of 0.
            if delivery and delivery.popped_at_ms == popped_at_ms and delivery.visible_at_ms:
                back = delivery._replace(number=delivery.number - 1, visible_at_ms=0, claim="")
                self._deliver(queue_offset, back)
                self._renewed.pop(queue_offset, None)
                if queue_offset in self._keys:  # For an unscanned message, `scan` adds the end.
                    heappush(self._ends, (0, self._keys[queue_offset]))

    def seize(self, queue_offset: int, popped_at_ms: int, until_ms: int) -> OrderedDelivery | None:
        """Leases a message to the broker itself, which makes the client's handle invalid.

        Returns  the delivery, for `restore`; None if the message is settled or was delivered again
        """
        if not self.is_current(queue_offset, popped_at_ms):
            return None
        delivery = self._delivered[queue_offset]
        seized = delivery._replace(popped_at_ms=popped_at_ms + 1, claim=BROKER_CLAIM)
        self._deliver(queue_offset, seized)
        self._visible_at(queue_offset, max(until_ms, delivery.visible_at_ms))
        return delivery

    def restore(self, queue_offset: int, delivery: OrderedDelivery) -> None:
        """Undoes `seize`: the client's handle is valid again."""
        if self.is_current(queue_offset, delivery.popped_at_ms + 1):
            self._deliver(queue_offset, delivery)
            self._visible_at(queue_offset, delivery.visible_at_ms)

    def is_current(self, queue_offset: int, popped_at_ms: int) -> bool:
        """Returns whether a message is unsettled, and was last delivered with this pop time."""
        delivery = self._delivered.get(queue_offset)
        return delivery is not None and delivery.popped_at_ms == popped_at_ms

    def bury(self, queue_offset: int) -> None:
        """Settles a message that is unwanted, or deleted from the log."""
        self._settle(queue_offset)

    def renewed(self) -> dict[int, str]:
        """Returns the clients of auto-renewed leases by queue offset."""
        return dict(self._renewed)

    def order(self) -> QueueOrder:
        """Returns the state to persist."""
        return QueueOrder(self.next_offset, frozenset(self._settled), dict(self._delivered))

    def since(self) -> OrderChange:
        """Returns the changes since the last call; the first call returns the whole state."""
        touched, self._touched = self._touched, set()
        if self._is_whole:
            self._is_whole = False
            return whole_change(self.order())
        settled: list[int] = []
        delivered: list[tuple[int, OrderedDelivery]] = []
        for queue_offset in sorted(touched):
            delivery = self._delivered.get(queue_offset)
            if delivery is not None:
                delivered.append((queue_offset, delivery))
            elif queue_offset in self._settled:
                settled.append(queue_offset)
        return OrderChange(False, self.next_offset, settled, delivered)

    # -- helpers -------------------------------------------------------------------------------
    def _deliver(self, queue_offset: int, delivery: OrderedDelivery) -> None:
        self._delivered[queue_offset] = delivery
        self._touched.add(queue_offset)

    def _visible_at(self, queue_offset: int, visible_at_ms: int) -> None:
        delivery = self._delivered[queue_offset]
        self._deliver(queue_offset, delivery._replace(visible_at_ms=visible_at_ms))
        if queue_offset in self._keys:
            self._hold((queue_offset,), visible_at_ms)

    def _hold(self, offsets: Sequence[int], until_ms: int) -> None:
        """Marks messages as leased until a time; adds one heap entry for each message group."""
        keys: dict[str, None] = {}
        for queue_offset in offsets:
            key = self._keys[queue_offset]
            keys[key] = None
            self._groups[key].held.add(queue_offset)
        for key in keys:
            self._idle.discard(key)
            heappush(self._ends, (until_ms, key))
        if len(self._ends) > 2 * len(self._groups) + ENDS_KEPT_MAX:
            self._ends = [(self._ends_at(k), k) for k, g in self._groups.items() if g.held]
            heapify(self._ends)

    def _ends_at(self, key: str) -> int:
        return max(self._delivered[number].visible_at_ms for number in self._groups[key].held)

    def _settle(self, queue_offset: int) -> None:
        if queue_offset < self.next_offset:
            return
        delivery = self._delivered.pop(queue_offset, None)
        self._renewed.pop(queue_offset, None)
        self._suspended.discard(queue_offset)
        key = self._keys.pop(queue_offset, None)
        if key is not None:
            self._leave_group(key, queue_offset, delivery.visible_at_ms if delivery else 0)
        self._settled.add(queue_offset)
        self._touched.add(queue_offset)
        while self.next_offset in self._settled:
            self._settled.remove(self.next_offset)
            self._touched.discard(self.next_offset)
            self.next_offset += 1
        self.scanned = max(self.scanned, self.next_offset)

    def _leave_group(self, key: str, queue_offset: int, until_ms: int) -> None:
        group = self._groups[key]
        group.offsets.remove(queue_offset)
        group.held.discard(queue_offset)
        if not group.offsets:
            assert not group.held, "held offset is not in the group"
            del self._groups[key]
            self._idle.discard(key)
        elif not group.held:
            self._idle.add(key, group)
        elif all(self._delivered[number].visible_at_ms < until_ms for number in group.held):
            heappush(self._ends, (self._ends_at(key), key))  # The settled lease had the last end.

    def _forget_claims(self) -> None:
        if len(self._claims) > len(self._delivered) + LATE_CLAIMS_MAX:
            current = {delivery.claim for delivery in self._delivered.values()}
            self._claims = {c: offsets for c, offsets in self._claims.items() if c in current}
