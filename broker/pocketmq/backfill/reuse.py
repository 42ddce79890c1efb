"""Decides which results of an earlier run in the same directory a run can reuse.

    the same request, finished                          complete: nothing is left to do
    same settings, at least as much of the log, and
    no file it read was written to since                the ranges it finished
    the last file it read was written to since          the others, as that file may have grown
    anything else                                       nothing; the old results are removed first

Units are written in place and never removed. So units of expired or no longer requested records
would otherwise stay in the queues.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketmq.rebuild.parallel import RebuildJob, is_finished
from pocketmq.rebuild.plan import Range
from pocketmq.rebuild.staging import (
    MANIFEST_FILE,
    PLAN_FILE,
    Staging,
    can_go_on,
    plan_document,
)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Results of an earlier run that a new run can reuse.

    is_known      an earlier run wrote here
    is_complete   it made the views asked for now
    is_usable     its results agree with the request
    ranges        that need not be read again
    changed       entries of ranges whose file was written to since
    """

    is_known: bool
    is_complete: bool
    is_usable: bool
    ranges: list[Range]
    changed: list[Document]


def find_reuse(job: RebuildJob, ranges: list[Range]) -> Reuse:
    """Returns the results that a job with these ranges can reuse; changes nothing."""
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
    """Removes results that must not be reused."""
    if reuse.is_known and not reuse.is_usable:
        staging.clear()
    elif reuse.changed:
        shutil.rmtree(staging.work / "pieces", ignore_errors=True)


def has_shrunk(staging: Staging, reuse: Reuse) -> bool:
    """Returns whether a changed range would hold less of a queue than before."""
    for before in reuse.changed:
        after = staging.read(staging.range_file(f"{before['range'][1]:020d}"))
        runs = {(topic, queue_id): run for topic, queue_id, *run in after["runs"]} if after else {}
        for topic, queue_id, first, count, _ in before["runs"]:
            now_first, now_count, _ = runs.get((topic, queue_id), (0, 0, False))
            if now_first != first or now_count < count:
                return True
    return False


def _is_usable(known: Document, wanted: Document, changed: list[Document]) -> bool:
    last_path = max((begin, path) for path, begin, _ in known["ranges"])[1] if changed else ""
    is_last = all(document["range"][0] == last_path for document in changed)
    return is_last and can_go_on(known, wanted)


def _is_complete(
    staging: Staging, job: RebuildJob, known: Document, wanted: Document, read: list[Document]
) -> bool:
    """Returns whether the files and the manifest match the request.

    A restart of the machine does not matter: files are durable before the manifest is there. How
    the log was cut does not matter either.
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
    """Returns whether the file of a finished range was written to or removed since."""
    try:
        return bool(Path(mark[0]).stat().st_mtime_ns != mark[3])
    except FileNotFoundError:
        return True
