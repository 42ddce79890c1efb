"""Rebuilds leases from the journal or a RocketMQ broker's records, when the broker starts.

In a store of PocketMQ, the journal is read from the offset on that is stored with the group
offsets. In a store of RocketMQ, checkpoints and acks are read from the revive topic and the timer
topic; they are not in order.

Checkpoints advance group offsets, so that no delivered message is delivered as new. Acks without a
checkpoint belong to older leases, which were settled. If a checkpoint belongs to a message that was
delivered in order (fifo/fifo_exit.py), the message is removed from its FIFO state.
Source: PopReviveService, TimerMessageStore.recover.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

from pocketmq.format.java_hash import tags_code
from pocketmq.format.pop_records import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    Ack,
    Batched,
    PopCheckpoint,
    read_entry,
)
from pocketmq.format.receipt_handle import NORMAL
from pocketmq.format.record import BadRecord
from pocketmq.format.record_heads import queue_offset_of
from pocketmq.model.decimal import SUMMABLE_MAX, number_of
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.reading import ReadRange
from pocketmq.model.system_topics import REVIVE_GROUP, REVIVE_TOPIC_PREFIX, TIMER_TOPIC
from pocketmq.model.topic import retry_topic
from pocketmq.services.consume.handles import topics_of
from pocketmq.services.consume.leases import GroupQueueKey, Lease, LeaseTable
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.tables.tables import Tables

_READ_MAX: Final = 512
_TAGS_CODES: Final = frozenset(map(tags_code, (CHECKPOINT_TAG, ACK_TAG, BATCH_ACK_TAG)))
"""Tags codes of journal records; other records of the timer topic are not read."""
_BYTES_MAX: Final = 1024 * 1024
_TIMER_OUT: Final = "TIMER_OUT_MS"
_DIGITS_MAX: Final = 18

logger = logging.getLogger(__name__)


class _Told:
    """A checkpoint, and its unsettled messages."""

    __slots__ = ("checkpoint", "first_popped_ms", "journal_offset", "pending")

    def __init__(
        self, checkpoint: PopCheckpoint, journal_offset: int, first_popped_ms: int
    ) -> None:
        self.checkpoint = checkpoint
        self.journal_offset = journal_offset
        self.first_popped_ms = first_popped_ms
        self.pending = set(checkpoint.queue_offsets)


class LeaseRecovery:
    """Rebuilds the leases of a store before it serves clients."""

    __slots__ = ("_early", "_holders", "_leases", "_offsets", "_store", "_told")

    def __init__(self, store: MessageStore, leases: LeaseTable) -> None:
        self._store = store
        self._offsets = store.tables.offsets
        self._leases = leases
        self._told: dict[Batched, _Told] = {}
        self._early: dict[Batched, set[int]] = {}
        self._holders: dict[tuple[GroupQueueKey, int], _Told] = {}

    async def run(self) -> None:
        """Fills the table of leases, and advances group offsets.

        Errors   StorageError, DiskSlow
        Cost     about 15 µs for each journal record
        """
        marks = self._offsets.leases
        lower, marks.journal_end = self._store.reading.queue_range(TIMER_TOPIC, 0)
        marks.clamp()
        if marks.is_adopted:
            begin = min(marks.begin, marks.known)
            async for record in self._records(TIMER_TOPIC, 0, begin):
                self._feed(record, queue_offset_of(record), 0)
        else:
            await self._read_revive_topics()
            read_ms = self._store.tables.timer_check.progress.read_ms
            async for record in self._records(TIMER_TOPIC, 0, lower):
                self._feed(record, queue_offset_of(record), read_ms)
        self._build()
        if self._leases.count:
            logger.info("leases.recovered", extra={"count": self._leases.count})

    async def _read_revive_topics(self) -> None:
        reading = self._store.reading
        names = self._store.tables.topics.names()
        topics = [name for name in names if name.startswith(REVIVE_TOPIC_PREFIX)]
        for topic, queue_id in [(name, i) for name in topics for i in reading.queue_ids(name)]:
            found = self._offsets.find(REVIVE_GROUP, topic, queue_id)
            begin = 0 if found is None else found + 1
            async for record in self._records(topic, queue_id, begin):
                self._feed(record, -1, 0)

    async def _records(self, topic: str, queue_id: int, begin: int) -> AsyncIterator[bytes]:
        """Yields the undamaged journal records of a queue from an offset on."""
        lower, upper = self._store.reading.queue_range(topic, queue_id)
        position = max(begin, lower)
        while position < upper:
            asked = ReadRange(topic, queue_id, position, _READ_MAX, _BYTES_MAX)
            try:
                result = await value_of(self._store.reading.pull(asked, _TAGS_CODES.__contains__))
            except MessageDamaged as error:
                logger.warning("message.damaged", extra={"reason": str(error)})
                position = error.next_begin_offset
                continue
            for record in result.records:
                yield record
            if result.next_begin_offset <= position:
                return
            position = result.next_begin_offset
            await asyncio.sleep(0)

    def _feed(self, record: bytes, journal_offset: int, read_ms: int) -> None:
        """Applies a record, unless it was due before `read_ms`: its copy is in the revive topic."""
        try:
            entry = read_entry(record)
        except BadRecord as error:
            place = int.from_bytes(record[28:36])
            logger.warning(
                "lease.unreadable", extra={"physical_offset": place, "reason": str(error)}
            )
            return
        if entry is None:
            return
        said, properties = entry
        if read_ms and number_of(properties.get(_TIMER_OUT, ""), SUMMABLE_MAX) < read_ms:
            return
        if isinstance(said, Ack):
            self._settle(said)
        else:
            self._hold(said, journal_offset)

    def _hold(self, checkpoint: PopCheckpoint, journal_offset: int) -> None:
        batched = checkpoint.batched
        if batched in self._told and self._told[batched].pending:
            return
        end = self._store.queue_end(batched.topic, batched.queue_id)
        if checkpoint.queue_offsets and checkpoint.queue_offsets[-1] >= end:
            # The log lost the messages at these offsets. New messages will get the same offsets.
            known = [at for at in checkpoint.queue_offsets if at < end]
            checkpoint = checkpoint._replace(queue_offsets=known)
        if not checkpoint.queue_offsets or self._store.tables.groups.find(batched.group) is None:
            return
        key = (batched.group, batched.topic, batched.queue_id)
        if not checkpoint.first_popped_ms:  # A changed lease may be older than an offset reset.
            self._push(key, checkpoint, journal_offset)
        elif checkpoint.first_popped_ms == batched.popped_at_ms:
            _leave_order(self._store.tables, checkpoint)
        before = self._holders.get((key, checkpoint.queue_offsets[0]))
        is_change = before is not None and checkpoint.queue_offsets[0] in before.pending
        first_ms = checkpoint.first_popped_ms
        if not first_ms and self._offsets.leases.is_adopted:
            first_ms = batched.popped_at_ms  # PocketMQ's changed leases contain first_popped_ms.
        elif not first_ms:
            first_ms = before.first_popped_ms if before and is_change else batched.popped_at_ms
        told = self._told[batched] = _Told(checkpoint, journal_offset, first_ms)
        for queue_offset in checkpoint.queue_offsets:
            self._holders[key, queue_offset] = told
        told.pending -= self._early.pop(batched, set())
        self._drop_settled(told)

    def _push(self, key: GroupQueueKey, checkpoint: PopCheckpoint, journal_offset: int) -> None:
        group, topic, queue_id = key
        name = f"{topic}@{group}"
        if journal_offset < 0 or self._offsets.leases.pushes(name, queue_id, journal_offset):
            self._offsets.lease(group, topic, queue_id, checkpoint.queue_offsets[-1] + 1)

    def _settle(self, ack: Ack) -> None:
        told = self._told.get(ack.batched)
        if told is None:
            self._early.setdefault(ack.batched, set()).update(ack.queue_offsets)
            return
        told.pending.difference_update(ack.queue_offsets)
        self._drop_settled(told)

    def _drop_settled(self, told: _Told) -> None:
        """Drops a settled checkpoint, to save memory."""
        if not told.pending:
            batched = told.checkpoint.batched
            del self._told[batched]
            key = (batched.group, batched.topic, batched.queue_id)
            for queue_offset in told.checkpoint.queue_offsets:
                if self._holders.get((key, queue_offset)) is told:
                    del self._holders[key, queue_offset]

    def _build(self) -> None:
        """Creates the leases; a message of two checkpoints belongs to the later checkpoint."""
        clock = self._store.clock
        for told in sorted(self._told.values(), key=lambda told: told.journal_offset):
            batched = told.checkpoint.batched
            group, topic, queue_id = batched.group, batched.topic, batched.queue_id
            queue = self._leases.queue(group, topic, queue_id, retry_kind(group, topic))
            pending = [at for at in told.checkpoint.queue_offsets if at in told.pending]
            for queue_offset in pending:
                older = queue.leased.get(queue_offset)
                if older is not None:
                    self._leases.take(older, (queue_offset,))
                    self._leases.close(older, 1)
            checkpoint = told.checkpoint._replace(queue_offsets=pending)
            lease = Lease(
                queue, checkpoint, told.journal_offset, first_popped_ms=told.first_popped_ms
            )
            # If the clock was ahead at the receive, the remaining time would be too long.
            left_ms = min(lease.end_ms - clock.wall_ms(), lease.invisible_ms)
            self._leases.add(lease, clock.monotonic_ms() + left_ms)
        self._told.clear()
        self._early.clear()
        self._holders.clear()


def _leave_order(tables: Tables, checkpoint: PopCheckpoint) -> None:
    """Settles leased messages in the order table, as a crash may have prevented its save."""
    group, topic, queue_id, _, popped_at_ms, _ = checkpoint.batched
    committed = tables.offsets.find(group, topic, queue_id) or 0
    order = tables.orders.find(group, topic, queue_id, committed)
    delivered = order.delivered
    gone = {
        at
        for at in checkpoint.queue_offsets
        if at in delivered and delivered[at].popped_at_ms == popped_at_ms
    }
    if gone:
        left = order._replace(
            settled=order.settled | gone,
            delivered={at: one for at, one in delivered.items() if at not in gone},
        )
        tables.orders.change(group, topic, queue_id, lambda: left)
        tables.orders.save_soon()


def retry_kind(group: str, topic: str) -> int:
    """Returns the number by which handles identify a topic (format/receipt_handle.py)."""
    own = retry_topic(group)
    if not topic.startswith(own):
        return NORMAL
    names = topics_of(group, topic[len(own) + 1 :])
    return names.index(topic) if topic in names else NORMAL
