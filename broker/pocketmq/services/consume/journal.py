"""The journal of leases: RocketMQ's pop checkpoints and acks, stored in the timer topic.

Recovery rebuilds the leases from the journal.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pocketmq.format.journal_records import JournalRecords
from pocketmq.format.pop_records import (
    Ack,
    Batched,
    Entry,
    PopCheckpoint,
    ack_entry,
    checkpoint_entry,
)
from pocketmq.model.batch import Batch, Destination, Run
from pocketmq.model.errors import BrokerError
from pocketmq.model.stats import Counter
from pocketmq.model.system_topics import REVIVE_QUEUE_COUNT, TIMER_TOPIC, revive_topic
from pocketmq.services.consume.leases import GroupQueue, Lease
from pocketmq.store.message_store import MessageStore


class ConsumeSettings(NamedTuple):
    """Broker settings for consuming.

    store_host      packed address of this broker
    in_flight_max   upper limit of leased messages of one queue and group
    journal_max     a lease is written to the journal again when this number of records follow it,
                    to limit what recovery reads
    """

    cluster: str
    broker: str
    store_host: bytes
    in_flight_max: int = 10_000
    journal_max: int = 100_000


class Journal:
    """Writes leases and settlements to the journal."""

    __slots__ = (
        "_destination", "_marks", "_records", "_store", "_topic", "_topics", "_turn", "broker",
        "revive_in", "settings",
    )  # fmt: skip

    def __init__(self, store: MessageStore, settings: ConsumeSettings) -> None:
        self._store = store
        self._marks = store.tables.offsets.leases
        self._topics = store.tables.topics
        self._destination = Destination(TIMER_TOPIC, 0, settings.store_host)
        self._records = JournalRecords(TIMER_TOPIC, settings.store_host, store.settings.index_style)
        self._topic = revive_topic(settings.cluster)
        self._turn = 0
        self.settings = settings
        self.broker = settings.broker
        self.revive_in = Counter(
            "rocketmq_pop_revive_in_message_total", "Checkpoints and acks stored.",
            ("consumer_group", "topic", "revive_message_type", "put_status"),
        )  # fmt: skip

    @property
    def end(self) -> int:
        """The journal offset of the next record."""
        return self._marks.journal_end

    def revive_queue(self) -> int:
        """Returns the revive queue for the leases of one receive, chosen round-robin."""
        self._turn = (self._turn + 1) % REVIVE_QUEUE_COUNT
        return self._turn

    def checkpoint_of(
        self,
        queue: GroupQueue,
        queue_offsets: list[int],
        popped_at_ms: int,
        invisible_ms: int,
        revive_queue: int,
        first_popped_ms: int = 0,
    ) -> PopCheckpoint:
        """Returns the checkpoint of leased messages of a queue."""
        place = queue.group, queue.topic, queue.queue_id
        batched = Batched(*place, queue_offsets[0], popped_at_ms, self.broker)
        return PopCheckpoint(batched, queue_offsets, invisible_ms, revive_queue, first_popped_ms)

    def checkpoint(self, checkpoint: PopCheckpoint) -> Entry:
        """Returns the journal entry of a checkpoint."""
        group, topic = checkpoint.batched[:2]
        self.revive_in.add((group, topic, "CK", "PUT_OK"))
        return checkpoint_entry(checkpoint, self._topic)

    def ack(self, lease: Lease, queue_offsets: list[int]) -> Entry:
        """Returns the journal entry that acknowledges messages of a lease."""
        ack = Ack(lease.batched, queue_offsets)
        self.revive_in.add((lease.queue.group, lease.queue.topic, "ACK", "PUT_OK"))
        return ack_entry(ack, lease.end_ms, lease.revive_queue, self._topic)

    async def put(self, entries: list[Entry], runs: Sequence[Run] = ()) -> int:
        """Stores runs, then entries, contiguously in the log.

        If a crash tears the put, acks are lost rather than messages.

        Returns  journal offset of the first entry
        Effects  no await between the write and the return: a cancelled caller wrote nothing
        Errors   errors of store.writing.put and topics.ensure: nothing was stored
        """
        assert entries
        timer = self._topics.find(TIMER_TOPIC)
        if timer is None or not timer.is_kept:
            await self._topics.ensure(TIMER_TOPIC, 1)
        first = -1 if runs else self._put_at_once(entries)
        if first < 0:
            first = await self._put_by_columns(entries, runs)
        assert first >= self._marks.journal_end
        self._marks.journal_end = first + len(entries)
        return first

    def _put_at_once(self, entries: list[Entry]) -> int:
        """Stores entries; returns -1, and stores nothing, if that would need a wait.

        Errors   StoreBusy: nothing was stored
        """
        records, writing = self._records, self._store.writing
        if not records.take(entries) or not writing.writer.takes_plain(records.size_sum):
            return -1
        writing.before_waiting()
        writing.writer.append(records, self._store.clock.wall_ms())
        return records.written[0].queue_offset

    async def _put_by_columns(self, entries: Sequence[Entry], runs: Sequence[Run]) -> int:
        count = len(entries)
        bodies, blocks, keys, tags = map(list, zip(*entries, strict=True))
        batch = Batch(
            bodies=bodies,
            property_blocks=blocks,
            unique_keys=keys,
            keys=[""] * count,
            tags=tags,
            born_ms=[self._store.clock.wall_ms()] * count,
            born_hosts=[self._destination.store_host] * count,
            flags=[0] * count,
            reconsume_times=[0] * count,
        )
        written = [*runs, (self._destination, batch)]
        results = await self._store.writing.put(written, wait=False)
        return results[-1].queue_offset

    def when_durable(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` with None once `durable` would return, or with the error of the flush."""
        if not self._store.settings.is_sync:
            then(None)
            return

        def reached(durable: "asyncio.Future[bool]") -> None:
            error = durable.exception()
            if error is None and not durable.result():
                self.when_durable(then)
            else:
                then(error)

        try:
            self._store.writing.durable().add_done_callback(reached)
        except BrokerError as error:
            then(error)

    async def durable(self) -> None:
        """Waits until all puts are as durable as the flush mode promises.

        Errors   StoreFailed, such as FsyncFailed
        """
        is_sync = self._store.settings.is_sync
        while is_sync and not await self._store.writing.durable():
            pass  # A slow flush is awaited again until the caller is cancelled.
