"""Reads the progress of a parallel rebuild from its output directory.

planned ─► reading ─► indexing ─► complete
           ranges     parts       manifest.json

Every finished range and part (a group of queues, or an index file) has a small file. So any process
can read the progress, even after the run was killed.
"""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from pocketmq.backfill.job import is_running, manifest
from pocketmq.rebuild.staging import PLAN_FILE, Staging


class Phase(Enum):
    """The phase of a run, or the phase at which a killed run would resume."""

    PLANNED = "planned"
    READING = "reading"
    INDEXING = "indexing"
    COMPLETE = "complete"


@dataclass(slots=True)
class Progress:
    """Progress of a rebuild.

    entries   index entries of the finished ranges
    indexed   index entries in finished index files
    damage    errors of ranges, and holes in the log, as texts
    """

    phase: Phase
    is_running: bool
    upto: int
    range_count: int
    ranges_finished: int = 0
    log_bytes: int = 0
    bytes_finished: int = 0
    records: int = 0
    entries: int = 0
    indexed: int = 0
    damage: list[str] = field(default_factory=list)


class ProgressReader:
    """Reads the progress repeatedly; unchanged files are not read again."""

    __slots__ = ("_seen", "_staging")

    def __init__(self, out: Path) -> None:
        self._staging = Staging(out)
        self._seen: dict[tuple[Path, int], Any] = {}

    def look(self) -> Progress | None:
        """Returns the rebuild's current progress; None if no rebuild began in the directory."""
        plan = self._staging.read(self._staging.work / PLAN_FILE)
        if plan is None:
            return None
        progress = Progress(
            phase=Phase.PLANNED,
            is_running=is_running(self._staging.out),
            upto=plan["upto"],
            range_count=len(plan["ranges"]),
            log_bytes=plan["bytes"],
        )
        self._add_ranges(progress, plan)
        progress.indexed = sum(part["entries"] for part in self._documents("parts"))
        progress.phase = self._phase(progress)
        return progress

    def _add_ranges(self, progress: Progress, plan: dict[str, Any]) -> None:
        planned = {begin: [path, begin, end] for path, begin, end in plan["ranges"]}
        for document in self._documents("ranges"):
            path, begin, end, _ = document["range"]
            if planned.get(begin) != [path, begin, end]:
                continue
            if "error" in document:
                progress.damage.append(document["error"])
                continue
            progress.ranges_finished += 1
            progress.bytes_finished += end - begin
            progress.records += document["result"]["record_count"]
            progress.entries += document["result"]["entry_count"]
            progress.damage += [
                f"{hole['path']} at {hole['begin']}: {hole['reason']}"
                for hole in document["result"]["holes"]
                if hole["is_followed"]
            ]

    def _documents(self, directory: str) -> list[Any]:
        found = []
        for path in sorted((self._staging.work / directory).glob("*.json")):
            try:
                key = (path, path.stat().st_mtime_ns)
            except FileNotFoundError:
                continue  # The run has ended and removed its files.
            if key not in self._seen:
                self._seen[key] = self._staging.read(path)
            if self._seen[key] is not None:
                found.append(self._seen[key])
        return found

    def _phase(self, progress: Progress) -> Phase:
        if manifest(self._staging.out):
            progress.indexed = progress.entries
            return Phase.COMPLETE
        if progress.ranges_finished == progress.range_count:
            return Phase.INDEXING
        return Phase.READING if progress.ranges_finished or progress.damage else Phase.PLANNED
