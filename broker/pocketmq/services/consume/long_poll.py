"""Long polling: receives that wait for messages, served in arrival order by group and topic.

A parked receive is one future and one entry in the heap of deadlines. Each queue is watched once
for each group. If a caller cancels while messages are being leased for its receive, these messages
are released.
Source: PopLongPollingService.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final

from pocketmq.model.consuming import Attempt, Received, ReceiveRequest
from pocketmq.model.errors import BrokerError, Draining
from pocketmq.services.consume.group_topic import GroupTopic, Parked
from pocketmq.services.consume.leases import GroupQueue
from pocketmq.services.consume.receive_mode import ReceiveMode, Taken
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore

DEADLINES_KEPT_MIN: Final = 1_024
"""The heap is rebuilt when it is longer than this, plus twice the number of parked receives."""
ENDED_MAX: Final = 256
"""Upper limit of expired receives answered in one step."""
SWEEP_ABOVE: Final = 64
"""If a queue has more waiters, the cancelled waiters are removed."""


def nothing(now_ms: int) -> Received:
    """Returns the empty answer of a receive."""
    return Received([], [], [], 0, now_ms)


async def handed_over(
    found: Awaitable[Received], release: Callable[[list[str]], object]
) -> Received:
    """Returns the messages of a receive; if the caller is cancelled, releases them by handles."""
    try:
        return await found
    except asyncio.CancelledError:
        if isinstance(found, asyncio.Future) and found.done() and not found.cancelled():
            if found.exception() is None:
                release(list(found.result().handles))
        raise


class LongPolls:
    """All parked receives.

    mode_of    returns the delivery mode of a target
    release    makes messages available again whose client no longer waits
    watched    called with a target whose receives continue to wait
    """

    __slots__ = (
        "_attempts", "_context", "_deadlines", "_left_one", "_mode_of", "_order", "_reading",
        "_release", "_serving", "_store", "_watched", "is_draining", "waiter_count",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        mode_of: Callable[[GroupTopic], ReceiveMode],
        release: Callable[[GroupTopic, Taken], None],
        watched: Callable[[GroupTopic], None],
    ) -> None:
        self._store = store
        self._reading = store.reading
        self._mode_of = mode_of
        self._release = release
        self._watched = watched
        self._left_one = self._left
        self._context = copy_context()
        """All parked receives share callback and context, to have fewer objects in memory."""
        self._deadlines: list[tuple[int, int, Parked]] = []
        self._attempts: dict[Attempt, asyncio.Future[Received]] = {}
        self._order = 0
        self._serving: set[GroupTopic] = set()
        self.waiter_count = 0
        """Number of parked receives, and of waits for a next message."""
        self.is_draining = False

    def park(
        self, target: GroupTopic, request: ReceiveRequest, deadline_ms: int
    ) -> "asyncio.Future[Received]":
        """Parks a receive until a deadline, in monotonic ms; its future may be cancelled."""
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        parked = Parked(request, future)
        target.park(parked)
        self._add(parked, deadline_ms)
        self.watch(target)
        if request.attempt_id:
            self._replace(request.attempt, future)
        return future

    def expect(
        self, target: GroupTopic, request: ReceiveRequest, deadline_ms: int
    ) -> "asyncio.Future[Received]":
        """Waits for the next message of a target until a deadline, and leases nothing."""
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        parked = Parked(request, future)
        self._add(parked, deadline_ms)
        target.expecting.add(parked)
        future.add_done_callback(lambda _: target.expecting.discard(parked))
        self.watch(target)
        return future

    def _add(self, parked: Parked, deadline_ms: int) -> None:
        """Counts a waiting receive, and ends its wait at a deadline."""
        self.waiter_count += 1
        parked.future.add_done_callback(self._left_one, context=self._context)
        self._order += 1
        heappush(self._deadlines, (deadline_ms, self._order, parked))
        if len(self._deadlines) > DEADLINES_KEPT_MIN + 2 * self.waiter_count:
            self._deadlines = [one for one in self._deadlines if not one[2].future.done()]
            heapify(self._deadlines)

    def _replace(self, attempt: Attempt, future: "asyncio.Future[Received]") -> None:
        """Answers the earlier receive of a repeated attempt without messages."""
        before = self._attempts.get(attempt)
        if before is not None and not before.done():
            before.set_result(nothing(0))
        self._attempts[attempt] = future
        future.add_done_callback(lambda _: self._forget(attempt, future))

    def _forget(self, attempt: Attempt, future: "asyncio.Future[Received]") -> None:
        if self._attempts.get(attempt) is future:
            del self._attempts[attempt]

    def _left(self, _: object) -> None:
        self.waiter_count -= 1
        assert self.waiter_count >= 0

    @property
    def next_deadline_ms(self) -> int | None:
        """Monotonic time of the next deadline; its receive may have ended already."""
        return self._deadlines[0][0] if self._deadlines else None

    def end_waits(self, now_ms: int, wall_ms: int) -> None:
        """Answers at most ENDED_MAX receives whose deadline has passed."""
        for _ in range(min(ENDED_MAX, len(self._deadlines))):
            if self._deadlines[0][0] > now_ms:
                return
            _answer(heappop(self._deadlines)[2], nothing(wall_ms))

    def drain(self) -> None:
        """Answers parked receives without messages, and serves no more receives.

        Receives for which messages are being leased get these messages: with an empty answer, the
        messages would stay invisible for the requested duration.
        """
        self.is_draining = True
        wall_ms = self._store.clock.wall_ms()
        for _, _, parked in self._deadlines:
            if not parked.is_served:
                _answer(parked, nothing(wall_ms))

    def refuse(self, target: GroupTopic, check: Callable[[], object]) -> None:
        """Ends each wait of a target with an error that `check` raises."""
        for parked in [*target.parked, *target.expecting]:
            try:
                check()
            except BrokerError as error:
                _refuse(parked, error)

    # -- arrivals ------------------------------------------------------------------------------
    def watch(self, target: GroupTopic) -> None:
        """Serves parked receives now if messages are available, else when a message arrives."""
        for queue in target.all_queues():
            watch = target.watches.get(queue)
            if watch is None or watch.done():
                self._watch_queue(target, queue)
        if not target.parked or target.serving is not None:
            return
        if self._mode_of(target).is_ready(target):
            self.serve(target)
        else:
            self._watched(target)

    def _watch_queue(self, target: GroupTopic, queue: GroupQueue) -> None:
        mark = self._reading.arrivals(queue.topic, queue.queue_id)
        if mark.waiter_count > SWEEP_ABOVE:
            mark.sweep(0)
        watch = mark.reached(mark.value + 1)
        if watch.done():
            return  # The store is closing.
        target.watches[queue] = watch
        watch.add_done_callback(lambda _: self._arrived(target))

    def _arrived(self, target: GroupTopic) -> None:
        self.notify(target, lambda _: True)
        self.serve(target)

    def notify(self, target: GroupTopic, is_met: Callable[[ReceiveRequest], bool]) -> None:
        """Ends the waits for a target's next message for whose request `is_met` returns True."""
        for parked in list(target.expecting):
            if is_met(parked.request):
                _answer(parked, nothing(0))

    def serve(self, target: GroupTopic) -> None:
        """Starts a job that serves the parked receives of a target, unless one is running."""
        if target.serving is None and target.parked and not self.is_draining:
            target.serving = Job(self._serve(target))
            self._serving.add(target)

    async def _serve(self, target: GroupTopic) -> None:
        mode = self._mode_of(target)
        try:
            while (parked := _first(target)) is not None and mode.is_ready(target):
                await self._serve_one(target, mode, parked)
        finally:
            target.serving = None
            self._serving.discard(target)
        if _first(target) is not None and not self.is_draining:
            self.watch(target)

    async def _serve_one(self, target: GroupTopic, mode: ReceiveMode, parked: Parked) -> None:
        parked.is_served = True
        try:
            taken = await mode.take(parked.request, target)
        except Draining:
            _answer(parked, nothing(self._store.clock.wall_ms()))
            return
        except BrokerError as error:
            _refuse(parked, error)
            return
        if taken is None:
            parked.is_served = False
            if self.is_draining:
                _answer(parked, nothing(self._store.clock.wall_ms()))
            await asyncio.sleep(0)
            return
        if target.parked and target.parked[0] is parked:
            target.parked.popleft()
        mode.when_durable(partial(self._hand, target, parked, taken))

    def _hand(
        self, target: GroupTopic, parked: Parked, taken: Taken, error: BaseException | None
    ) -> None:
        if parked.future.done():
            self._release(target, taken)
        elif error is not None:
            parked.future.set_exception(error)
        else:
            parked.future.set_result(taken.received)

    async def close(self) -> None:
        """Waits until no receive is being served."""
        for target in list(self._serving):
            if target.serving is not None:
                await target.serving.reached()


def _answer(parked: Parked, received: Received) -> None:
    if not parked.future.done():
        parked.future.set_result(received)


def _refuse(parked: Parked, error: BrokerError) -> None:
    if not parked.future.done():
        parked.future.set_exception(error)


def _first(target: GroupTopic) -> Parked | None:
    """Returns the oldest parked receive; removes ended receives before it."""
    while target.parked:
        if not target.parked[0].future.done():
            return target.parked[0]
        target.parked.popleft()
    return None
