"""Performs a repair in up to ROUNDS_MAX rounds: verify, copy damage to the quarantine, repair."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    MARK_FILE,
    OWN_DIRECTORY,
    TIMER_LOG_DIRECTORY,
)
from pocketmq.log.checkpoint import QueueEnds
from pocketmq.log.foreign import check_understood
from pocketmq.log.quarantine import (
    FINISHED,
    UNFINISHED,
    new_quarantine,
    unfinished_repair,
)
from pocketmq.log.store_directory import StoreDirectory
from pocketmq.model.errors import Corruption, DiskFull, StoreGap, WrongFileSize
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.estimate import estimate
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_log_files
from pocketmq.rebuild.plan import whole_files
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.rebuild.sequential import rebuild
from pocketmq.tools.install import STAGING_DIRECTORY, StagedViews, install_views, mark_oldest
from pocketmq.tools.pending.restoring import TimerPlan, install_timers, plan_timers
from pocketmq.tools.pending.timer_files import CHECK_PATH
from pocketmq.tools.repair.actions import RepairPlan, lower_checkpoint, set_aside_whole
from pocketmq.tools.repair.neighbours import Neighbours
from pocketmq.tools.repair.planning import plan_repair
from pocketmq.tools.verify.collector import STRAY, Collector
from pocketmq.tools.verify.timers import check_timers


# -- timer files -------------------------------------------------------------------------------
def restore_timers(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], *, last_time_ms: int
) -> TimerPlan:
    """Rewrites the timer's wheel and checkpoint, and the timer log if it is damaged.

    The caller holds the store's lock.

    last_time_ms   store time of the log's last record
    Returns        the executed plan
    Errors         DiskFull, AllocationFailed, FsyncFailed
                   WrongFileSize, StoreGap: the queue of the timer topic must be rebuilt first
    """
    collector = Collector(directory, sizes.commit_log_file_size_bytes)
    timers, check = check_timers(
        disk, directory, sizes, files, collector,
        views=directory, last_time_ms=last_time_ms, is_orderly=True,
    )  # fmt: skip
    plan = plan_timers(timers, check.unfit, check.lost, check.topic_end)
    install_timers(disk, directory, plan)
    return plan


# -- the repair --------------------------------------------------------------------------------
ROUNDS_MAX: Final = 4
"""Upper limit of a repair's rounds: a round may reveal findings that damage had hidden."""

NOTHING_TO_DO: Final = "nothing to do"

Report = dict[str, Any]
Stage = Callable[[str, int], AbstractContextManager[Advance]]
"""Begins a step with a name and a byte total; its context is a callback for bytes read."""


@contextmanager
def silent_stage(label: str, total_bytes: int) -> Iterator[Advance]:
    """Begins a step without a progress report."""
    yield no_advance


def repair_store(
    disk: Disk, directory: Path, sizes: KnownShape, *, now_ms: int, accept_loss: bool = False,
    stage: Stage = silent_stage,
) -> Report:  # fmt: skip
    """Repairs a store under its lock; returns the report.

    The report's `state` is NOTHING_TO_DO if nothing was changed. Its `is_sound` is true if no
    damage is left.

    accept_loss   replaces missing files of the log, and missing ends of files, by fillers

    Errors   StoreLocked; those of `check_understood` and `missing_part`: nothing is changed
             DiskFull, AllocationFailed, FsyncFailed: another call continues the repair
    """
    check_understood(disk, directory)
    store = StoreDirectory(disk, directory)
    store.acquire()
    try:
        return _Repair(disk, directory, sizes, now_ms, stage, accept_loss=accept_loss).run()
    finally:
        store.release()


