"""Pulling: messages of one queue from an offset on, and waiting where there are none yet.

    pull ──found, or nothing to wait for──────────────────────────────────► answer
       ▲  │
       │  └─at the queue's end─► parked on the arrival mark ──deadline, drain──► answer, empty
       └──arrived, or a scan that matched nothing goes on behind it──┘

Invariants
    1. A parked pull is one future and one timer; both are gone when it ends, however it ends.
    2. Running out of time is an answer, never an error.
    3. A scan that finds nothing to match gives the loop a turn before it goes on.
Not here: which topics a client may read (rpc/topic_access.py), limits of numbers.
Source: PullMessageProcessor, PullRequestHoldService.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from broker.format.named_properties import queue_offset_of
from broker.model.filter import Filter
from broker.model.reading import PullResult, PullStatus, ReadRange
from broker.model.stats import Counter, Gauge
from broker.model.topic import is_system_topic
from broker.store.message_store import MessageStore

SERIES_MAX: Final = 1_000
"""Pairs of topic and group that are counted one by one: group names come from clients, and each
pair is a series to whoever scrapes. Later pairs share the group name `__other__`."""
OTHER_GROUP: Final = "__other__"
WAITERS_KEPT_MAX: Final = 64
"""A queue that stays silent is polled for ever; beyond this many, and twice those that are still
parked, its mark forgets who gave up. Each sweep then drops half of what it looks at."""
LOOKED_AT_MAX: Final = 256
LOOKED_AT_BYTES_MAX: Final = 256 * 1024
"""What one turn of a pull with a SQL filter reads, where less was asked for: a filter that lets
few through would cost a call for every few messages. RocketMQ looks at 800 units a call."""
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"


class PullRequest(NamedTuple):
    """What one pull asks for; wait_ms is what is left of the caller's deadline, 0 for no wait."""

    range: ReadRange
    wanted: Filter
    wait_ms: int
    group: str = ""
    room: Callable[[int], int] = int
    """Asked before each read how many bytes may be read, of so many that are wanted, and told how
    many were; `int` gives what is wanted."""

    def from_offset(self, queue_offset: int) -> "PullRequest":
        """Return the same from another offset on."""
        return self._replace(range=self.range._replace(queue_offset=queue_offset))


