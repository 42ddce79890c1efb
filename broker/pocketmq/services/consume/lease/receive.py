"""Leases messages for one receive.

Queues are read and filtered, the checkpoints of all queues are stored in one put, then offsets are
advanced and leases added. Messages that a filter rejects are skipped for the whole group. A receive
that is cancelled during a read or the put has changed nothing.
Source: PopMessageProcessor.popMsgFromQueue, appendCheckPoint.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from pocketmq.format.record_heads import queue_offset_of, read_heads
from pocketmq.model.consuming import Attempt, Received, ReceiveRequest
from pocketmq.model.reading import ReadRange
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.handles import handles_of
from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.leases import GroupQueue, Lease, LeaseTable
from pocketmq.services.consume.matching import is_wanted, judged_by_code
from pocketmq.services.consume.position import first_offset
from pocketmq.services.consume.receive_mode import (
    SCANS_MAX,
    ReceiveMode,
    Taken,
    pull_wanted,
)
from pocketmq.services.consume.reread import reread
from pocketmq.store.message_store import MessageStore

# -- retries of a receive whose answer was lost ------------------------------------------------
ATTEMPTS_KEPT_MAX: Final = 10_000
"""Upper limit of stored attempts. If the oldest is evicted, a repeat of its receive gets other
messages."""


class Attempts:
    """Leases by the attempt id of their receive."""

    __slots__ = ("_leased",)

    def __init__(self) -> None:
        self._leased: dict[Attempt, list[Lease]] = {}

    def note(self, request: ReceiveRequest, leases: list[Lease]) -> None:
        """Stores the leases of a receive, in case the client repeats the receive."""
        if not request.attempt_id:
            return
        key = request.attempt
        self._leased.pop(key, None)
        self._leased[key] = leases
        if len(self._leased) > ATTEMPTS_KEPT_MAX:
            del self._leased[next(iter(self._leased))]
        assert len(self._leased) <= ATTEMPTS_KEPT_MAX

    def leased(self, request: ReceiveRequest) -> list[Lease]:
        """Returns the unsettled leases of an earlier receive with the same attempt id."""
        if not request.attempt_id:
            return []
        found = self._leased.get(request.attempt, ())
        return [lease for lease in found if lease.pending_count]


# -- receiving ---------------------------------------------------------------------------------
class ReadMessages(NamedTuple):
    """Matching records of a queue, and the offset to read from next.

    records         one record an element, or joined records if the request accepts them
    queue_offsets   queue offset of each message
    attempts        delivery attempt of each message
    stored          the group's committed offset before the read
    """

    queue: GroupQueue
    records: list[bytes]
    queue_offsets: list[int]
    attempts: list[int]
    next_offset: int
    stored: int | None


class LeaseReceive(ReceiveMode):
    """Leases messages to groups.

    release       ends leases whose receiver no longer waits
    leave_order   converts the FIFO state of a queue to leases; called before the first read of a
                  queue that the group may have consumed in order
    """

    __slots__ = (
        "_in_flight_max", "_journal", "_leases", "_leave_order", "_offsets", "_release",
        "attempts",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        leases: LeaseTable,
        journal: Journal,
        in_flight_max: int,
        release: Callable[[list[Lease]], bool],
        leave_order: Callable[[GroupQueue], Awaitable[None]],
    ) -> None:
        super().__init__(store)
        self._offsets = store.tables.offsets
        self._leases = leases
        self._journal = journal
        self._in_flight_max = in_flight_max
        self._release = release
        self._leave_order = leave_order
        self.attempts = Attempts()

    def position(self, queue: GroupQueue) -> tuple[int, int]:
        """Returns a group's next offset in a queue, and the queue's end."""
        lower, upper = self._reading.queue_range(queue.topic, queue.queue_id)
        found = self._offsets.find(queue.group, queue.topic, queue.queue_id)
        if found is None and queue.retry and not upper:
            return 0, 0
        if found is None or found > self._reading.whole_end(queue.topic, queue.queue_id):
            found = first_offset(self._store, queue, lower, upper)
        return min(max(found, lower), upper), upper

    def _has_some(self, target: GroupTopic, queue: GroupQueue) -> bool:
        if len(queue.leased) >= self._in_flight_max:
            target.is_capped = True
            return False
        position, upper = self.position(queue)
        return position < upper

    def when_durable(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` once the journal is durable."""
        self._journal.when_durable(then)

    async def durable(self) -> None:
        """Waits until the journal is durable."""
        await self._journal.durable()

    async def take(self, request: ReceiveRequest, target: GroupTopic) -> Taken | None:
        """Leases available messages; returns None if there are none."""
        self._store.tables.groups.existing(target.group)
        busy: list[GroupQueue] = []
        found: list[ReadMessages] = []
        try:
            await self._fill(request, target, busy, partial(self._read, request, found))
            if not any(one.records for one in found):
                self._skip(found)
                return None
            return await self._lease(request, found)
        finally:
            self._free(busy)

    async def _read(
        self,
        request: ReceiveRequest,
        found: list[ReadMessages],
        queue: GroupQueue,
        count: int,
        size_bytes: int,
    ) -> tuple[int, int]:
        if queue.may_be_in_order:
            await self._leave_order(queue)
        position, _ = self.position(queue)
        queue.pass_from(position)
        room = min(count, self._in_flight_max - len(queue.leased))
        stored = self._offsets.find(queue.group, queue.topic, queue.queue_id)
        one = await self._read_queue(request, queue, position, room, size_bytes)
        # The offset may have been set during the read: `_skip` compares it.
        found.append(one._replace(stored=stored))
        return len(one.queue_offsets), sum(map(len, one.records))

    async def _read_queue(
        self, request: ReceiveRequest, queue: GroupQueue, position: int, count: int, size_bytes: int
    ) -> ReadMessages:
        """Reads a queue until a read finds matching messages, SCANS_MAX times at most."""
        is_judged = queue.is_shared or bool(queue.passed) or not request.wanted.is_everything
        is_joined = request.joined and not is_judged
        accept = judged_by_code(request, queue) if not request.wanted.reads_records else None
        records: list[bytes] = []
        begin, record_count = position, 0
        for _ in range(SCANS_MAX):
            asked = ReadRange(queue.topic, queue.queue_id, position, count, size_bytes)
            result = await pull_wanted(
                self._store, request.wanted, asked, accept, request.user, joined=is_joined
            )
            records, record_count = result.records, result.record_count
            if is_judged:
                records = [one for one in records if queue_offset_of(one) not in queue.passed]
                records = [record for record in records if is_wanted(request, queue, record)]
            if records or result.next_begin_offset <= position:
                position = max(position, result.next_begin_offset)
                break
            position = result.next_begin_offset
        queue_offsets, attempts = read_heads(records)
        if is_joined and len(queue_offsets) != record_count:  # A record is damaged.
            apart = request._replace(joined=False)
            return await self._read_queue(apart, queue, begin, count, size_bytes)
        return ReadMessages(queue, records, queue_offsets, attempts, position, None)

    def _skip(self, found: list[ReadMessages]) -> None:
        """Advances offsets past the read messages, except offsets that were set during the read."""
        for one in found:
            place = one.queue.group, one.queue.topic, one.queue.queue_id
            if self._offsets.find(*place) == one.stored:
                self._offsets.lease(*place, one.next_offset)
                one.queue.pass_from(one.next_offset)

    async def _lease(self, request: ReceiveRequest, read: list[ReadMessages]) -> Taken:
        found = [one for one in read if one.queue_offsets]
        assert sum(len(one.queue_offsets) for one in found) <= request.max_messages
        now_ms = self._store.clock.wall_ms()
        revive_queue = self._journal.revive_queue()
        made = [
            self._journal.checkpoint_of(
                one.queue,
                one.queue_offsets,
                one.queue.popped_at_ms(one.queue_offsets[0], now_ms),
                request.invisible_ms,
                revive_queue,
            )
            for one in found
        ]
        overtaken = [_overtaken(one) for one in found]
        acks = [self._journal.ack(lease, at) for pairs in overtaken for lease, at in pairs]
        entries = [self._journal.checkpoint(checkpoint) for checkpoint in made]
        first = await self._journal.put([*acks, *entries]) + len(acks)
        for pairs in overtaken:
            for lease, at in pairs:  # Some may have been settled during the put.
                left = [i for i in at if lease.queue.leased.get(i) is lease]
                self._leases.take(lease, left)
                self._leases.close(lease, len(left))
        self._skip(read)
        client_id = request.client_id if request.auto_renew else ""
        leases: list[Lease] = []
        for i, (one, checkpoint) in enumerate(zip(found, made, strict=True)):
            first_ms = checkpoint.batched.popped_at_ms
            lease = Lease(
                one.queue, checkpoint, first + i, first_popped_ms=first_ms, client_id=client_id
            )
            self._leases.add(lease, self._store.clock.monotonic_ms() + request.invisible_ms)
            leases.append(lease)
        records = [record for one in found for record in one.records]
        attempts = [number for one in found for number in one.attempts]
        handles: list[str] = []
        for lease in leases:
            handles += handles_of(lease.place, lease.queue_offsets)
        until_ms = now_ms + request.invisible_ms
        received = Received(records, handles, attempts, until_ms, now_ms)
        assert len(handles) == len(attempts)
        self.attempts.note(request, leases)
        return Taken(received, partial(self._release, leases))

    def was_given(self, request: ReceiveRequest, target: GroupTopic) -> bool:
        """Returns whether messages of an earlier receive of this attempt are still leased."""
        return bool(self.attempts.leased(request))

    async def again(self, request: ReceiveRequest, target: GroupTopic) -> Taken | None:
        """Returns the messages of an earlier receive, for the remaining time of their leases.

        If all of them were purged or deleted from the log, leases other messages.
        """
        records: list[bytes] = []
        handles: list[str] = []
        leases = self.attempts.leased(request)
        if not leases:
            return None
        for lease in leases:
            pending = lease.pending()  # Some may have been settled during an earlier reread.
            found = await reread(self._reading, lease.queue, pending) if pending else {}
            records += found.values()
            handles += handles_of(lease.place, list(found))
            lease.client_id = request.client_id if request.auto_renew else ""
            self._leases.end_at(lease, lease.granted_ms)
        if not records:
            return await self.take(request, target)
        _, attempts = read_heads(records)
        first_ms = min(lease.first_popped_ms for lease in leases)
        until_ms = min(lease.end_ms for lease in leases)
        received = Received(records, handles, attempts, until_ms, first_ms)
        return Taken(received, partial(self._release, leases))


def _overtaken(read: ReadMessages) -> list[tuple[Lease, list[int]]]:
    """Returns the read messages that are leased already, as the group's offset was set back."""
    leased, by_lease = read.queue.leased, dict[Lease, list[int]]()
    for queue_offset in read.queue_offsets if leased else ():
        lease = leased.get(queue_offset)
        if lease is not None:
            by_lease.setdefault(lease, []).append(queue_offset)
    return list(by_lease.items())
