"""Pulling: messages of one queue from an offset on, and waiting where there are none yet.

    pull_now ──found, or nothing to wait for──────────────────────────────► answer
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
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from broker.filter.tag import TagFilter
from broker.format.properties import decode_properties
from broker.format.record import split_record
from broker.model.cold_read import ColdRead
from broker.model.message import TAGS
from broker.model.results import PullResult, PullStatus
from broker.model.stats import Counter, Gauge
from broker.model.system_topics import is_system_topic

SERIES_MAX: Final = 1_000
"""Pairs of topic and group that are counted one by one: group names come from clients, and each
pair is a series to whoever scrapes. Later pairs share the group name `__other__`."""
OTHER_GROUP: Final = "__other__"
WAITERS_KEPT_MAX: Final = 64
"""A queue that stays silent is polled for ever; beyond this many, and twice those that are still
parked, its mark forgets who gave up. Each sweep then drops half of what it looks at."""
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"


class PullRequest(NamedTuple):
    """What one pull asks for; wait_ms is what is left of the caller's deadline, 0 for no wait."""

    topic: str
    queue_id: int
    queue_offset: int
    max_messages: int
    max_bytes: int
    wanted: TagFilter
    wait_ms: int
    group: str = ""


class ArrivalMark(Protocol):
    """A queue's max offset, to wait for."""

    @property
    def waiter_count(self) -> int:
        """Waiters not served yet, those who gave up included until the next sweep."""

    def sweep(self, now_ms: int, /) -> None:
        """Forget those who gave up."""

    def reached(self, value: int, /) -> asyncio.Future[bool]:
        """Return a future: True once the mark is at `value`, False when sent away."""


class PullStore(Protocol):
    """What pulling needs of the store."""

    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        /,
        *,
        max_messages: int,
        max_bytes: int,
        accept: Callable[[int], bool] | None = None,
    ) -> PullResult:
        """Return records one by one; `accept` judges tags codes."""

    def pull_joined(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        /,
        *,
        max_messages: int,
        max_bytes: int,
    ) -> PullResult:
        """Return records as one piece of bytes."""

    async def pull_cold(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        /,
        *,
        max_messages: int,
        max_bytes: int,
        accept: Callable[[int], bool] | None = None,
    ) -> PullResult:
        """Return what `pull` does, from where reading has to wait for the disk."""

    def arrivals(self, topic: str, queue_id: int, /) -> ArrivalMark:
        """Return the mark that rises when a message can be pulled."""


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

    def __init__(self, store: PullStore) -> None:
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

    def pull_now(self, request: PullRequest, *, joined: bool = False) -> PullResult:
        """Return what is there, without waiting; `joined` as far as the filter allows it.

        Errors   Corruption; ColdRead: `pull_cold` will do
        """
        wanted, store = request.wanted, self._store
        if not wanted.is_everything:
            found = store.pull(
                request.topic,
                request.queue_id,
                request.queue_offset,
                max_messages=request.max_messages,
                max_bytes=request.max_bytes,
                accept=wanted.matches_code,
            )
            return self._counted(request, _matching(request, found))
        read = store.pull_joined if joined else store.pull
        result = read(
            request.topic,
            request.queue_id,
            request.queue_offset,
            max_messages=request.max_messages,
            max_bytes=request.max_bytes,
        )
        return self._counted(request, result)

    async def pull_cold(self, request: PullRequest) -> PullResult:
        """Return what is there, old messages included, which the disk has to be asked for.

        Errors   Corruption
        """
        wanted = request.wanted
        found = await self._store.pull_cold(
            request.topic,
            request.queue_id,
            request.queue_offset,
            max_messages=request.max_messages,
            max_bytes=request.max_bytes,
            accept=None if wanted.is_everything else wanted.matches_code,
        )
        result = found if wanted.is_everything else _matching(request, found)
        return self._counted(request, result)

    def _counted(self, request: PullRequest, result: PullResult) -> PullResult:
        if result.records:
            labels = self._labels_of(request.topic, request.group)
            self.messages_out.add(labels, result.record_count)
            self.bytes_out.add(labels, sum(map(len, result.records)))
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
                request = request._replace(queue_offset=result.next_begin_offset)
                await asyncio.sleep(0)
            elif not await self._arrival(request, deadline):
                break
            try:
                result = self.pull_now(request, joined=joined)
            except ColdRead:
                result = await self.pull_cold(request)
        if has_scanned and _is_at_end(request, result):
            return result._replace(status=PullStatus.NO_MATCHED_MESSAGE)
        return result

    def drain(self) -> None:
        """Answer every parked pull at once and park none any more."""
        self._is_draining = True
        for waiter in list(self._parked):
            _send_away(waiter)

    async def _arrival(self, request: PullRequest, deadline: float) -> bool:
        """Wait for the first message behind the request's offset; False when there will be none."""
        mark = self._store.arrivals(request.topic, request.queue_id)
        waiter = mark.reached(request.queue_offset + 1)
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
        return labels


def _matching(request: PullRequest, result: PullResult) -> PullResult:
    """Return what carries a wanted tag: hashes have chosen, the tags themselves decide."""
    matches_tag = request.wanted.matches_tag
    records = [record for record in result.records if matches_tag(_tag_of(record))]
    if len(records) == len(result.records):
        return result
    status = result.status if records else PullStatus.NO_MATCHED_MESSAGE
    return result._replace(status=status, records=records, record_count=len(records))


def _is_at_end(request: PullRequest, result: PullResult) -> bool:
    return request.queue_offset == result.max_offset


def _scanned_on(request: PullRequest, result: PullResult) -> bool:
    is_unmatched = result.status is PullStatus.NO_MATCHED_MESSAGE
    return is_unmatched and result.next_begin_offset > request.queue_offset


def _send_away(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


def _tag_of(record: bytes) -> str | None:
    _, _, _, _, block_begin, block_end = split_record(record, 0)
    return decode_properties(record[block_begin:block_end]).get(TAGS)
