"""What has to hold before built views may take the place of a store's own, and their copy.

is the log still the one that was read, and read to its end      compare_log
are the files what the manifest says                             copy_views, while it copies
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.backfill.job import Document, manifest
from broker.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from broker.model.finding import Finding
from broker.model.results import ScanEnd
from broker.rebuild.log_files import LogFile
from broker.rebuild.manifest import view_files
from broker.rebuild.range_pass import tell_nobody
from broker.rebuild.staging import Staging
from broker.walk.reader import LogReader

PIECE_BYTES: Final = 1024 * 1024


class LogFit(NamedTuple):
    """Whether built views are of a log.

    objection    why they cannot be, "" where nothing speaks against it
    is_certain   no file of the log was written to since it was read
    """

    objection: str
    is_certain: bool


def compare_log(out: Path, files: list[LogFile]) -> LogFit:
    """Return whether views below `out` tell of all records of these files, and of no others.

    Cost     the records behind the last one that was read; none, as a rule
    """
    built = manifest(out)
    begin = files[0].base if files else 0
    if built["begin"] != begin:
        return LogFit(f"the log begins at {begin}, the views at {built['begin']}", False)
    end = files[-1].end if files else 0
    if built["end"] > end:
        return LogFit(f"the log ends before {built['end']}, where the views end", False)
    found = _records_behind(files, built["end"])
    if found:
        return LogFit(f"the log goes on behind {built['end']}, where the views end", False)
    return LogFit("", _marks(out) == [_mark(file) for file in files if file.base < built["end"]])


def _records_behind(files: list[LogFile], physical_offset: int) -> bool:
    """Return whether the chain of records goes on at an offset, or in the next file."""
    for file in files:
        if file.end <= physical_offset:
            continue
        reader = LogReader()
        with file.opened() as source:
            for _ in reader.chunks(source, max(file.base, physical_offset), file.end):
                return True
        if reader.stop.kind is not ScanEnd.FILE_FULL:
            return False
    return False


def _marks(out: Path) -> list[tuple[str, int]]:
    """Return (name, time of change in ns) of the log files that were read, in order."""
    staging = Staging(out)
    marks = {}
    for path in (staging.work / "ranges").glob("*.json"):
        name, _, _, changed_ns = staging.read(path)["range"]
        marks[Path(name).name] = changed_ns
    end = manifest(out)["end"]
    return [(name, changed_ns) for name, changed_ns in sorted(marks.items()) if int(name) < end]


def _mark(file: LogFile) -> tuple[str, int]:
    path = Path(file.path)
    return path.name, path.stat().st_mtime_ns


def copy_views(out: Path, target: Path, tell: Callable[[int], None] = tell_nobody) -> list[Finding]:
    """Copy the files the manifest names, holes as holes; return those that are not as it says.

    Errors   OSError; what was copied up to then stays
    """
    marks: dict[str, Document] = {mark["path"]: mark for mark in manifest(out)["files"]}
    there = set(view_files(out))
    findings = [
        Finding("unexpected_file", path, 0, "nothing", "a file") for path in there - set(marks)
    ]
    for name in (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY):
        (target / name).mkdir(parents=True, exist_ok=True)
    for path, mark in marks.items():
        if path not in there:
            findings.append(Finding("missing_file", path, 0, "a file", "nothing"))
            continue
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        size, digest = _copy_file(out / path, target / path, tell)
        if (size, digest) != (mark["size"], mark["sha256"]):
            findings.append(Finding("sha256", path, 0, mark["sha256"], digest))
    return findings


def _copy_file(source: Path, target: Path, tell: Callable[[int], None]) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as reading, target.open("wb") as writing:
        while piece := reading.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
            if piece.count(0) == len(piece):
                writing.seek(size)
            else:
                writing.write(piece)
            tell(len(piece))
        writing.truncate(size)
    return size, digest.hexdigest()


def allocated_bytes(out: Path) -> int:
    """Return what the files the manifest names take on their disk."""
    paths = [out / mark["path"] for mark in manifest(out)["files"]]
    return sum(path.stat().st_blocks * 512 for path in paths if path.exists())


def queues_of(built: dict[str, Any]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return first and end offset by queue, as a manifest tells them."""
    return {(topic, queue_id): (begin, end) for topic, queue_id, begin, end in built["queues"]}
