"""Messages under leases: by queue, by client, and by the time they end.

    Lease        messages of one queue that one receive took, or whose time was changed
    GroupQueue   one queue as one group consumes it: queue offset -> lease
    LeaseTable   all leases, by queue, by end and by journal offset

The journal stores wall times. In memory a lease ends by the monotonic clock, after the time it had
left when it was added, so setting the wall clock does not change it.

A message is in at most one lease. A handle settles it if it is of that lease, or of one whose time
was changed into it. The table is rebuilt from the journal (journal.py), and belongs to one event
loop.
Source: PopCheckPoint, PopBufferMergeService.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final, final

from pocketmq.format.pop_records import Batched, PopCheckpoint
from pocketmq.format.receipt_handle import LeasePlace
from pocketmq.model.consuming import Held
from pocketmq.model.ownership import is_ambiguous
from pocketmq.native.machine import mypyc_attr

GroupQueueKey = tuple[str, str, int]
"""(group, topic, queue id)."""
ENDS_KEPT_MIN: Final = 1_024
"""Ends of leases that are over are dropped when they are more than this and half of all."""


@final
class GroupQueue:
    """One queue as one group consumes it.

    retry       how its handles name it beside the topic they are of (format/receipt_handle.py)
    is_shared   it may hold messages of other groups: names of groups and topics may contain the
                separator in the name of a retry topic
    """

    __slots__ = (
        "group", "is_busy", "is_shared", "last_popped_ms", "leased", "leased_upto",
        "may_be_in_order", "passed", "passed_from", "queue_id", "retry", "topic",
    )  # fmt: skip

    def __init__(self, group: str, topic: str, queue_id: int, retry: int) -> None:
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.retry = retry
        self.is_shared = is_ambiguous(topic)
        self.leased: dict[int, Lease] = {}
        """Of messages that are not settled, by queue offset."""
        self.last_popped_ms = -1
        """The latest time in a handle of its messages."""
        self.leased_upto = 0
        """No message at or behind this queue offset was ever leased."""
        self.is_busy = False
        """Whether a receive reads it to lease: all others read other queues meanwhile."""
        self.may_be_in_order = True
        """Whether something of it may have been delivered in order (fifo_exit.py)."""
        self.passed: frozenset[int] = frozenset()
        """Queue offsets ahead of the group's that were settled or leased in order."""
        self.passed_from = 0
        """Where the group was seen last: set back below this, nothing is passed by any more."""

    def held(self, committed: int) -> Held:
        """Returns the leased messages, given the group's offset.

        Cost     of a look at each message while the offset is below one that was leased
        """
        count, ahead = len(self.leased), 0
        if self.leased_upto > committed:
            ahead = sum([at >= committed for at in self.leased])
        return Held(count - ahead, ahead, next(iter(self.leased), 0))

    def popped_at_ms(self, queue_offset: int, now_ms: int) -> int:
        """Returns the time in the handles of a receive that begins at a queue offset.

        Where the offset was set back it is later than in all earlier handles, whatever the clock
        shows: else one of those would settle a message that was delivered again since.
        """
        if queue_offset >= self.leased_upto:
            return now_ms
        return max(now_ms, self.last_popped_ms + 1)

    def pass_from(self, position: int) -> None:
        """Drops settled offsets below the group's offset, or all after the offset was set back."""
        if self.passed:
            is_set_back = position < self.passed_from
            ahead = [at for at in self.passed if at >= position and not is_set_back]
            assert len(ahead) <= len(self.passed)
            self.passed = frozenset(ahead)
            self.passed_from = position


