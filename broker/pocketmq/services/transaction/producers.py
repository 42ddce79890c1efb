"""Connected producers by group, which receive transaction checks.

A check may be sent to any producer of the group, as the sender of the message may be disconnected.
Producers receive checks round-robin; producers that accept no more checks are skipped.
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
"""Upper limit of bytes of records in one answer; a single record may be larger."""
Offer = Callable[[Check], bool]
"""Sends a check to a producer; returns whether the producer accepts it."""
Room = Callable[[], int]
"""Returns how many checks a producer accepts now."""


def plenty() -> int:
    """Returns the room of a producer that accepts any number of checks."""
    return INT32_MAX


class Producer(NamedTuple):
    """A connected producer; its room is shared by all its groups."""

    offer: Offer
    room: Room


class CheckListener:
    """A call that waits for checks; its answer has the checks that arrive together."""

    __slots__ = ("_count_max", "_size", "checks", "deadline_ms", "done")

    def __init__(self, count_max: int, deadline_ms: int) -> None:
        assert count_max > 0
        self._count_max = count_max
        self.deadline_ms = deadline_ms
        self._size = 0
        self.checks: list[Check] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def offer(self, check: Check) -> bool:
        """Accepts a check; returns False if the answer is full, or the call was cancelled."""
        if self.done.cancelled() or len(self.checks) >= self._count_max:
            return False
        if self.checks and self._size + len(check.record) > ANSWER_BYTES_MAX:
            return False
        self._size += len(check.record)
        self.checks.append(check)
        self.end()
        return True

    def room(self) -> int:
        """Returns how many more checks the answer has room for, if they are small."""
        is_full = self.done.cancelled() or self._size >= ANSWER_BYTES_MAX
        return 0 if is_full else self._count_max - len(self.checks)

    def end(self) -> None:
        """Ends the wait; checks accepted before the answer is sent are part of the answer."""
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
        """Registers a call that waits for checks until `deadline_ms`, in monotonic ms."""
        listener = CheckListener(count_max, deadline_ms)
        self._listeners.add(listener)
        listener.done.add_done_callback(lambda _: self._listeners.discard(listener))
        if self._is_draining:
            listener.end()
        return listener

    def end_waits(self, now_ms: int) -> None:
        """Ends the waits whose deadline has passed."""
        for listener in [one for one in self._listeners if one.deadline_ms <= now_ms]:
            listener.end()

    def drain(self) -> None:
        """Ends all waits; later waits end at once."""
        self._is_draining = True
        for listener in [*self._listeners]:
            listener.end()

    @property
    def waiter_count(self) -> int:
        """Number of calls that wait for checks."""
        return len(self._listeners)

    def count(self, group: str) -> int:
        """Returns the number of connected producers of a group."""
        return len(self._offers.get(group, ()))

    @property
    def total(self) -> int:
        """Number of connected producers of all groups."""
        return sum(map(len, self._offers.values()))

    def ask(self, check: Check) -> bool:
        """Sends a check to one producer of its group; returns False if none accepts it."""
        offers = self._offers.get(check.group, [])
        first = next(self._turns) % max(len(offers), 1)
        return any(one.offer(check) for one in [*offers[first:], *offers[:first]])

    def spare(self, group: str, spoken_for: Counter[Room]) -> bool:
        """Reserves room for one check at a producer of a group; returns False if all are busy.

        spoken_for   number of reservations of each producer; this call adds one
        """
        for producer in self._offers.get(group, ()):
            if spoken_for[producer.room] < producer.room():
                spoken_for[producer.room] += 1
                return True
        return False
