"""Classic clients of the broker: groups, queue locks, and notifications of changed groups.

Each consumer computes its queues from the list of the group's members. So all members are notified
when this list or the topics of the group change. Members of broadcasting groups read all queues,
and are not notified.
Source: ConsumerManager, DefaultConsumerIdsChangeListener, ClientHousekeepingService.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from pocketmq.model.errors import GroupInUse
from pocketmq.model.step import Next, Now
from pocketmq.services.sessions.classic_groups import ClassicGroups, Heartbeat
from pocketmq.services.sessions.queue_locks import QueueLocks

STEP_INTERVAL_MS: Final = 10_000
"""Interval of checks for silent clients (scanNotActiveChannel)."""
CLASSIC: Final = "classic"

Notify = Callable[[Hashable, str], object]
"""Notifies a connection that a consumer group changed; must not block."""


class ClassicSessions:
    """All classic clients.

    notify   set by the server of the classic protocol
    pops     returns whether a group's classic clients pop; set by that server
    """

    __slots__ = ("_connections", "groups", "locks", "notify", "pops")

    def __init__(self) -> None:
        self.groups = ClassicGroups()
        self.locks = QueueLocks()
        self.notify: Notify = lambda connection, group: None
        self.pops: Callable[[str], bool] = lambda group: False
        self._connections: set[Hashable] = set()

    def beat(self, connection: Hashable, beat: Heartbeat, now_ms: int) -> bool:
        """Adds or refreshes a client; returns whether this is its connection's first heartbeat.

        Errors   CapacityReached, TooManyElements: nothing was added
        """
        self._notify(self.groups.beat(connection, beat, now_ms))
        is_first = connection not in self._connections
        self._connections.add(connection)
        return is_first

    def leave(
        self, connection: Hashable, client_id: str, *, producer_group: str, consumer_group: str
    ) -> None:
        """Removes a client from two groups; "": from none."""
        self._notify(
            self.groups.leave(
                connection, client_id, producer_group=producer_group, consumer_group=consumer_group
            )
        )

    def gone(self, connection: Hashable) -> None:
        """Removes a closed connection from all groups."""
        self._connections.discard(connection)
        self._notify(self.groups.gone(connection))

    def check_leasable(self, group: str) -> None:
        """Raises GroupInUse if a group has classic members that pull, so that it may not lease.

        Cost   0.1 µs
        """
        if self.groups.group(group) is not None and not self.pops(group):
            raise GroupInUse(group=group, kind=CLASSIC)

    def step(self, now: Now) -> Next:
        """Removes silent clients, and locks that were not renewed."""
        changed, _ = self.groups.expire(now.monotonic_ms)
        self._notify(changed)
        self.locks.forget(now.monotonic_ms)
        return Next(now.monotonic_ms + STEP_INTERVAL_MS)

    def _notify(self, changed: Iterable[str]) -> None:
        for name in changed:
            group = self.groups.group(name)
            if group is not None and not group.consumer.is_broadcast:
                for connection in [*group.members]:
                    self.notify(connection, name)
