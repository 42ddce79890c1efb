"""Starts a store step by step, by the rules of store/recovery/decisions.py.

lock and build ─► load ─► decide which views to trust ─► find the log's end, and cut or keep what
follows it ─► dispatch missing records ─► save the result for a start after the next crash
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    TIMER_LOG_DIRECTORY,
    is_junk,
)
from pocketmq.log.foreign import check_place, check_understood
from pocketmq.model.errors import Corruption
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.step import Clock
from pocketmq.store.recovery.completeness import (
    index_lacks_file,
    missing_from_list,
    missing_from_log,
)
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.decisions import Compared, ViewObservation, ViewPlan, decide_views
from pocketmq.store.recovery.progress import Starting
from pocketmq.store.recovery.recovery_plan import StoreRecovery, TrustedOffsets

# -- junk files --------------------------------------------------------------------------------
SEARCHED: Final = (
    COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY, TIMER_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
)  # fmt: skip
"""Subdirectories of the store in which a start looks for junk files."""


def report_junk(disk: Disk, store: Path) -> None:
    """Logs each file that no broker wrote and that is safe to ignore.

    Cost     one listing of each directory
    """
    for directory in (store, *(store / name for name in SEARCHED)):
        for name in filter(is_junk, disk.names(directory)):
            logger.warning("store.junk", extra={"path": str(directory / name)})


# -- the start ---------------------------------------------------------------------------------
RENEWED_MAX: Final = 64 * 1024 * 1024
"""Upper limit of bytes at the log's end that a start after a crash flushes again."""

VIEW_SIZES: Final = (
    "consume_queue_file_size_bytes", "consume_queue_extension_file_size_bytes",
    "index_slot_count", "index_entry_count_max",
)  # fmt: skip
"""Settings that determine the size of consume-queue and index files."""

REBUILT: Final = "it is rebuilt from the log"

logger = logging.getLogger(__name__)


