"""Leases messages in order for one receive.

    queues in turn ─► scanned: message groups ─► messages of idle groups ─► read ─► leased
    ─► persisted ─► handed out

A message without attempts left becomes a dead letter when it would be delivered once more. The
broker leases it itself meanwhile. A receive cancelled before the write has leased nothing.
Source: PopMessageProcessor (isOrder), QueueLevelConsumerManager.update.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from pocketmq.filter.turns import turn_count, within_turn
from pocketmq.format.named_properties import property_block, property_key, property_text
from pocketmq.format.receipt_handle import ORDERED, LeasePlace
from pocketmq.format.record_heads import attempt_of, queue_offset_of
from pocketmq.model.administration import GroupConfig
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.errors import BrokerError, MessageDamaged
from pocketmq.model.message import SHARDING_KEY
from pocketmq.model.reading import ReadRange
from pocketmq.services.consume.fifo.queue import OrderedQueue
from pocketmq.services.consume.fifo.table import OrderTable
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.lease.receive import (
    RECEIVE_BYTES_MAX,
    SCANS_MAX,
    is_wanted,
    judged_by_code,
)
from pocketmq.services.consume.leases import GroupQueue
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.reread import reread
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

SCAN_COUNT: Final = 32
"""Messages scanned by one read."""
DEAD_LEASE_MS: Final = 60_000
"""How long the broker holds messages it makes dead letters of."""
_GROUP_KEY: Final = property_key(SHARDING_KEY)

logger = logging.getLogger(__name__)


class Part(NamedTuple):
    """Messages of one queue that a receive leased."""

    queue: GroupQueue
    state: OrderedQueue
    offsets: list[int]
    records: list[bytes]
    popped_at_ms: int
    until_ms: int


class OrderedTaken(NamedTuple):
    """All messages that one receive leased."""

    received: Received
    parts: list[Part]


class OrderedReceive:
    """Leases messages to groups in the order of their message groups.

    is_alive   whether a client of a group lives, whose leases renew themselves then
    """

    __slots__ = ("_broker", "_is_alive", "_redelivery", "_store", "_table")

    def __init__(
        self,
        store: MessageStore,
        table: OrderTable,
        redelivery: Redelivery,
        broker: str,
        is_alive: Callable[[str, str], bool],
    ) -> None:
        self._store = store
        self._table = table
        self._redelivery = redelivery
        self._broker = broker
        self._is_alive = is_alive

    # -- whether it is worth while -------------------------------------------------------------
    def is_ready(self, target: GroupTopic) -> bool:
        """Returns whether a receive may find messages now; one of a deleted group does not."""
        if self._store.tables.groups.find(target.group) is None:
            return False
        return any(not queue.is_busy and self._has_some(queue) for queue in target.all_queues())

    def _has_some(self, queue: GroupQueue) -> bool:
        upper = self._store.reading.queue_range(queue.topic, queue.queue_id)[1]
        state = self._table.of(queue)
        self._end_leases(queue, state)
        may_scan = state.skip_settled() < upper and (state.room > 0 or state.must_scan)
        return may_scan or bool(state.ready(1))

    def next_end_ms(self, target: GroupTopic) -> int | None:
        """Returns when leases may end next, wall time; None while none is held."""
        ends = (self._table.of(queue).next_end_ms() for queue in target.all_queues())
        return min((end for end in ends if end is not None), default=None)

    def _end_leases(self, queue: GroupQueue, state: OrderedQueue) -> None:
        now_ms = self._store.clock.wall_ms()
        if state.end_leases(now_ms, lambda client: self._is_alive(client, queue.group)):
            self._table.changed(queue, state)
            self._table.save_soon()

    # -- a receive -----------------------------------------------------------------------------
    async def take(self, request: ReceiveRequest, target: GroupTopic) -> OrderedTaken | None:
        """Leases messages that may go out, None without any; it counts once `durable` returns.

        Errors   GroupNotFound; those of a put: nothing was leased
        """
        self._store.tables.groups.existing(target.group)
        parts = await self._taken_before(request, target)
        if not parts:
            busy: list[GroupQueue] = []
            try:
                await self._take(request, target, parts, busy)
            except BaseException:
                self._release(parts)
                raise
            finally:
                for queue in busy:
                    queue.is_busy = False
        return OrderedTaken(_received(parts, self._broker), parts) if parts else None

    def when_durable(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls with None, or with an error, when all leases so far outlast a crash."""
        self._table.when_saved(then)

    async def durable(self) -> None:
        """Returns when all leases so far outlast a crash.

        Errors   DiskFull, FsyncFailed
        """
        await self._table.saved()

    def release(self, taken: OrderedTaken) -> None:
        """Takes back messages that did not reach their caller, as if never delivered."""
        self._release(taken.parts)
        self._table.save_soon()

    def _release(self, parts: Iterable[Part]) -> None:
        for part in parts:
            part.state.release(part.offsets, part.popped_at_ms)
            self._table.changed(part.queue, part.state)

    async def _take(
        self, request: ReceiveRequest, target: GroupTopic, parts: list[Part],
        busy: list[GroupQueue],
    ) -> None:  # fmt: skip
        group = self._store.tables.groups.existing(request.group)
        count, size_bytes = request.max_messages, request.room(RECEIVE_BYTES_MAX)
        for queue in target.in_turn():
            if queue.is_busy or not self._has_some(queue):
                continue
            queue.is_busy = True
            busy.append(queue)
            try:
                one = await self._of_queue(request, queue, group, count, size_bytes)
            except BrokerError as error:
                if not parts:
                    raise
                logger.warning("receive.cut_short", extra={"reason": str(error)})
                break
            if one is not None:
                parts.append(one)
                count -= len(one.records)
                size_bytes -= sum(map(len, one.records))
            if count <= 0 or size_bytes <= 0:
                break
        request.room(sum(len(record) for part in parts for record in part.records))

    def was_given(self, request: ReceiveRequest, target: GroupTopic) -> bool:
        """Returns whether an earlier receive of this attempt has messages still."""
        if not request.attempt_id:
            return False
        claim, now_ms = _claim(request), self._store.clock.wall_ms()
        return any(self._table.of(queue).claimed(claim, now_ms) for queue in target.all_queues())

    async def _taken_before(self, request: ReceiveRequest, target: GroupTopic) -> list[Part]:
        """Returns the messages of an earlier receive of this attempt, whose answer was lost."""
        if not self.was_given(request, target):
            return []
        now_ms, found = self._store.clock.wall_ms(), []
        for queue in target.all_queues():
            state = self._table.of(queue)
            claimed = dict(state.claimed(_claim(request), now_ms))
            if claimed:
                records = await reread(self._store.reading, queue, list(claimed))
                by_time: dict[tuple[int, int], list[int]] = {}
                for at in records:
                    _, popped_at_ms, until_ms, _ = claimed[at]
                    by_time.setdefault((popped_at_ms, until_ms), []).append(at)
                for times, offsets in by_time.items():
                    again = [records[at] for at in offsets]
                    found.append(Part(queue, state, offsets, again, *times))
        return found

    # -- one queue -----------------------------------------------------------------------------
    async def _of_queue(
        self, request: ReceiveRequest, queue: GroupQueue, group: GroupConfig, count: int,
        size_bytes: int,
    ) -> Part | None:  # fmt: skip
        """Leases messages of a queue, None where none may go out."""
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
            records = await self._read(queue, state, ready, known)
            if self._table.of(queue) is not state:  # The offset was set meanwhile.
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
        """Scans the next messages of a queue; returns whether there were some."""
        begin = state.skip_settled()
        reading = self._store.reading
        _, upper = reading.queue_range(queue.topic, queue.queue_id)
        if begin >= upper or not (state.room or state.must_scan):
            return False
        # Those that were given out before a start are looked at, whatever is wanted now.
        accept = None if state.must_scan else judged_by_code(request, queue)
        asked = ReadRange(queue.topic, queue.queue_id, begin, SCAN_COUNT, RECEIVE_BYTES_MAX)
        try:
            result = await value_of(reading.pull(asked, accept))
            if request.wanted.reads_records:
                await self._store.turns.turn(request.user)
                result = within_turn(request.wanted, result, begin)
            records, end = result.records, result.next_begin_offset
        except MessageDamaged as error:
            logger.warning("message.damaged", extra={"reason": str(error)})
            records, end = [], error.next_begin_offset
        is_all = request.wanted.is_everything and not queue.is_shared
        for record in records:
            queue_offset = queue_offset_of(record)
            if queue_offset < state.scanned:
                continue
            if is_all or state.deliveries(queue_offset) or is_wanted(request, queue, record):
                state.scan(queue_offset, message_group_of(record))
                known[queue_offset] = record
        state.pass_by(max(end, state.scanned))
        self._table.changed(queue, state)
        return end > begin

    async def _read(
        self, queue: GroupQueue, state: OrderedQueue, ready: list[int], known: dict[int, bytes]
    ) -> dict[int, bytes]:
        """Returns the records of messages that may go out; settles messages gone from the log."""
        missing = [at for at in ready if at not in known]
        if missing:
            known.update(await reread(self._store.reading, queue, missing))
            for at in missing:
                if at not in known:
                    state.bury(at)
            self._table.changed(queue, state)
        return {at: known[at] for at in ready if at in known}

    def _pass_unwanted(
        self, request: ReceiveRequest, queue: GroupQueue, state: OrderedQueue,
        records: dict[int, bytes],
    ) -> bool:  # fmt: skip
        """Settles messages that another receive wanted and this one does not; returns if any."""
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
        """Makes dead letters of messages delivered often enough; returns whether any."""
        limit = group.settings.max_attempts or 0
        dead = [
            at
            for at, record in records.items()
            if state.is_ready(at) and attempt_of(record) + state.attempts(at) > max(limit, 1)
        ]
        if not dead:
            return False
        now_ms = self._store.clock.wall_ms()
        popped_at_ms = state.lease(dead, now_ms, now_ms + DEAD_LEASE_MS)
        runs = [(at, records[at]) for at in dead]
        await Job(self._bury(queue, state, group, runs, popped_at_ms))
        return True

    async def _bury(
        self, queue: GroupQueue, state: OrderedQueue, group: GroupConfig,
        dead: Sequence[tuple[int, bytes]], popped_at_ms: int,
    ) -> None:  # fmt: skip
        """Puts dead letters, then settles their messages; a failed put changes nothing."""
        try:
            await self._redelivery.prepare(group)
            made = self._redelivery.dead
            runs = [
                made(record, group, queue.topic, tried=state.deliveries(at) - 2)
                for at, record in dead
            ]
            await self._store.writing.put(runs)
            await self._store.all_durable()
        except BaseException:
            state.release((at for at, _ in dead), popped_at_ms)
            raise
        for at, _ in dead:
            state.settle(at, popped_at_ms)
        self._table.changed(queue, state)
        await self._table.saved()


def message_group_of(record: bytes) -> str:
    """Returns the message group of a stored record, "" for none."""
    return property_text(property_block(record), _GROUP_KEY) or ""


def _claim(request: ReceiveRequest) -> str:
    return f"{request.client_id} {request.attempt_id}" if request.attempt_id else ""


def _fitting(offsets: list[int], records: dict[int, bytes], size_bytes: int) -> list[int]:
    """Returns the first of the offsets, as many as their records fit; one at least."""
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
            one.offsets[0], one.popped_at_ms, hidden_ms, ORDERED, queue.retry, broker,
            queue.queue_id,
        )  # fmt: skip
        records += one.records
        handles += [f"{place.prefix}{at}" for at in one.offsets]
        attempts += [
            attempt_of(record) - 1 + one.state.deliveries(at)
            for at, record in zip(one.offsets, one.records, strict=True)
        ]
    last = parts[-1]
    return Received(records, handles, attempts, last.until_ms, last.popped_at_ms)
