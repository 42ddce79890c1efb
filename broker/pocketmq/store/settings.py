"""Settings of a store at opening; RocketMQ's defaults unless a reason is given."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pocketmq.model.store_shape import StoreShape

FLUSH_SYNC: Final = "sync"
"""Answer after fdatasync; consumers see durable records."""
PAGE_SIZE: Final = 4096
"""Unit of the settings in pages."""
FLUSH_ASYNC: Final = "async"
"""Answer when the record is in the log; flush by timer."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings(StoreShape):
    """The shape and the policies of one store.

    The shape holds for a new store; an existing one keeps its own unless the field is in
    `explicit`. Extension units of an existing store are read in any case.
    """

    directory: Path
    cluster: str = "DefaultCluster"
    broker: str = "broker-a"
    flush: str = FLUSH_SYNC
    flush_interval_ms: int = 500
    flush_least_pages: int = 4
    flush_thorough_interval_ms: int = 10_000
    sync_flush_timeout_ms: int = 5_000
    view_flush_interval_ms: int = 1_000
    view_flush_least_pages: int = 2
    view_flush_thorough_interval_ms: int = 10_000
    """RocketMQ: 60 s; sooner here, as it bounds the records to dispatch again after a crash."""
    busy_timeout_ms: int = 1_000
    transient_pool: bool = False
    """Append to locked memory and write it to the file in larger pieces; async flush only."""
    transient_pool_file_count: int = 5
    commit_interval_ms: int = 200
    commit_least_pages: int = 4
    commit_thorough_interval_ms: int = 200
    warm_files: bool = False
    """Touch and lock the pages of the next commit-log file before it is written to."""
    open_queue_files_max: int = 16_384
    """Consume-queue files kept open; the least used is closed for the next one. Never more than
    half of what the process may open."""
    reserve_size_bytes: int = 16 * 1024 * 1024
    """Set aside for the day the disk is full (store/write/allocation.py); never more than one
    commit-log file."""
    timer_log_file_size_bytes: int = 100 * 1024 * 1024
    timer_slot_count: int = 1_209_600
    """Slots of the timer's wheel, as RocketMQ has them; another number is for tests."""
    accept_damage: bool = False
    """Give up durable records that are damaged or gone, and continue without them."""
    explicit: frozenset[str] = frozenset()
    """Names of fields that an operator set."""

    @property
    def is_sync(self) -> bool:
        """Whether a put is answered only when it is on disk."""
        return self.flush == FLUSH_SYNC
