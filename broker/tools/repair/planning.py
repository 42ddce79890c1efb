"""Looks at a store and says what a repair would do; nothing is changed.

what was found                                what is done
damage, sound records behind it in its file   stand-in records (format/stand_in.py)
damage up to a file's end, files behind it    stand-in records and a BLANK
damage behind the last sound record           zeros to the file's end
a head that no broker writes                  stand-in records
a property CRC of which only the name is off  the name is written again
a store time that cannot be                   that of the record before
a view that is not what the log says          all views are built anew
a table that cannot be read                   its .bak takes its place, else it is removed
a checkpoint beyond the log                   its numbers are brought down to the log's
a mark beyond the log                         the same; the records between are gone and told of
a missing or short file of the log            nothing at all: it has to come back from a copy
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.format.names import (
    BACKUP_SUFFIX,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    offset_from_file_name,
)
from broker.format.table_json import decode_table
from broker.log.quarantine import unfinished_repair
from broker.model.finding import Finding
from broker.rebuild.log_files import LogFile
from broker.rebuild.range_pass import no_advance
from broker.tools.repair.actions import FileAct, FileAction, LogAction, RepairPlan
from broker.tools.repair.log_planning import (
    NO_PROPERTY_CRC,
    STORE_TIME,
    LogPlanner,
    Suspect,
)
from broker.tools.repair.losses import QueueWitness
from broker.tools.store_access import KnownShape
from broker.tools.verify.tables import flushed_upto
from broker.tools.verify.verification import Verification, VerifyOptions, verify

FINDINGS_MAX: Final = 100_000
VIEW_NAMES: Final = (CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY, INDEX_DIRECTORY)
_BLOCKING: Final = frozenset({"missing_file", "file_size"})
_DAMAGE: Final = frozenset({"record", "torn_tail"})
_SUSPECT: Final = frozenset({"topic", "queue_id", "queue_offset", NO_PROPERTY_CRC, STORE_TIME})
"""Kinds of findings about a head that no broker writes, or hardly any."""


def plan_repair(
    disk: Disk, directory: Path, sizes: KnownShape, *, now_ms: int,
    advance: Callable[[int], None] = no_advance,
) -> RepairPlan:  # fmt: skip
    """Return what there is to do.

    Errors   NotAStore
    Cost     that of a verification
    """
    options = VerifyOptions(findings_max=FINDINGS_MAX, now_ms=now_ms)
    found = verify(disk, directory, sizes, options, advance)
    sorted_out = _Sorted(disk, directory)
    for finding in found.findings:
        sorted_out.take(finding)
    plan = RepairPlan(
        files=sorted_out.files,
        blocked=sorted_out.blocked,
        left=sorted_out.left,
        view_findings=dict(sorted_out.view_findings),
        notes=found.notes,
        checkpoint=sorted_out.checkpoint,
        log_end=found.log_end,
        is_continued=unfinished_repair(disk, directory) is not None,
    )
    upto = flushed_upto(disk, directory)
    if upto is not None and upto > found.log_end:
        plan.missing = (found.log_end, upto)
    if not plan.blocked:
        _plan_log(disk, directory, sizes, found, sorted_out.suspects, plan)
    if plan.builds_views and disk.exists(directory / CONSUME_QUEUE_EXTENSION_DIRECTORY):
        plan.notes.append("units will keep the plain tags code instead of an extension's address")
    return plan


def _plan_log(
    disk: Disk, directory: Path, sizes: KnownShape, found: Verification, suspects: list[Suspect],
    plan: RepairPlan,
) -> None:  # fmt: skip
    files = log_files(disk, directory, sizes.commit_log_file_size_bytes)
    plan.log_bytes = sum(file.size for file in files)
    damage = [*found.holes, *([found.tail] if found.tail is not None else [])]
    if not damage and not suspects:
        return
    witness = QueueWitness(disk, directory, sizes)
    try:
        planner = LogPlanner(
            disk, directory, files, damage, witness, property_crc=sizes.property_crc
        )
        plan.log = [planner.of_hole(hole) for hole in found.holes]
        if found.tail is not None:
            plan.log.append(planner.of_tail(found.tail))
        actions, left = planner.of_suspects(suspects)
        plan.log += actions
        plan.left += left
    finally:
        witness.close()
    plan.log = _without_overlaps(plan.log)
    if plan.log:  # Gaps in queues that are left without the damage are told after the repair.
        plan.left = [finding for finding in plan.left if finding.kind != "queue_offset"]


def _without_overlaps(actions: list[LogAction]) -> list[LogAction]:
    """Return actions in log order, without those on what another one replaces already."""
    kept: list[LogAction] = []
    for action in sorted(actions, key=lambda action: (action.begin, -action.end)):
        if not kept or action.begin >= kept[-1].end:
            kept.append(action)
    return kept


def log_files(disk: Disk, directory: Path, size: int) -> list[LogFile]:
    """Return the files of the log; others that stand there are passed over."""
    root = directory / COMMIT_LOG_DIRECTORY
    bases = [(root / name, offset_from_file_name(name)) for name in disk.names(root)]
    return [
        LogFile(str(path), base, size)
        for path, base in bases
        if base is not None and disk.file_size(path) == size
    ]


@dataclass(slots=True)
class _Sorted:
    """Findings by what is to be done about them."""

    disk: Disk
    directory: Path
    files: list[FileAction] = field(default_factory=list)
    blocked: list[Finding] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    view_findings: Counter[str] = field(default_factory=Counter)
    checkpoint: bool = False

    def take(self, finding: Finding) -> None:
        top = Path(finding.file).parts[0]
        if top in VIEW_NAMES:
            self.view_findings[finding.kind] += 1
        elif top == COMMIT_LOG_DIRECTORY:
            self._take_of_log(finding)
        elif finding.file == CHECKPOINT_FILE:
            self.checkpoint = True
        elif finding.kind == "table":
            self.files.append(self._table_action(finding))
        elif finding.kind != "lost_records":  # Told by the mark itself.
            self.left.append(finding)

    def _take_of_log(self, finding: Finding) -> None:
        kind, base = finding.kind, offset_from_file_name(Path(finding.file).name)
        if kind == "file_size" and self._is_unused(finding):
            self.files.append(FileAction(finding.file, "an empty file", FileAct.REMOVE))
        elif kind in _BLOCKING or (kind in _DAMAGE and not finding.repairable):
            self.blocked.append(finding)
        elif kind == "stray_file":
            self.files.append(FileAction(finding.file, "no file of the log", FileAct.REMOVE))
        elif base is not None and finding.repairable and kind in _SUSPECT:
            self.suspects.append(Suspect(base + finding.offset, kind, finding))
        elif kind not in _DAMAGE:
            self.left.append(finding)

    def _is_unused(self, finding: Finding) -> bool:
        """Return whether a file of the log is the last one and empty: it was never used."""
        path = self.directory / finding.file
        names = [name for name in self.disk.names(path.parent) if offset_from_file_name(name)]
        return path.name == names[-1] and self.disk.file_size(path) == 0

    def _table_action(self, finding: Finding) -> FileAction:
        path = self.directory / finding.file
        backup = path.with_name(path.name + BACKUP_SUFFIX)
        is_table = path.parent.name == CONFIG_DIRECTORY
        act = FileAct.RESTORE if is_table and self._parses(backup) else FileAct.REMOVE
        return FileAction(finding.file, finding.found, act)

    def _parses(self, path: Path) -> bool:
        try:
            decode_table(self.disk.read_file(path))
        except (OSError, ValueError):
            return False
        return True
