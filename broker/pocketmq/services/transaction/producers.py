"""Connected producers by group, which can be asked to decide a transaction.

Any producer of a group may know the outcome; the one that sent the message may be gone. They are
asked in turn, and one without room is skipped.
Source: ProducerManager.getAvailableChannel.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from pocketmq.model.message import INT32_MAX
from pocketmq.model.transaction import Check

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Of stored messages in one answer, but for the first."""
Offer = Callable[[Check], bool]
"""Gives a producer a question; False: it takes none now."""
Room = Callable[[], int]
"""Returns how many questions a producer takes now."""


def plenty() -> int:
    """Takes as many as there are."""
    return INT32_MAX


class Producer(NamedTuple):
    """One that can be asked; for several groups its room is the same one."""

    offer: Offer
    room: Room


class CheckListener:
    """A call that waits for checks; those it gets at once are its answer."""

    __slots__ = ("_count_max", "_size", "checks", "deadline_ms", "done")

    def __init__(self, count_max: int, deadline_ms: int) -> None:
        assert count_max > 0
        self._count_max = count_max
        self.deadline_ms = deadline_ms
        self._size = 0
        self.checks: list[Check] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def offer(self, check: Check) -> bool:
        """Takes a question; False where it has enough, or is gone."""
        if self.done.cancelled() or len(self.checks) >= self._count_max:
            return False
        if self.checks and self._size + len(check.record) > ANSWER_BYTES_MAX:
            return False
        self._size += len(check.record)
        self.checks.append(check)
        self.end()
        return True

    def room(self) -> int:
        """Returns how many questions it takes, of the size they usually have."""
        is_full = self.done.cancelled() or self._size >= ANSWER_BYTES_MAX
        return 0 if is_full else self._count_max - len(self.checks)

    def end(self) -> None:
        """Ends the wait; checks that come before the answer still go with it."""
        if not self.done.done():
            self.done.set_result(None)


class Producers:
    """The producers of all groups."""

    __slots__ = ("_is_draining", "_listeners", "_offers", "_turns")

    def __init__(self) -> None:
        self._offers: dict[str, list[Producer]] = {}
        self._listeners: set[CheckListener] = set()
        self._turns = itertools.count()
        self._is_draining = False

    def join(self, group: str, producer: Producer) -> Callable[[], None]:
        """Registers a producer; the returned function, called once, removes it."""
        offers = self._offers.setdefault(group, [])
        offers.append(producer)

        def leave() -> None:
            offers.remove(producer)
            if not offers:
                assert self._offers[group] is offers
                del self._offers[group]

        return leave

    def listen(self, count_max: int, deadline_ms: int) -> CheckListener:
        """Returns a wait for checks, until a time in monotonic ms at most."""
        listener = CheckListener(count_max, deadline_ms)
        self._listeners.add(listener)
        listener.done.add_done_callback(lambda _: self._listeners.discard(listener))
        if self._is_draining:
            listener.end()
        return listener

    def end_waits(self, now_ms: int) -> None:
        """Answers calls whose wait is over."""
        for listener in [one for one in self._listeners if one.deadline_ms <= now_ms]:
            listener.end()

    def drain(self) -> None:
        """Answers all waiting calls, and lets no new ones wait."""
        self._is_draining = True
        for listener in [*self._listeners]:
            listener.end()

    @property
    def waiter_count(self) -> int:
        """Calls that wait to be asked."""
        return len(self._listeners)

    def count(self, group: str) -> int:
        """Returns how many producers of a group there are."""
        return len(self._offers.get(group, ()))

    @property
    def total(self) -> int:
        """How many there are of all groups."""
        return sum(map(len, self._offers.values()))

    def ask(self, check: Check) -> bool:
        """Asks one producer of a group; False where none takes the question."""
        offers = self._offers.get(check.group, [])
        first = next(self._turns) % max(len(offers), 1)
        return any(one.offer(check) for one in [*offers[first:], *offers[:first]])

    def spare(self, group: str, spoken_for: Counter[Room]) -> bool:
        """Speak for the room of one question to a producer of a group; False: there is none.

        spoken_for   since the last questions were asked
        """
        for producer in self._offers.get(group, ()):
            if spoken_for[producer.room] < producer.room():
                spoken_for[producer.room] += 1
                return True
        return False
