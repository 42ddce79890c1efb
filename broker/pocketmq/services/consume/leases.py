"""Leases of messages, by queue, by end and by journal offset.

A message is in at most one lease. A handle settles its message if it was issued for that lease, or
for a lease that this lease has replaced. The journal stores wall times. In memory a lease ends by
the monotonic clock, so that a change of the wall clock does not move its end. The table of leases
belongs to one event loop.
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
"""The heap of ends is rebuilt when it is longer than this, plus twice the open leases."""


@final
class GroupQueue:
    """One queue as one group consumes it.

    retry       number by which handles identify the topic (format/receipt_handle.py)
    is_shared   whether the retry topic may contain messages of other groups, as several groups have
                a retry topic of this name
    """

    __slots__ = (
        "group", "is_busy", "is_missed", "is_shared", "last_popped_ms", "leased", "leased_upto",
        "may_be_in_order", "passed", "passed_from", "queue_id", "retry", "settling_count", "topic",
    )  # fmt: skip

    def __init__(self, group: str, topic: str, queue_id: int, retry: int) -> None:
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.retry = retry
        self.is_shared = is_ambiguous(topic)
        self.leased: dict[int, Lease] = {}
        """Leases of unsettled messages by queue offset."""
        self.settling_count = 0
        """Number of messages whose settlement is not yet in the journal."""
        self.last_popped_ms = -1
        """Latest pop time in handles of the queue's messages."""
        self.leased_upto = 0
        """Queue offset after the highest message that was ever leased."""
        self.is_busy = False
        """Whether a receive reads the queue; other receives skip it."""
        self.is_missed = False
        """Whether a receive skipped the queue while it was busy."""
        self.may_be_in_order = True
        """Whether the queue's messages may have been delivered in order (fifo_exit.py)."""
        self.passed: frozenset[int] = frozenset()
        """Queue offsets at or above the group's offset that were settled or leased in order."""
        self.passed_from = 0
        """The group's offset when `passed` was updated; `passed` is void below this offset."""

    def held(self, committed: int) -> Held:
        """Returns the counts of leased messages, given the group's committed offset.

        Messages that are being settled are included: until the settlement is in the journal, they
        are in no other queue.
        Cost     constant; if the offset is below `leased_upto`, linear in the leased messages
        """
        ahead = 0
        if self.leased_upto > committed:
            ahead = sum([at >= committed for at in self.leased])
        behind = len(self.leased) - ahead + self.settling_count
        for first, lease in self.leased.items():
            return Held(behind, ahead, first, lease.first_popped_ms)
        return Held(behind, ahead, max(self.leased_upto - behind, 0))

    def popped_at_ms(self, queue_offset: int, now_ms: int) -> int:
        """Returns the pop time for the handles of a receive that begins at a queue offset.

        After the group's offset was set back, this time is later than in all earlier handles: an
        earlier handle must not settle a message that was delivered again.
        """
        if queue_offset >= self.leased_upto:
            return now_ms
        return max(now_ms, self.last_popped_ms + 1)

    def pass_from(self, position: int) -> None:
        """Drops `passed` offsets below the group's offset, or all if that offset was set back."""
        if self.passed:
            is_set_back = position < self.passed_from
            ahead = [at for at in self.passed if at >= position and not is_set_back]
            assert len(ahead) <= len(self.passed)
            self.passed = frozenset(ahead)
            self.passed_from = position


@final
@mypyc_attr(acyclic=True)
class Lease:
    """Messages of a queue that are invisible until an end time; one checkpoint in the journal.

    first_popped_ms  pop time of the original receive; changes of the duration keep it
    journal_offset   journal offset of the checkpoint; -1: the checkpoint is in a revive topic
    client_id        client whose activity renews the lease; "": the lease is not renewed
    ends_ms          monotonic time of the end
    granted_ms       monotonic time of the end, before a release shortened the lease
    Memory           not tracked by the garbage collector: a queue drops its settled leases
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
        """Whether the delivery counts as an attempt if the lease expires; True after a restart."""
        self.ends_ms = 0
        self.granted_ms = 0
        self.end_number = 0
        """Number of the lease's current entry in the heap of ends; 0 before `add`."""
        self.pending_count = len(checkpoint.queue_offsets)
        self.settling_count = 0
        """Number of messages whose settlement is not yet in the journal."""

    @property
    def end_ms(self) -> int:
        """Wall time of the end, as in the journal."""
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
        """The fields that all handles of the lease contain."""
        queue = self.queue
        return LeasePlace(
            self.start_offset, self.popped_at_ms, self.invisible_ms, self.revive_queue,
            queue.retry, self.broker, queue.queue_id,
        )  # fmt: skip

    def pending(self) -> list[int]:
        """Returns the queue offsets of unsettled messages, ascending."""
        leased = self.queue.leased
        return [at for at in self.queue_offsets if leased.get(at) is self]


