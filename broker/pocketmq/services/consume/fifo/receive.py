"""Leases messages in FIFO order for one receive.

Queues are scanned for message groups, and messages of idle groups are leased. A message without
attempts left becomes a dead letter; meanwhile the broker itself leases it. If a receive is
cancelled before it returns messages, its leases are released.
Source: PopMessageProcessor (isOrder), QueueLevelConsumerManager.update.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from pocketmq.filter.turns import turn_count
from pocketmq.format.named_properties import property_block, property_key, property_text
from pocketmq.format.receipt_handle import ORDERED, LeasePlace
from pocketmq.format.record_heads import attempt_of, queue_offset_of
from pocketmq.model.administration import GroupConfig
from pocketmq.model.batch import Run
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.message import SHARDING_KEY
from pocketmq.model.reading import ReadRange
from pocketmq.services.consume.clients import Clients
from pocketmq.services.consume.fifo.queue import BROKER_CLAIM, OrderedQueue
from pocketmq.services.consume.fifo.table import PUT_LEASE_MS, OrderTable, Seized
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.handles import handles_of
from pocketmq.services.consume.leases import GroupQueue
from pocketmq.services.consume.matching import is_wanted, judged_by_code
from pocketmq.services.consume.receive_mode import (
    RECEIVE_BYTES_MAX,
    SCANS_MAX,
    ReceiveMode,
    Taken,
    pull_wanted,
)
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.reread import reread
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore

SCAN_COUNT: Final = 32
"""Upper limit of messages scanned by one read."""
_GROUP_KEY: Final = property_key(SHARDING_KEY)


class Part(NamedTuple):
    """Messages of one queue that a receive leased."""

    queue: GroupQueue
    state: OrderedQueue
    queue_offsets: list[int]
    records: list[bytes]
    popped_at_ms: int
    until_ms: int


class FifoReceive(ReceiveMode):
    """Leases messages to consumer groups, in queue order within each message group."""

    __slots__ = ("_broker", "_clients", "_redelivery", "_table", "on_leased")

    def __init__(
        self,
        store: MessageStore,
        table: OrderTable,
        redelivery: Redelivery,
        broker: str,
        clients: Clients,
    ) -> None:
        super().__init__(store)
        self._table = table
        self._redelivery = redelivery
        self._broker = broker
        self._clients = clients
        self.on_leased: Callable[[GroupQueue, Sequence[bytes], int], None] | None = None
        """Called with a queue, leased records and the wall time of the receive in ms."""

    # -- whether messages are available --------------------------------------------------------
    def _has_some(self, target: GroupTopic, queue: GroupQueue) -> bool:
        state = self._table.of(queue)
        self._end_leases(queue, state)
        return self._may_scan(queue, state) or bool(state.ready(1))

    def _may_scan(self, queue: GroupQueue, state: OrderedQueue) -> bool:
        """Returns whether the next messages of a queue may be scanned.

        If many messages were deleted, the leases of earlier ones end first.
        """
        lower, upper = self._reading.queue_range(queue.topic, queue.queue_id)
        if state.skip_settled() >= upper:
            return False
        return state.must_scan or (state.room > 0 and state.is_passable(lower))

    def next_end_ms(self, target: GroupTopic) -> int | None:
        """Returns the earliest wall time at which a lease may end; None if there are no leases."""
        ends = (self._table.of(queue).next_end_ms() for queue in target.all_queues())
        return min((end for end in ends if end is not None), default=None)

    def _end_leases(self, queue: GroupQueue, state: OrderedQueue) -> None:
        clock = self._store.clock

        def is_renewed(client_id: str, held_ms: int) -> bool:
            return self._clients.renews(client_id, queue.group, clock.monotonic_ms(), held_ms)

        if state.end_leases(clock.wall_ms(), is_renewed):
            self._table.changed(queue, state)
            self._table.save_soon()

    # -- a receive -----------------------------------------------------------------------------
    async def take(self, request: ReceiveRequest, target: GroupTopic) -> Taken | None:
        """Returns messages that an earlier receive of this attempt leased, else leases messages."""
        group = self._store.tables.groups.existing(target.group)
        parts = await self._taken_before(request, target)
        busy: list[GroupQueue] = []
        try:
            if not parts:
                read = partial(self._read, request, group, parts)
                await self._fill(request, target, busy, read)
        except BaseException:
            self._release(parts)
            raise
        finally:
            self._free(busy)
        if not parts:
            return None
        if self.on_leased is not None:
            for part in parts:
                self.on_leased(part.queue, part.records, part.popped_at_ms)
        return Taken(_received(parts, self._broker), partial(self._taken_back, parts))

    async def again(self, request: ReceiveRequest, target: GroupTopic) -> Taken | None:
        """Returns the messages of an earlier receive; if none are leased, leases other messages."""
        return await self.take(request, target)

    def when_durable(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` once the order table is durable."""
        self._table.when_saved(then)

    async def durable(self) -> None:
        """Waits until the order table is durable."""
        await self._table.saved()

    def _taken_back(self, parts: Iterable[Part]) -> bool:
        self._release(parts)
        self._table.save_soon()
        return True

    def _release(self, parts: Iterable[Part]) -> None:
        for part in parts:
            part.state.release(part.queue_offsets, part.popped_at_ms)
            self._table.changed(part.queue, part.state)

    async def _read(
        self,
        request: ReceiveRequest,
        group: GroupConfig,
        parts: list[Part],
        queue: GroupQueue,
        count: int,
        size_bytes: int,
    ) -> tuple[int, int]:
        part = await self._of_queue(request, queue, group, count, size_bytes)
        if part is None:
            return 0, 0
        parts.append(part)
        return len(part.records), sum(map(len, part.records))

    def was_given(self, request: ReceiveRequest, target: GroupTopic) -> bool:
        """Returns whether messages of an earlier receive of this attempt are still leased."""
        if not request.attempt_id:
            return False
        claim, now_ms = _claim(request), self._store.clock.wall_ms()
        return any(self._table.of(queue).claimed(claim, now_ms) for queue in target.all_queues())

    async def _taken_before(self, request: ReceiveRequest, target: GroupTopic) -> list[Part]:
        """Returns the messages of an earlier receive of this attempt; [] if none are leased."""
        if not self.was_given(request, target):
            return []
        now_ms, found = self._store.clock.wall_ms(), list[Part]()
        for queue in target.all_queues():
            state = self._table.of(queue)
            claimed = dict(state.claimed(_claim(request), now_ms))
            records = await reread(self._reading, queue, list(claimed)) if claimed else {}
            by_time: dict[tuple[int, int], list[int]] = {}
            for queue_offset in records:
                _, popped_at_ms, until_ms, _ = claimed[queue_offset]
                by_time.setdefault((popped_at_ms, until_ms), []).append(queue_offset)
            for times, queue_offsets in by_time.items():
                again = [records[queue_offset] for queue_offset in queue_offsets]
                found.append(Part(queue, state, queue_offsets, again, *times))
        return found

    # -- one queue -----------------------------------------------------------------------------
    async def _of_queue(
        self, request: ReceiveRequest, queue: GroupQueue, group: GroupConfig, count: int,
        size_bytes: int,
    ) -> Part | None:  # fmt: skip
        """Leases messages of a queue; returns None if no message can be delivered."""
        state = self._table.of(queue)
        known: dict[int, bytes] = {}
        scans = SCANS_MAX
        while True:
            self._end_leases(queue, state)
            ready = state.ready(count)
            if len(ready) < count and (scans > 0 or state.must_scan):
                scans -= 1
                if await self._scan(request, queue, state, known):
                    continue
            if ready and request.wanted.reads_records:
                await self._store.turns.turn(request.user)
            records = await self._records(queue, state, ready, known)
            if self._table.of(queue) is not state:  # The group's offset was set during the read.
                return None
            if len(records) < len(ready) or await self._buried(queue, state, group, records):
                continue
            ready = ready[: turn_count(request.wanted, (records[at] for at in ready))]
            if not self._pass_unwanted(request, queue, state, {at: records[at] for at in ready}):
                break
            await asyncio.sleep(0)
        offsets = _fitting([at for at in ready if state.is_ready(at)], records, size_bytes)
        if not offsets:
            return None
        now_ms = self._store.clock.wall_ms()
        until_ms = now_ms + request.invisible_ms
        client = request.client_id if request.auto_renew else ""
        popped_at_ms = state.lease(offsets, now_ms, until_ms, _claim(request), client)
        self._table.changed(queue, state)
        return Part(queue, state, offsets, [records[at] for at in offsets], popped_at_ms, until_ms)

    async def _scan(
        self, request: ReceiveRequest, queue: GroupQueue, state: OrderedQueue,
        known: dict[int, bytes],
    ) -> bool:  # fmt: skip
        """Scans the next messages of a queue; returns whether there were any."""
        if not self._may_scan(queue, state):
            return False
        begin = state.skip_settled()
        # Messages delivered before a restart are scanned even if this receive filters them out.
        accept = None if state.must_scan else judged_by_code(request, queue)
        asked = ReadRange(queue.topic, queue.queue_id, begin, SCAN_COUNT, RECEIVE_BYTES_MAX)
        result = await pull_wanted(self._store, request.wanted, asked, accept, request.user)
        end = result.next_begin_offset
        is_all = request.wanted.is_everything and not queue.is_shared
        for record in result.records:
            queue_offset = queue_offset_of(record)
            if queue_offset < state.scanned:
                continue
            if is_all or state.deliveries(queue_offset) or is_wanted(request, queue, record):
                state.scan(queue_offset, message_group_of(record))
                known[queue_offset] = record
        state.pass_by(max(end, state.scanned))
        self._table.changed(queue, state)
        return end > begin

    async def _records(
        self, queue: GroupQueue, state: OrderedQueue, ready: list[int], known: dict[int, bytes]
    ) -> dict[int, bytes]:
        """Returns the records of ready messages; settles messages deleted from the log."""
        missing = [at for at in ready if at not in known]
        if missing:
            known.update(await reread(self._reading, queue, missing))
            for at in missing:
                if at not in known:
                    state.bury(at)
            self._table.changed(queue, state)
        return {at: known[at] for at in ready if at in known}

    def _pass_unwanted(
        self, request: ReceiveRequest, queue: GroupQueue, state: OrderedQueue,
        records: dict[int, bytes],
    ) -> bool:  # fmt: skip
        """Settles messages that this receive's filter rejects; returns whether there were any.

        A receive with another filter scanned these messages.
        """
        if request.wanted.is_everything:
            return False
        unwanted = [at for at, one in records.items() if not is_wanted(request, queue, one)]
        for at in unwanted:
            state.bury(at)
        if unwanted:
            self._table.changed(queue, state)
        return bool(unwanted)

    # -- dead letters --------------------------------------------------------------------------
    async def _buried(
        self, queue: GroupQueue, state: OrderedQueue, group: GroupConfig, records: dict[int, bytes]
    ) -> bool:
        """Dead-letters messages without attempts left; returns whether there were any."""
        limit = group.settings.max_attempts or 0
        dead = [
            at
            for at, record in records.items()
            if state.is_ready(at) and attempt_of(record) + state.attempts(at) > max(limit, 1)
        ]
        if not dead:
            return False
        now_ms = self._store.clock.wall_ms()
        popped_at_ms = state.lease(dead, now_ms, now_ms + PUT_LEASE_MS, BROKER_CLAIM)

        async def letters() -> list[Run]:
            await self._redelivery.prepare(group)
            return [
                self._redelivery.dead(
                    records[at], group, queue.topic, tried=state.deliveries(at) - 2
                )
                for at in dead
            ]

        seized = [Seized(queue, state, at, popped_at_ms) for at in dead]
        undo = partial(state.release, dead, popped_at_ms)
        await Job(self._table.replace(seized, letters, undo))
        return True


