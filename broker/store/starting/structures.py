"""The structures of one store, built and opened together.

Opening: lock, manifest and sizes, log, queues, checkpoint, index, mark; then recovery makes them
agree. Closing is the mirror image.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.files.closing import close_all
from broker.files.disk import Disk
from broker.files.open_files import OpenFiles
from broker.files.transient_pool import TransientPool
from broker.format.checkpoint_layout import encode_checkpoint
from broker.format.index_layout import IndexGeometry
from broker.format.names import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    zone_from_name,
)
from broker.log.checkpoint import Checkpoint
from broker.log.commit_log import CommitLog
from broker.log.consume_queue_table import NO_ENDS, ConsumeQueueTable, Extension
from broker.log.flushed_mark import FlushedMark
from broker.log.hash_index import HashIndex
from broker.log.index_style import writer_style
from broker.log.queue_ends import QueueEnds
from broker.log.store_directory import StoreDirectory
from broker.log.store_manifest import ClosedState, ManifestFile, StoreManifest
from broker.model.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from broker.model.errors import Corruption, IllegalConfig
from broker.model.offsets import OFFSET_MAX, QueueKey
from broker.store.settings import FLUSH_SYNC, StoreSettings
from broker.store.starting.completeness import missing_from_list, missing_from_log
from broker.store.starting.geometry import settle_sizes
from broker.store.starting.recovery import Beliefs, Recovery

LOG_FILES_OPEN_MAX: Final = 64
"""Commit-log files mapped at once; old ones are read without a map, or one after the other."""
RENEWED_MAX: Final = 64 * 1024 * 1024
"""Without a mark this much of the log is made durable once more after a crash: other brokers flush
what is older."""

VIEW_SIZES: Final = (
    "consume_queue_file_size_bytes",
    "consume_queue_extension_file_size_bytes",
    "index_slot_count",
    "index_entry_count_max",
)
"""Settings that decide how long the files of queues and index are."""

logger = logging.getLogger(__name__)


def _transient_pool(settings: StoreSettings, disk: Disk) -> TransientPool | None:
    """Return the pool a store is to have.

    Errors   IllegalConfig: what is acknowledged in sync mode lies on disk, not in a buffer
    """
    if not settings.transient_pool:
        return None
    if settings.flush == FLUSH_SYNC:
        why = 'it needs store.flush = "async": with sync a send waits for the disk, not for memory'
        raise IllegalConfig(field="store.transient_pool", why=why)
    pool = TransientPool(
        disk,
        size_bytes=settings.commit_log_file_size_bytes,
        count=settings.transient_pool_file_count,
    )
    if not pool.is_locked:
        logger.warning("transient_pool.unlocked", extra={"limit": "RLIMIT_MEMLOCK"})
    return pool


class Structures:
    """Log, views, checkpoint, mark and manifest of a store that is locked by this process."""

    __slots__ = (
        "_disk", "checkpoint", "directory", "ends", "index", "levels", "log", "log_files",
        "made_here", "manifest", "manifest_file", "mark", "queue_files", "queues", "recovery",
        "settings", "was_aborted",
    )  # fmt: skip

    def __init__(self, settings: StoreSettings, disk: Disk) -> None:
        self._disk = disk
        self.directory = StoreDirectory(disk, settings.directory)
        self.directory.acquire()
        try:
            self._build(settings, disk)
        except BaseException:
            self.directory.release()
            raise

    def _build(self, settings: StoreSettings, disk: Disk) -> None:
        root, own = settings.directory, self.directory.own_directory
        self.was_aborted = self.directory.was_aborted()
        self.manifest_file = ManifestFile(disk, own)
        self.manifest: StoreManifest | None = self.manifest_file.read()
        self.settings = settings = settle_sizes(settings, self.manifest, disk)
        geometry = IndexGeometry(settings.index_slot_count, settings.index_entry_count_max)
        self.levels = DelayLevels(settings.delay_levels or DEFAULT_DELAY_LEVELS)
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
        self.queue_files = OpenFiles(min(settings.open_queue_files_max, disk.open_files_max() // 2))
        self.queues = ConsumeQueueTable(
            disk,
            root / CONSUME_QUEUE_DIRECTORY,
            settings.consume_queue_file_size_bytes,
            self.queue_files,
            Extension(
                root / CONSUME_QUEUE_EXTENSION_DIRECTORY,
                settings.consume_queue_extension_file_size_bytes,
                settings.consume_queue_extension,
            ),
        )
        self.index = HashIndex(
            disk,
            root / INDEX_DIRECTORY,
            geometry,
            style=settings.index_style,
            zone=zone_from_name(settings.time_zone),
        )
        self.checkpoint = Checkpoint(disk, root / CHECKPOINT_FILE)
        self.mark = FlushedMark(disk, own)
        self.ends = QueueEnds(disk, own)
        self.recovery = Recovery(disk, root, self.log, self.queues, self.index, self.levels)
        self.recovery.disbelieve = self._disbelieve

    def recover(self, now_ms: int = 0) -> Iterator[float]:
        """Load everything and make it agree, yielding the share done between bounded pieces.

        Effects  where the log is damaged below what was durable, `recovery.damage` is set, and
                 checkpoint, mark and manifest stay as they were
        Errors   NotAStore, WrongFileSize, StoreGap: nothing was changed;
                 Corruption: a queue is not as its table says, the next start reads all queues
        """
        try:
            yield from self._recover(now_ms)
        except (Corruption, FileNotFoundError):
            if self.queues.doubtful:
                self.ends.remove()
            raise

    def _recover(self, now_ms: int) -> Iterator[float]:
        self.recovery.numbers.enter("load")
        self.log.load()
        self.checkpoint.load()
        self.mark.open()
        checkpoint_bytes = encode_checkpoint(self.checkpoint.values)
        mark = self.mark.valid_upto(checkpoint_bytes)
        knows_size = self._knows_view_sizes()
        believed_upto = self._durable_units_upto(mark)
        knows_ends = self.was_aborted and believed_upto > 0
        self.queues.load(
            believed_upto=believed_upto,
            knows_size=knows_size,
            ends=self.ends.load(checkpoint_bytes) if knows_ends else NO_ENDS,
        )
        self.index.load(knows_size=knows_size)
        is_found = self.manifest is None and bool(self.log.files.files)
        self.made_here = not is_found if self.manifest is None else self.manifest.made_here
        self._settle_style()
        values = self.checkpoint.values
        from_min = self._drop_incomplete(checkpoint_bytes)
        self.queues.finish_removals()
        is_foreign = mark is None
        yield from self.recovery.steps(
            Beliefs(
                views_upto=values.logics_physical_offset if self.was_aborted else None,
                sealed_time=values.index_msg_timestamp if self.was_aborted and is_foreign else None,
                mark=mark,
                from_min=from_min,
                accept_damage=self.settings.accept_damage,
                now_ms=now_ms,
            )
        )
        self.recovery.numbers.enter("settle")
        self.queues.correct_min(self.log.min_offset)
        if self.settings.property_crc:
            before = self.manifest.property_crc_from if self.manifest is not None else None
            self.log.property_crc_from = self.log.appended if before is None else before
        if self.recovery.damage is None:
            may_wait = self.was_aborted and mark is not None and not from_min
            self._settle_checkpoint(may_wait=may_wait)

    def _durable_units_upto(self, mark: int | None) -> int:
        """Return the physical offset below which every record's unit is durable, 0: not known."""
        if mark is None:
            return 0
        return self.checkpoint.values.logics_physical_offset if self.was_aborted else OFFSET_MAX

    def _knows_view_sizes(self) -> bool:
        """Return whether the views' files have the lengths that this broker gave them."""
        found, settings = self.manifest, self.settings
        return found is not None and all(
            getattr(found, name) == getattr(settings, name) for name in VIEW_SIZES
        )

    def _settle_style(self) -> None:
        """Go on in the style the index was written in, unless told otherwise."""
        if self.manifest is None and "index_style" not in self.settings.explicit:
            style = writer_style(
                self._disk,
                self.settings.directory,
                log_file_bytes=self.log.file_size_bytes,
                geometry=self.index.geometry,
            )
            self.index.style = style or self.index.style
            self.settings = replace(self.settings, index_style=self.index.style)

    def _drop_incomplete(self, checkpoint_bytes: bytes) -> bool:
        """Remove views that lack something; returns whether queues are built from the log's min."""
        closed = self.manifest.closed if self.manifest is not None else None
        self.queues.correct_min(self.log.min_offset)
        lacking: set[QueueKey] = set()
        index_lacks = False
        if closed is not None and closed.checkpoint == checkpoint_bytes.hex():
            lacking, index_lacks = missing_from_list(closed, self.queues, self.index)
        elif not self.was_aborted:
            lacking, index_lacks = missing_from_log(self.log, self.queues, self.index, self.levels)
        lacking |= self.queues.damaged
        index_lacks |= self.index.is_damaged
        for topic, queue_id in sorted(lacking):
            logger.warning("consume_queue.incomplete", extra={"topic": topic, "queue_id": queue_id})
        if lacking and self.was_aborted:
            self._disbelieve(0)
        self.queues.remove(lacking)
        if index_lacks:
            logger.warning("index.incomplete", extra={"files": len(self.index.files)})
            self.index.remove_all()
        return bool(lacking)

    def _disbelieve(self, physical_offset: int) -> None:
        """Let a crash believe no unit from an offset on: they go, and are not built again yet."""
        checkpoint_bytes = encode_checkpoint(self.checkpoint.values)
        values = self.checkpoint.values._replace(logics_physical_offset=physical_offset)
        if self.mark.valid_upto(checkpoint_bytes) is not None:
            self.mark.write(self.mark.flushed_upto, encode_checkpoint(values))
            self.mark.sync()
        self.checkpoint.save(values)

    def _settle_checkpoint(self, *, may_wait: bool) -> None:
        """Write down what recovery found, so that the next crash starts from there.

        Views are synced first: the checkpoint describes durable things only. Where many queues are
        dirty, and the checkpoint there is still holds, a running store does both instead.
        """
        if self.was_aborted:
            self.log.renew(max(self.mark.flushed_upto, self.log.appended - RENEWED_MAX))
        end, values = self.log.appended, self.checkpoint.values
        last, time_ms = self.recovery.last_record, self.recovery.last_time
        self.index.flush()
        may_wait = may_wait and values.logics_physical_offset <= last
        is_left = may_wait and self.queues.has_much_to_sync
        if not is_left:
            self.queues.flush()
        self.ends.rows = self.queues.ends()
        if end and not is_left:
            values = values._replace(
                physic_msg_timestamp=time_ms or values.physic_msg_timestamp,
                logics_msg_timestamp=time_ms or values.logics_msg_timestamp,
                index_msg_timestamp=self.index.sealed_time or values.index_msg_timestamp,
                confirm_physical_offset=last,
                logics_physical_offset=last,
            )
            if self.ends.load(encode_checkpoint(values)) != self.ends.rows:
                self.ends.save(encode_checkpoint(values), self.ends.rows)
        self.mark.write(end, encode_checkpoint(values))
        self.mark.sync()
        self.checkpoint.save(values)  # Until here the other half of the mark counts.
        self.write_manifest(None)

    def write_manifest(self, closed: ClosedState | None) -> None:
        """Replace the manifest; blocks."""
        settings = self.settings
        self.manifest = StoreManifest(
            commit_log_file_size_bytes=settings.commit_log_file_size_bytes,
            consume_queue_file_size_bytes=settings.consume_queue_file_size_bytes,
            index_slot_count=settings.index_slot_count,
            index_entry_count_max=settings.index_entry_count_max,
            index_style=settings.index_style,
            time_zone=settings.time_zone,
            cluster=settings.cluster,
            broker=settings.broker,
            consume_queue_extension=settings.consume_queue_extension,
            consume_queue_extension_file_size_bytes=(
                settings.consume_queue_extension_file_size_bytes
            ),
            made_here=self.made_here,
            property_crc_from=self.log.property_crc_from,
            closed=closed,
        )
        self.manifest_file.write(self.manifest)

    def closed_state(self) -> ClosedState:
        """Return what the views hold now, for the next start to compare."""
        queues: dict[str, dict[str, list[int]]] = {}
        for (topic, queue_id), queue in sorted(self.queues.queues.items()):
            queues.setdefault(topic, {})[str(queue_id)] = [queue.min_offset, queue.max_offset]
        return ClosedState(
            log_end=self.log.appended,
            checkpoint=encode_checkpoint(self.checkpoint.values).hex(),
            queues=queues,
            index_files=[file.path.name for file in self.index.files],
        )

    @property
    def own_directory(self) -> Path:
        """Where this broker keeps what RocketMQ does not know."""
        return self.directory.own_directory

    def close(self) -> None:
        """Unmap all files and give the lock back."""
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