@final
@mypyc_attr(acyclic=True)
class Lease:
    """One checkpoint: messages of a queue that are hidden until a time.

    first_popped_ms  of the original receive, through changes of the time
    journal_offset   of its checkpoint; -1: it is in the revive topic of a real broker
    client_id        client that renews it by being alive; "" for none
    ends_ms          monotonic end; `granted_ms`: the end without a release
    Memory           the garbage collector tracks neither it nor its tuple of numbers: settled
                     leases leave their queue
    """

    __slots__ = (
        "broker", "client_id", "end_number", "ends_ms", "first_popped_ms", "granted_ms",
        "invisible_ms", "is_counted", "journal_offset", "pending_count", "popped_at_ms", "queue",
        "queue_offsets", "revive_queue", "settling_count", "start_offset",
    )  # fmt: skip

    def __init__(
        self,
        queue: GroupQueue,
        checkpoint: PopCheckpoint,
        journal_offset: int,
        *,
        first_popped_ms: int,
        client_id: str = "",
    ) -> None:
        batched = checkpoint.batched
        assert checkpoint.queue_offsets
        self.queue = queue
        self.start_offset = batched.start_offset
        self.popped_at_ms = batched.popped_at_ms
        self.broker = batched.broker
        self.queue_offsets = tuple(checkpoint.queue_offsets)
        self.invisible_ms = checkpoint.invisible_ms
        self.revive_queue = checkpoint.revive_queue
        self.journal_offset = journal_offset
        self.first_popped_ms = first_popped_ms
        self.client_id = client_id
        self.is_counted = True
        """Whether it counts as an attempt where it runs out; a start believes so."""
        self.ends_ms = 0
        self.granted_ms = 0
        self.end_number = 0
        """Which of the ends of the table is its own."""
        self.pending_count = len(checkpoint.queue_offsets)
        self.settling_count = 0
        """Messages that were taken, and that the journal does not contain yet."""

    @property
    def end_ms(self) -> int:
        """When it ends by the journal, wall time."""
        return self.popped_at_ms + self.invisible_ms

    @property
    def batched(self) -> Batched:
        """Identity of the lease in the journal."""
        queue = self.queue
        return Batched(
            queue.group, queue.topic, queue.queue_id, self.start_offset, self.popped_at_ms,
            self.broker,
        )  # fmt: skip

    @property
    def place(self) -> LeasePlace:
        """Place that its handles name."""
        queue = self.queue
        return LeasePlace(
            self.start_offset, self.popped_at_ms, self.invisible_ms, self.revive_queue,
            queue.retry, self.broker, queue.queue_id,
        )  # fmt: skip

    def pending(self) -> list[int]:
        """Returns the queue offsets that are not settled, in order."""
        leased = self.queue.leased
        return [at for at in self.queue_offsets if leased.get(at) is self]


