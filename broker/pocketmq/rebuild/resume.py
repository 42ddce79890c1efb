"""Resumes a killed sequential rebuild behind the last file of the log that it finished.

    STATE/progress.json     the ranges read, the ends of queues, the index file being built
    STATE/slots-N.npy       its slot table after N files; the one that progress.json names counts

Files of the page cache die with the machine, so nothing from before a restart of it is trusted.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from pocketmq.rebuild.index_builder import IndexBuilder
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.rebuild.plan import Range
from pocketmq.rebuild.range_pass import RangeResult
from pocketmq.rebuild.staging import Staging, boot_id, range_mark, result_document, result_of
from pocketmq.rebuild.unit_files import QueueRun, UnitWriter

PROGRESS_FILE: Final = "progress.json"
SAVED_EVERY_BYTES: Final = 1 << 30
"""Bytes of log between two states: each writes a slot table, 20 MB with RocketMQ's sizes."""


class Resume:
    """Saves and restores the state of one rebuild in a directory of its own."""

    __slots__ = ("_directory", "_files", "_marks", "_saved_at", "_settings", "_upto")

    def __init__(
        self, directory: Path, files: Sequence[LogFile], settings: KnownShape, upto: int
    ) -> None:
        self._directory = directory
        self._files = files
        self._settings = asdict(settings)
        self._upto = upto
        self._marks: list[list[Any]] = []
        self._saved_at = files[0].base if files else 0

    def saved(self) -> dict[str, Any] | None:
        """Returns the saved state of this log with these settings since the machine was started."""
        found = Staging(self._directory).read(self._directory / PROGRESS_FILE)
        if found is None or (found["settings"], found["boot"]) != (self._settings, boot_id()):
            return None
        marks = [self._mark(file) for file in self._files[: len(found["marks"])]]
        return found if found["marks"] == marks else None

    def restore(self, units: UnitWriter, index: IndexBuilder) -> list[RangeResult]:
        """Brings everything to the last saved state; returns the ranges read until then.

        Returns  an empty list when there is nothing that fits
        """
        saved = self.saved()
        if saved is None:
            return []
        self._marks = saved["marks"]
        for (topic, queue_id), run in zip(saved["keys"], saved["runs"], strict=True):
            number = units.queues.add(topic.encode(), queue_id)
            if run is not None:
                units.runs[number] = QueueRun(*run)
        slots = np.load(self._directory / saved["slots"]) if saved["slots"] else None
        index.restore(saved["index"], slots)
        results = [result_of(document) for document in saved["results"]]
        self._saved_at = results[-1].end
        return results

    def _mark(self, file: LogFile) -> list[Any]:
        return range_mark(Range(file, file.base, min(file.end, self._upto)))

    def finished(
        self, file: LogFile, results: Sequence[RangeResult], units: UnitWriter, index: IndexBuilder
    ) -> None:
        """Takes notice of a file that was read; saves the state now and then."""
        assert file.end > self._saved_at
        self._marks.append(self._mark(file))
        if file.end - self._saved_at < SAVED_EVERY_BYTES:
            return
        self._saved_at = file.end
        units.flush()
        self._directory.mkdir(parents=True, exist_ok=True)
        index_state, slots = index.state()
        slots_name = "" if slots is None else f"slots-{len(self._marks)}.npy"
        if slots is not None:
            np.save(self._directory / slots_name, slots)
        runs = [units.runs.get(number) for number in range(len(units.queues.keys))]
        document = {
            "settings": self._settings,
            "boot": boot_id(),
            "marks": self._marks,
            "keys": [list(key) for key in units.queues.keys],
            "runs": [run and [run.first, run.count, run.is_regular] for run in runs],
            "slots": slots_name,
            "index": index_state,
            "results": [result_document(result) for result in results],
        }
        Staging(self._directory).write(self._directory / PROGRESS_FILE, document)
        for path in self._directory.glob("slots-*.npy"):
            if path.name != slots_name:
                path.unlink()
