"""What metrics show of a store beside its own stats: disk, files, tables, its oldest message.

Read at the scrape from what the store knows anyhow. The store time of the oldest message is read
by `refresh`, once for each oldest message, off the event loop where it lies on the disk.
Source: DefaultStoreMetricsManager, BrokerMetricsManager.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

from broker.model.cold_read import ColdRead
from broker.model.errors import StorageError
from broker.model.message import StoredMessage
from broker.model.stats import Gauge, LabelValues

QUEUE_LABELS: Final = ("topic", "queue_id")
NEVER: Final = -1


class Files(Protocol):
    """Files that are mapped."""

    @property
    def count(self) -> int:
        """How many."""

    @property
    def size_bytes(self) -> int:
        """Their length."""


class Names(Protocol):
    """A table of topics or groups."""

    def names(self) -> list[str]:
        """Return all names."""


class NumberedStore(Protocol):
    """The numbers of a store that is open."""

    @property
    def min_offset(self) -> int:
        """Physical offset of the oldest file."""

    @property
    def appended(self) -> int:
        """Physical offset behind the last record."""

    def disk_space(self) -> tuple[str, int, int]:
        """Return (path, bytes used, bytes usable) of the file system."""

    def message_at(self, physical_offset: int, /) -> StoredMessage | None:
        """Return the record that starts at an offset.

        Errors   StorageError, ColdRead
        """


class Storage:
    """Gauges of a store's disk, files and tables.

    find_files   the groups of mapped files
    permission   the broker's: 4 read, 2 write
    """

    __slots__ = ("_now_ms", "_oldest", "_oldest_time", "_store", "gauges")

    def __init__(
        self,
        store: NumberedStore,
        now_ms: Callable[[], int],
        *,
        topics: Names,
        groups: Names,
        find_files: Callable[[], Iterable[Files]],
        permission: int,
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._oldest = NEVER
        self._oldest_time = 0
        self.gauges = [
            *self._disk_gauges(),
            Gauge(
                "rocketmq_storage_message_reserve_time_milliseconds",
                "Age of the oldest message.",
                self._reserve_ms,
            ),
            Gauge("rocketmq_topic_number", "Topics.", lambda: float(len(topics.names()))),
            Gauge(
                "rocketmq_consumer_group_number",
                "Consumer groups.",
                lambda: float(len(groups.names())),
            ),
            Gauge(
                "rocketmq_broker_permission",
                "What the broker allows: 4 read, 2 write, or their sum.",
                lambda: float(permission),
            ),
            Gauge(
                "pocketmq_mapped_files",
                "Files that are mapped.",
                lambda: float(sum(files.count for files in find_files())),
            ),
            Gauge(
                "pocketmq_mapped_bytes",
                "Length of all mapped files.",
                lambda: float(sum(files.size_bytes for files in find_files())),
            ),
        ]

    def _disk_gauges(self) -> list[Gauge]:
        def used() -> float:
            return float(self._store.disk_space()[1])

        def free() -> float:
            return float(self._store.disk_space()[2])

        def total() -> float:
            return float(sum(self._store.disk_space()[1:]))

        return [
            Gauge(
                "rocketmq_storage_size_bytes",
                "Used bytes of the file system that holds the store.",
                used,
            ),
            Gauge("pocketmq_disk_free_bytes", "Bytes the broker may still write.", free),
            Gauge("pocketmq_disk_total_bytes", "Used and free bytes of the file system.", total),
        ]

    async def refresh(self) -> None:
        """Learn the store time of the oldest message when it is another than before."""
        lower = self._store.min_offset
        if self._oldest == lower or lower >= self._store.appended:
            return
        try:
            oldest = self._store.message_at(lower)
        except ColdRead as cold:
            with suppress(OSError):
                await asyncio.to_thread(cold.fetch)
            return
        except StorageError:
            oldest = None
        if oldest is not None:
            self._oldest, self._oldest_time = lower, oldest.store_timestamp_ms

    def _reserve_ms(self) -> float:
        return float(max(self._now_ms() - self._oldest_time, 0)) if self._oldest_time else 0.0


def queue_gauges(
    read_ranges: Callable[[], Iterable[tuple[str, int, int, int]]],
) -> list[Gauge]:
    """Return gauges of every queue, from rows (topic, queue id, min, max queue offset)."""

    def lowest() -> dict[LabelValues, float]:
        return {(row[0], str(row[1])): float(row[2]) for row in read_ranges()}

    def highest() -> dict[LabelValues, float]:
        return {(row[0], str(row[1])): float(row[3]) for row in read_ranges()}

    return [
        Gauge("pocketmq_queue_min_offset", "First queue offset still there.", lowest, QUEUE_LABELS),
        Gauge("pocketmq_queue_max_offset", "Queue offset of the next one.", highest, QUEUE_LABELS),
    ]
