"""Delivers due messages of the timer.

A message is put into its target topic, and a roll into the timer's topic. A message is dropped if
it was recalled, if its target topic was deleted, or if it is a journal entry of a settled lease.
Journal entries of open leases are moved from slot to slot: so a RocketMQ broker that takes over the
store finds them in the wheel, and PocketMQ needs no revive topic.
Source: TimerMessageStore.convert, doPut; TimerDequeueGetMessageService.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pocketmq.format.java_hash import java_hash
from pocketmq.format.pop_records import CHECKPOINT_TAG
from pocketmq.format.rewrite import facts_of
from pocketmq.format.timed_records import (
    Due,
    DueRecords,
    is_journal_record,
    is_taken_back,
    odd_run,
    one_by_one,
    queue_offset_of,
    rolls_after,
    run_of,
)
from pocketmq.model.batch import Destination, Run
from pocketmq.model.decimal import number_of, number_of_bytes
from pocketmq.model.errors import BrokerError, RecordTooLarge
from pocketmq.model.message import INT32_MAX, TAGS, TIMER_OUT, TIMER_ROLLS, UNIQUE_KEY
from pocketmq.model.stats import Counter
from pocketmq.model.system_topics import (
    REVIVE_TOPIC_PREFIX,
    TIMER_TOPIC,
    QueuePlace,
    real_place,
    revive_topic,
)
from pocketmq.model.topic import HALF_TOPIC
from pocketmq.store.message_store import MessageStore
from pocketmq.store.settings import FLUSH_SYNC

_REVIVE_PREFIX: Final = REVIVE_TOPIC_PREFIX.encode()
_CHECKPOINT: Final = f"\x02{TAGS}\x01{CHECKPOINT_TAG}\x02".encode()
PUT_BYTES_MAX: Final = 256 * 1024

logger = logging.getLogger(__name__)

IsOpen = Callable[[int], bool]
"""Queue offset of an entry in the lease journal -> whether the entry's lease is open."""


class TimedMessage(NamedTuple):
    """A record whose slot is due.

    enqueued_ms   time at which the message entered the wheel (TIMER_ENQUEUE_MS)
    is_roll       whether the message, or recall marker, is stored in the timer's topic again
    moved_ms      for a roll: due time by the present clock, minus the due time in the record
    """

    record: bytes
    enqueued_ms: int
    is_roll: bool = False
    moved_ms: int = 0


