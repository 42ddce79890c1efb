"""Makes spans of traced messages from the records of the log.

Messages with a sampled traceparent make spans of sends, delays, retries and dead letters.
Checkpoints and acks of the lease journal make spans of deliveries and acks. After a restart, older
records are not read, so that no span is exported twice. Deliveries in FIFO order have no record in
the log: the FIFO service calls `leased` and `acked`, and Pull calls `pulled`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

from pocketmq.format.pop_records import Ack, Batched, PopCheckpoint, read_entry
from pocketmq.format.record import BadRecord, decode_record
from pocketmq.model.errors import BrokerError
from pocketmq.model.message import REAL_TOPIC, TRACE_CONTEXT, StoredMessage
from pocketmq.model.reading import ReadRange
from pocketmq.model.spans import (
    OPERATIONS,
    TRACEPARENT,
    Span,
    ack_span,
    context_of,
    delivery_span,
    record_span,
)
from pocketmq.model.step import Next, Now
from pocketmq.model.system_topics import REVIVE_TOPIC_PREFIX, TIMER_TOPIC, leased_topic
from pocketmq.model.tracing import STEPS, origin_topic_of, owner_of, step_of
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

RECORDS_MAX: Final = 1_024
"""Upper limit of records examined before other tasks run: about 5 ms."""
DELIVERIES_MAX: Final = 65_536
"""Upper limit of stored deliveries; an ack of an older delivery has no span."""
IN_ORDER: Final = -1
"""`start_offset` of deliveries without a checkpoint: those in FIFO order, and pulls."""
READ_BYTES: Final = 4 * 1024 * 1024
MessagePlace = tuple[str, str, int, int]
"""(group, topic, queue id, queue offset) of a delivered message."""
CONTEXT_MARKS: Final = (f"{TRACEPARENT}\x01".encode(), f"{TRACE_CONTEXT}\x01".encode())
"""Texts of which each record with a trace context contains one."""
MARKS: Final = (*CONTEXT_MARKS, f"REAL_TOPIC\x01{REVIVE_TOPIC_PREFIX}".encode())
"""Only records that contain one of these texts are examined."""

logger = logging.getLogger(__name__)
Key = TypeVar("Key")
Item = TypeVar("Item")


class SpanSource:
    """Makes spans of the log's records, and passes them to `take`."""

    __slots__ = ("_deliveries", "_job", "_position", "_sent_back", "_store", "_take")

    def __init__(self, store: MessageStore, take: Callable[[list[Span]], None]) -> None:
        self._store = store
        self._take = take
        self._position = store.dispatched
        self._job: Job[None] | None = None
        self._deliveries: dict[MessagePlace, tuple[Batched, Span]] = {}
        """Message in flight -> (current lease, span of the delivery)."""
        self._sent_back: dict[tuple[str, str], None] = {}
        """(unique key, group) of messages that the broker stored as a retry or dead letter."""

    def step(self, now: Now) -> Next:
        """Examines the next dispatched records."""
        if self._job is not None and not self._job.is_done:
            return Next(mark=self._job, value=1)
        job, self._job = self._job, None
        if job is not None:
            job.result()
        if self._position >= self._store.dispatched:
            return Next(mark=self._store.marks.dispatched, value=self._position + 1)
        self._job = Job(self._examine())
        return Next(mark=self._job, value=1)

    async def _examine(self) -> None:
        end = self._store.dispatched
        records, reached = self._store.reading.records_with(MARKS, self._position, end, RECORDS_MAX)
        assert self._position < reached <= end, "no progress"
        self._position = reached
        spans: list[Span] = []
        for record in records:
            try:
                spans += await self._spans_of(record)
            except (BadRecord, BrokerError) as error:
                logger.debug("span.skipped", extra={"reason": str(error)})
        if spans:
            self._take(spans)

    async def _spans_of(self, record: bytes) -> Iterable[Span]:
        message = decode_record(record, decompress=False)
        if message.topic == TIMER_TOPIC:
            found = read_entry(record)
            if found is not None:
                return await self._spans_of_lease(found[0], message.store_timestamp_ms)
        return self._spans_of_message(message)

    def _spans_of_message(self, message: StoredMessage) -> Iterable[Span]:
        topic, properties = message.topic, message.properties
        context, step = context_of(properties), step_of(topic)
        if context is None or not context.is_sampled or step not in OPERATIONS:
            return ()
        target = properties.get(REAL_TOPIC, topic) if topic in STEPS else topic
        group = owner_of(target, properties, self._store.tables.groups.names())
        origin = origin_topic_of(target, properties, group)
        if group:
            _remember(self._sent_back, (message.unique_key, group), None)
        return (record_span(context, step, message, topic=origin, group=group),)

    async def _spans_of_lease(self, entry: PopCheckpoint | Ack, stored_ms: int) -> Iterable[Span]:
        if isinstance(entry, Ack):
            return [*self._acks_of(entry, stored_ms)]
        return await self._deliveries_of(entry, stored_ms)

    def _acks_of(self, entry: Ack, stored_ms: int) -> Iterator[Span]:
        """Yields a span of each acked message, unless the broker acked it as it stored a retry."""
        for at in entry.queue_offsets:
            delivery = self._end_of(entry.batched, at)
            if delivery is None:
                continue
            key = str(delivery.attributes.get("messaging.message.id", "")), entry.batched.group
            if key in self._sent_back:
                del self._sent_back[key]
            else:
                yield ack_span(delivery, stored_ms)

    # -- in FIFO order ---------------------------------------------------------------------------
    def leased(
        self, group: str, topic: str, queue_id: int, records: Iterable[bytes], popped_at_ms: int
    ) -> None:
        """Makes spans of a delivery in FIFO order; `topic` is the topic of the client's request."""
        spans: list[Span] = []
        for record in records:
            with suppress(BadRecord):
                message = decode_record(record, decompress=False)
                place = Batched(group, topic, queue_id, IN_ORDER, popped_at_ms, "")
                key = (group, topic, queue_id, message.queue_offset)
                span = self._delivery_of(message, place, popped_at_ms)
                if span is not None and self._is_new(key, place):
                    spans.append(span)
                    _remember(self._deliveries, key, (place, span))
        if spans:
            self._take(spans)

    def pulled(self, group: str, topic: str, records: Iterable[bytes]) -> None:
        """Makes spans of the delivery of pulled messages, which are not acknowledged one by one.

        Cost     20 µs a record with a trace context
        """
        now_ms = self._store.clock.wall_ms()
        spans: list[Span] = []
        for record in records:
            if not any(mark in record for mark in CONTEXT_MARKS):
                continue
            with suppress(BadRecord):
                message = decode_record(record, decompress=False)
                place = Batched(group, topic, message.queue_id, IN_ORDER, now_ms, "")
                span = self._delivery_of(message, place, now_ms)
                spans += [span] if span is not None else []
        if spans:
            self._take(spans)

    def acked(
        self, group: str, topic: str, queue_id: int, queue_offsets: Iterable[int], popped_at_ms: int
    ) -> None:
        """Makes spans of acks in FIFO order."""
        place = Batched(group, topic, queue_id, IN_ORDER, popped_at_ms, "")
        found = [self._end_of(place, at) for at in queue_offsets]
        now_ms = self._store.clock.wall_ms()
        spans = [ack_span(delivery, now_ms) for delivery in found if delivery is not None]
        if spans:
            self._take(spans)

    # -- under leases ----------------------------------------------------------------------------
    async def _deliveries_of(self, entry: PopCheckpoint, stored_ms: int) -> list[Span]:
        """Returns the delivery spans of a checkpoint; the renewal of a lease has no span."""
        group, topic, queue_id, *_ = entry.batched
        first, last = entry.queue_offsets[0], entry.queue_offsets[-1]
        if entry.first_popped_ms:
            self._renew(entry)
            return []
        wanted = ReadRange(topic, queue_id, first, last - first + 1, READ_BYTES)
        result = await value_of(self._store.reading.pull(wanted))
        offsets = frozenset(entry.queue_offsets)
        spans: list[Span] = []
        for record in result.records:
            message = decode_record(record, decompress=False)
            key = (group, topic, queue_id, message.queue_offset)
            span = self._delivery_of(message, entry.batched, stored_ms)
            if message.queue_offset in offsets and span is not None:
                self._sent_back.pop((message.unique_key, group), None)
                if self._is_new(key, entry.batched):  # An old checkpoint may be written again.
                    spans.append(span)
                    _remember(self._deliveries, key, (entry.batched, span))
        return spans

    def _is_new(self, key: MessagePlace, lease: Batched) -> bool:
        known = self._deliveries.get(key)
        return known is None or known[0] != lease

    def _renew(self, entry: PopCheckpoint) -> None:
        for at in entry.queue_offsets:
            key = (*entry.batched[:3], at)
            known = self._deliveries.get(key)
            if known is not None:
                self._deliveries[key] = (entry.batched, known[1])

    def _end_of(self, lease: Batched, queue_offset: int) -> Span | None:
        """Removes a delivery; returns its span, None if no delivery under this lease is known."""
        key = (*lease[:3], queue_offset)
        known = self._deliveries.get(key)
        if known is None or known[0] != lease:
            return None
        del self._deliveries[key]
        return known[1]

    def _delivery_of(self, message: StoredMessage, place: Batched, stored_ms: int) -> Span | None:
        context = context_of(message.properties)
        if context is None or not context.is_sampled:
            return None
        group, topic, _, _, popped_at_ms, _ = place
        origin = leased_topic(origin_topic_of(topic, message.properties, group), group)
        return delivery_span(context, message, origin, group, popped_at_ms, stored_ms)


def _remember(table: dict[Key, Item], key: Key, item: Item) -> None:
    table[key] = item
    if len(table) > DELIVERIES_MAX:
        del table[next(iter(table))]
    assert len(table) <= DELIVERIES_MAX
