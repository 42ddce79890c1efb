"""Plans and runs a parallel rebuild of a store's views: its consume queues and index files.

    new_job ─► outlook      reads samples, changes nothing
            └► run          one run at a time in a directory; reuses an earlier run's results

`rebuild/parallel.py` builds the views. This module checks the output directory, decides which
results are reused, and reports the free disk space.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pocketmq.backfill.places import (
    probe_workers,
    refuse_address,
    refuse_small_disk,
    unwritable,
)
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
)
from pocketmq.model.errors import StoreLocked, ViewFailed
from pocketmq.rebuild.estimate import Estimate, estimate_job
from pocketmq.rebuild.log_files import KnownShape, find_log_files
from pocketmq.rebuild.parallel import RebuildJob, is_finished, rebuild_parallel
from pocketmq.rebuild.plan import TRIES, Mapper, Range, TaskFailed, plan_ranges
from pocketmq.rebuild.staging import (
    FORMAT_VERSION,
    MANIFEST_FILE,
    PLAN_FILE,
    Staging,
    can_go_on,
    plan_document,
)

# -- reuse -------------------------------------------------------------------------------------
# Decides which results of an earlier run in the same directory a run can reuse.
#
#     earlier run                                             reused of the earlier run
#     same request, finished                                  everything
#     same settings, `upto` not above the new one, and
#         no file of the log has changed since                the finished ranges
#         only the last file that was read has changed        the finished ranges of other files
#     otherwise                                               nothing; the results are removed
#
# Queues and index are built again from the spools of all ranges as soon as one range is read again.

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Results of an earlier run that a new run can reuse.

    is_known      whether an earlier run wrote to the directory
    is_complete   whether that run built the requested views
    is_usable     whether that run's results are compatible with the request
    ranges        finished ranges, which are not read again
    changed       documents of finished ranges whose log file has changed after the run
    """

    is_known: bool
    is_complete: bool
    is_usable: bool
    ranges: list[Range]
    changed: list[Document]


def find_reuse(job: RebuildJob, ranges: list[Range]) -> Reuse:
    """Returns the results that a job with these ranges can reuse; removes no file."""
    staging = Staging(job.out)
    known = staging.read(staging.work / PLAN_FILE)
    if known is None:
        return Reuse(False, False, True, [], [])
    wanted = plan_document(ranges, job.settings, job.upto, job.expired)
    documents = [staging.read(path) for path in sorted((staging.work / "ranges").glob("*.json"))]
    read = [document for document in documents if document and "error" not in document]
    changed = [document for document in read if _is_changed(document["range"])]
    if _is_complete(staging, job, known, wanted, read) and not changed:
        return Reuse(True, True, True, ranges, [])
    if not _is_usable(known, wanted, changed):
        return Reuse(True, False, False, [], changed)
    finished = [part for part in ranges if is_finished(staging, part)]
    return Reuse(True, False, True, finished, changed)


def prepare(staging: Staging, reuse: Reuse) -> None:
    """Removes an earlier run's results that must not be reused."""
    if reuse.is_known and not reuse.is_usable:
        staging.clear()


def _is_usable(known: Document, wanted: Document, changed: list[Document]) -> bool:
    last_path = max((begin, path) for path, begin, _ in known["ranges"])[1] if changed else ""
    is_last = all(document["range"][0] == last_path for document in changed)
    return is_last and can_go_on(known, wanted)


def _is_complete(
    staging: Staging, job: RebuildJob, known: Document, wanted: Document, read: list[Document]
) -> bool:
    """Returns whether the files and the manifest match the request.

    The result stays usable after a machine restart, because the manifest is written only once all
    files are durable. It also stays usable if the log would now be cut into other ranges.
    """
    built = staging.read(staging.work / MANIFEST_FILE)
    if not built or (built["holes"] and not job.accept_holes):
        return False
    if any(
        known.get(key) != wanted[key] for key in ("format_version", "settings", "upto", "expired")
    ):
        return False
    marks = [document["range"][:3] for document in read]
    return (
        all(part in marks for part in known["ranges"])
        and known["bytes"] == wanted["bytes"]
        and {path for path, *_ in known["ranges"]} == {path for path, *_ in wanted["ranges"]}
    )


def _is_changed(mark: list[Any]) -> bool:
    try:
        return bool(Path(mark[0]).stat().st_mtime_ns != mark[3])
    except FileNotFoundError:
        return True


