"""Delivery in FIFO order: one receive at a time gets messages of a message group.

Parked receives are served after an acknowledgement, and when leases end (`ended`), as the next
messages of message groups may be ready then.
Source: PopMessageProcessor (isOrder), QueueLevelConsumerManager.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from pocketmq.model.consuming import Held
from pocketmq.services.consume.clients import Clients
from pocketmq.services.consume.delivery import DeliveryMode
from pocketmq.services.consume.fifo.ack import FifoAck
from pocketmq.services.consume.fifo.receive import FifoReceive
from pocketmq.services.consume.fifo.table import OrderTable
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.leases import LeaseTable
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.store.message_store import MessageStore


class FifoDelivery(DeliveryMode):
    """Delivers the messages of each message group in order."""

    __slots__ = ("_clients", "_clock", "_ends", "_order", "table")

    ack: FifoAck
    receive: FifoReceive

    def __init__(
        self,
        store: MessageStore,
        leases: LeaseTable,
        redelivery: Redelivery,
        broker: str,
        clients: Clients,
    ) -> None:
        self._clock = store.clock
        self._clients = clients
        self.table = OrderTable(store)
        self.receive = FifoReceive(store, self.table, redelivery, broker, clients)
        self.ack = FifoAck(store, self.table, leases, redelivery)
        self._ends: list[tuple[int, int, GroupTopic]] = []
        self._order = 0

    def release(self, group: str, topic: str, handles: Sequence[str]) -> bool:
        """Makes messages that never reached the client visible at once."""
        return self.ack.release(group, topic, handles)

    def leave(self, client_id: str, group: str, targets: Iterable[GroupTopic]) -> bool:
        """Ends the auto-renewed leases of a client; returns whether there were any."""
        return sum(self._leave(client_id, target) for target in targets) > 0

    def _leave(self, client_id: str, target: GroupTopic) -> bool:
        is_left = False
        for queue in target.all_queues():
            state = self.table.of(queue)
            if state.leave(client_id):
                self.table.changed(queue, state)
                self.table.save_soon()
                is_left = True
        return is_left

    def frees(self, target: GroupTopic) -> bool:
        """Returns True: an ack makes the next messages of the message group ready."""
        return True

    def add_held(self, found: dict[tuple[str, str], dict[int, Held]]) -> None:
        """Adds the counts of leased messages, by (group, topic) and queue id."""
        now_ms = self._clock.monotonic_ms()

        def renews(client_id: str, group: str, held_ms: int) -> bool:
            return self._clients.renews(client_id, group, now_ms, held_ms)

        self.table.add_held(found, renews)

    # -- leases that end while receives wait -------------------------------------------------
    def watch_ends(self, target: GroupTopic) -> int | None:
        """Makes `ended` return a target with parked receives when its next lease ends."""
        end_ms = self.receive.next_end_ms(target)
        if end_ms is not None:
            end_ms += self._clock.monotonic_ms() - self._clock.wall_ms()
        if target.parked and end_ms is not None and not self._is_watched(target, end_ms):
            assert target.is_ordered, "target is not received in order"
            self._order += 1
            target.ends_at_ms = end_ms
            heappush(self._ends, (end_ms, self._order, target))
        return self.next_end_ms

    def _is_watched(self, target: GroupTopic, end_ms: int) -> bool:
        return target.ends_at_ms is not None and target.ends_at_ms <= end_ms

    @property
    def next_end_ms(self) -> int | None:
        """Monotonic time of the next lease end that parked receives wait for."""
        return self._ends[0][0] if self._ends else None

    def ended(self, now_ms: int) -> list[GroupTopic]:
        """Returns targets with ended leases, once; `watch_ends` has to be called again for them."""
        found: list[GroupTopic] = []
        while self._ends and self._ends[0][0] <= now_ms:
            end_ms, _, target = heappop(self._ends)
            if target.ends_at_ms == end_ms:
                target.ends_at_ms = None
                found.append(target)
        return found
