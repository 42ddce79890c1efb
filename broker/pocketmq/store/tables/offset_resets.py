"""Reset offsets that a group's classic consumers have not yet taken over.

A classic consumer keeps its own position, and commits it every few seconds. After a reset its next
pull of the queue is answered with the new offset, and until then its commits are ignored. Kept only
in memory: after a restart consumers query their offsets.
Source: ConsumerOffsetManager.assignResetOffset, queryThenEraseResetOffset, hasOffsetReset.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pocketmq.model.message import QueueKey
from pocketmq.model.step import Clock

KEPT_MS: Final = 600_000
"""Time for which a reset waits for a pull or commit of the queue."""


@dataclass(slots=True)
class PendingReset:
    """A reset of one queue.

    is_told   whether a pull was answered with it; the next pull ends it
    seen_ms   monotonic time of the reset, or of the last call that it affected
    """

    queue_offset: int
    seen_ms: int
    is_told: bool = False


class OffsetResets:
    """Pending resets by group and queue.

    is_pulling   returns whether a group has classic consumers that pull; set by their server
    moved        called with group, topic and queue id -> queue offset after a reset
    """

    __slots__ = ("_clock", "_groups", "is_pulling", "moved")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[QueueKey, PendingReset]] = {}
        self.is_pulling: Callable[[str], bool] = lambda group: False
        self.moved: Callable[[str, str, Mapping[int, int]], object] = lambda group, topic, at: None

    def note(self, group: str, topic: str, queue_offsets: Mapping[int, int]) -> None:
        """Records a reset, in place of earlier ones of the same queues.

        Effects  none, except that earlier resets end, for a group without classic consumers that
                 pull
        Cost     linear in the number of pending resets
        """
        self._expire()
        self.forget(group, topic, queue_offsets)
        if queue_offsets and self.is_pulling(group):
            now_ms = self._clock.monotonic_ms()
            rows = self._groups.setdefault(group, {})
            rows |= {(topic, i): PendingReset(at, now_ms) for i, at in queue_offsets.items()}

    def take(self, group: str, topic: str, queue_id: int) -> int | None:
        """Returns the offset with which a pull must be answered; None: the pull proceeds.

        Effects  the next pull proceeds
        """
        found = self._find(group, topic, queue_id)
        if found is None:
            return None
        if found.is_told:
            self.forget(group, topic, {queue_id: 0})
            return None
        found.is_told = True
        return found.queue_offset

    def holds(self, group: str, topic: str, queue_id: int) -> bool:
        """Returns whether a classic consumer's commit must be ignored.

        Cost   0.1 µs without resets of the group
        """
        return self._find(group, topic, queue_id) is not None

    def forget(self, group: str, topic: str, queues: Mapping[int, object]) -> None:
        """Removes the resets of these queues."""
        rows = self._groups.get(group, {})
        for queue_id in queues:
            rows.pop((topic, queue_id), None)
        if not rows:
            self._groups.pop(group, None)

    def _find(self, group: str, topic: str, queue_id: int) -> PendingReset | None:
        rows = self._groups.get(group)
        found = None if rows is None else rows.get((topic, queue_id))
        if found is None:
            return None
        now_ms = self._clock.monotonic_ms()
        if now_ms - found.seen_ms > KEPT_MS:
            self.forget(group, topic, {queue_id: 0})
            return None
        found.seen_ms = now_ms
        return found

    def _expire(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for group, rows in [*self._groups.items()]:
            left = {key: one for key, one in rows.items() if now_ms - one.seen_ms <= KEPT_MS}
            if left:
                self._groups[group] = left
            else:
                del self._groups[group]