def message_group_of(record: bytes) -> str:
    """Returns the message group of a stored record, "" if it has none."""
    return property_text(property_block(record), _GROUP_KEY) or ""


def _claim(request: ReceiveRequest) -> str:
    return f"{request.client_id} {request.attempt_id}" if request.attempt_id else ""


def _fitting(offsets: list[int], records: dict[int, bytes], size_bytes: int) -> list[int]:
    """Returns the first offsets whose records together fit `size_bytes`, but at least one."""
    for place, at in enumerate(offsets):
        size_bytes -= len(records[at])
        if size_bytes < 0:
            return offsets[: max(place, 1)]
    return offsets


def _received(parts: Sequence[Part], broker: str) -> Received:
    records: list[bytes] = []
    handles: list[str] = []
    attempts: list[int] = []
    for one in parts:
        hidden_ms = max(one.until_ms - one.popped_at_ms, 0)
        queue = one.queue
        place = LeasePlace(
            one.queue_offsets[0], one.popped_at_ms, hidden_ms, ORDERED, queue.retry, broker,
            queue.queue_id,
        )  # fmt: skip
        records += one.records
        handles += handles_of(place, one.queue_offsets)
        attempts += [
            attempt_of(record) - 1 + one.state.deliveries(at)
            for at, record in zip(one.queue_offsets, one.records, strict=True)
        ]
    until_ms = min(one.until_ms for one in parts)
    return Received(records, handles, attempts, until_ms, min(one.popped_at_ms for one in parts))
