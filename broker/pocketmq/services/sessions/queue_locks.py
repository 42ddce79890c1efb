"""Locks of queues by orderly consumers of the classic protocol.

A consumer that processes a queue in order locks the queue for its group, and renews the lock every
20 s. A lock that was not renewed for 60 s can be acquired by another client. Locks are kept only in
memory.
Source: RebalanceLockManager.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pocketmq.model.errors import CapacityReached
from pocketmq.model.message import QueueKey

LOCK_MS: Final = 60_000
"""Time for which a lock is valid after its last renewal (rebalanceLockInterval)."""
LOCKS_MAX: Final = 100_000
"""Upper limit of locks of all groups together."""


class QueueLock(NamedTuple):
    """A lock of a client; `renewed_ms` is the monotonic time of the last renewal."""

    client_id: str
    renewed_ms: int

    def is_valid(self, now_ms: int) -> bool:
        """Returns whether the lock has not expired."""
        return now_ms - self.renewed_ms <= LOCK_MS


class QueueLocks:
    """The locks of all groups."""

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: dict[str, dict[QueueKey, QueueLock]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[QueueKey], now_ms: int
    ) -> list[QueueKey]:
        """Locks queues or renews their locks; returns the queues that the client has locked.

        Errors   CapacityReached: nothing was locked
        """
        wanted = [*queues]
        locks = self._locks.get(group, {})
        count = sum(map(len, self._locks.values())) + sum(one not in locks for one in wanted)
        if count > LOCKS_MAX:
            raise CapacityReached(limit=LOCKS_MAX, field="queue locks")
        held = []
        for queue in wanted:
            known = locks.get(queue)
            if known is None or known.client_id == client_id or not known.is_valid(now_ms):
                locks[queue] = QueueLock(client_id, now_ms)
                held.append(queue)
        if locks:
            self._locks[group] = locks
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[QueueKey]) -> None:
        """Removes a client's locks of queues."""
        locks = self._locks.get(group, {})
        for queue in queues:
            known = locks.get(queue)
            if known is not None and known.client_id == client_id:
                del locks[queue]
        if not locks:
            self._locks.pop(group, None)

    def holder(self, group: str, queue: QueueKey, now_ms: int) -> str:
        """Returns the id of the client that has locked a queue, "" if it is not locked."""
        known = self._locks.get(group, {}).get(queue)
        return known.client_id if known is not None and known.is_valid(now_ms) else ""

    def has_locked(self, group: str, now_ms: int) -> bool:
        """Returns whether a client of the group has locked a queue, as orderly consumers do."""
        return any(one.is_valid(now_ms) for one in self._locks.get(group, {}).values())

    def forget(self, now_ms: int) -> None:
        """Removes expired locks."""
        for group, locks in [*self._locks.items()]:
            left = {queue: one for queue, one in locks.items() if one.is_valid(now_ms)}
            if left:
                self._locks[group] = left
            else:
                del self._locks[group]