@final
class LeaseTable:
    """All leases of a store."""

    __slots__ = ("_ends", "_foreign", "_open", "_order", "count", "queues")

    def __init__(self) -> None:
        self.queues: dict[GroupQueueKey, GroupQueue] = {}
        self.count = 0
        """Messages that are leased."""
        self._open: dict[int, Lease] = {}
        self._foreign: set[Lease] = set()
        self._ends: list[tuple[int, int, Lease]] = []
        self._order = 0

    def queue(self, group: str, topic: str, queue_id: int, retry: int) -> GroupQueue:
        """Returns a queue of a group, made when it is asked for first."""
        key = (group, topic, queue_id)
        found = self.queues.get(key)
        if found is None:
            found = self.queues[key] = GroupQueue(group, topic, queue_id, retry)
        return found

    def expect(self, lease: Lease) -> None:
        """Keeps the journal from a lease's checkpoint on, before `add`; `forget` undoes it.

        Shape    at once after the put of its checkpoint: journal offsets rise
        """
        assert not lease.end_number, "its messages are not held yet"
        self._open[lease.journal_offset] = lease

    def forget(self, lease: Lease) -> None:
        """Nothing comes of a lease that was expected."""
        self._open.pop(lease.journal_offset, None)

    def add(self, lease: Lease, ends_ms: int) -> None:
        """Holds the messages of a lease until it is settled; it ends at a monotonic time.

        Effects  they are in no other any more: of two with such a message in the journal the later
        holds. An offset that was set back leases them again while others are changed.
        """
        leased = lease.queue.leased
        for queue_offset in lease.queue_offsets:
            older = leased.get(queue_offset)
            if older is not None:
                self.take_one(older, queue_offset)
                self.close(older, 1)
            leased[queue_offset] = lease
        queue = lease.queue
        queue.leased_upto = max(queue.leased_upto, lease.queue_offsets[-1] + 1)
        queue.last_popped_ms = max(queue.last_popped_ms, lease.popped_at_ms)
        self.count += lease.pending_count
        if lease.journal_offset < 0:
            self._foreign.add(lease)
        else:
            self._open[lease.journal_offset] = lease
        lease.granted_ms = ends_ms
        self.end_at(lease, ends_ms)

    def end_at(self, lease: Lease, ends_ms: int) -> None:
        """Changes the end of a lease."""
        lease.ends_ms = ends_ms
        self._order += 1
        lease.end_number = self._order
        heappush(self._ends, (ends_ms, self._order, lease))
        if len(self._ends) > ENDS_KEPT_MIN + 2 * self.open_count:
            self._ends = [end for end in self._ends if _is_end(end)]
            heapify(self._ends)

    def release(self, lease: Lease, ends_ms: int) -> None:
        """Ends an undelivered lease at a time at the latest, and no longer renews it."""
        lease.client_id = ""
        if ends_ms < lease.ends_ms and lease.pending_count:
            self.end_at(lease, ends_ms)

    def take(self, lease: Lease, queue_offsets: Iterable[int]) -> None:
        """Removes messages from a lease: they are being settled."""
        for queue_offset in queue_offsets:
            self.take_one(lease, queue_offset)

    def take_one(self, lease: Lease, queue_offset: int) -> None:
        """Removes a message from a lease."""
        found = lease.queue.leased.pop(queue_offset)
        assert found is lease
        lease.pending_count -= 1
        lease.settling_count += 1
        self.count -= 1

    def give_back(self, lease: Lease, queue_offsets: Iterable[int]) -> None:
        """Holds messages again that were taken and could not be settled."""
        leased = lease.queue.leased
        for queue_offset in queue_offsets:
            lease.settling_count -= 1
            if queue_offset not in leased:  # An offset set back may have leased it again.
                leased[queue_offset] = lease
                lease.pending_count += 1
                self.count += 1
        self.end_at(lease, lease.ends_ms)
        self.close(lease, 0)

    def close(self, lease: Lease, count: int) -> None:
        """Counts messages whose settlement is journalled; drops a lease that has no others."""
        lease.settling_count -= count
        assert lease.settling_count >= 0
        if not lease.pending_count and not lease.settling_count:
            self._open.pop(lease.journal_offset, None)
            self._foreign.discard(lease)

    @property
    def open_count(self) -> int:
        """Leases that are not settled."""
        return len(self._open) + len(self._foreign)

    @property
    def has_foreign(self) -> bool:
        """Whether leases are open that only a real broker's revive topic contains."""
        return bool(self._foreign)

    def is_open(self, journal_offset: int) -> bool:
        """Returns whether the checkpoint at a place in the journal is of an open lease."""
        return journal_offset in self._open

    def journal_begin(self, end: int) -> int:
        """Returns where the journal begins to matter: at its oldest open lease, else at its end."""
        return next(iter(self._open), end)

    def oldest(self, before: int, count: int) -> list[Lease]:
        """Returns the oldest open leases whose checkpoint is before a journal offset.

        Of one whose messages are being settled it is not known yet which are left; one that is
        expected holds none.
        """
        oldest = islice(self._open.items(), count)
        is_held = [(at, lease) for at, lease in oldest if lease.end_number]
        whole = [(at, lease) for at, lease in is_held if not lease.settling_count]
        return [lease for at, lease in whole if at < before and lease.pending_count]

    def partly_settled(self) -> list[Lease]:
        """Returns open leases of which the journal's checkpoint names messages that are settled.

        Leases in a real broker's revive topic are not among them.
        """
        return [
            lease
            for lease in self._open.values()
            if lease.end_number and 0 < lease.pending_count < len(lease.queue_offsets)
        ]

    def move(self, lease: Lease, journal_offset: int) -> None:
        """Notes that the checkpoint of a lease was rewritten."""
        assert journal_offset > lease.journal_offset
        if self._open.pop(lease.journal_offset, None) is not None:
            self._open[journal_offset] = lease
        lease.journal_offset = journal_offset

    @property
    def next_end_ms(self) -> int | None:
        """When the next lease ends, monotonic; maybe one that is settled already."""
        return self._ends[0][0] if self._ends else None

    def ended(self, now_ms: int) -> Iterator[Lease]:
        """Yields expired leases with messages, each once; callers add others only afterwards."""
        while self._ends and self._ends[0][0] <= now_ms:
            end = heappop(self._ends)
            if _is_end(end):
                yield end[2]

    def overdue(self, now_ms: int) -> list[Lease]:
        """Returns expired leases with messages, without a change.

        Cost     1 µs each: of the heap of ends nothing else is looked at
        """
        ends = self._ends
        found: list[Lease] = []
        numbers = [0]
        while numbers:
            number = numbers.pop()
            if number < len(ends) and ends[number][0] <= now_ms:
                if _is_end(ends[number]):
                    found.append(ends[number][2])
                numbers += [2 * number + 1, 2 * number + 2]
        return found

    def held(
        self, committed: Callable[[str, str, int], int | None]
    ) -> dict[tuple[str, str], dict[int, Held]]:
        """Returns the leased messages of each queue, by (group, topic) and queue id.

        committed   returns a group's offset in a queue
        """
        found: dict[tuple[str, str], dict[int, Held]] = {}
        for (group, topic, queue_id), queue in self.queues.items():
            if queue.leased:
                held = queue.held(committed(group, topic, queue_id) or 0)
                found.setdefault((group, topic), {})[queue_id] = held
        return found


def _is_end(end: tuple[int, int, Lease]) -> bool:
    _, number, lease = end
    return bool(lease.pending_count) and lease.end_number == number