class TimerDelivery:
    """Puts due messages into an open store.

    store_host   packed address of this broker
    """

    __slots__ = (
        "_due", "_is_lease_open", "_store", "_store_host", "bytes_max", "count", "dequeued",
        "dropped", "journal_hash", "recalled",
    )  # fmt: skip

    def __init__(self, store: MessageStore, store_host: bytes, is_lease_open: IsOpen) -> None:
        assert store_host
        self._store = store
        self._store_host = store_host
        self._is_lease_open = is_lease_open
        self._due = DueRecords()
        self.bytes_max = min(PUT_BYTES_MAX, store.log.record_size_max // 2)
        """Upper limit of bytes of one put."""
        self.journal_hash = java_hash(revive_topic(store.settings.cluster))
        """Topic hash of the lease journal in units of the timer log."""
        self.recalled: dict[int, set[bytes]] = {}
        """Due time -> messages whose markers existed at the start, as in `put`. Such a message may
        be delivered before its marker is read, or read again after a crash without its marker."""
        self.count = 0
        """Number of messages that were delivered or dropped."""
        self.dequeued = Counter(
            "rocketmq_timer_dequeue_total", "Messages that left the timer.", ("topic",)
        )
        self.dropped = Counter(
            "pocketmq_timer_dropped_total",
            "Timed messages that were dropped, not delivered.",
            ("reason",),
        )  # fmt: skip

    async def put(self, messages: Sequence[TimedMessage], taken_back: frozenset[bytes]) -> None:
        """Puts messages in one put; the messages need not be durable when it returns.

        If the records together fit no file of the log, each message is put alone; a message that
        then fits no file is dropped.

        taken_back  recalled messages, each as unique key or as topic, "+" and unique key
        Shape       at most about `bytes_max` bytes of records
        Errors      errors of a put
        """
        runs, counts = self._runs(messages, taken_back)
        if runs:
            try:
                await self._store.writing.put(runs, wait=False)
            except RecordTooLarge:
                for run in runs:
                    await self._put_alone(run)
        if runs and self._store.settings.flush == FLUSH_SYNC:
            # Consumers read only durable messages, so a flush is requested.
            self._store.writing.durable().add_done_callback(asyncio.Future.exception)
        self.count += len(messages)
        for topic, count in counts.items():
            self.dequeued.add((topic,), count)

    async def _put_alone(self, run: Run) -> None:
        for part in one_by_one(run):
            try:
                await self._store.writing.put([part], wait=False)
            except RecordTooLarge as error:
                logger.warning("timer.discarded", extra={"reason": str(error), "count": 1})
                self.dropped.add(("discarded",))

    def _runs(
        self, messages: Sequence[TimedMessage], taken_back: frozenset[bytes]
    ) -> tuple[list[Run], dict[str, int]]:
        now_ms = self._store.clock.wall_ms()
        runs: list[Run] = []
        by_place: dict[tuple[bytes, bytes, int], list[Due]] = {}
        counts: dict[str, int] = {}
        for message in messages:
            made = self._due.message(message.record, message.enqueued_ms, now_ms)
            if made is None or message.is_roll:
                run = self._odd(message, now_ms, taken_back)
                if run is not None:
                    runs.append(run)
                    counts[run[0].topic] = counts.get(run[0].topic, 0) + 1
            elif not self._is_dropped(message.record, made, taken_back):
                key = (made.topic, made.queue, made.system_flag)
                by_place.setdefault(key, []).append(made)
        for (topic, queue, system_flag), found in by_place.items():
            place = self._place(topic, queue, len(found))
            if place is not None:
                destination = Destination(*place, self._store_host, system_flag)
                runs.append(run_of(destination, found))
                counts[place.topic] = counts.get(place.topic, 0) + len(found)
        return runs, counts

    def is_recalled(self, record: bytes) -> bool:
        """Returns whether a marker that was found at the start recalls a message.

        Cost     some 10 µs, nothing if no marker was found
        """
        if not self.recalled:
            return False
        _, properties, _ = facts_of(record)
        gone = self.recalled.get(number_of(properties.get(TIMER_OUT, "")), set())
        place, key = real_place(properties), properties.get(UNIQUE_KEY, "").encode()
        if place is None or not gone or not key:
            return False
        return is_taken_back(place.topic.encode(), key, frozenset(gone))

    def is_of_journal(self, record: bytes) -> bool:
        """Returns whether a record is an entry of the lease journal."""
        return is_journal_record(record)

    def is_checkpoint(self, record: bytes) -> bool:
        """Returns whether a record is a checkpoint of the lease journal."""
        return is_journal_record(record) and _CHECKPOINT in record

    def is_open(self, record: bytes) -> bool:
        """Returns whether a record is a journal entry of an open lease."""
        return is_journal_record(record) and self._is_lease_open(queue_offset_of(record))

    def drop(self, reason: str, count: int) -> None:
        """Counts due messages that are dropped."""
        if count:
            self.count += count
            self.dropped.add((reason,), count)

    def _is_dropped(self, record: bytes, made: Due, taken_back: frozenset[bytes]) -> bool:
        if made.topic.startswith(_REVIVE_PREFIX):
            if not self._is_lease_open(queue_offset_of(record)):
                self.dropped.add(("settled",))
                return True
        if taken_back:
            if is_taken_back(made.topic, made.row[2].encode(), taken_back):
                self.dropped.add(("recalled",))
                return True
        return False

    def _place(self, topic: bytes, queue: bytes, count: int) -> QueuePlace | None:
        """Returns the target queue; None if the messages have to be dropped."""
        name = topic.decode("utf-8", "replace")
        queue_id = number_of_bytes(queue, INT32_MAX)
        why = ""
        if not name or queue_id < 0 or name in (HALF_TOPIC, TIMER_TOPIC):
            why = "it has no valid target queue"
        elif self._store.tables.is_removed(name):
            why = f"topic {name} was removed"
        if why:
            logger.warning("timer.discarded", extra={"reason": why, "count": count})
            self.dropped.add(("discarded",), count)
            return None
        topics = self._store.tables.topics
        topics.adopt(name, queue_id + 1)
        return QueuePlace(name, topics.read_queue(name, queue_id))

    def _odd(self, message: TimedMessage, now_ms: int, taken_back: frozenset[bytes]) -> Run | None:
        """Returns the run of a roll, or of a message with unusual properties; None: dropped."""
        record = message.record
        _, properties, _ = facts_of(record)
        rolls = 0
        found: QueuePlace | None = QueuePlace(TIMER_TOPIC, 0)
        if message.is_roll:
            rolls = rolls_after(properties.get(TIMER_ROLLS, ""))
        else:
            place = real_place(properties) or QueuePlace("", 0)
            key = properties.get(UNIQUE_KEY, "")
            if key and is_taken_back(place.topic.encode(), key.encode(), taken_back):
                self.dropped.add(("recalled",))
                return None
            found = self._place(place.topic.encode(), b"%d" % place.queue_id, 1)
        if found is None:
            return None
        try:
            return odd_run(
                record, place=found, store_host=self._store_host, rolls=rolls,
                enqueued_ms=message.enqueued_ms, dequeued_ms=now_ms, moved_ms=message.moved_ms,
            )  # fmt: skip
        except BrokerError as error:
            logger.warning("timer.discarded", extra={"reason": str(error), "count": 1})
            self.dropped.add(("discarded",))
            return None
