"""Rebuilds the timer's files of a store if they contradict its log."""

from collections.abc import Sequence
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.tools.pending.restoring import TimerPlan, install_timers, plan_timers
from pocketmq.tools.verify.collector import Collector
from pocketmq.tools.verify.timers import check_timers


def restore_timers(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], *, last_time_ms: int
) -> TimerPlan:
    """Rewrites wheel and checkpoint, and a damaged timer log; the caller holds the store's lock.

    last_time_ms   store time of the log's last record
    Returns        the plan that was carried out
    Errors         DiskFull, AllocationFailed, FsyncFailed; WrongFileSize, StoreGap: the queue of
                   the timer's topic must be rebuilt first
    """
    collector = Collector(directory, sizes.commit_log_file_size_bytes)
    timers, check = check_timers(
        disk, directory, sizes, files, collector,
        views=directory, last_time_ms=last_time_ms, is_orderly=True,
    )  # fmt: skip
    plan = plan_timers(timers, check.unfit, check.lost, check.topic_end)
    install_timers(disk, directory, plan)
    return plan
