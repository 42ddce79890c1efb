"""All stats of one broker: counters of its parts, and values computed for a scrape.

`Numbers.refresh` has to be awaited before `Exposition` renders a page.
Source: DefaultStoreMetricsManager, BrokerMetricsManager.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from pocketmq.metrics.endpoint import READY_STATES
from pocketmq.metrics.lag import Lag, Position, Queues
from pocketmq.metrics.text_format import Gone
from pocketmq.model.consuming import Leased
from pocketmq.model.errors import DiskSlow, StorageError
from pocketmq.model.message import StoredMessage
from pocketmq.model.stats import Gauge, Histogram, LabelValues, Stat
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import NowOrLater, value_of
from pocketmq.store.tables.durable_table import NamedTable
from pocketmq.store.tables.tables import Tables

PUBLIC: Final = "public"
FULL: Final = "full"
QUEUE_LABELS: Final = ("topic", "queue_id")
NEVER: Final = -1
REMOVED_MAX: Final = 10_000
INTERVAL_SECONDS: Final = 0.02
"""Interval between two measurements of the event loop's delay; each costs a few microseconds."""
LOOP_LAG_BUCKETS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4
)  # fmt: skip
"""Seconds; a delay of 50 ms is acceptable, on a shared machine 200 ms."""


class Numbers:
    """The stats of a broker.

    count            returns the stats of the broker's parts
    read_positions   returns the committed offsets of all groups
    read_leased      returns the counts of leased messages
    read_receiving   returns (group, topic) of clients that have received recently
    permission       returns the broker's permission bits
    detail           "full": there are series for each queue; "public": there are none
    """

    __slots__ = ("_count", "_gauges", "_gone", "_lag", "_oldest", "_store")

    def __init__(
        self,
        store: MessageStore,
        count: Callable[[], Iterable[Stat]],
        *,
        read_positions: Callable[[], Iterable[Position]],
        read_leased: Callable[[], Leased],
        read_receiving: Callable[[], Iterable[tuple[str, str]]] = list,
        permission: Callable[[], int],
        detail: str = PUBLIC,
    ) -> None:
        assert detail in (PUBLIC, FULL)
        now_ms = store.clock.wall_ms
        self._store = store
        self._count = count
        tables = store.tables
        self._gone = {"topic": Removed(tables.topics), "consumer_group": Removed(tables.groups)}
        self._oldest = Oldest(
            lambda: (store.min_offset, store.appended),
            lambda place: store.reading.message_at(place),
            now_ms,
        )
        self._lag = Lag(
            lambda *queue: store.reading.queue_range(*queue),
            lambda *place: store.reading.store_timestamp_at(*place),
            read_positions,
            now_ms,
            read_leased=read_leased,
            read_receiving=lambda: [*read_receiving(), *retries_of_groups(tables)],
            known=lambda group, topic: known_queues(tables, group, topic),
            is_detailed=detail == FULL,
        )
        self._gauges = [*storage_gauges(store, self._oldest, permission), *self._lag.gauges]
        if detail == FULL:
            self._gauges += queue_gauges(store)

    def stats(self) -> list[Stat]:
        """Returns all stats."""
        return [*self._store.stats, *self._count(), *self._gauges]

    def gone(self) -> Gone:
        """Returns removed topics and groups by label."""
        return {label: one.names for label, one in self._gone.items() if one.names}

    async def refresh(self) -> None:
        """Updates the age of the oldest message and the lag, if the store is open."""
        if self._store.state in READY_STATES:
            await self._oldest.refresh()
            await self._lag.refresh()


def known_queues(tables: Tables, group: str, topic: str) -> Queues:
    """Returns a topic's queue count, and whether a group begins at the min offset.

    Queues where it does not, and has no offset, count as consumed.
    """
    config = tables.topics.find(topic)
    return Queues(0 if config is None else config.queue_count, tables.begins_at_first(group, topic))


def retries_of_groups(tables: Tables) -> list[tuple[str, str]]:
    """Returns (group, retry topic) for each topic in which a group has offsets."""
    return [
        (group, name)
        for group, topic, _ in tables.offsets.positions()
        for name in tables.retry_topics(group, topic)
    ]


class Removed:
    """Names that were removed from a table since the broker started, and not added again.

    names   at most REMOVED_MAX names, the last removed name at the end
    """

    __slots__ = ("_table", "names")

    def __init__(self, table: NamedTable[Any]) -> None:
        self._table = table
        self.names: dict[str, None] = {}
        table.follow(self._take)

    def _take(self, name: str) -> None:
        self.names.pop(name, None)
        if self._table.find(name) is None:
            self.names[name] = None
            if len(self.names) > REMOVED_MAX:
                del self.names[next(iter(self.names))]
        assert len(self.names) <= REMOVED_MAX, "too many names"