class Pull:
    """All pulls of a broker."""

    __slots__ = (
        "_is_draining",
        "_labels",
        "_parked",
        "_store",
        "bytes_out",
        "messages_out",
        "stats",
    )

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._parked: set[asyncio.Future[bool]] = set()
        self._is_draining = False
        self._labels: dict[tuple[str, str], tuple[str, str, str]] = {}
        labels = ("topic", "consumer_group", "is_system")
        self.messages_out = Counter(
            "rocketmq_messages_out_total", "Messages handed to consumers.", labels
        )
        self.bytes_out = Counter(
            "rocketmq_throughput_out_total", "Stored bytes handed to consumers.", labels
        )
        waiters = Gauge(
            "pocketmq_long_poll_waiters",
            "Pulls parked at the end of their queue.",
            self._parked.__len__,
        )
        self.stats: list[Counter | Gauge] = [self.messages_out, self.bytes_out, waiters]

    @property
    def waiter_count(self) -> int:
        """Pulls that are parked now."""
        return len(self._parked)

    def pull(
        self, request: PullRequest, *, joined: bool = False
    ) -> PullResult | Awaitable[PullResult]:
        """Return what is there, at once or when the disk has brought it, without waiting for more.

        joined   records that lie next to each other come as one element, where nothing is filtered
        Errors   Corruption
        """
        wanted, range_ = request.wanted, request.range
        room = request.room(range_.max_bytes)
        if room < range_.max_bytes:
            range_ = range_._replace(max_bytes=room)
        is_joined = joined and wanted.is_everything  # A filter looks at each record by itself.
        accept = None if wanted.is_everything else wanted.matches_code
        if wanted.reads_records:
            range_, accept = _to_look_at(range_), None
        found = self._store.reading.pull(range_, accept, joined=is_joined)
        if isinstance(found, PullResult):
            return self._chosen(request, found)
        return self._arrived(request, found)

    async def _arrived(self, request: PullRequest, found: Awaitable[PullResult]) -> PullResult:
        return self._chosen(request, await found)

    def _chosen(self, request: PullRequest, result: PullResult) -> PullResult:
        """Return what is wanted, counted: codes have chosen, the records decide."""
        if not request.wanted.is_everything:
            result = _matching(request, result)
        size = sum(map(len, result.records))
        request.room(size)
        if size:
            labels = self._labels_of(request.range.topic, request.group)
            self.messages_out.add(labels, result.record_count)
            self.bytes_out.add(labels, size)
        return result

    def should_wait(self, request: PullRequest, result: PullResult) -> bool:
        """Return whether this result is worth waiting beyond."""
        if request.wait_ms <= 0 or self._is_draining or result.records:
            return False
        return _is_at_end(request, result) or _scanned_on(request, result)

    async def wait(
        self, request: PullRequest, result: PullResult, *, joined: bool = False
    ) -> PullResult:
        """Return what arrives behind a result within `wait_ms`, or how far nothing matched.

        Effects  leaves nothing behind when cancelled
        Errors   Corruption
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait_ms / 1000
        has_scanned = False
        while self.should_wait(request, result) and loop.time() < deadline:
            if _scanned_on(request, result):
                has_scanned = True
                request = request.from_offset(result.next_begin_offset)
                await asyncio.sleep(0)
            elif not await self._arrival(request, deadline):
                break
            found = self.pull(request, joined=joined)
            result = found if isinstance(found, PullResult) else await found
        if has_scanned and _is_at_end(request, result):
            return result._replace(status=PullStatus.NO_MATCHED_MESSAGE)
        return result

    def drain(self) -> None:
        """Answer every parked pull at once and park none any more."""
        self._is_draining = True
        for waiter in list(self._parked):
            _send_away(waiter)
        assert all(waiter.done() for waiter in self._parked)

    async def _arrival(self, request: PullRequest, deadline: float) -> bool:
        """Wait for the first message behind the request's offset; False when there will be none."""
        topic, queue_id, queue_offset, _, _ = request.range
        mark = self._store.reading.arrivals(topic, queue_id)
        waiter = mark.reached(queue_offset + 1)
        if waiter.done():
            # The queue's end moved without a message to read; the loop gets its turn all the same.
            await asyncio.sleep(0)
            return waiter.result()
        timer = asyncio.get_running_loop().call_at(deadline, _send_away, waiter)
        self._parked.add(waiter)
        try:
            return await waiter
        finally:
            self._parked.discard(waiter)
            timer.cancel()
            if mark.waiter_count > 2 * len(self._parked) + WAITERS_KEPT_MAX:
                mark.sweep(0)

    def _labels_of(self, topic: str, group: str) -> tuple[str, str, str]:
        labels = self._labels.get((topic, group))
        if labels is None:
            is_system = is_system_topic(topic) or group.startswith(SYSTEM_GROUP_PREFIX)
            shown = group if len(self._labels) < SERIES_MAX else OTHER_GROUP
            labels = (topic, shown, "true" if is_system else "false")
            if shown == group:
                self._labels[topic, group] = labels
                assert len(self._labels) <= SERIES_MAX
        return labels


def _to_look_at(asked: ReadRange) -> ReadRange:
    """Return the range that is read for a filter which has nothing but the records to go by."""
    max_messages = max(asked.max_messages, LOOKED_AT_MAX)
    return asked._replace(
        max_messages=max_messages, max_bytes=max(asked.max_bytes, LOOKED_AT_BYTES_MAX)
    )


def _matching(request: PullRequest, result: PullResult) -> PullResult:
    matches = request.wanted.matches
    records = [record for record in result.records if matches(record)]
    if request.wanted.reads_records:
        count = _count_asked_for(request.range, records)
        if count < len(records):
            following = queue_offset_of(records[count])
            if request.range.queue_offset < following < result.next_begin_offset:
                result, records = result._replace(next_begin_offset=following), records[:count]
    if len(records) == len(result.records):
        return result
    status = result.status if records else PullStatus.NO_MATCHED_MESSAGE
    return result._replace(status=status, records=records, record_count=len(records))


def _count_asked_for(asked: ReadRange, records: list[bytes]) -> int:
    """Return how many of some records fit what was asked for, one in any case."""
    size = 0
    for number, record in enumerate(records):
        size += len(record)
        if number == asked.max_messages or (number and size > asked.max_bytes):
            return number
    return len(records)


def _is_at_end(request: PullRequest, result: PullResult) -> bool:
    return request.range.queue_offset == result.max_offset


def _scanned_on(request: PullRequest, result: PullResult) -> bool:
    is_unmatched = result.status is PullStatus.NO_MATCHED_MESSAGE
    return is_unmatched and result.next_begin_offset > request.range.queue_offset


def _send_away(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
