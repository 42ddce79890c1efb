"""Consumer lag: number of unconsumed messages of each group, and the age of the oldest.

`refresh` measures before a scrape; the gauges show its last results. Store times that have to be
read from the disk are cached; each refresh reads a few of them. `unconsumed` of model/consuming.py
defines which messages are consumed.
Source: ConsumerLagCalculator, BrokerMetricsManager.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Final, NamedTuple

from pocketmq.model.consuming import NOTHING_HELD, Held, Leased, unconsumed
from pocketmq.model.errors import DiskSlow, StorageError
from pocketmq.model.stats import Gauge, LabelValues
from pocketmq.model.system_topics import leased_topic
from pocketmq.model.topic import RETRY_PREFIX, is_system_group, is_system_topic
from pocketmq.store.read.cold_read import NowOrLater

REFRESH_INTERVAL_MS: Final = 1_000
TURN_SECONDS: Final = 0.002
"""Time after which a refresh yields to the event loop."""
COLD_READS_MAX: Final = 16
"""Upper limit of reads from the disk in one refresh."""
LABELS: Final = ("consumer_group", "topic", "is_retry", "is_system")
OFFSET_LABELS: Final = ("consumer_group", "topic", "queue_id")

Position = tuple[str, str, Mapping[int, int]]
"""(group, topic, queue id -> committed queue offset)."""


class Queues(NamedTuple):
    """Queue count of a topic, and whether a group begins at the min offset."""

    queue_count: int = 0
    begins_at_min: bool = False


class Lag:
    """Lag of each group in each topic in which the group has offsets, leases or clients.

    read_positions   returns the committed offsets of all groups
    now_ms           returns the wall time
    queue_range      returns the (min, max) queue offset of a topic's queue
    store_time_at    returns the store time in ms of the message at (topic, queue id, queue offset);
                     None: there is no message; errors: StorageError, DiskSlow
    read_leased      returns the counts of leased messages
    read_receiving   returns (group, topic) of clients that have received recently
    known            returns `Queues` for a group and a topic
    is_detailed      whether there is a gauge of the committed offset in each queue
    """

    __slots__ = (
        "_begun", "_cold_reads", "_is_detailed", "_known", "_now_ms", "_offsets", "_queue_range",
        "_read_leased", "_read_positions", "_read_receiving", "_refreshed_ms", "_shown",
        "_store_time_at", "_times", "gauges",
    )  # fmt: skip

    def __init__(
        self,
        queue_range: Callable[[str, int], tuple[int, int]],
        store_time_at: Callable[[str, int, int], NowOrLater[int | None]],
        read_positions: Callable[[], Iterable[Position]],
        now_ms: Callable[[], int],
        *,
        read_leased: Callable[[], Leased] = dict,
        read_receiving: Callable[[], Iterable[tuple[str, str]]] = list,
        known: Callable[[str, str], Queues] = lambda group, topic: Queues(),
        is_detailed: bool = False,
    ) -> None:
        self._queue_range = queue_range
        self._store_time_at = store_time_at
        self._read_positions = read_positions
        self._read_leased = read_leased
        self._read_receiving = read_receiving
        self._known = known
        self._now_ms = now_ms
        self._is_detailed = is_detailed
        self._refreshed_ms = -REFRESH_INTERVAL_MS
        self._shown = _Found()
        self._offsets: dict[LabelValues, float] = {}
        self._times: dict[tuple[str, int, int], int] = {}
        self._cold_reads: dict[tuple[str, int, int], Awaitable[int | None]] = {}
        self._begun = 0.0
        self.gauges = self._measures()
        if is_detailed:
            self.gauges.append(
                Gauge(
                    "pocketmq_consumer_offset",
                    "Queue offset a group has committed.",
                    lambda: self._offsets,
                    OFFSET_LABELS,
                )
            )

    def _measures(self) -> list[Gauge]:
        return [
            Gauge(
                "rocketmq_consumer_lag_messages",
                "Messages a group has not consumed, including those under leases.",
                lambda: self._shown.messages,
                LABELS,
            ),
            Gauge(
                "rocketmq_consumer_ready_messages",
                "Messages a group can receive now.",
                lambda: self._shown.ready,
                LABELS,
            ),
            Gauge(
                "rocketmq_consumer_inflight_messages",
                "Messages under leases, by group.",
                lambda: self._shown.leased,
                LABELS,
            ),
            Gauge(
                "rocketmq_consumer_lag_latency_milliseconds",
                "Age of the oldest message a group has not consumed.",
                lambda: self._ages(self._shown.since),
                LABELS,
            ),
            Gauge(
                "rocketmq_consumer_queueing_latency_milliseconds",
                "Age of the oldest message a group can receive now.",
                lambda: self._ages(self._shown.ready_since),
                LABELS,
            ),
        ]

    async def refresh(self) -> None:
        """Measures all groups, at most once a second.

        Cost     2 µs for each queue, and 5 µs for each queue whose offset has changed; yields to
                 the event loop every 2 ms
        """
        now_ms = self._now_ms()
        if 0 <= now_ms - self._refreshed_ms < REFRESH_INTERVAL_MS:
            return
        self._refreshed_ms = now_ms
        found = _Found()
        offsets: dict[LabelValues, float] = {}
        times: dict[tuple[str, int, int], int] = {}
        self._begun = perf_counter()
        leased = self._read_leased()
        positions = {(group, topic): row for group, topic, row in self._read_positions()}
        for group, topic in [*dict.fromkeys((*positions, *leased, *self._read_receiving()))]:
            queue_offsets, held = positions.get((group, topic), {}), leased.get((group, topic), {})
            known = self._known(group, topic)
            left = found.of(_labels(group, topic))
            self._measure(left, topic, known, queue_offsets, held, times)
            if self._is_detailed:
                for queue_id, queue_offset in queue_offsets.items():
                    offsets[group, topic, str(queue_id)] = float(queue_offset)
            await self._give_way()
        self._shown, self._offsets, self._times = found, offsets, times
        await self._fetch()

    def _measure(
        self,
        found: "_Left",
        topic: str,
        known: Queues,
        queue_offsets: Mapping[int, int],
        held: Mapping[int, Held],
        times: dict[tuple[str, int, int], int],
    ) -> None:
        for queue_id in {**queue_offsets, **held, **dict.fromkeys(range(known.queue_count))}:
            lower, upper = self._queue_range(topic, queue_id)
            begin = lower if known.begins_at_min else None
            committed, leased = queue_offsets.get(queue_id, begin), held.get(queue_id, NOTHING_HELD)
            its = unconsumed(committed, lower, upper, leased)
            assert its.ready <= its.left, "more ready messages than unconsumed ones"
            found.count += its.left
            found.leased_count += leased.total
            found.ready_count += its.ready
            if its.ready_begin < upper:
                time_ms = self._known_time((topic, queue_id, its.ready_begin), times)
                found.ready_since = _older(found.ready_since, time_ms)
            if its.begin < upper:
                time_ms = self._known_time((topic, queue_id, its.begin), times)
                found.since = _older(found.since, time_ms)

    def _known_time(
        self, place: tuple[str, int, int], times: dict[tuple[str, int, int], int]
    ) -> int | None:
        time_ms = times.get(place)
        if time_ms is None:
            time_ms = self._times.get(place)
        if time_ms is None:
            time_ms = self._time_at(*place)
        if time_ms is not None:
            times[place] = time_ms
        return time_ms

    def _time_at(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Returns a store time; 0: there is no message, None: the time is not known yet."""
        try:
            found = self._store_time_at(topic, queue_id, queue_offset)
        except StorageError:
            return None
        if not isinstance(found, Awaitable):
            return found or 0
        if len(self._cold_reads) < COLD_READS_MAX:
            self._cold_reads[topic, queue_id, queue_offset] = found
        return None

    async def _give_way(self) -> None:
        if perf_counter() - self._begun > TURN_SECONDS:
            await asyncio.sleep(0)
            self._begun = perf_counter()

    async def _fetch(self) -> None:
        cold_reads, self._cold_reads = self._cold_reads, {}
        for place, later in cold_reads.items():
            with suppress(OSError, StorageError, DiskSlow):
                self._times[place] = await later or 0

    def _ages(self, since: Mapping[LabelValues, int | None]) -> dict[LabelValues, float]:
        now_ms = self._now_ms()
        return {
            labels: float(max(now_ms - time_ms, 0)) if time_ms else 0.0
            for labels, time_ms in since.items()
            if time_ms is not None
        }


