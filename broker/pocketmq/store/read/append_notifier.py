"""Notifies pulls that wait at the end of a queue, grouped by queue and filter.

    join ─► group of (queue, filter) ──append──► one check per group ──matches──► served in pieces
                    ▲                                  └──no match──► the group's offset advances
                    └──no record for it── waiter ──deadline or cancellation──► removed

A waiter costs one future, one slot of its group and one deadline: half a KiB with its request. An
append costs one check per filter, not per waiter. Matching waiters are served in pieces, so that a
send does not wait for thousands of replies. services/pull.py makes the replies.
Source: PullRequestHoldService, ManyPullRequest.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pocketmq.model.errors import BrokerError
from pocketmq.model.filter import Filter
from pocketmq.model.message import QueueKey
from pocketmq.model.reading import PullResult
from pocketmq.store.deadlines import Deadlines
from pocketmq.store.heavy_turns import HeavyTurns
from pocketmq.store.watermark import Watermark

SERVED_A_TURN: Final = 32
"""Waiters served in one loop iteration: each costs a read and a reply, 20 µs."""
LOOK_AGAIN_S: Final = 0.01
"""Delay of the next check of a queue whose mark is ahead of its readable units."""
GIVEN_UP_MAX: Final = 8

GroupKey = tuple[Filter, str]
"""(filter, user charged for the filter's work); the user is "" for a filter by tags codes."""
Look = Callable[[QueueKey, GroupKey, int], PullResult | Awaitable[PullResult]]
"""Returns the records of a queue, from a queue offset on, that match a group."""


class Waiter(asyncio.Future[Any]):
    """A waiting pull: a future that leaves its queue when it is cancelled.

    place    queue offset; no record before it is for this waiter
    user     user who is charged for the filter's work
    """

    __slots__ = ("_tick", "_waiting", "group", "key", "place", "user", "wanted")

    def __init__(
        self, waiting: "AppendNotifier", key: QueueKey, wanted: Filter, place: int, user: str = ""
    ) -> None:
        super().__init__(loop=waiting.loop)
        self._waiting = waiting
        self._tick = -1
        self.group: WaiterGroup | None = None
        self.key = key
        self.wanted = wanted
        self.place = place
        self.user = user if wanted.reads_records else ""

    def wait_until(self, at_s: float) -> None:
        """Sets the deadline, in the loop's time; called once."""
        assert self._tick < 0, "the waiter has a deadline already"
        self._tick = self._waiting.deadlines.add(at_s, self)

    def __call__(self) -> None:
        """Ends the wait at its deadline."""
        if not self.done():
            self._leave()
            self._waiting.give_up(self)

    def answer(self, value: Any) -> None:
        """Ends the wait with a result."""
        if not self.done():
            self._leave()
            self.set_result(value)

    def fail(self, error: BrokerError) -> None:
        """Ends the wait with an error."""
        if not self.done():
            self._leave()
            self.set_exception(error)

    def cancel(self, msg: Any | None = None) -> bool:
        """Removes the waiter from its queue."""
        if not self.done():
            self._leave()
        return super().cancel(msg)

    def _leave(self) -> None:
        self._waiting.leave(self)
        if self._tick >= 0:
            self._waiting.deadlines.remove(self._tick, self)
            self._tick = -1


class WaiterGroup:
    """Waiters of one queue with one filter and user; no record before `place` is for them."""

    __slots__ = ("is_looking", "key", "place", "queue", "user", "waiters", "wanted")

    def __init__(self, queue: "Queue", key: "GroupKey", place: int) -> None:
        self.queue = queue
        self.key = key
        self.wanted, self.user = key
        self.place = place
        self.waiters: dict[Waiter, None] = {}
        self.is_looking = False


@dataclass(slots=True, eq=False)
class Queue:
    """The groups of one queue, and the future that waits for its mark."""

    key: QueueKey
    groups: dict[GroupKey, WaiterGroup] = field(default_factory=dict)
    watch: asyncio.Future[bool] | None = None


class AppendNotifier:
    """All waiting pulls; used on one event loop.

    arrivals   returns the mark of a queue, which rises with the queue's max offset
    look       finds the records for a group
    serve      answers a waiter, or joins it again
    give_up    answers a waiter whose deadline has passed
    turns      schedules filters that read records
    """

    __slots__ = (
        "_arrivals", "_due", "_look", "_queues", "_ready", "_serve", "_tasks", "_turns", "count",
        "deadlines", "give_up", "loop",
    )  # fmt: skip

    def __init__(
        self,
        arrivals: Callable[[str, int], Watermark],
        look: Look,
        serve: Callable[[Any], None],
        give_up: Callable[[Any], None],
        turns: HeavyTurns,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.deadlines = Deadlines(self.loop)
        self.give_up = give_up
        self.count = 0
        """Number of waiters that wait for an append."""
        self._arrivals = arrivals
        self._look = look
        self._serve = serve
        self._turns = turns
        self._queues: dict[QueueKey, Queue] = {}
        self._ready: deque[Waiter] = deque()
        self._due: dict[Waiter, None] = {}
        """Waiters that will be served in a heavy turn of their user."""
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, waiter: Waiter) -> None:
        """Adds a waiter whose `place` is the end of its queue."""
        assert waiter.group is None, "the waiter has joined already"
        queue = self._queues.get(waiter.key)
        if queue is None:
            queue = self._queues[waiter.key] = Queue(waiter.key)
        key = (waiter.wanted, waiter.user)
        group = queue.groups.get(key)
        if group is None:
            group = queue.groups[key] = WaiterGroup(queue, key, waiter.place)
        group.place = min(group.place, waiter.place)
        group.waiters[waiter] = None
        waiter.group, waiter.key = group, queue.key  # Waiters share the key, to save memory.
        self.count += 1
        if queue.watch is None:
            self._watch(queue)

    def leave(self, waiter: Waiter) -> None:
        """Removes a waiter; has no effect on a waiter that is being served."""
        group = waiter.group
        if group is None:
            if self._due and waiter in self._due:
                del self._due[waiter]
                self._turns.drop(waiter.user, waiter)
            return
        waiter.group = None
        self.count -= 1
        assert self.count >= 0
        del group.waiters[waiter]
        if not group.waiters:
            self._forget(group)

    def end(self, is_meant: Callable[[Any], bool]) -> None:
        """Ends some waits, as if their deadlines had passed; cost: linear in all waiters."""
        waiters = [w for q in self._queues.values() for g in q.groups.values() for w in g.waiters]
        for waiter in filter(is_meant, (*waiters, *self._ready, *self._due)):
            waiter()

    def end_all(self) -> None:
        """Ends all waits, as if their deadlines had passed."""
        self.end(lambda _: True)
        self._ready.clear()
        assert not self.count

    def apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine in a task; it must not raise."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- appends -------------------------------------------------------------------------------
    def _forget(self, group: WaiterGroup) -> None:
        queue = group.queue
        if queue.groups.get(group.key) is group:
            del queue.groups[group.key]
        if group.wanted.reads_records:
            self._turns.drop(group.user, group)
        if queue.groups:
            return
        if self._queues.get(queue.key) is queue:
            del self._queues[queue.key]
        if queue.watch is not None:
            queue.watch.cancel()
            queue.watch = None
            mark = self._arrivals(*queue.key)
            if mark.waiter_count > GIVEN_UP_MAX:
                mark.sweep(0)

    def _watch(self, queue: Queue) -> None:
        places = [group.place for group in queue.groups.values() if not group.is_looking]
        if not places or queue.watch is not None:
            return
        mark = self._arrivals(*queue.key)
        watch = queue.watch = mark.reached(min(places) + 1)
        if not watch.done():
            watch.add_done_callback(lambda done: self._arrived(queue, done))
        elif watch.result():
            self.loop.call_later(LOOK_AGAIN_S, self._arrived, queue, watch)
        else:
            self.loop.call_soon(self._arrived, queue, watch)  # The store is ending.

    def _arrived(self, queue: Queue, watch: "asyncio.Future[bool]") -> None:
        if queue.watch is not watch or watch.cancelled():
            return
        if not watch.result():
            queue.watch = None
            for waiter in [w for group in queue.groups.values() for w in group.waiters]:
                waiter()
            return
        try:
            for group in list(queue.groups.values()):
                self._look_for(group)
        finally:
            if queue.watch is watch:  # Cleared only now: a watch begun before would fire at once.
                queue.watch = None
            self._watch(queue)

    def _look_for(self, group: WaiterGroup) -> None:
        if group.is_looking:
            return
        if group.wanted.is_everything:
            self._wake(group)
            return
        if group.wanted.reads_records:
            group.is_looking = True
            self._turns.soon(group.user, group, partial(self._look_in_turn, group))
        else:
            self._look_now(group)

    def _look_in_turn(self, group: WaiterGroup) -> None:
        group.is_looking = False
        self._look_now(group)
        if not group.is_looking:
            self._watch(group.queue)

    def _look_now(self, group: WaiterGroup) -> None:
        found = self._look(group.queue.key, group.key, group.place)
        if isinstance(found, PullResult):
            self._judge(group, found)
        else:
            group.is_looking = True
            self.apart(self._judge_later(group, found))

    async def _judge_later(self, group: WaiterGroup, found: Awaitable[PullResult]) -> None:
        try:
            result = await found
        except BrokerError:
            self._wake(group)  # Each waiter then reads for itself, and gets its own error.
            return
        self._judge(group, result)
        if group.is_looking:
            self._look_on(group)

    def _look_on(self, group: WaiterGroup) -> None:
        group.is_looking = False
        if group.waiters:
            self._look_for(group)
            self._watch(group.queue)

    def _judge(self, group: WaiterGroup, found: PullResult) -> None:
        is_further = group.place < found.next_begin_offset
        if found.records or not (is_further or group.place == found.max_offset):
            self._wake(group)
            return
        group.place = found.next_begin_offset
        if is_further and group.place < found.max_offset and not group.is_looking:
            group.is_looking = True
            self.loop.call_soon(self._look_on, group)

    # -- serving -------------------------------------------------------------------------------
    def _wake(self, group: WaiterGroup) -> None:
        is_idle, waiters = not self._ready, group.waiters
        for waiter in waiters:
            waiter.group = None
            waiter.place = max(waiter.place, group.place)
        self.count -= len(waiters)
        group.waiters = {}
        group.is_looking = False
        self._forget(group)
        if group.wanted.reads_records:
            self._due.update(waiters)
            for waiter in waiters:
                self._turns.soon(waiter.user, waiter, partial(self._serve_in_turn, waiter))
            return
        self._ready.extend(waiters)
        if is_idle and self._ready:
            self._serve_some()

    def _serve_in_turn(self, waiter: Waiter) -> None:
        if waiter in self._due:
            del self._due[waiter]
            self._serve(waiter)

    def _serve_some(self) -> None:
        ready = self._ready
        try:
            for _ in range(min(len(ready), SERVED_A_TURN)):
                waiter = ready.popleft()
                if not waiter.done():
                    self._serve(waiter)
        finally:
            if ready:
                self.loop.call_soon(self._serve_some)
