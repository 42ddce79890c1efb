"""Rebuilds a store's views from its log, beside the store or in its place.

A rebuild in place is made in `pocketmq/rebuild/` and swapped in when it is complete
(`install.py`); killed before, it leaves the store as it was, and the next one goes on from where it
stopped.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.format.names import (
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    OWN_DIRECTORY,
)
from broker.log.store_directory import StoreDirectory
from broker.model.errors import DiskFull, NotAStore
from broker.model.offsets import OFFSET_MAX
from broker.rebuild.log_files import LogFile, find_log_files
from broker.rebuild.range_pass import tell_nobody
from broker.rebuild.resume import PROGRESS_FILE
from broker.rebuild.sequential import Rebuilt, rebuild
from broker.tools.install import StagedViews, install_views, sync_tree
from broker.tools.store_access import Sizes, view_settings

STAGING_DIRECTORY: Final = "rebuild"
STATE_DIRECTORY: Final = "rebuild-state"
BATCH_QUEUE_DIRECTORY: Final = "batchconsumequeue"
VIEW_SHARE: Final = 0.12
"""What views take of a log of 1 KiB messages; small messages take more."""


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What a rebuild is about to do.

    out         where views are written; None: in the store's place
    upto        records that start below it
    is_resumed  an earlier rebuild was killed and is gone on with
    """

    directory: Path
    out: Path | None
    files: list[LogFile]
    upto: int
    free_bytes: int
    has_extension: bool
    has_batch_queues: bool
    is_resumed: bool

    @property
    def log_bytes(self) -> int:
        """Bytes of the log's files."""
        return sum(file.size for file in self.files)

    @property
    def staging(self) -> Path:
        """Where views are built."""
        return self.out or self.directory / OWN_DIRECTORY / STAGING_DIRECTORY

    @property
    def state(self) -> Path:
        """Where the state of a rebuild is kept that may be killed."""
        return self.staging / STATE_DIRECTORY


def plan_rebuild(
    disk: Disk, directory: Path, sizes: Sizes, *, out: Path | None = None, upto: int = OFFSET_MAX
) -> RebuildPlan:
    """Look at a store and say what a rebuild would do; nothing is changed.

    Errors   NotAStore (the log, or an output directory that holds other things), StoreGap,
             WrongFileSize, DiskFull
    """
    files = find_log_files(directory, sizes.commit_log_file_bytes)
    staging = out or directory / OWN_DIRECTORY / STAGING_DIRECTORY
    found = set(disk.names(staging))
    ours = {CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY, STATE_DIRECTORY}
    if out is not None and found - ours:
        raise NotAStore(path=str(out), why="it holds other things than a rebuild")
    plan = RebuildPlan(
        directory=directory,
        out=out,
        files=files,
        upto=upto,
        free_bytes=disk.free_bytes(_existing(staging)),
        has_extension=disk.exists(directory / CONSUME_QUEUE_EXTENSION_DIRECTORY),
        has_batch_queues=bool(disk.names(directory / BATCH_QUEUE_DIRECTORY)),
        is_resumed=disk.exists(staging / STATE_DIRECTORY / PROGRESS_FILE),
    )
    if plan.free_bytes < plan.log_bytes * VIEW_SHARE:
        raise DiskFull(path=str(staging))
    return plan


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def rebuild_beside(
    disk: Disk, plan: RebuildPlan, sizes: Sizes, *, check_crc: bool, accept_holes: bool,
    tell: Callable[[int], None] = tell_nobody,
) -> Rebuilt:  # fmt: skip
    """Build the views below the plan's `out`.

    Errors   Corruption: sound records behind damage, unless holes are accepted
    """
    rebuilt = _build(plan, sizes, check_crc=check_crc, accept_holes=accept_holes, tell=tell)
    sync_tree(disk, plan.staging)
    shutil.rmtree(plan.state, ignore_errors=True)
    return rebuilt


def rebuild_in_place(
    disk: Disk, plan: RebuildPlan, sizes: Sizes, *, check_crc: bool, accept_holes: bool,
    keep_as: str = "", tell: Callable[[int], None] = tell_nobody,
) -> Rebuilt:  # fmt: skip
    """Build the views and put them in the place of the store's own, under its lock.

    Errors   StoreLocked; Corruption, as `rebuild_beside`: the store is as it was
    """
    store = StoreDirectory(disk, plan.directory)
    store.acquire()
    try:
        rebuilt = _build(plan, sizes, check_crc=check_crc, accept_holes=accept_holes, tell=tell)
        staged = StagedViews(plan.staging, rebuilt.queues, rebuilt.index_names, rebuilt.end)
        install_views(disk, plan.directory, staged, sizes, keep_as=keep_as)
    finally:
        store.release()
    return rebuilt


def _build(
    plan: RebuildPlan, sizes: Sizes, *, check_crc: bool, accept_holes: bool,
    tell: Callable[[int], None],
) -> Rebuilt:  # fmt: skip
    if not plan.is_resumed:
        for name in (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY):
            shutil.rmtree(plan.staging / name, ignore_errors=True)
    for name in (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY):
        (plan.staging / name).mkdir(parents=True, exist_ok=True)
    return rebuild(
        plan.files,
        view_settings(sizes, check_crc=check_crc),
        plan.staging,
        upto=plan.upto,
        accept_holes=accept_holes,
        state=plan.state,
        tell=tell,
    )
