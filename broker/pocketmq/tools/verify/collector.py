"""Collects findings: counts all, joins similar ones in one row, and sorts them by severity."""

from collections import Counter
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final

from pocketmq.format.names import COMMIT_LOG_DIRECTORY, is_junk, offset_file_name
from pocketmq.model.finding import ABSENT, Finding, Loss

STRAY: Final = "stray_file"
MISNAMED: Final = "file_name"
"""Kind of finding: the name of a log file is not the offset of its first record."""
FINDINGS_MAX: Final = 1_000
"""Default limit of rows that a verification keeps."""
RECORD: Final = "record"
LOST_RECORDS: Final = "lost_records"
BUILT_AT_START: Final = "no file: built at the next start"
_LOG: Final = f"{COMMIT_LOG_DIRECTORY}/"


class Fold(Enum):
    """Rule by which findings of one kind in one file become one row with a count."""

    ALL = "all"
    VIEWS = "those outside of the log"
    NONE = "none"


class Collector:
    """Findings and notes of one verification."""

    __slots__ = (
        "_fold", "_has_other_views", "_kept", "_kept_max", "_log_file_bytes", "_notes", "_root",
        "_rows", "absent", "counts", "is_copy", "unbuilt", "unbuilt_count",
    )  # fmt: skip

    def __init__(
        self, root: Path, log_file_bytes: int, kept_max: int = FINDINGS_MAX,
        fold: Fold = Fold.ALL, *, is_copy: bool = False, has_other_views: bool = False,
    ) -> None:  # fmt: skip
        """Begins a check.

        is_copy           the store is a backup's copy: its first start builds the views
        has_other_views   the views are in another directory: no start builds them
        """
        self._has_other_views = has_other_views
        self._root = root
        self._log_file_bytes = log_file_bytes
        self._kept_max = kept_max
        self._fold = fold
        self._kept = {True: 0, False: 0}
        self._rows: dict[tuple[str, str, int], Finding] = {}
        self.is_copy = is_copy
        self.absent: set[str] = set()
        """Paths of absent views, as `shown` returns them."""
        self.counts: Counter[str] = Counter()
        self._notes: dict[str, None] = {}
        self.unbuilt = range(0)
        """Physical offsets of records that the next start adds to the views after a kill."""
        self.unbuilt_count = 0
        """Number of their units and entries that the files lack."""

    @property
    def findings(self) -> list[Finding]:
        """The rows: lost messages first, then the log, other files, and absent views."""
        return sorted(self._rows.values(), key=_rank)[: self._kept_max]

    @property
    def notes(self) -> list[str]:
        """The notes in order, without duplicates."""
        return [*self._notes]

    @property
    def is_cut(self) -> bool:
        """Whether some rows were dropped, as there were more than the limit."""
        return sum(self._kept.values()) > self._kept_max

    def add(
        self, kind: str, path: Path | str, position: int, *, expected: str, found: str,
        repairable: bool = True, count: int = 1, lost: tuple[Loss, ...] = (),
    ) -> None:  # fmt: skip
        """Adds a finding.

        A stray file of an operating system or editor, which brokers ignore, is added as a note.

        count   number of adjacent faults that the finding covers
        """
        if kind == STRAY and is_junk(Path(path).name):
            self.remark(f"{self.shown(path)} is ignored: no broker wrote it")
            return
        self.counts[kind] += count
        file = self.shown(path)
        finding = Finding(kind, file, position, expected, found, repairable, count, lost)
        key = (kind, file, 0 if self._folds(finding) else self.counts[kind])
        before = self._rows.get(key)
        if before is not None:
            self._rows[key] = replace(before, count=before.count + count)
            return
        is_of_log = _rank(finding) <= _OF_LOG  # Rows of the log have a limit of their own.
        self._kept[is_of_log] += 1
        if self._kept[is_of_log] <= self._kept_max:
            self._rows[key] = finding

    def add_absent(self, view: Path, expected: str, count: int) -> None:
        """Adds a view whose files are absent, with their `count` units or entries."""
        self.absent.add(self.shown(view))
        if self._has_other_views:
            self.add("missing_file", view, 0, expected=expected, found="no file", count=count)
        elif not self.is_copy:
            self.add(ABSENT, view, 0, expected=expected, found=BUILT_AT_START, count=count)

    def _folds(self, finding: Finding) -> bool:
        """Returns whether a finding is counted in the row of its kind and file."""
        if finding.kind == ABSENT:
            return True
        if finding.lost or finding.kind == RECORD or self._fold is Fold.NONE:
            return False
        return self._fold is Fold.ALL or not finding.file.startswith(_LOG)

    def add_record(
        self, kind: str, physical_offset: int, *, expected: str, found: str,
        repairable: bool = True, count: int = 1, lost: tuple[Loss, ...] = (),
    ) -> None:  # fmt: skip
        """Adds a finding at a physical offset of the log."""
        position = physical_offset % self._log_file_bytes
        path = f"{_LOG}{offset_file_name(physical_offset - position)}"
        self.add(
            kind, path, position, expected=expected, found=found, repairable=repairable,
            count=count, lost=lost,
        )  # fmt: skip

    def is_unbuilt(self, physical_offset: int) -> bool:
        """Returns whether the next start builds what a record lacks in the views; counts it."""
        is_unbuilt = physical_offset in self.unbuilt
        self.unbuilt_count += is_unbuilt
        return is_unbuilt

    def remark(self, text: str) -> None:
        """Adds a note: a fact to report that is no fault."""
        assert text, "the note is empty"
        self._notes[text] = None

    def shown(self, path: Path | str) -> str:
        """Returns a path relative to the store's directory, or unchanged if it is outside."""
        path = Path(path)
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else str(path)


_OF_LOG: Final = 1


def _rank(finding: Finding) -> int:
    """Returns the severity group of a row; the gravest group has the lowest number."""
    if finding.kind == ABSENT:
        return 3
    if finding.lost or finding.kind == LOST_RECORDS:
        return 0
    return _OF_LOG if finding.file.startswith(_LOG) else 2
