"""Leases messages for one receive.

    queues in turn ─► read, filtered ─► checkpoints put ─► offsets moved, leases held ─► handed out
                      one reader each     one put            one synchronous block

Nothing is leased before the read is done and its checkpoints are in the journal. Messages that a
filter rejects are skipped for the group. A cancelled read or put has changed nothing.
Source: PopMessageProcessor.popMsgFromQueue, appendCheckPoint.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from pocketmq.filter.turns import within_turn
from pocketmq.format.pop_records import Batched, PopCheckpoint
from pocketmq.format.receipt_handle import GROUP_RETRY
from pocketmq.format.record_heads import queue_offset_of, read_heads
from pocketmq.format.rewrite import facts_of
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.message import RETRY_TOPIC
from pocketmq.model.reading import ReadRange
from pocketmq.model.system_topics import is_of_group
from pocketmq.model.topic import retry_topic
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.leases import GroupQueue, Lease, LeaseTable
from pocketmq.services.consume.reread import reread
from pocketmq.store.clamping import clamp_offset
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

# -- retries of a receive whose answer was lost ------------------------------------------------
ATTEMPTS_KEPT_MAX: Final = 10_000
"""The oldest are forgotten beyond this: their messages come back when their leases run out."""
AttemptKey = tuple[str, str, str, str]
"""(client, group, topic, attempt id)."""


def key_of(request: ReceiveRequest) -> AttemptKey:
    """Returns the key of a receive, the same when it is repeated."""
    return request.client_id, request.group, request.topic, request.attempt_id


class Attempts:
    """Leases of receives by attempt id, and the receives that still wait."""

    __slots__ = ("_leased", "_waiting")

    def __init__(self) -> None:
        self._leased: dict[AttemptKey, list[Lease]] = {}
        self._waiting: dict[AttemptKey, asyncio.Future[Received]] = {}

    def note(self, request: ReceiveRequest, leases: list[Lease]) -> None:
        """Keeps the leases of a receive, for when it is repeated."""
        if not request.attempt_id:
            return
        key = key_of(request)
        self._leased.pop(key, None)
        self._leased[key] = leases
        if len(self._leased) > ATTEMPTS_KEPT_MAX:
            del self._leased[next(iter(self._leased))]
        assert len(self._leased) <= ATTEMPTS_KEPT_MAX

    def leased(self, request: ReceiveRequest) -> list[Lease]:
        """Returns the leases of the same receive that it did not settle."""
        if not request.attempt_id:
            return []
        return [lease for lease in self._leased.get(key_of(request), ()) if lease.pending_count]

    def wait(self, request: ReceiveRequest, future: "asyncio.Future[Received]") -> None:
        """Registers a waiting receive; an earlier one of the same attempt is answered empty."""
        if not request.attempt_id:
            return
        key = key_of(request)
        before = self._waiting.get(key)
        if before is not None and not before.done():
            before.set_result(Received([], [], [], 0, 0))
        self._waiting[key] = future
        future.add_done_callback(lambda _: self._left(key, future))

    def _left(self, key: AttemptKey, future: "asyncio.Future[Received]") -> None:
        if self._waiting.get(key) is future:
            del self._waiting[key]


# -- receiving ---------------------------------------------------------------------------------
RECEIVE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of records in one receive, except the first record."""
SCANS_MAX: Final = 8
"""Reads of one queue in which nothing matches, before other queues and callers have their turn."""
logger = logging.getLogger(__name__)


class ReadMessages(NamedTuple):
    """Result of a read: the matching records, and the offset to read from next.

    records         one by one, or joined if the request takes them so
    queue_offsets   …, attempts: of each record
    stored          the group's offset before
    """

    queue: GroupQueue
    records: list[bytes]
    queue_offsets: list[int]
    attempts: list[int]
    next_offset: int
    stored: int | None


class Taken(NamedTuple):
    """Messages that one receive leased."""

    received: Received
    leases: list[Lease]


def judged_by_code(request: ReceiveRequest, queue: GroupQueue) -> Callable[[int], bool] | None:
    """Returns the filter of a queue by tags codes, None without one."""
    wanted = request.wanted
    is_judged = not wanted.is_everything and queue.retry != GROUP_RETRY
    return wanted.matches_code if is_judged else None


def is_wanted(request: ReceiveRequest, queue: GroupQueue, record: bytes) -> bool:
    """Returns whether a receive takes a message, or skips it for its group.

    In a retry topic that all topics of the group share, a filter does not judge those of others: no
    consumer would get messages skipped here. Messages of other groups are skipped: those groups get
    them in their own receives.
    """
    if queue.is_shared:
        _, properties, _ = facts_of(record)
        is_sent_back = queue.topic == retry_topic(queue.group)
        if not is_of_group(queue.group, properties, is_sent_back=is_sent_back):
            return False
    if request.wanted.matches(record):
        return True
    if queue.retry != GROUP_RETRY:
        return False
    _, properties, _ = facts_of(record)
    return properties.get(RETRY_TOPIC, request.topic) != request.topic


