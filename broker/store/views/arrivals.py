"""Marks that rise when a queue grows, for those who wait for its next message.

A mark exists only while somebody may wait on it: marks without waiters are forgotten when there are
many, so that a million queues once polled cost nothing.
Source: PullRequestHoldService, NotifyMessageArrivingListener.
"""

from typing import Final

from broker.model.message import QueueKey
from broker.store.watermark import Watermark

FORGET_ABOVE: Final = 4_096


class Arrivals:
    """Watermarks by queue; each holds the queue's max offset."""

    __slots__ = ("_is_closed", "_marks")

    def __init__(self) -> None:
        self._marks: dict[QueueKey, Watermark] = {}
        self._is_closed = False

    def mark(self, key: QueueKey, max_offset: int) -> Watermark:
        """Return the mark of a queue whose max offset is known."""
        mark = self._marks.get(key)
        if mark is None:
            if len(self._marks) >= FORGET_ABOVE:
                self._forget()
            mark = Watermark(max_offset)
            if self._is_closed:
                mark.close()
            self._marks[key] = mark
        mark.advance(max_offset)
        return mark

    def _forget(self) -> None:
        kept = {}
        for key, mark in self._marks.items():
            mark.sweep(0)
            if mark.waiter_count:
                kept[key] = mark
        self._marks = kept

    def advance(self, key: QueueKey, max_offset: int) -> None:
        """Tell those who wait for this queue that it grew."""
        mark = self._marks.get(key)
        if mark is not None:
            mark.advance(max_offset)

    def release(self) -> None:
        """Send everyone away, and everyone who comes later."""
        self._is_closed = True
        for mark in self._marks.values():
            mark.close()
            assert not mark.waiter_count
