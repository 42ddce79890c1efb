"""Computes from followers' reports which part of the log enough of them have.

    reports   f1: 700   f2: 540   f3: 90          two followers are needed: two have it up to 540
    ends      … 400 │ 520 │ 610                   the last end of a put up to 540: the mark is 520

A report may end inside a record or a put, and consumers must not see a part of either. So the ends
of puts are kept from when they are sent, and the mark only advances to such an end. A follower
counts once, with its highest report, however many connections it has.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from pocketmq.store.marks import Marks

ENDS_MAX: Final = 4_096
"""Upper limit of remembered ends of puts. At the limit, a later end replaces the last one."""


class InSync(NamedTuple):
    """The followers that an acknowledgement needs.

    replicas           number of brokers that have a message, the leader included; 1: no follower
    is_all             whether all followers that have caught up once must have it
    counts_legacy      whether slaves of RocketMQ count, whose reports mean memory, not disk
    """

    replicas: int = 1
    is_all: bool = False
    counts_legacy: bool = False


class Confirming:
    """Advances the replicated mark of a leader."""

    __slots__ = ("_caught_up", "_ends", "_in_sync", "_marks", "connected")

    def __init__(self, marks: Marks, in_sync: InSync) -> None:
        self._marks = marks
        self._in_sync = in_sync
        self._ends: deque[tuple[int, int]] = deque()
        """Physical end and store time of puts up to which followers were sent the log."""
        self._caught_up: set[str] = set()
        """Connected followers that had everything that was replicated."""
        self.connected = 0
        """Number of followers that count."""

    @property
    def is_on(self) -> bool:
        """Whether acknowledgements wait for followers."""
        return self._in_sync.replicas > 1

    @property
    def is_short(self) -> bool:
        """Whether fewer followers are connected than an acknowledgement needs."""
        return self.connected < self._in_sync.replicas - 1

    def sends(self, end: int, time_ms: int) -> None:
        """Records that followers are sent the log up to the end of a put."""
        last = self._ends[-1][0] if self._ends else self._marks.replicated.value
        if not self.is_on or end <= last:
            return
        if len(self._ends) == ENDS_MAX:
            self._ends.pop()
        self._ends.append((end, time_ms))

    def look(self, reports: Iterable[tuple[str, int]]) -> None:
        """Takes the last report of each connection, and advances the mark.

        A report may be lower than before; the mark then stays. With `is_all`, a follower is waited
        for once it has caught up, until it disconnects.

        reports   (id of the follower, physical offset below which it has the log)
        """
        best: dict[str, int] = {}
        for follower, report in reports:
            best[follower] = max(best.get(follower, 0), report)
        self.connected = len(best)
        if not self.is_on:
            return
        replicated = self._marks.replicated.value
        self._caught_up &= best.keys()
        self._caught_up |= {one for one, report in best.items() if report >= replicated}
        if self.is_short:
            return
        confirmed = sorted(best.values(), reverse=True)[self._in_sync.replicas - 2]
        if self._in_sync.is_all:
            confirmed = min([confirmed, *(best[one] for one in self._caught_up)])
        reached: tuple[int, int] | None = None
        while self._ends and self._ends[0][0] <= confirmed:
            reached = self._ends.popleft()
        if reached is not None:
            assert reached[0] <= self._marks.appended.value, "more is confirmed than was put"
            self._marks.replicate(*reached)
