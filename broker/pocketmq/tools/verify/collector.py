"""Collects findings: counts all of them, and keeps the first ones."""

from collections import Counter
from pathlib import Path
from typing import Final

from pocketmq.format.names import COMMIT_LOG_DIRECTORY, is_junk, offset_file_name
from pocketmq.model.finding import Finding

STRAY: Final = "stray_file"
FINDINGS_MAX: Final = 1_000
"""Default number of findings kept."""


class Collector:
    """Findings and notes of one verification."""

    __slots__ = ("_kept_max", "_log_file_bytes", "_notes", "_root", "_told", "counts", "findings")

    def __init__(self, root: Path, log_file_bytes: int, kept_max: int = FINDINGS_MAX) -> None:
        self._root = root
        self._log_file_bytes = log_file_bytes
        self._kept_max = kept_max
        self._told = 0
        self.findings: list[Finding] = []
        self.counts: Counter[str] = Counter()
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> list[str]:
        """The notes, each once, in order."""
        return [*self._notes]

    @property
    def is_cut(self) -> bool:
        """Whether some findings were not kept."""
        return self._told > len(self.findings)

    def add(
        self, kind: str, path: Path | str, position: int, *, expected: str, found: str,
        repairable: bool = True, count: int = 1,
    ) -> None:  # fmt: skip
        """Adds a finding.

        A stray file made by a system or editor, which brokers ignore, is added as a note.

        count   number of adjacent faults that the finding covers
        """
        if kind == STRAY and is_junk(Path(path).name):
            self.remark(f"{self.shown(path)} is passed over: no broker made it")
            return
        self.counts[kind] += count
        self._told += 1
        if len(self.findings) < self._kept_max:
            self.findings.append(
                Finding(kind, self.shown(path), position, expected, found, repairable)
            )

    def add_record(
        self, kind: str, physical_offset: int, *, expected: str, found: str,
        repairable: bool = True, count: int = 1,
    ) -> None:  # fmt: skip
        """Adds a finding at a physical offset of the log."""
        position = physical_offset % self._log_file_bytes
        path = f"{COMMIT_LOG_DIRECTORY}/{offset_file_name(physical_offset - position)}"
        self.add(
            kind, path, position, expected=expected, found=found, repairable=repairable, count=count
        )

    def remark(self, text: str) -> None:
        """Adds a note: a fact that is worth reporting, but no fault."""
        assert text, "the note is empty"
        self._notes[text] = None

    def shown(self, path: Path | str) -> str:
        """Returns a path relative to the store's directory, or unchanged if it is outside."""
        path = Path(path)
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else str(path)
