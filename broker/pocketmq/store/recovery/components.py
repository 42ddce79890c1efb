"""The components of one store, which are built under the store's lock and closed together.

Building does not load the log and the views: a start (store/recovery/start.py) does.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import close_all
from pocketmq.files.memory import TransientPool
from pocketmq.files.open_files import OpenFiles
from pocketmq.filter.subscriptions import NO_BITS, FilterBits, read_subscriptions
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.format.deleted_topics import NOTHING_LEFT_OVER
from pocketmq.format.index_layout import IndexGeometry, StyleSpans
from pocketmq.format.names import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    LEFT_OVER_FILE,
    MARK_FILE,
    SUBSCRIPTIONS_FILE,
    zone_from_name,
)
from pocketmq.log.checkpoint import FlushedMark, QueueEnds, StoreCheckpoint
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue_table import NONE_REMOVED, ConsumeQueueTable
from pocketmq.log.deleted_topics import find_left_over
from pocketmq.log.foreign import batch_topics, check_understood
from pocketmq.log.hash_index import HashIndex
from pocketmq.log.index_style import written_styles
from pocketmq.log.queue_extension import ExtensionFiles, no_bitmap
from pocketmq.log.store_directory import (
    BEHIND_SIZE,
    ClosedState,
    ManifestFile,
    StoreDirectory,
    StoreManifest,
)
from pocketmq.model.errors import IllegalConfig
from pocketmq.model.message import QueueKey
from pocketmq.store.recovery.geometry import fit_to_disk
from pocketmq.store.settings import FLUSH_SYNC, StoreSettings

LOG_FILES_OPEN_MAX: Final = 64
logger = logging.getLogger(__name__)


def _transient_pool(settings: StoreSettings, disk: Disk) -> TransientPool | None:
    if not settings.transient_pool:
        return None
    if settings.flush == FLUSH_SYNC:
        why = 'it needs store.flush = "async": with sync a send waits for the disk, not for memory'
        raise IllegalConfig(field="store.transient_pool", why=why)
    pool = TransientPool(
        disk.memory,
        size_bytes=settings.commit_log_file_size_bytes,
        count=settings.transient_pool_file_count,
    )
    if not pool.is_locked:
        logger.warning("transient_pool.unlocked", extra={"limit": "RLIMIT_MEMLOCK"})
    return pool


def _views(
    settings: StoreSettings,
    disk: Disk,
    keeper: OpenFiles,
    removed: Mapping[QueueKey, int],
    batch_topics: frozenset[str],
    bitmap_of: Callable[[str, int, int], bytes] = no_bitmap,
) -> tuple[ConsumeQueueTable, HashIndex]:
    root = settings.directory
    queues = ConsumeQueueTable(
        disk,
        root / CONSUME_QUEUE_DIRECTORY,
        settings.consume_queue_file_size_bytes,
        keeper,
        ExtensionFiles(
            root / CONSUME_QUEUE_EXTENSION_DIRECTORY,
            settings.consume_queue_extension_file_size_bytes,
            settings.consume_queue_extension,
            bitmap_of,
        ),
        removed,
        batch_topics,
    )
    index = HashIndex(
        disk,
        root / INDEX_DIRECTORY,
        IndexGeometry.of(settings),
        style=settings.index_style,
        zone=zone_from_name(settings.time_zone),
    )
    return queues, index


def _filter_bits(settings: StoreSettings, disk: Disk) -> FilterBits:
    path = settings.directory / CONFIG_DIRECTORY / SUBSCRIPTIONS_FILE
    if not settings.consume_queue_extension or not disk.exists(path):
        return NO_BITS
    try:
        return read_subscriptions(disk.read_file(path))
    except ValueError as error:
        logger.warning("subscriptions.unreadable", extra={"path": str(path), "why": str(error)})
        return NO_BITS


class StoreComponents:
    """Log, views, checkpoint, mark and manifest of a store that is locked by this process."""

    __slots__ = (
        "batch_topics", "checkpoint", "directory", "disk", "ends", "filter_bits", "index",
        "left_over", "levels", "log", "log_files", "made_here", "manifest", "manifest_file",
        "mark", "queue_files", "queues", "settings", "was_aborted",
    )  # fmt: skip

    def __init__(
        self, settings: StoreSettings, disk: Disk, removed: Mapping[QueueKey, int] = NONE_REMOVED
    ) -> None:
        self.disk = disk
        self.directory = StoreDirectory(disk, settings.directory)
        # With a mark, a missing log is damage. The start checks whether the mark is valid.
        is_marked = disk.exists(self.directory.own_directory / MARK_FILE)
        check_understood(disk, settings.directory, may_lack_log=is_marked)
        self.directory.acquire()
        try:
            self._build(settings, disk, removed)
        except BaseException:
            self.directory.release()
            raise

    def _build(self, settings: StoreSettings, disk: Disk, removed: Mapping[QueueKey, int]) -> None:
        root, own = settings.directory, self.directory.own_directory
        self.was_aborted = self.directory.was_aborted()
        self.manifest_file = ManifestFile(disk, own)
        self.manifest: StoreManifest | None = self.manifest_file.read()
        self.settings = settings = fit_to_disk(settings, self.manifest, disk)
        self.made_here = self.manifest is None or self.manifest.made_here
        """Whether PocketMQ created the store; without a manifest, known once the log is loaded."""
        self.levels = settings.levels
        self.left_over = NOTHING_LEFT_OVER
        self.log_files = OpenFiles(LOG_FILES_OPEN_MAX)
        self.log = CommitLog(
            disk,
            root / COMMIT_LOG_DIRECTORY,
            settings.commit_log_file_size_bytes,
            property_crc=settings.property_crc,
            keeper=self.log_files,
            pool=_transient_pool(settings, disk),
            warm=settings.warm_files,
        )
        self.filter_bits = _filter_bits(settings, disk)
        self.queue_files = OpenFiles(min(settings.open_queue_files_max, disk.open_files_max() // 2))
        self.batch_topics = batch_topics(disk, root)
        """Topics of RocketMQ's batch queues, for which no consume queue is built."""
        self.queues, self.index = _views(
            settings, disk, self.queue_files, removed, self.batch_topics, self._bitmap_of
        )
        self.checkpoint = StoreCheckpoint(disk, root / CHECKPOINT_FILE)
        self.mark = FlushedMark(disk, own)
        self.ends = QueueEnds(disk, own)

    def _bitmap_of(self, topic: str, physical_offset: int, size: int) -> bytes:
        if not self.filter_bits.has(topic):
            return b""
        return self.filter_bits.bitmap(topic, self.log.read(physical_offset, size))

    def check_views(self) -> None:
        """Loads the views read-only, to raise their errors before anything is changed.

        Errors   NotAStore, WrongFileSize, ReadFailed
        Cost     listing all files, and reading the end of every queue
        """
        keeper = OpenFiles(LOG_FILES_OPEN_MAX)
        views = _views(self.settings, self.disk, keeper, NONE_REMOVED, self.batch_topics)
        try:
            for view in views:
                view.load(read_only=True)
        finally:
            close_all(view.close for view in views)

    def written_styles(self) -> tuple[StyleSpans, str | None]:
        """Returns the styles of the keys in the existing index (log/index_style.py)."""
        return written_styles(
            self.disk,
            self.settings.directory,
            log_file_bytes=self.log.file_size_bytes,
            geometry=self.index.geometry,
        )

    def distrust(self, physical_offset: int) -> None:
        """Saves that units from a physical offset on have to be rebuilt after a crash; durable."""
        before = self.checkpoint.values
        values = before._replace(logics_physical_offset=physical_offset)
        if self.mark.valid_upto(encode_checkpoint(before)) is not None:
            self.mark.write(self.mark.flushed_upto, encode_checkpoint(values))
            self.mark.sync()
        self.checkpoint.save(values)

    def was_left_in_order(self, mark: int | None) -> bool:
        """Returns whether the last run ended in order; its abort mark may still exist.

        mark   flushed offset; None without a valid mark
        """
        closed = self.manifest.closed if self.manifest is not None else None
        if not self.was_aborted or closed is None:
            return not self.was_aborted
        behind = self.log.read(closed.log_end, BEHIND_SIZE)
        return closed.is_last_word(self.checkpoint.content, mark, behind)

    @property
    def listed_at_stop(self) -> ClosedState:
        """Ends of the views at the last orderly stop; the manifest must contain them."""
        assert self.manifest is not None
        assert self.manifest.closed is not None
        return self.manifest.closed

    @property
    def keeps_left_over(self) -> bool:
        """Whether the store is a copy with a list of records of deleted topics."""
        return self.disk.exists(self.own_directory / LEFT_OVER_FILE)

    def find_left_over(self, upto: int) -> None:
        """Finds records of deleted topics, before queues are rebuilt from the log."""
        closed = self.manifest.closed if self.manifest is not None else None
        known = closed.queues if closed is not None else ()
        self.left_over = find_left_over(
            self.disk, self.settings.directory, self.log.file_size_bytes, upto, known
        )

    def write_manifest(self, closed: ClosedState | None) -> None:
        """Replaces the manifest; blocks."""
        log_end = self.log.appended if closed is None else closed.log_end
        assert log_end == self.log.appended
        self.manifest = StoreManifest.with_shape(
            self.settings,
            cluster=self.settings.cluster,
            broker=self.settings.broker,
            made_here=self.made_here,
            property_crc_from=self.log.property_crc_from,
            closed=closed,
        )
        self.manifest_file.write(self.manifest)

    def closed_state(self) -> ClosedState:
        """Returns the present ends of the views, for the manifest."""
        queues: dict[str, dict[str, list[int]]] = {}
        for (topic, queue_id), queue in sorted(self.queues.queues.items()):
            queues.setdefault(topic, {})[str(queue_id)] = [queue.unit_min, queue.max_offset]
        return ClosedState(
            log_end=self.log.appended,
            checkpoint=self.checkpoint.content.hex(),
            queues=queues,
            index_files=[file.path.name for file in self.index.files],
        )

    @property
    def own_directory(self) -> Path:
        """Directory of PocketMQ's own files."""
        return self.directory.own_directory

    def close(self) -> None:
        """Closes all files and releases the lock."""
        pool = [] if self.log.pool is None else [self.log.pool.close]
        views, small = (self.index, self.queues), (self.checkpoint, self.mark)
        close_all(
            [
                *(view.close for view in views),
                self.log.close,
                *pool,
                *(file.close for file in small),
                self.directory.release,
            ]
        )
