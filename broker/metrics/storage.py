"""What metrics show of a store beside its own stats: disk, files, tables, its oldest message.

Read at the scrape from what the store knows anyhow. The store time of the oldest message is read
by `Oldest.refresh`, once for each oldest message, off the event loop where it lies on the disk.
Source: DefaultStoreMetricsManager, BrokerMetricsManager.
"""

from collections.abc import Callable
from typing import Final

from broker.model.errors import DiskSlow, StorageError
from broker.model.message import StoredMessage
from broker.model.stats import Gauge, LabelValues
from broker.store.message_store import MessageStore
from broker.store.reading.patience import NowOrLater, value_of

QUEUE_LABELS: Final = ("topic", "queue_id")
NEVER: Final = -1


class Oldest:
    """The age of a log's oldest message.

    log_range    returns [begin, end) of the log, as physical offsets
    message_at   returns the message at a physical offset, None when there is none; StorageError,
                 DiskSlow
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
        """Learn the store time of the oldest message when it is another than before."""
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
        """Return how old it is, 0 while that is unknown."""
        return max(self._now_ms() - self._stored_ms, 0) if self._stored_ms else 0


def storage_gauges(store: MessageStore, oldest: Oldest, permission: int) -> list[Gauge]:
    """Return gauges of a store's disk, files and tables; they can be read once it is open.

    permission   the broker's: 4 read, 2 write
    """

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
            "What the broker allows: 4 read, 2 write, or their sum.",
            lambda: permission,
        ),
        ("pocketmq_mapped_files", "Files that are mapped.", lambda: store.views.mapped()[0]),
        ("pocketmq_mapped_bytes", "Length of all mapped files.", lambda: store.views.mapped()[1]),
    )
    return [_gauge(*row) for row in rows]


def _gauge(name: str, help: str, read: Callable[[], int]) -> Gauge:
    return Gauge(name, help, lambda: float(read()))


def queue_gauges(store: MessageStore) -> list[Gauge]:
    """Return gauges of every queue."""

    def by_queue(bound: str) -> dict[LabelValues, float]:
        queues = store.views.queues.queues.items()
        return {(topic, str(number)): float(getattr(q, bound)) for (topic, number), q in queues}

    return [
        Gauge(
            "pocketmq_queue_min_offset",
            "First queue offset still there.",
            lambda: by_queue("min_offset"),
            QUEUE_LABELS,
        ),
        Gauge(
            "pocketmq_queue_max_offset",
            "Queue offset of the next one.",
            lambda: by_queue("max_offset"),
            QUEUE_LABELS,
        ),
    ]