class Oldest:
    """The age of a log's oldest message.

    log_range    returns [begin, end) of the log, as physical offsets
    message_at   returns the message at a physical offset; None: there is no message; errors:
                 StorageError, DiskSlow
    """

    __slots__ = ("_log_range", "_message_at", "_now_ms", "_physical_offset", "_stored_ms")

    def __init__(
        self,
        log_range: Callable[[], tuple[int, int]],
        message_at: Callable[[int], NowOrLater[StoredMessage | None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._log_range = log_range
        self._message_at = message_at
        self._now_ms = now_ms
        self._physical_offset = NEVER
        self._stored_ms = 0

    async def refresh(self) -> None:
        """Reads the store time of the oldest message, if the begin of the log has changed."""
        begin, end = self._log_range()
        assert begin <= end
        if self._physical_offset == begin or begin == end:
            return
        try:
            oldest = await value_of(self._message_at(begin))
        except (StorageError, DiskSlow, OSError):
            oldest = None
        if oldest is not None:
            self._physical_offset, self._stored_ms = begin, oldest.store_timestamp_ms

    def age_ms(self) -> int:
        """Returns the age of the oldest message in ms, 0 if it is unknown."""
        return max(self._now_ms() - self._stored_ms, 0) if self._stored_ms else 0


def storage_gauges(
    store: MessageStore, oldest: Oldest, permission: Callable[[], int]
) -> list[Gauge]:
    """Returns gauges of an open store's disk, files and tables."""

    rows: tuple[tuple[str, str, Callable[[], int]], ...] = (
        (
            "rocketmq_storage_size_bytes",
            "Used bytes of the file system that holds the store.",
            lambda: store.disk_space()[1],
        ),
        (
            "pocketmq_disk_free_bytes",
            "Bytes the broker may still write.",
            lambda: store.disk_space()[2],
        ),
        (
            "pocketmq_disk_total_bytes",
            "Used and free bytes of the file system.",
            lambda: sum(store.disk_space()[1:]),
        ),
        (
            "rocketmq_storage_message_reserve_time_milliseconds",
            "Age of the oldest message.",
            oldest.age_ms,
        ),
        ("rocketmq_topic_number", "Topics.", lambda: len(store.tables.topics.names())),
        (
            "rocketmq_consumer_group_number",
            "Consumer groups.",
            lambda: len(store.tables.groups.names()),
        ),
        (
            "rocketmq_broker_permission",
            "Permission of the broker: 4 read, 2 write, or their sum.",
            permission,
        ),
        ("pocketmq_mapped_files", "Files that are mapped.", lambda: store.views.mapped()[0]),
        ("pocketmq_mapped_bytes", "Length of all mapped files.", lambda: store.views.mapped()[1]),
    )
    return [_gauge(*row) for row in rows]


def _gauge(name: str, help: str, read: Callable[[], int]) -> Gauge:
    return Gauge(name, help, lambda: float(read()))


def queue_gauges(store: MessageStore) -> list[Gauge]:
    """Returns gauges of every queue."""

    def by_queue(bound: str) -> dict[LabelValues, float]:
        queues = store.views.queues.queues.items()
        return {(topic, str(number)): float(getattr(q, bound)) for (topic, number), q in queues}

    return [
        Gauge(
            "pocketmq_queue_min_offset",
            "First queue offset that still exists.",
            lambda: by_queue("min_offset"),
            QUEUE_LABELS,
        ),
        Gauge(
            "pocketmq_queue_max_offset",
            "Queue offset of the next message.",
            lambda: by_queue("max_offset"),
            QUEUE_LABELS,
        ),
    ]


class LoopLag:
    """Measures how late the event loop runs a timer; each call of a client waits about as long."""

    __slots__ = ("_timer", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(
            "pocketmq_event_loop_lag_seconds",
            "Delay of the event loop after a timer was due.",
            LOOP_LAG_BUCKETS,
        )
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts measuring on the running event loop."""
        loop = asyncio.get_running_loop()
        self._plan(loop, loop.time())

    def end(self) -> None:
        """Stops measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        due = now + INTERVAL_SECONDS
        assert due > now
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self.seconds.observe(max(now - due, 0.0))
        self._plan(loop, now)
