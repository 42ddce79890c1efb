"""A number that only grows, and callers that wait for a value.

Producers wait for the disk, consumers for a message, a drain for dispatch: all with `await
mark.reached(n)`. A queue's mark exists only while callers may wait for it.

Source: replaces GroupCommitService, WaitNotifyObject, PullRequestHoldService,
NotifyMessageArrivingListener.
"""

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from pocketmq.model.message import QueueKey

FORGET_ABOVE: Final = 4_096


class Watermark:
    """A growing number with waiters, used on one event loop."""

    __slots__ = ("_heap", "_is_closed", "_order", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self._heap: list[tuple[int, int, asyncio.Future[bool], int]] = []
        self._order = count()
        self._is_closed = False

    @property
    def waiter_count(self) -> int:
        """Number of waiters, including cancelled ones until the next sweep."""
        return len(self._heap)

    def reached(self, value: int, deadline_ms: int = 0) -> asyncio.Future[bool]:
        """Returns a future: True once the mark is at `value` or above, False if it is released.

        The caller may cancel the future. After `deadline_ms`, the next `sweep` releases it.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self.value >= value:
            future.set_result(True)
        elif self._is_closed:
            future.set_result(False)
        else:
            heappush(self._heap, (value, next(self._order), future, deadline_ms))
        return future

    def advance(self, value: int) -> None:
        """Raises the mark, and resumes all waiters for values up to it."""
        if value <= self.value:
            return
        self.value = value
        heap = self._heap
        while heap and heap[0][0] <= value:
            future = heappop(heap)[2]
            if not future.done():
                future.set_result(True)
        lowest = heap[0][0] if heap else value + 1
        assert lowest > value

    def release(self) -> None:
        """Resumes every waiter with False."""
        for _, _, future, _ in self._heap:
            if not future.done():
                future.set_result(False)
        self._heap.clear()

    def close(self) -> None:
        """Resumes present and later waiters with False."""
        self._is_closed = True
        self.release()

    def fail(self, error: BaseException) -> None:
        """Resumes every waiter with an error."""
        for _, _, future, _ in self._heap:
            if not future.done():
                future.set_exception(error)
        self._heap.clear()

    def sweep(self, now_ms: int) -> None:
        """Releases waiters whose deadline has passed, and drops cancelled ones."""
        kept = []
        for waiter in self._heap:
            future, deadline_ms = waiter[2], waiter[3]
            if future.done():
                continue
            if 0 < deadline_ms <= now_ms:
                future.set_result(False)
            else:
                kept.append(waiter)
        if len(kept) < len(self._heap):
            self._heap = kept
            heapify(self._heap)


class Arrivals:
    """Watermarks by queue; a mark's value is the queue's max offset.

    forget_above   number of marks above which marks without waiters are dropped
    """

    __slots__ = ("_forget_above", "_forget_at", "_is_closed", "_marks")

    def __init__(self, forget_above: int = FORGET_ABOVE) -> None:
        self._forget_above = self._forget_at = forget_above
        self._marks: dict[QueueKey, Watermark] = {}
        self._is_closed = False

    @property
    def has_marks(self) -> bool:
        """Whether there are marks on which callers may wait."""
        return bool(self._marks)

    def mark(self, key: QueueKey, max_offset: int) -> Watermark:
        """Returns the mark of a queue, raised to its max offset."""
        mark = self._marks.get(key)
        if mark is None:
            if len(self._marks) >= self._forget_at:
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
        self._forget_at = max(self._forget_above, 2 * len(kept))

    def advance(self, key: QueueKey, max_offset: int) -> None:
        """Raises the mark of a queue, if there is one."""
        mark = self._marks.get(key)
        if mark is not None:
            mark.advance(max_offset)

    def release(self) -> None:
        """Ends all present and later waits."""
        self._is_closed = True
        for mark in self._marks.values():
            mark.close()
            assert not mark.waiter_count