@dataclass(slots=True, eq=False)
class _Left:
    """Lag for one set of labels; times are store times in ms, 0: no message, None: unknown."""

    count: int = 0
    leased_count: int = 0
    ready_count: int = 0
    since: int | None = 0
    ready_since: int | None = 0


class _Found:
    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: dict[LabelValues, _Left] = {}

    def of(self, labels: LabelValues) -> _Left:
        """Returns the lag for labels; it is zero at first."""
        return self._left.setdefault(labels, _Left())

    @property
    def messages(self) -> dict[LabelValues, float]:
        """Number of unconsumed messages."""
        return {labels: float(left.count) for labels, left in self._left.items()}

    @property
    def ready(self) -> dict[LabelValues, float]:
        """Number of unconsumed messages without a lease."""
        return {labels: float(left.ready_count) for labels, left in self._left.items()}

    @property
    def leased(self) -> dict[LabelValues, float]:
        """Number of leased messages."""
        return {labels: float(left.leased_count) for labels, left in self._left.items()}

    @property
    def since(self) -> dict[LabelValues, int | None]:
        """Times of storage of the oldest unconsumed messages, in ms."""
        return {labels: left.since for labels, left in self._left.items()}

    @property
    def ready_since(self) -> dict[LabelValues, int | None]:
        """Times of storage of the oldest unconsumed messages without a lease, in ms."""
        return {labels: left.ready_since for labels, left in self._left.items()}


def _older(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return None
    return min(one, other) if one and other else one or other


def _labels(group: str, topic: str) -> LabelValues:
    """Returns RocketMQ's labels; a retry topic has the label of the original topic."""
    origin = leased_topic(topic, group)
    is_system = is_system_topic(origin) or is_system_group(group)
    return (group, origin, _word(topic.startswith(RETRY_PREFIX)), _word(is_system))


def _word(condition: bool) -> str:
    return "true" if condition else "false"
