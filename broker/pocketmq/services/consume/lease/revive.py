"""Handles expired leases: redelivers, dead-letters or renews them.

A lease is renewed if its client is alive and requested auto-renewal. Messages of other leases are
read again, and stored as retry or dead letter together with their acks.
Source: PopReviveService.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from pocketmq.format.pop_records import PopCheckpoint
from pocketmq.model.batch import Run
from pocketmq.model.consuming import RENEWED_MS
from pocketmq.model.errors import BrokerError
from pocketmq.model.stats import Counter, Gauge, LabelValues
from pocketmq.model.step import CLOSING_MS, Clock
from pocketmq.model.system_topics import REVIVE_QUEUE_COUNT
from pocketmq.model.topic import DLQ_PREFIX, is_system_topic
from pocketmq.services.consume.clients import Clients
from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.lease.ack import LeaseAck
from pocketmq.services.consume.leases import Lease, LeaseTable
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.reread import reread
from pocketmq.store.message_store import MessageStore

REVIVED_MAX: Final = 32
"""A job accepts expired leases until they have this number of messages."""
TURN_MAX: Final = 16
"""Upper limit of messages read and put again before other tasks run: about a millisecond."""
TURN_MS: Final = 2
"""Time after which a put is made, however small, and other tasks run."""
PUT_BYTES: Final = 256 * 1024
"""Bytes of bodies at which a put is made and other tasks run; the last body may exceed it."""
CARRIED_MAX: Final = 256
"""Upper limit of leases that one put rewrites."""
CARRIED_BYTES_MAX: Final = 4 * 1024
"""Upper limit of bytes of the record of a rewritten lease."""
RETRY_PAUSE_MS: Final = 1_000
"""Pause before another attempt to revive or renew a lease."""

logger = logging.getLogger(__name__)


async def _was_put(put: Awaitable[None]) -> bool:
    """Returns whether a put succeeded; logs the error of a failed put."""
    try:
        await put
    except BrokerError as error:
        logger.warning("lease.revive_deferred", extra={"reason": str(error)})
        return False
    return True


class _Revived(NamedTuple):
    """A message whose lease expired, and its replacement.

    run   None: the message, its topic or its group was deleted
    """

    lease: Lease
    queue_offset: int
    run: Run | None

    @property
    def size_bytes(self) -> int:
        return 0 if self.run is None else sum(map(len, self.run[1].bodies))


class _Turn:
    """Amount of work since this task last yielded to the event loop."""

    __slots__ = ("_begun_ms", "_clock", "_count", "_size_bytes")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_ms = clock.monotonic_ms()
        self._count = 0
        self._size_bytes = 0

    def add(self, size_bytes: int) -> None:
        """Counts a message."""
        self._count += 1
        self._size_bytes += size_bytes
        assert self._count <= TURN_MAX

    @property
    def is_over(self) -> bool:
        """Whether other tasks have to run now."""
        if self._count >= TURN_MAX or self._size_bytes >= PUT_BYTES:
            return True
        return self._clock.monotonic_ms() - self._begun_ms >= TURN_MS


def _parts(taken: list[tuple[Lease, list[int]]]) -> Iterator[tuple[Lease, list[int]]]:
    """Yields the messages of leases in parts of at most TURN_MAX messages."""
    for lease, queue_offsets in taken:
        for begin in range(0, len(queue_offsets), TURN_MAX):
            yield lease, queue_offsets[begin : begin + TURN_MAX]


class Reviving:
    """Handles expired leases, and rewrites old leases."""

    __slots__ = (
        "_ack", "_clients", "_journal", "_leases", "_redelivery", "_store", "dead_letters",
        "expired", "retried",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        leases: LeaseTable,
        journal: Journal,
        redelivery: Redelivery,
        ack: LeaseAck,
        clients: Clients,
    ) -> None:
        self._store = store
        self._leases = leases
        self._journal = journal
        self._redelivery = redelivery
        self._ack = ack
        self._clients = clients
        self.expired = Counter(
            "pocketmq_lease_expired_total",
            "Messages whose lease expired before they were acknowledged.",
        )
        self.retried = Counter(
            "rocketmq_pop_revive_retry_messages_total",
            "Messages redelivered after their lease expired.",
            ("consumer_group", "topic", "put_status"),
        )  # fmt: skip
        self.dead_letters = Counter(
            "rocketmq_send_to_dlq_messages_total", "Messages that became dead letters.",
            ("consumer_group", "topic", "is_system"),
        )  # fmt: skip

    def due(self, now_ms: int) -> list[Lease]:
        """Returns the next expired leases, until they have REVIVED_MAX messages."""
        found: list[Lease] = []
        count = 0
        for lease in self._leases.ended(now_ms):
            found.append(lease)
            count += lease.pending_count
            if count >= REVIVED_MAX:
                break
        return found

    async def end(self, leases: list[Lease], monotonic_ms: int) -> None:
        """Renews or revives expired leases; after a failure, retries after RETRY_PAUSE_MS."""
        renewed = [lease for lease in leases if self._is_renewed(lease, monotonic_ms)]
        ended = [lease for lease in leases if lease not in renewed] if renewed else leases
        try:
            await _was_put(self._ack.renew(renewed, RENEWED_MS))
            await self._revive_all(ended)
        finally:
            again_ms = self._store.clock.monotonic_ms() + RETRY_PAUSE_MS
            for lease in leases:
                if lease.pending_count:
                    self._leases.end_at(lease, again_ms)

    def old(self, journal_max: int) -> list[Lease]:
        """Returns the oldest leases that more than `journal_max` journal records follow.

        Returns [] if rewriting them would wait.
        """
        old = self._leases.oldest(self._journal.end - journal_max, CARRIED_MAX)
        return old if self._store.writing.takes(len(old) * CARRIED_BYTES_MAX) else []

    async def carry(self, old: list[Lease]) -> None:
        """Writes the unsettled messages of leases to the journal again, unless the put would wait.

        If a message were acknowledged during a wait, recovery would read the ack before the new
        checkpoint, and redeliver the message.
        """
        leases = [lease for lease in old if lease.pending_count and not lease.settling_count]
        if not leases or not self._store.writing.takes(len(leases) * CARRIED_BYTES_MAX):
            return
        checkpoints = [
            PopCheckpoint(
                lease.batched,
                lease.pending(),
                lease.invisible_ms,
                lease.revive_queue,
                lease.first_popped_ms,
            )
            for lease in leases
        ]
        try:
            first = await self._journal.put([self._journal.checkpoint(one) for one in checkpoints])
        except BrokerError as error:
            logger.warning("lease.revive_deferred", extra={"reason": str(error)})
            return
        for i, lease in enumerate(leases):
            self._leases.move(lease, first + i)

    async def carry_partly_settled(self) -> None:
        """Rewrites partly settled leases when the broker stops.

        If a RocketMQ broker opens the store next, it may read acks before their checkpoint, and
        then ignores them. A new checkpoint of the unsettled messages needs no acks. After
        CLOSING_MS the remaining leases are not rewritten, but reported in the log.
        """
        leases = self._leases.partly_settled()
        until_ms = self._store.clock.monotonic_ms() + CLOSING_MS
        for begin in range(0, len(leases), CARRIED_MAX):
            if self._store.clock.monotonic_ms() >= until_ms:
                logger.warning("stop.shortened", extra={"left": "leases settled in part"})
                return
            await self.carry(leases[begin : begin + CARRIED_MAX])

    def _is_renewed(self, lease: Lease, monotonic_ms: int) -> bool:
        held_ms = lease.end_ms - lease.first_popped_ms
        client_id, group = lease.client_id, lease.queue.group
        return bool(client_id) and self._clients.renews(client_id, group, monotonic_ms, held_ms)

    async def _revive_all(self, leases: list[Lease]) -> None:
        """Revives leases together; if that fails, tries each remaining message alone, once.

        A single message may be the cause of the failure.
        """
        taken = [(lease, lease.pending()) for lease in leases if lease.pending_count]
        if not taken:
            return
        if await _was_put(self._revive(taken)):
            return
        for lease, queue_offsets in taken if self._store.writing.refusal is None else ():
            for queue_offset in queue_offsets:
                if lease.queue.leased.get(queue_offset) is lease:  # The message is unsettled.
                    await _was_put(self._revive([(lease, [queue_offset])]))

    async def _revive(self, taken: list[tuple[Lease, list[int]]]) -> None:
        """Revives messages of leases; other tasks run between puts."""
        for lease, queue_offsets in taken:
            self._leases.take(lease, queue_offsets)
        left = {lease: [*queue_offsets] for lease, queue_offsets in taken}
        some: list[_Revived] = []
        turn = _Turn(self._store.clock)
        try:
            for lease, queue_offsets in _parts(taken):
                runs = await self._runs_of(lease, queue_offsets)
                for at in queue_offsets:
                    some.append(_Revived(lease, at, runs.pop(at, None)))
                    turn.add(some[-1].size_bytes)
                    if turn.is_over:
                        await self._put(some, left)
                        some = []
                        await asyncio.sleep(0)
                        turn = _Turn(self._store.clock)
            if some:
                await self._put(some, left)
        except BaseException:
            for lease, queue_offsets in left.items():
                if queue_offsets:
                    self._leases.give_back(lease, queue_offsets)
            raise

    async def _put(self, some: list[_Revived], left: dict[Lease, list[int]]) -> None:
        """Puts replacements and acks of messages; removes these messages from `left`."""
        by_lease: dict[Lease, list[int]] = {}
        for lease, at, _ in some:
            by_lease.setdefault(lease, []).append(at)
        acks = [self._journal.ack(lease, at) for lease, at in by_lease.items()]
        await self._journal.put(acks, [run for _, _, run in some if run is not None])
        for lease, queue_offsets in by_lease.items():
            del left[lease][: len(queue_offsets)]
            self._leases.close(lease, len(queue_offsets))
            self.expired.value += len(queue_offsets)
        for lease, _, run in some:
            if run is not None:
                self.count(lease.queue.group, [run])

    async def _runs_of(self, lease: Lease, queue_offsets: list[int]) -> dict[int, Run]:
        """Returns replacements by queue offset; {} if the group or the topic was deleted."""
        queue = lease.queue
        group = self._store.tables.groups.find(queue.group)
        if group is None:
            return {}
        if self._store.tables.is_removed(queue.topic):
            logger.warning(
                "lease.discarded",
                extra={
                    "count": len(queue_offsets),
                    "reason": f"topic {queue.topic} was removed",
                },
            )
            return {}
        await self._redelivery.prepare_lease_retry(group, queue.topic)
        records = await reread(self._store.reading, queue, queue_offsets)
        return {
            at: self._redelivery.over(
                record, group, queue.topic, lease.popped_at_ms, is_counted=lease.is_counted
            )
            for at, record in records.items()
        }

    def count(self, group: str, runs: list[Run]) -> None:
        """Counts redeliveries and dead letters in the metrics."""
        for destination, batch in runs:
            topic = destination.topic
            if topic.startswith(DLQ_PREFIX):
                is_system = "true" if is_system_topic(topic) else "false"
                self.dead_letters.add((group, topic, is_system), len(batch))
            else:
                self.retried.add((group, topic, "PUT_OK"), len(batch))


def revive_gauges(leases: LeaseTable, monotonic_ms: Callable[[], int]) -> list[Gauge]:
    """Returns gauges of expired leases that are not revived yet, by revive queue.

    Source   PopMetricsManager; the lag is a number of checkpoints, despite the metric's name
    """

    def by_queue(measure: Callable[[int, Lease], float]) -> dict[LabelValues, float]:
        now_ms = monotonic_ms()
        found: dict[LabelValues, float] = {(str(n),): 0.0 for n in range(REVIVE_QUEUE_COUNT)}
        for lease in leases.overdue(now_ms):
            labels = (str(lease.revive_queue),)
            found[labels] = measure(int(found.get(labels, 0)), lease)
        return found

    return [
        Gauge(
            "rocketmq_pop_revive_lag_milliseconds",
            "Number of checkpoints that are due and not revived.",
            lambda: by_queue(lambda count, lease: count + 1.0),
            ("queue_id",),
        ),
        Gauge(
            "rocketmq_pop_revive_latency_milliseconds",
            "Time since the oldest unrevived checkpoint was due.",
            lambda: by_queue(lambda most, one: float(max(most, monotonic_ms() - one.ends_ms))),
            ("queue_id",),
        ),
    ]
