"""What has to hold before built views may take the place of a store's own.

Is the log still the one that was read, and was it read to its end? Whether files are what the
manifest says is seen while they are copied (checks.py).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from broker.backfill.job import manifest
from broker.model.finding import ScanEnd
from broker.rebuild.log_files import LogFile, find_log_files
from broker.rebuild.staging import Staging
from broker.walk.reader import LogReader


class LogFit(NamedTuple):
    """Whether built views are of a log.

    objection    why they cannot be, "" where nothing speaks against it
    is_certain   no file of the log was written to since it was read
    """

    objection: str
    is_certain: bool


def compare_log(out: Path, store: Path, log_file_bytes: int) -> LogFit:
    """Return whether views below `out` tell of all records of a store's log, and of no others.

    Errors   NotAStore, WrongFileSize, StoreGap
    Cost     the records behind the last one that was read; none, as a rule
    """
    built, files = manifest(out), find_log_files(store.resolve(), log_file_bytes)
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


def allocated_bytes(out: Path) -> int:
    """Return what the files the manifest names take on their disk."""
    paths = [out / mark["path"] for mark in manifest(out)["files"]]
    return sum(path.stat().st_blocks * 512 for path in paths if path.exists())


def queues_of(built: Mapping[str, Any]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return first and end offset by queue, as a manifest tells them."""
    return {(topic, queue_id): (begin, end) for topic, queue_id, begin, end in built["queues"]}