class _Repair:
    """One repair in progress, under the store's lock."""

    def __init__(
        self, disk: Disk, directory: Path, sizes: KnownShape, now_ms: int, stage: Stage, *,
        accept_loss: bool,
    ) -> None:  # fmt: skip
        self._accept_loss = accept_loss
        self._disk = disk
        self._directory = directory
        self._sizes = sizes
        self._now_ms = now_ms
        self._stage = stage

    def run(self) -> Report:
        plan = self._look()
        if plan.blocked:
            raise missing_part(self._disk, self._directory, self._sizes, plan)
        if plan.is_empty:
            return {"state": NOTHING_TO_DO, "is_sound": not plan.left, **plan.document}
        self._check_room(plan)
        self._begin()
        for _ in range(ROUNDS_MAX):
            self._perform(plan)
            plan = self._look()
            plan.is_continued = False
            if plan.is_empty or plan.blocked:
                break
        self._report |= {
            "state": FINISHED,
            "finished": _moment(self._now_ms),
            "left_as_it_is": [finding.document for finding in [*plan.left, *plan.blocked]],
            "is_sound": plan.is_empty and not plan.left,
            "notes": plan.notes,
        }
        self._quarantine.write_report(self._report)
        return self._report

    def _look(self) -> RepairPlan:
        names = self._disk.names(self._directory / COMMIT_LOG_DIRECTORY)
        total = len(names) * self._sizes.commit_log_file_size_bytes
        with self._stage("Verifying", total) as advance:
            return plan_repair(
                self._disk, self._directory, self._sizes, now_ms=self._now_ms,
                accept_loss=self._accept_loss, advance=advance,
            )  # fmt: skip

    def _check_room(self, plan: RepairPlan) -> None:
        needed = sum(action.copied_end - action.begin for action in plan.log)
        if plan.builds_views:
            needed += estimate(whole_files(plan.log_files, OFFSET_MAX), self._sizes).view_bytes
        if self._disk.space(self._directory)[1] < needed:
            raise DiskFull(path=str(self._directory))

    def _begin(self) -> None:
        """Continues the report of a repair that was killed, or begins a new report."""
        QueueEnds(self._disk, self._directory / OWN_DIRECTORY).remove()
        found = unfinished_repair(self._disk, self._directory)
        if found is not None:
            self._quarantine, self._report = found
            return
        self._quarantine = new_quarantine(self._disk, self._directory, self._now_ms)
        self._report = {
            "state": UNFINISHED,
            "store": str(self._directory),
            "quarantine": str(self._quarantine.directory),
            "begun": _moment(self._now_ms),
            "messages_lost": 0,
            "lost": [],
            "in_doubt": [],
            "log": [],
            "files": [],
            "view_findings": {},
            "timer_findings": {},
            "views": None,
            "timers": None,
            "numbers": None,
            "acknowledged_bytes_missing": None,
            "oldest_files_missing": None,
        }
        self._quarantine.write_report(self._report)

    # -- one round ---------------------------------------------------------------------------
    def _perform(self, plan: RepairPlan) -> None:
        assert not plan.blocked
        self._write_down(plan)
        for action in plan.actions:
            action.set_aside(self._disk, self._directory, self._quarantine)
        if plan.lowers_numbers or plan.head is not None:
            for path in (CHECKPOINT_FILE, f"{OWN_DIRECTORY}/{MARK_FILE}"):
                note = {"reason": "its values do not fit the log"}
                set_aside_whole(self._disk, self._directory / path, self._quarantine, note)
        for action in plan.actions:
            action.perform(self._disk, self._directory, self._sizes.commit_log_file_size_bytes)
        if plan.completes_files:
            log_file_bytes = self._sizes.commit_log_file_size_bytes
            plan.log_files = find_log_files(self._directory, log_file_bytes)
        if plan.lowers_numbers:
            last = Neighbours(plan.log_files).before(plan.log_end)
            numbers = lower_checkpoint(
                self._disk, self._directory, log_end=plan.log_end,
                last_time_ms=last.time_ms if last is not None else 0,
                last_place=last.physical_offset if last is not None else 0,
            )  # fmt: skip
            self._report["numbers"] = self._report["numbers"] or numbers
        if plan.head is not None:
            mark_oldest(self._disk, self._directory, plan.head[1])
        if plan.builds_views:
            self._build_views(plan)
        if plan.timer_findings:
            self._restore_timers(plan)

    def _write_down(self, plan: RepairPlan) -> None:
        """Adds the plan's actions and findings to the report, each once."""
        report = self._report
        for name, actions in (("log", plan.log), ("files", plan.files)):
            report[name] += [a.document for a in actions if a.document not in report[name]]
        known = report.setdefault("lost", [])
        known += [loss._asdict() for loss in plan.losses if loss._asdict() not in known]
        doubts = report.setdefault("in_doubt", [])
        doubts += [doubt._asdict() for doubt in plan.doubts if doubt._asdict() not in doubts]
        report["messages_lost"] = sum(loss["messages"] for loss in known)
        report["view_findings"] = plan.view_findings | report["view_findings"]
        report["timer_findings"] = plan.timer_findings | report.get("timer_findings", {})
        if plan.missing is not None:
            report["acknowledged_bytes_missing"] = list(plan.missing)
        if plan.head is not None:
            report["oldest_files_missing"] = list(plan.head)
        self._quarantine.write_report(report)

    def _restore_timers(self, plan: RepairPlan) -> None:
        """Copies the timer log and its checkpoint to the quarantine, and rebuilds the files."""
        note = {"reason": "the timer's files contradict the log"}
        names = self._disk.names(self._directory / TIMER_LOG_DIRECTORY)
        for path in (*(f"{TIMER_LOG_DIRECTORY}/{name}" for name in names), CHECK_PATH):
            set_aside_whole(self._disk, self._directory / path, self._quarantine, note)
        last = Neighbours(plan.log_files).before(plan.log_end)
        done = restore_timers(
            self._disk, self._directory, self._sizes, plan.log_files,
            last_time_ms=last.time_ms if last is not None else 0,
        )  # fmt: skip
        self._report["timers"] = {"dropped": done.dropped, "added": done.added}
        self._quarantine.write_report(self._report)

    def _build_views(self, plan: RepairPlan) -> None:
        """Rebuilds the views and installs them; keeps old views that contain stray files."""
        directory = self._directory
        staging = directory / OWN_DIRECTORY / STAGING_DIRECTORY
        rmtree(staging, ignore_errors=True)
        self._disk.make_directory(staging)
        settings = replace(self._sizes, check_crc=True)
        with self._stage("Rebuilding", plan.log_bytes) as advance:
            built = rebuild(plan.log_files, settings, staging, upto=OFFSET_MAX, advance=advance)
        staged = StagedViews(staging, built.queues, built.index_names, built.end)
        keep_as = self._quarantine.directory.name if STRAY in plan.view_findings else ""
        kept = install_views(self._disk, directory, staged, self._sizes, keep_as=keep_as)
        self._report["views"] = {
            "records": built.record_count,
            "index_entries": built.entry_count,
            "queues": len(built.queues),
            "index_files": len(built.index_names),
            "end": built.end,
            "old_ones_kept_in": str(kept) if kept is not None else None,
        }
        self._quarantine.write_report(self._report)


def missing_part(
    disk: Disk, directory: Path, sizes: KnownShape, plan: RepairPlan
) -> Corruption | StoreGap | WrongFileSize:
    """Returns the error for a plan that is blocked.

    The cause is a missing or incomplete log file, or a file whose valid records look too old. One
    wrong store time before such a file makes its records look too old, so a repair could overwrite
    good records.
    """
    finding = plan.blocked[0]
    path = directory / finding.file
    if finding.kind == "record":
        return Corruption(
            path=str(path), file_position=finding.offset,
            physical_offset=int(path.name) + finding.offset, why=finding.found,
        )  # fmt: skip
    # A foreign file may have the name of a missing one.
    if disk.exists(path) and disk.file_size(path) != sizes.commit_log_file_size_bytes:
        return WrongFileSize(
            path=str(path), expected_bytes=sizes.commit_log_file_size_bytes,
            found_bytes=disk.file_size(path), key_names="mappedFileSizeCommitLog",
        )  # fmt: skip
    following = next(name for name in disk.names(path.parent) if name > path.name)
    return StoreGap(
        path=str(path.with_name(following)), expected=int(path.name), found=int(following)
    )


def _moment(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="seconds")
