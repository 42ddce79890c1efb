"""Rebuilds a store's views from its log, in place or in another directory.

It also rebuilds the timer wheel from the timer log.

A rebuild in place builds in `pocketmq/rebuild/` and exchanges the views at the end (`install.py`).
If a rebuild is killed before the exchange, the store is unchanged. The next rebuild continues the
killed one, or starts over if log or settings changed.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    BATCH_QUEUE_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    OWN_DIRECTORY,
    TIMER_WHEEL_FILE,
    VIEW_DIRECTORIES,
)
from pocketmq.log.foreign import check_understood
from pocketmq.model.errors import DiskFull, NotAStore
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.estimate import Estimate, estimate
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_log_files
from pocketmq.rebuild.manifest import view_files
from pocketmq.rebuild.plan import whole_files
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.rebuild.sequential import Rebuilt, Resume, rebuild
from pocketmq.tools.install import (
    STAGING_DIRECTORY,
    StagedViews,
    carry_expired,
    stage_and_install,
    sync_tree,
)
from pocketmq.tools.pending.restoring import write_wheel

STATE_DIRECTORY: Final = "rebuild-state"
STAT_BLOCK_BYTES: Final = 512
"""Unit of st_blocks."""


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The plan of a rebuild.

    out         output directory; None: replaces the store's own views
    upto        only records that start below this physical offset are included
    settings    geometry of the views
    estimate    disk usage of the views
    replaced    (files, bytes on the disk) of the store's own views
    is_resumed  continues an earlier rebuild that was killed
    """

    directory: Path
    out: Path | None
    files: list[LogFile]
    upto: int
    settings: KnownShape
    estimate: Estimate
    replaced: tuple[int, int]
    free_bytes: int
    has_extension: bool
    has_batch_queues: bool
    is_resumed: bool

    @property
    def leaves_extension(self) -> bool:
        """Whether the rebuilt units will no longer refer to the store's extension."""
        return self.has_extension and not self.settings.consume_queue_extension

    @property
    def log_bytes(self) -> int:
        """Bytes of the log's files."""
        return sum(file.size for file in self.files)

    @property
    def log_end(self) -> int:
        """Physical offset after the log's last file."""
        return self.files[-1].end if self.files else 0

    @property
    def staging(self) -> Path:
        """Directory in which views are built."""
        return self.out or self.directory / OWN_DIRECTORY / STAGING_DIRECTORY

    @property
    def state(self) -> Path:
        """Directory that stores a rebuild's progress, from which the next rebuild continues."""
        return self.staging / STATE_DIRECTORY


def plan_rebuild(
    disk: Disk, directory: Path, sizes: KnownShape, *, out: Path | None = None,
    upto: int = OFFSET_MAX, check_crc: bool = False,
) -> RebuildPlan:  # fmt: skip
    """Returns the plan of a rebuild; changes nothing.

    Errors   NotAStore: the directory has no log, or `out` contains other files
             StoreGap, WrongFileSize, DiskFull
             those of `check_understood` for a rebuild in place
    Cost     reads some samples of the log
    """
    if out is None:
        check_understood(disk, directory)
    files = find_log_files(directory, sizes.commit_log_file_size_bytes)
    staging = out or directory / OWN_DIRECTORY / STAGING_DIRECTORY
    found = set(disk.names(staging))
    ours = {*VIEW_DIRECTORIES, STATE_DIRECTORY, TIMER_WHEEL_FILE}
    if out is not None and found - ours:
        raise NotAStore(path=str(out), why="it contains files that no rebuild wrote")
    settings = replace(sizes, check_crc=check_crc)
    plan = RebuildPlan(
        directory=directory,
        out=out,
        files=files,
        upto=upto,
        settings=settings,
        estimate=estimate(whole_files(files, upto), settings),
        replaced=(0, 0) if out is not None else _taken(directory),
        free_bytes=disk.space(_existing(staging))[1],
        has_extension=disk.exists(directory / CONSUME_QUEUE_EXTENSION_DIRECTORY),
        has_batch_queues=bool(disk.names(directory / BATCH_QUEUE_DIRECTORY)),
        is_resumed=Resume(staging / STATE_DIRECTORY, files, settings, upto).saved() is not None,
    )
    staged_bytes = _taken(staging)[1] if plan.is_resumed else 0
    if plan.free_bytes + staged_bytes < plan.estimate.view_bytes:
        raise DiskFull(path=str(staging))
    return plan


def _taken(directory: Path) -> tuple[int, int]:
    """Returns the number of files of the views below a directory, and their allocated bytes."""
    paths = [directory / path for path in view_files(directory)]
    return len(paths), sum(path.stat().st_blocks * STAT_BLOCK_BYTES for path in paths)


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def rebuild_beside(
    disk: Disk, plan: RebuildPlan, *, accept_holes: bool, advance: Advance = no_advance
) -> Rebuilt:
    """Builds the views in the plan's `out`.

    Errors   Corruption: valid records follow damage, and `accept_holes` is not set
    """
    rebuilt = _build(plan, accept_holes=accept_holes, advance=advance)
    shutil.rmtree(plan.state, ignore_errors=True)
    write_wheel(disk, plan.directory, plan.staging)
    carry_expired(disk, plan.directory, plan.staging)
    sync_tree(disk, plan.staging)
    return rebuilt


def rebuild_in_place(
    disk: Disk, plan: RebuildPlan, sizes: KnownShape, *, accept_holes: bool, keep_as: str = "",
    advance: Advance = no_advance,
) -> tuple[Rebuilt, Path | None]:  # fmt: skip
    """Builds the views and replaces the store's own views, under the store's lock.

    Returns  the built views, and the directory that keeps the old ones
    Errors   StoreLocked; Corruption as in `rebuild_beside`: the store is unchanged
    """
    built: list[Rebuilt] = []

    def stage(staging: Path) -> StagedViews:
        rebuilt = _build(plan, accept_holes=accept_holes, advance=advance)
        built.append(rebuilt)
        write_wheel(disk, plan.directory, plan.directory)
        return StagedViews(staging, rebuilt.queues, rebuilt.index_names, rebuilt.end)

    kept = stage_and_install(disk, plan.directory, sizes, stage, keep_as=keep_as)
    return built[0], kept


def _build(plan: RebuildPlan, *, accept_holes: bool, advance: Advance) -> Rebuilt:
    if not plan.is_resumed:
        for name in (*VIEW_DIRECTORIES, STATE_DIRECTORY):
            shutil.rmtree(plan.staging / name, ignore_errors=True)
    for name in (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY):
        (plan.staging / name).mkdir(0o750, parents=True, exist_ok=True)
    return rebuild(
        plan.files,
        plan.settings,
        plan.staging,
        upto=plan.upto,
        accept_holes=accept_holes,
        state=plan.state,
        advance=advance,
    )