@final
class LeaseTable:
    """All leases of a store."""

    __slots__ = ("_ends", "_foreign", "_open", "_order", "count", "queues")

    def __init__(self) -> None:
        self.queues: dict[GroupQueueKey, GroupQueue] = {}
        self.count = 0
        """Number of leased messages."""
        self._open: dict[int, Lease] = {}
        self._foreign: set[Lease] = set()
        self._ends: list[tuple[int, int, Lease]] = []
        self._order = 0

    def queue(self, group: str, topic: str, queue_id: int, retry: int) -> GroupQueue:
        """Returns a queue of a group; creates the object if needed."""
        key = (group, topic, queue_id)
        found = self.queues.get(key)
        if found is None:
            found = self.queues[key] = GroupQueue(group, topic, queue_id, retry)
        return found

    def forget_group(self, group: str) -> list[GroupQueueKey]:
        """Drops the queues of a removed group that are in no use; returns their keys."""
        found = [
            key
            for key, queue in self.queues.items()
            if key[0] == group and not queue.leased and not queue.is_busy
        ]
        for key in found:
            del self.queues[key]
        return found

    def expect(self, lease: Lease) -> None:
        """Makes recovery read the journal from a lease's checkpoint on, even before `add`.

        Requires a call directly after the checkpoint was put, as journal offsets must ascend
        """
        assert not lease.end_number, "lease was added before"
        self._open[lease.journal_offset] = lease

    def forget(self, lease: Lease) -> None:
        """Undoes `expect` for a lease that will not be added."""
        self._open.pop(lease.journal_offset, None)

    def add(self, lease: Lease, ends_ms: int) -> None:
        """Adds a lease that ends at the monotonic time `ends_ms`.

        Effects  removes the messages from older leases, which exist if the group's offset was set
                 back
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
        """Makes a lease end at `ends_ms` at the latest, and stops its renewal."""
        lease.client_id = ""
        if ends_ms < lease.ends_ms and lease.pending_count:
            self.end_at(lease, ends_ms)

    def take(self, lease: Lease, queue_offsets: Iterable[int]) -> None:
        """Removes messages from a lease while they are being settled."""
        for queue_offset in queue_offsets:
            self.take_one(lease, queue_offset)

    def take_one(self, lease: Lease, queue_offset: int) -> None:
        """Removes a message from a lease."""
        queue = lease.queue
        found = queue.leased.pop(queue_offset)
        assert found is lease
        queue.settling_count += 1
        lease.pending_count -= 1
        lease.settling_count += 1
        self.count -= 1

    def give_back(self, lease: Lease, queue_offsets: Iterable[int]) -> None:
        """Returns messages to a lease after their settlement failed."""
        leased = lease.queue.leased
        for queue_offset in queue_offsets:
            lease.queue.settling_count -= 1
            lease.settling_count -= 1
            if queue_offset not in leased:  # After an offset reset it may be leased again.
                leased[queue_offset] = lease
                lease.pending_count += 1
                self.count += 1
        self.end_at(lease, lease.ends_ms)
        self.close(lease, 0)

    def close(self, lease: Lease, count: int) -> None:
        """Subtracts `count` messages whose settlement is in the journal; removes an empty lease."""
        lease.queue.settling_count -= count
        lease.settling_count -= count
        assert lease.queue.settling_count >= lease.settling_count >= 0
        if not lease.pending_count and not lease.settling_count:
            self._open.pop(lease.journal_offset, None)
            self._foreign.discard(lease)

    @property
    def open_count(self) -> int:
        """Number of leases that are not settled."""
        return len(self._open) + len(self._foreign)

    @property
    def has_foreign(self) -> bool:
        """Whether a checkpoint of an open lease is only in a RocketMQ broker's revive topic."""
        return bool(self._foreign)

    def is_open(self, journal_offset: int) -> bool:
        """Returns whether the checkpoint at a journal offset belongs to an open lease."""
        return journal_offset in self._open

    def journal_begin(self, end: int) -> int:
        """Returns the journal offset of the oldest open lease, or `end` if no lease is open."""
        return next(iter(self._open), end)

    def oldest(self, before: int, count: int) -> list[Lease]:
        """Returns those of the `count` oldest leases that are below the journal offset `before`.

        Leases with a settlement in progress are left out, and leases that are not added yet.
        """
        oldest = islice(self._open.items(), count)
        is_held = [(at, lease) for at, lease in oldest if lease.end_number]
        whole = [(at, lease) for at, lease in is_held if not lease.settling_count]
        return [lease for at, lease in whole if at < before and lease.pending_count]

    def partly_settled(self) -> list[Lease]:
        """Returns open leases whose checkpoint in the journal contains settled messages."""
        return [
            lease
            for lease in self._open.values()
            if lease.end_number and 0 < lease.pending_count < len(lease.queue_offsets)
        ]

    def move(self, lease: Lease, journal_offset: int) -> None:
        """Sets the journal offset of a lease whose checkpoint was rewritten."""
        assert journal_offset > lease.journal_offset
        if self._open.pop(lease.journal_offset, None) is not None:
            self._open[journal_offset] = lease
        lease.journal_offset = journal_offset

    @property
    def next_end_ms(self) -> int | None:
        """Monotonic time of the next lease end; the lease may be settled already."""
        return self._ends[0][0] if self._ends else None

    def ended(self, now_ms: int) -> Iterator[Lease]:
        """Yields each expired lease with messages once; callers must not add leases in between."""
        while self._ends and self._ends[0][0] <= now_ms:
            end = heappop(self._ends)
            if _is_end(end):
                yield end[2]

    def overdue(self, now_ms: int) -> list[Lease]:
        """Returns expired leases with messages; changes nothing.

        Cost     1 µs for each expired lease
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
        """Returns the counts of leased messages, by (group, topic) and queue id.

        committed   (group, topic, queue id) -> the group's committed offset
        """
        found: dict[tuple[str, str], dict[int, Held]] = {}
        for (group, topic, queue_id), queue in self.queues.items():
            if queue.leased or queue.settling_count:
                held = queue.held(committed(group, topic, queue_id) or 0)
                found.setdefault((group, topic), {})[queue_id] = held
        return found


def _is_end(end: tuple[int, int, Lease]) -> bool:
    _, number, lease = end
    return bool(lease.pending_count) and lease.end_number == number
