"""Settings of a store; the defaults are RocketMQ's unless a reason is given."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pocketmq.model.store_shape import StoreShape

FLUSH_SYNC: Final = "sync"
"""Puts are acknowledged after fdatasync; consumers see only durable records."""
PAGE_SIZE: Final = 4096
FLUSH_ASYNC: Final = "async"
"""Puts are acknowledged once the record is in the log, which is flushed periodically."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings(StoreShape):
    """The shape of one store, and the settings of its operation.

    An existing store keeps its shape, except for fields in `explicit`.
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
    """RocketMQ's default is 60 s; with 10 s, fewer records are dispatched again after a crash."""
    busy_timeout_ms: int = 1_000
    transient_pool: bool = False
    """Whether records are appended to locked memory, and written to files in larger pieces; async
    flush only."""
    transient_pool_file_count: int = 5
    commit_interval_ms: int = 200
    commit_least_pages: int = 4
    commit_thorough_interval_ms: int = 200
    warm_files: bool = False
    """Whether the pages of the next commit-log file are touched and locked before it is used."""
    open_queue_files_max: int = 16_384
    """Upper limit of open consume-queue files; at most half of the process's limit of files."""
    reserve_size_bytes: int = 16 * 1024 * 1024
    """Disk space that is released when the disk is full; at most the size of a commit-log file."""
    timer_log_file_size_bytes: int = 100 * 1024 * 1024
    timer_slot_count: int = 1_209_600
    """Slots of the timer wheel, as in RocketMQ; tests use other numbers."""
    accept_damage: bool = False
    """Whether a start abandons durable records that are damaged or missing."""
    leader: str = ""
    """"host:port" of the broker whose log this store copies; "": puts are accepted."""
    in_sync_replicas: int = 1
    """Number of brokers, this one included, that have a message before it is acknowledged."""
    ack_timeout_ms: int = 3_000
    explicit: frozenset[str] = frozenset()

    @property
    def is_sync(self) -> bool:
        """Whether a put is acknowledged only once it is on this disk.

        A leader that lost what its followers have would give the same offsets to other messages.
        """
        return self.flush == FLUSH_SYNC or self.is_replicated

    @property
    def is_replicated(self) -> bool:
        """Whether a put is acknowledged, and seen by consumers, only once followers have it."""
        return self.in_sync_replicas > 1 and not self.leader

    @property
    def is_bounded(self) -> bool:
        """Whether consumers see a record only once enough followers have it.

        On a follower, they see it once the leader has confirmed it.
        """
        return bool(self.leader) or self.is_replicated

    @property
    def waits(self) -> bool:
        """Whether a put is acknowledged later than it is appended."""
        return self.is_sync or self.is_replicated