class LeaseReceive:
    """Leases messages to groups."""

    __slots__ = (
        "_in_flight_max", "_journal", "_leases", "_leave_order", "_offsets", "_reading", "_store",
        "attempts",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        leases: LeaseTable,
        journal: Journal,
        in_flight_max: int,
        leave_order: Callable[[GroupQueue], Awaitable[None]],
    ) -> None:
        self._store = store
        self._reading = store.reading
        self._offsets = store.tables.offsets
        self._leases = leases
        self._journal = journal
        self._in_flight_max = in_flight_max
        self._leave_order = leave_order
        self.attempts = Attempts()
        """Leases of clients that repeat receives by attempt."""

    def position(self, queue: GroupQueue) -> tuple[int, int]:
        """Returns a group's next offset in a queue, and the queue's end."""
        lower, upper = self._reading.queue_range(queue.topic, queue.queue_id)
        found = self._offsets.find(queue.group, queue.topic, queue.queue_id)
        if found is None:
            if queue.retry and not upper:
                return 0, 0
            found = lower if self._begins_at_min(queue) else upper
            self._offsets.begin(queue.group, queue.topic, queue.queue_id, found)
        elif found > upper:
            end = self._store.queue_end(queue.topic, queue.queue_id)
            clamp_offset(self._store.tables, queue.group, queue.topic, queue.queue_id, end)
        return min(max(found, lower), upper), upper

    def _begins_at_min(self, queue: GroupQueue) -> bool:
        group = self._store.tables.groups.find(queue.group)
        return bool(queue.retry) or group is None or bool(group.settings.begins_at_min)

    def is_ready(self, target: GroupTopic) -> bool:
        """Returns whether a receive may find messages now; False for a deleted group."""
        if self._store.tables.groups.find(target.group) is None:
            return False
        for queue in target.all_queues():
            if self._is_open(target, queue):
                position, upper = self.position(queue)
                if position < upper:
                    return True
        return False

    def _is_open(self, target: GroupTopic, queue: GroupQueue) -> bool:
        if len(queue.leased) >= self._in_flight_max:
            target.is_capped = True
            return False
        return not queue.is_busy

    def when_durable(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` with None or an error once the leases are durable."""
        self._journal.when_durable(then)

    async def durable(self) -> None:
        """Returns when the leases are as durable as the flush mode promises.

        Errors   FsyncFailed
        """
        await self._journal.durable()

    async def take(self, request: ReceiveRequest, target: GroupTopic) -> Taken | None:
        """Leases available messages, None without any; they become durable only later.

        Errors   GroupNotFound; those of a put; nothing was leased
        """
        self._store.tables.groups.existing(target.group)
        busy: list[GroupQueue] = []
        try:
            found = await self._read(request, target, busy)
            if not any(one.records for one in found):
                self._skip(found)
                return None
            return await self._lease(request, found)
        finally:
            for queue in busy:
                queue.is_busy = False

    async def _read(
        self, request: ReceiveRequest, target: GroupTopic, busy: list[GroupQueue]
    ) -> list[ReadMessages]:
        found: list[ReadMessages] = []
        count, size_bytes = request.max_messages, request.room(RECEIVE_BYTES_MAX)
        for queue in target.in_turn():
            if not self._is_open(target, queue):
                continue
            position, upper = self.position(queue)
            if position >= upper:
                continue
            queue.is_busy = True
            busy.append(queue)
            if queue.may_be_in_order:
                await self._leave_order(queue)
                position, _ = self.position(queue)
            queue.pass_from(position)
            room = min(count, self._in_flight_max - len(queue.leased))
            stored = self._offsets.find(queue.group, queue.topic, queue.queue_id)
            one = await self._read_queue(request, queue, position, room, size_bytes)
            # The offset from before all reads: a later one may have been set meanwhile.
            one = one._replace(stored=stored)
            found.append(one)
            count -= len(one.queue_offsets)
            size_bytes -= sum(map(len, one.records))
            if count <= 0 or size_bytes <= 0:
                break
        request.room(sum(len(record) for one in found for record in one.records))
        return found

    async def _read_queue(
        self, request: ReceiveRequest, queue: GroupQueue, position: int, count: int, size_bytes: int
    ) -> ReadMessages:
        """Returns the next messages of a queue: those of the first read that finds some."""
        is_judged = queue.is_shared or bool(queue.passed) or not request.wanted.is_everything
        is_joined = request.joined and not is_judged
        accept = judged_by_code(request, queue) if not request.wanted.reads_records else None
        records: list[bytes] = []
        begin, record_count = position, 0
        for _ in range(SCANS_MAX):
            asked = ReadRange(queue.topic, queue.queue_id, position, count, size_bytes)
            try:
                result = await value_of(self._reading.pull(asked, accept, joined=is_joined))
            except MessageDamaged as error:
                logger.warning("message.damaged", extra={"reason": str(error)})
                position = error.next_begin_offset
                continue
            if request.wanted.reads_records:
                await self._store.turns.turn(request.user)
            result = within_turn(request.wanted, result, position)
            records, record_count = result.records, result.record_count
            if is_judged:
                records = [one for one in records if queue_offset_of(one) not in queue.passed]
                records = [record for record in records if is_wanted(request, queue, record)]
            if records or result.next_begin_offset <= position:
                position = max(position, result.next_begin_offset)
                break
            position = result.next_begin_offset
        queue_offsets, attempts = read_heads(records)
        if is_joined and len(queue_offsets) != record_count:  # Damaged since they were checked.
            apart = request._replace(joined=False)
            return await self._read_queue(apart, queue, begin, count, size_bytes)
        return ReadMessages(queue, records, queue_offsets, attempts, position, None)

    def _skip(self, found: list[ReadMessages]) -> None:
        """Advances offsets past the read messages, except offsets that were set meanwhile."""
        for one in found:
            place = one.queue.group, one.queue.topic, one.queue.queue_id
            if self._offsets.find(*place) == one.stored:
                self._offsets.lease(*place, one.next_offset)
                one.queue.pass_from(one.next_offset)

    async def _lease(self, request: ReceiveRequest, found: list[ReadMessages]) -> Taken:
        assert sum(len(one.queue_offsets) for one in found) <= request.max_messages
        now_ms = self._store.clock.wall_ms()
        revive_queue = self._journal.revive_queue()
        made: list[tuple[GroupQueue, PopCheckpoint]] = []
        attempts: list[int] = []
        for queue, _, at, its_attempts, _, _ in found:
            if at:
                attempts += its_attempts
                popped_at_ms = queue.popped_at_ms(at[0], now_ms)
                batched = Batched(
                    queue.group, queue.topic, queue.queue_id, at[0], popped_at_ms,
                    self._journal.broker,
                )  # fmt: skip
                made.append((queue, PopCheckpoint(batched, at, request.invisible_ms, revive_queue)))
        overtaken = [self._overtaken(queue, checkpoint) for queue, checkpoint in made]
        acks = [self._journal.ack(lease, at) for pairs in overtaken for lease, at in pairs]
        entries = [self._journal.checkpoint(checkpoint) for _, checkpoint in made]
        first = await self._journal.put([*acks, *entries]) + len(acks)
        for pairs in overtaken:
            for lease, at in pairs:  # Some may have been settled while the put waited.
                left = [i for i in at if lease.queue.leased.get(i) is lease]
                self._leases.take(lease, left)
                self._leases.close(lease, len(left))
        self._skip(found)
        client_id = request.client_id if request.auto_renew else ""
        leases: list[Lease] = []
        for i, (queue, checkpoint) in enumerate(made):
            lease = Lease(
                queue, checkpoint, first + i,
                first_popped_ms=checkpoint.batched.popped_at_ms, client_id=client_id,
            )  # fmt: skip
            self._leases.add(lease, self._store.clock.monotonic_ms() + request.invisible_ms)
            leases.append(lease)
        records = [record for one in found for record in one.records]
        prefixes = [(lease.place.prefix, lease.queue_offsets) for lease in leases]
        handles = [f"{prefix}{at}" for prefix, offsets in prefixes for at in offsets]
        received = Received(records, handles, attempts, leases[0].end_ms, now_ms)
        assert len(handles) == len(attempts)
        self.attempts.note(request, leases)
        return Taken(received, leases)

    async def again(self, request: ReceiveRequest, leases: list[Lease]) -> Received:
        """Returns the unsettled messages of leases again, for the remaining time of the leases.

        Errors   Corruption, DiskSlow
        """
        records: list[bytes] = []
        handles: list[str] = []
        for lease in leases:
            pending = lease.pending()  # Some may have been settled during the reads before.
            found = await reread(self._reading, lease.queue, pending) if pending else {}
            prefix = lease.place.prefix
            records += found.values()
            handles += [f"{prefix}{at}" for at in found]
            lease.client_id = request.client_id if request.auto_renew else ""
            self._leases.end_at(lease, lease.granted_ms)
        _, attempts = read_heads(records)
        first_ms = min(lease.first_popped_ms for lease in leases)
        return Received(records, handles, attempts, min(one.end_ms for one in leases), first_ms)

    def _overtaken(
        self, queue: GroupQueue, checkpoint: PopCheckpoint
    ) -> list[tuple[Lease, list[int]]]:
        """Returns leases of messages that are leased once more, as their offset was set back."""
        by_lease: dict[Lease, list[int]] = {}
        if queue.leased:
            for at in checkpoint.queue_offsets:
                lease = queue.leased.get(at)
                if lease is not None:
                    by_lease.setdefault(lease, []).append(at)
        return list(by_lease.items())
