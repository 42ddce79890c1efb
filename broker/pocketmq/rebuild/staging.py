"""The output directory of a parallel rebuild, and its progress files.

    OUT/consumequeue/ · OUT/index/            the built views
    OUT/rebuild/plan.json                     the request, and the ranges
    OUT/rebuild/ranges/BEGIN.json             a finished range, and its result
    OUT/rebuild/spool/BEGIN                   index entries of a range
    OUT/rebuild/pieces/NAME-NUMBER.json       a finished piece of an index file
    OUT/rebuild/manifest.json                 every file with size, sha256 and origin

A killed run resumes from its finished parts. A machine restart loses the page cache, so nothing
that was written before a restart is used.
"""

import json
import shutil
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pocketmq.format.deleted_topics import left_over_of
from pocketmq.format.names import VIEW_DIRECTORIES
from pocketmq.model.finding import ScanEnd
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.plan import Range
from pocketmq.rebuild.range_pass import RangeResult
from pocketmq.walk.log_walk import Hole
from pocketmq.walk.reader import Stop

WORK_DIRECTORY: Final = "rebuild"
PLAN_FILE: Final = "plan.json"
MANIFEST_FILE: Final = "manifest.json"
FORMAT_VERSION: Final = 3
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

Runs = list[tuple[str, int, int, int, bool]]
"""Rows of (topic, queue id, first queue offset, count, whether the offsets are continuous)."""


def new_writer(host: str = "") -> str:
    """Returns a name that no other attempt at a task has, on any machine.

    Process ids are not such names: two machines may run the same task in processes of equal ids.

    host   name of the machine; "": this machine's
    """
    return f"{host or socket.gethostname()}-{uuid4().hex}"


@dataclass(slots=True, eq=False)
class Staging:
    """Paths and small files of one rebuild.

    writer   name of this attempt (`new_writer`), part of the names of its drafts
    """

    out: Path
    writer: str = field(default_factory=new_writer)

    @property
    def work(self) -> Path:
        """Directory of files that are not views."""
        return self.out / WORK_DIRECTORY

    def draft(self, path: Path) -> Path:
        """Returns the file that this attempt writes, and renames to `path` when it is complete."""
        return path.with_name(f"{path.name}.{self.writer}.draft")

    def spool(self, name: str) -> Path:
        """Returns the file of a range's index entries."""
        return self.work / "spool" / name

    def table(self, name: str, number: int) -> Path:
        """Returns the file of the slot table of an index file's piece."""
        return self.work / "tables" / f"{name}-{number}.npy"

    def range_file(self, name: str) -> Path:
        """Returns the file that marks a range as finished."""
        return self.work / "ranges" / f"{name}.json"

    def piece_file(self, name: str, number: int) -> Path:
        """Returns the file that marks a piece of an index file as finished."""
        return self.work / "pieces" / f"{name}-{number}.json"

    def clear(self) -> None:
        """Removes all files that a rebuild writes."""
        for directory in (WORK_DIRECTORY, *VIEW_DIRECTORIES):
            shutil.rmtree(self.out / directory, ignore_errors=True)

    def forget_pieces(self) -> None:
        """Marks all pieces of index files as unfinished."""
        shutil.rmtree(self.work / "pieces", ignore_errors=True)

    def drop_scratch(self, *, with_spool: bool) -> None:
        """Removes temporary files; a later run can resume from the spool."""
        for directory in ("tables", "pieces", *(["spool"] if with_spool else [])):
            shutil.rmtree(self.work / directory, ignore_errors=True)
        for draft in self.work.rglob("*.draft"):
            draft.unlink(missing_ok=True)

    def read(self, path: Path) -> Any:
        """Returns a JSON file's document; None if the file is missing or invalid."""
        try:
            return json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def write(self, path: Path, document: Any) -> None:
        """Replaces a JSON file atomically; a reader finds the old or the new document."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.draft(path)
        draft.write_text(json.dumps(document))
        draft.replace(path)

    def prepare(self, wanted: dict[str, Any]) -> bool:
        """Prepares the directory for a run; returns whether finished ranges are kept.

        They are kept if the earlier plan is compatible (`can_go_on`) and this machine has not
        restarted after it.
        """
        known = self.read(self.work / PLAN_FILE)
        is_same = known is not None and can_go_on(known, wanted)
        if not is_same:
            self.clear()
        self.write(self.work / PLAN_FILE, wanted)
        (self.work / MANIFEST_FILE).unlink(missing_ok=True)
        return is_same


def can_go_on(known: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Returns whether the plan `wanted` can use the results of the plan `known`.

    A plan with a lower `upto` cannot: finished files would keep the units of records beyond it.
    A plan with new queues and topics can, as these do not change the files of other queues.
    """
    settings = known.get("settings", {})
    same_but = settings | {"left_over": wanted["settings"]["left_over"]}
    is_same = same_but == wanted["settings"] and known["upto"] <= wanted["upto"]
    agreeing = ("format_version", "boot", "expired")
    is_same = is_same and all(known.get(key) == wanted[key] for key in agreeing)
    if not is_same or "left_over" not in settings:
        return False
    now, before = (left_over_of(plan["settings"]["left_over"]) for plan in (wanted, known))
    return now.goes_on_from(before)


def boot_id() -> str:
    """Returns the machine's boot id; "" if the system has none."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""


def plan_document(
    ranges: list[Range], settings: KnownShape, upto: int, expired: Sequence[Path] = ()
) -> dict[str, Any]:
    """Returns the content of `plan.json`."""
    return {
        "format_version": FORMAT_VERSION,
        "settings": asdict(settings),
        "boot": boot_id(),
        "upto": upto,
        "bytes": sum(part.end - part.begin for part in ranges),
        "ranges": [[part.file.path, part.begin, part.end] for part in ranges],
        "expired": sorted(map(str, expired)),
    }


def build_settings(out: Path) -> tuple[int, KnownShape]:
    """Returns the `upto` of a planned rebuild, and the settings of its views."""
    staging = Staging(out)
    plan = staging.read(staging.work / PLAN_FILE)
    return plan["upto"], KnownShape(**plan["settings"])


def range_mark(part: Range) -> list[Any]:
    """Returns a fingerprint of a range, by which a finished range is recognized.

    It includes the file's modification time: a repair may have changed the file.
    """
    changed_ns = Path(part.file.path).stat().st_mtime_ns
    return [part.file.path, part.begin, part.end, changed_ns]


def range_document(part: Range, result: RangeResult, runs: Runs) -> dict[str, Any]:
    """Returns the content of a finished range's file."""
    return {"range": range_mark(part), "result": result_document(result), "runs": runs}


def result_document(result: RangeResult) -> dict[str, Any]:
    """Returns a result as a JSON document."""
    stop = result.stop._asdict() | {"kind": result.stop.kind.name}
    return asdict(result) | {"stop": stop}


def result_of(document: dict[str, Any]) -> RangeResult:
    """Parses a document of `result_document`."""
    fields = dict(document)
    stop = fields.pop("stop")
    fields["stop"] = Stop(ScanEnd[stop["kind"]], stop["physical_offset"], stop["reason"])
    fields["holes"] = [Hole(**hole) for hole in fields["holes"]]
    fields["last_times"] = tuple(fields["last_times"])
    fields["gaps"] = [(begin, end) for begin, end in fields["gaps"]]
    fields["left_over"] = [(topic, queue_id) for topic, queue_id in fields["left_over"]]
    return RangeResult(**fields)