# -- the job -----------------------------------------------------------------------------------
RUN_LOCK_FILE: Final = "backfill.lock"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The plan of a run: ranges to read, results to reuse, and disk space.

    reused        finished ranges of an earlier run, which are not read again
    is_complete   whether the directory already contains the requested views
    is_cleared    whether the run removes all files of an earlier run
    needed        estimated size of the output
    free_bytes    free bytes on the output's disk
    """

    ranges: list[Range]
    upto: int
    reused: list[Range]
    is_complete: bool
    is_cleared: bool
    needed: Estimate
    free_bytes: int


def new_job(
    store: Path,
    out: Path,
    settings: KnownShape,
    *,
    log_file_bytes: int,
    upto: int | None = None,
    **options: Any,
) -> RebuildJob:
    """Returns a job for a store's log.

    upto      physical offset; only records that start below it are read; None: all records
    options   of `RebuildJob`: workers, piece_size, group_units, accept_holes, keep_spool, expired
    Errors    NotAStore, WrongFileSize, StoreGap
    """
    files = find_log_files(store.resolve(), log_file_bytes)
    end = files[-1].end if files else 0
    upto = end if upto is None else min(upto, end)
    return RebuildJob(files=files, settings=settings, out=out.resolve(), upto=upto, **options)


def objection(store: Path, out: Path) -> str:
    """Returns why a directory cannot be the output; "" if it can.

    A run may remove views from its output directory. So a directory that has views is accepted only
    if an earlier run wrote them.
    """
    store, out = store.resolve(), out.resolve()
    if not out.exists():
        return f"it is inside the store {store}" if store in out.parents else ""
    if not out.is_dir():
        return "it is no directory"
    if out == store or (out / COMMIT_LOG_DIRECTORY).exists():
        return "it is a store itself"
    if store in out.parents:
        return f"it is inside the store {store}"
    if (Staging(out).work / PLAN_FILE).exists():
        return ""
    for name in (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY):
        if (out / name).exists():
            return f"it holds {name}/, which no backfill wrote"
    return ""


def outlook(job: RebuildJob, mapper: Mapper) -> Outlook:
    """Returns the plan of `run`; changes nothing.

    Cost     reads samples of some megabytes; if files must be cut into ranges, also walks over all
             their records, at 0.3 µs a record
    """
    ranges = _ranges(job, mapper)
    reuse = find_reuse(job, ranges)
    return Outlook(
        ranges=ranges,
        upto=job.upto,
        reused=reuse.ranges,
        is_complete=reuse.is_complete,
        is_cleared=reuse.is_known and not reuse.is_usable,
        needed=estimate_job(job, ranges),
        free_bytes=shutil.disk_usage(_existing(job.out)).free,
    )


def run(job: RebuildJob, mapper: Mapper) -> Document:
    """Builds all views that are not yet built; returns the manifest.

    Errors   Corruption: valid records follow damage, unless the job accepts holes; IllegalTopic;
             StoreLocked: another run uses this directory; ViewFailed: a task failed; PlaceUnusable:
             the output is a URL, its disk is too small or read-only, or a worker does not reach log
             or output
    """
    refuse_address(job.out)
    staging = Staging(job.out)
    try:
        job.out.mkdir(parents=True, exist_ok=True)
        with _alone(job.out):
            _rebuild(job, staging, mapper)
    except TaskFailed as error:
        raise ViewFailed(path=str(job.out), tries=TRIES, why=str(error)) from error
    except OSError as error:
        raise unwritable(job.out, error) from error
    return manifest(job.out)


def _rebuild(job: RebuildJob, staging: Staging, mapper: Mapper) -> None:
    if (staging.work / PLAN_FILE).exists():
        reuse = find_reuse(job, _ranges(job, mapper))
        if reuse.is_complete:
            return
        _check_places(job, mapper)
        prepare(staging, reuse)
    else:
        _check_places(job, mapper)
    rebuild_parallel(job, mapper)


def _check_places(job: RebuildJob, mapper: Mapper) -> None:
    refuse_small_disk(job, shutil.disk_usage(job.out).free)
    probe_workers(job, mapper)


def manifest(out: Path) -> Document:
    """Returns the manifest of a finished run, or an empty document.

    The document is empty if no run has finished, or if the run has another format version.
    """
    staging = Staging(out)
    plan = staging.read(staging.work / PLAN_FILE) or {}
    if plan.get("format_version") != FORMAT_VERSION:
        return {}
    return staging.read(staging.work / MANIFEST_FILE) or {}


def is_running(out: Path) -> bool:
    """Returns whether a run is active in a directory."""
    try:
        descriptor = os.open(out / RUN_LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Not lockf: closing this descriptor would release the lock of a run in the same process.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _ranges(job: RebuildJob, mapper: Mapper) -> list[Range]:
    return plan_ranges(job.files, job.upto, mapper, workers=job.workers, piece_size=job.piece_size)


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Locks a directory, so that two runs do not write to it concurrently."""
    descriptor = os.open(out / RUN_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        number = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        holder = f"process {number}" if number.isdecimal() else "another process"
        raise StoreLocked(path=str(out), holder=holder) from error
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