class StoreStart:
    """One start of a locked store; `recovery` has the findings."""

    __slots__ = ("_has_looked", "_parts", "_progress", "recovery", "views")

    def __init__(self, parts: StoreComponents, progress: Starting) -> None:
        self._parts = parts
        self._progress = progress
        self._has_looked = False
        self.recovery = StoreRecovery(parts, progress, parts.distrust)
        self.views: ViewPlan | None = None
        """The decision about the views; None before the start reached it."""

    def look(self) -> None:
        """Reads the small files and lists the log; changes nothing.

        Errors   NotAStore, WrongFileSize, StoreGap, ReadFailed, UnsupportedStore, LogMissing
        """
        parts = self._parts
        self._progress.enter("load")
        report_junk(parts.disk, parts.settings.directory)
        parts.log.load()
        parts.checkpoint.load()
        parts.mark.open()
        if not parts.log.files.files:
            # A follower can be copied again; another broker gives up its log only if asked to.
            is_marked = parts.mark.valid_upto(parts.checkpoint.content) is not None
            is_accepted = parts.settings.accept_damage or parts.settings.is_bounded
            may_lack_log = is_marked and is_accepted
            check_understood(parts.disk, parts.settings.directory, may_lack_log=may_lack_log)
        if parts.manifest is None:
            parts.check_views()
        self._has_looked = True

    def steps(self, now_ms: int) -> Iterator[float]:
        """Loads and recovers the store in bounded pieces; yields the finished share after each.

        Effects  if the log is damaged below its durable end, `recovery.damage` is set, and
                 checkpoint, mark and manifest stay unchanged
        Errors   those of `look`; those of `StoreRecovery.steps`; Corruption: a queue differs from
                 the table of queue ends, which is removed, so that the next start reads all queues
        """
        try:
            yield from self._steps(now_ms)
        except (Corruption, FileNotFoundError):
            if self._parts.queues.doubtful:
                self._parts.ends.remove()
            raise

    def _steps(self, now_ms: int) -> Iterator[float]:
        parts, settings = self._parts, self._parts.settings
        if not self._has_looked:
            self.look()
        if not settings.accept_damage:  # Else the messages of the other files are served.
            for _ in parts.log.files.probe():
                yield 0.0
        parts.directory.make_directories()
        mark = parts.mark.valid_upto(parts.checkpoint.content)
        views = self.views = decide_views(self._observed(mark))
        self._load_views(views)
        from_min = self._drop_incomplete(views)
        beliefs = TrustedOffsets(views, mark, from_min, settings.accept_damage, now_ms)
        yield from self.recovery.steps(beliefs)
        self._progress.enter("settle")
        parts.queues.correct_min(parts.log.min_offset)
        if settings.property_crc and not settings.leader:  # A leader may write none.
            before = parts.manifest.property_crc_from if parts.manifest is not None else None
            parts.log.property_crc_from = parts.log.appended if before is None else before
        if self.recovery.damage is None:
            self.recovery.record_losses(now_ms)
            self._write_down(may_wait=views.may_wait and not from_min)

    # -- views of the last run -----------------------------------------------------------------
    def _observed(self, mark: int | None) -> ViewObservation:
        parts = self._parts
        values = parts.checkpoint.values
        closed = parts.manifest.closed if parts.manifest is not None else None
        is_listed = closed is not None and closed.is_of(parts.checkpoint.content)
        return ViewObservation(not parts.was_left_in_order(mark), mark, is_listed, values)

    def _load_views(self, plan: ViewPlan) -> None:
        parts = self._parts
        found, settings = parts.manifest, parts.settings
        knows_size = found is not None and all(
            getattr(found, name) == getattr(settings, name) for name in VIEW_SIZES
        )
        checkpoint_bytes = parts.checkpoint.content
        ends = parts.ends.load(checkpoint_bytes) if plan.takes_ends else {}
        parts.queues.load(believed_upto=plan.units_upto, knows_size=knows_size, ends=ends)
        parts.index.load(knows_size=knows_size)
        if found is None:
            parts.made_here = not parts.log.files.files
            if "index_style" not in settings.explicit:
                self._find_style()

    def _find_style(self) -> None:
        parts, index = self._parts, self._parts.index
        index.style = parts.written_styles()[1] or index.style
        parts.settings = replace(parts.settings, index_style=index.style)

    def _drop_incomplete(self, plan: ViewPlan) -> bool:
        parts = self._parts
        log, queues, index = parts.log, parts.queues, parts.index
        queues.correct_min(log.min_offset)
        lacking, index_lacks = queues.damaged, False
        if plan.compared is Compared.LIST:
            listed = parts.listed_at_stop
            lacking, index_lacks = missing_from_list(listed, queues, index, log.min_offset)
        elif plan.compared is Compared.LOG:
            parts.find_left_over(plan.below)
            lacking, index_lacks, parts.left_over = missing_from_log(
                log, queues, index, parts.levels, parts.written_styles()[0], parts.left_over
            )
            lacking = {key for key in lacking if key[0] not in parts.batch_topics}
        else:
            lacking = lacking | queues.shortened(log.min_offset)
            index_lacks = index_lacks_file(
                log, index, parts.levels, parts.written_styles()[0], plan.below
            )
        lacking = lacking | queues.damaged
        is_built_whole = lacking or parts.keeps_left_over or not plan.below
        if plan.compared is not Compared.LOG and is_built_whole:
            parts.find_left_over(plan.below)
        for topic, queue_id in sorted(lacking):
            check_place(parts.disk, parts.settings.directory, topic, queue_id)
        for topic, queue_id in sorted(lacking):
            logger.warning(
                "consume_queue.incomplete",
                extra={"topic": topic, "queue_id": queue_id, "effect": REBUILT},
            )
        is_index_built = index_lacks or index.is_damaged
        if (lacking or is_index_built) and parts.was_aborted:
            # Before anything is removed: a crash while views are built leaves parts of them.
            parts.distrust(0)
        queues.remove(lacking)
        if is_index_built:
            logger.warning("index.incomplete", extra={"files": len(index.files), "effect": REBUILT})
            index.remove_all()
        queues.finish_removals()
        return bool(lacking) or (is_index_built and parts.was_aborted)

    # -- findings for the next crash ------------------------------------------------------------
    def _write_down(self, *, may_wait: bool) -> None:
        """Saves the findings for a start after the next crash.

        Views are synced first, as the checkpoint describes only durable data. If many queues are
        dirty and the old checkpoint is still valid, the running store syncs and saves later.
        """
        parts = self._parts
        log, queues, mark, ends = parts.log, parts.queues, parts.mark, parts.ends
        if parts.was_aborted:
            log.renew(max(mark.flushed_upto, log.appended - RENEWED_MAX))
        end, values = log.appended, parts.checkpoint.values
        last, time_ms = self.recovery.last_record, self.recovery.last_time
        assert last <= end
        parts.index.flush()
        may_wait = may_wait and values.logics_physical_offset <= last
        is_left = may_wait and queues.has_much_to_sync
        if not is_left:
            queues.flush()
        ends.rows = queues.ends()
        if end and not is_left:
            values = values._replace(
                physic_msg_timestamp=time_ms or values.physic_msg_timestamp,
                logics_msg_timestamp=time_ms or values.logics_msg_timestamp,
                index_msg_timestamp=parts.index.sealed_time or values.index_msg_timestamp,
                confirm_physical_offset=last,
                logics_physical_offset=last,
            )
            if ends.load(encode_checkpoint(values)) != ends.rows:
                ends.save(encode_checkpoint(values), ends.rows)
        # Records that this run appends are not confirmed, even if the last run's end was higher.
        is_bounded = parts.settings.is_bounded
        mark.is_confirmed |= not end
        mark.confirmed_upto = min(mark.confirmed_upto, end) if is_bounded else OFFSET_MAX
        mark.oldest_base = log.oldest_base
        mark.write(end, encode_checkpoint(values))
        mark.sync()
        parts.checkpoint.save(values)  # The mark's other slot is valid with the old checkpoint.
        assert mark.valid_upto(parts.checkpoint.content) == end
        parts.write_manifest(None)


def start_at_once(parts: StoreComponents, clock: Clock) -> StoreStart:
    """Runs all steps of a start; blocks.

    Errors   those of `StoreStart.steps`
    """
    start = StoreStart(parts, Starting(clock))
    for _ in start.steps(clock.wall_ms()):
        pass
    return start
