"""The output directory of a parallel rebuild, and its progress files.

    OUT/consumequeue/ · OUT/index/            the built views
    OUT/rebuild/plan.json                     the request, and the ranges
    OUT/rebuild/ranges/BEGIN.json             a finished range, and its result
    OUT/rebuild/spool/BEGIN                   index entries of a range
    OUT/rebuild/units/BEGIN                   consume units of a range, by queue
    OUT/rebuild/drafts/WRITER/                files that a task writes before it renames them
    OUT/rebuild/parts/NAME.json, NAME.rows    a finished group of queues or index file; its rows
    OUT/rebuild/manifest.json                 every file with size, sha256 and origin

A killed run resumes from its finished ranges and parts, on any machine: all their files are durable
before they count as finished.
"""

import json
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
FORMAT_VERSION: Final = 4
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(slots=True)
class PartRows:
    """Rows of a finished part for the manifest, as JSON.

    queues      topic, queue id, first and end offset
    irregular   topic, queue id
    files       path, size, digest, source: `manifest.FileMark`
    """

    queues: list[Any] = field(default_factory=list)
    irregular: list[Any] = field(default_factory=list)
    files: list[Any] = field(default_factory=list)


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

    def units(self, name: str) -> Path:
        """Returns the file of a range's consume units."""
        return self.work / "units" / name

    def range_file(self, name: str) -> Path:
        """Returns the file that marks a range as finished."""
        return self.work / "ranges" / f"{name}.json"

    def part_file(self, name: str) -> Path:
        """Returns the file that marks a part as finished."""
        return self.work / "parts" / f"{name}.json"

    @contextmanager
    def drafts(self) -> Iterator[Path]:
        """Makes a directory for this attempt's view files, and removes it with all that is left."""
        path = self.work / "drafts" / self.writer
        path.mkdir(parents=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def finish_part(self, name: str, mark: list[int], entry_count: int, rows: PartRows) -> None:
        """Marks a part as finished; `entry_count` is the number of its index entries."""
        path = self.part_file(name)
        document = {"queues": rows.queues, "irregular": rows.irregular, "files": rows.files}
        self.write(path.with_suffix(".rows"), document)
        self.write(path, {"mark": mark, "entries": entry_count})

    def rows_of_part(self, name: str, mark: list[int]) -> PartRows | None:
        """Returns the rows of a part that is finished with this mark; None if it is not."""
        path = self.part_file(name)
        if (self.read(path) or {}).get("mark") != mark:
            return None
        rows = PartRows(**self.read(path.with_suffix(".rows")))
        try:
            sizes = [os.stat(self.out / name).st_size for name, *_ in rows.files]
        except FileNotFoundError:
            return None
        return rows if sizes == [size for _, size, *_ in rows.files] else None

    def clear(self) -> None:
        """Removes all files that a rebuild writes."""
        for directory in (WORK_DIRECTORY, *VIEW_DIRECTORIES):
            shutil.rmtree(self.out / directory, ignore_errors=True)

    def forget_parts(self) -> None:
        """Removes all views, and marks all parts as unfinished."""
        for directory in (self.work / "parts", *(self.out / name for name in VIEW_DIRECTORIES)):
            shutil.rmtree(directory, ignore_errors=True)

    def drop_scratch(self, *, with_spool: bool) -> None:
        """Removes temporary files.

        with_spool   whether to remove the spools too, from which a later run could resume
        """
        for directory in ("drafts", "parts", *(["spool", "units"] if with_spool else [])):
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
        with draft.open("w") as file:
            file.write(json.dumps(document))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def prepare(self, wanted: dict[str, Any]) -> bool:
        """Prepares the directory for a run; returns whether finished ranges are kept.

        They are kept if the earlier plan is compatible (`can_go_on`).
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
    agreeing = ("format_version", "expired")
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


def range_document(part: Range, result: RangeResult, unit_count: int) -> dict[str, Any]:
    """Returns the content of a finished range's file."""
    return {"range": range_mark(part), "result": result_document(result), "units": unit_count}


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
