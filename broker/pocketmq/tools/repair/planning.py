"""Examines a store and plans its repair; nothing is changed.

what was found                                what is done
damage, sound records behind it in its file   fillers (format/filler_record.py)
damage up to a file's end, files behind it    fillers and a BLANK
damage behind the last sound record           zeros to the file's end
a head that no broker writes                  fillers
a property CRC of which only the name is off  the name is written again
store times that cannot be                    that of the record before, or behind
a view that differs from the log              all views are rebuilt
a table that cannot be read                   its .bak takes its place, else it is removed
timer files that differ from the log          rebuilt: the wheel from units, units from the log
a checkpoint beyond the log                   its numbers are brought down to the log's
a mark beyond the log                         the same; the lost records between are reported
a missing or short file of the log            nothing at all: it has to come back from a copy
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, round_file_size
from pocketmq.format.names import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    offset_from_file_name,
    queue_directory,
    queue_id_from_name,
)
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.log.foreign import check_understood
from pocketmq.log.quarantine import unfinished_repair
from pocketmq.model.errors import IllegalTopic, StorageError
from pocketmq.model.finding import Finding
from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.durable import flushed_upto
from pocketmq.tools.repair.actions import FileAct, FileAction, LogAction, Loss, RepairPlan
from pocketmq.tools.repair.log_planning import (
    NO_PROPERTY_CRC,
    STORE_TIME,
    LogPlanner,
    Suspect,
)
from pocketmq.tools.repair.small_files import backup_of
from pocketmq.tools.verify.tables import parses
from pocketmq.tools.verify.timers import is_about_timers
from pocketmq.tools.verify.verification import VerifyOptions, verify


# -- lost messages -----------------------------------------------------------------------------
class QueueWitness:
    """The consume queues of a store as they are; unreadable queues are skipped."""

    __slots__ = ("_queues",)

    def __init__(self, disk: Disk, directory: Path, sizes: KnownShape) -> None:
        root = directory / CONSUME_QUEUE_DIRECTORY
        file_size = round_file_size(sizes.consume_queue_file_size_bytes)
        self._queues: list[ConsumeQueue] = []
        for topic, queue_id in _queue_keys(disk, root):
            place = queue_directory(root, topic, queue_id)
            queue = ConsumeQueue(disk, place, file_size, topic=topic, queue_id=queue_id)
            try:
                queue.load(read_only=True)
            except StorageError:
                queue.files.close()
            else:
                self._queues.append(queue)

    def losses(self, begin: int, end: int) -> tuple[Loss, ...]:
        """Returns the messages whose records begin in [begin, end).

        Cost     some 40 looks for each queue
        """
        found = []
        for queue in self._queues:
            lower, upper = map(queue.units.first_at_or_behind, (begin, end))
            if lower < upper:
                units = queue.units.read(lower, upper - lower)
                count = sum(unit[1] != PRE_BLANK_SIZE for unit in UNIT.iter_unpack(units))
                found.append(Loss(queue.topic, queue.queue_id, lower, count))
        return tuple(found)

    def close(self) -> None:
        """Unmaps all files."""
        for queue in self._queues:
            queue.files.close()


def _queue_keys(disk: Disk, root: Path) -> Iterator[QueueKey]:
    for topic in disk.names(root):
        ids = map(queue_id_from_name, disk.names(root / topic))
        with suppress(IllegalTopic):
            queue_directory(root, topic, 0)
            yield from [(topic, queue_id) for queue_id in ids if queue_id is not None]


# -- the plan ----------------------------------------------------------------------------------
FINDINGS_MAX: Final = 100_000
VIEW_NAMES: Final = (CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY, INDEX_DIRECTORY)
_BLOCKING: Final = frozenset({"missing_file", "file_size"})
_DAMAGE: Final = frozenset({"record", "torn_tail"})
_SUSPECT: Final = frozenset({"topic", "queue_id", "queue_offset", NO_PROPERTY_CRC, STORE_TIME})
"""Kinds of findings about a head that no broker writes, or hardly any."""


def plan_repair(
    disk: Disk, directory: Path, sizes: KnownShape, *, now_ms: int, advance: Advance = no_advance
) -> RepairPlan:
    """Plans the repair.

    Errors   NotAStore; those of `check_understood`
    Cost     that of a verification
    """
    check_understood(disk, directory)
    options = VerifyOptions(findings_max=FINDINGS_MAX, now_ms=now_ms)
    found = verify(disk, directory, sizes, options, advance)
    plan = RepairPlan(
        notes=found.notes,
        log_files=found.files,
        log_end=found.log_end,
        is_continued=unfinished_repair(disk, directory) is not None,
    )
    suspects: list[Suspect] = []
    for finding in found.findings:
        if is_about_timers(finding):
            counts = plan.timer_findings
            counts[finding.kind] = counts.get(finding.kind, 0) + 1
        elif finding.file.startswith(f"{COMMIT_LOG_DIRECTORY}/"):
            _take_of_log(disk, directory / finding.file, finding, plan, suspects)
        else:
            _take(disk, directory / finding.file, finding, plan)
    upto = flushed_upto(disk, directory)
    if upto is not None and upto > found.log_end:
        plan.missing = (found.log_end, upto)
    tails = [found.tail] if found.tail is not None else []
    may_end_early = upto is None or plan.missing is not None
    if not plan.blocked and (suspects or found.holes or tails or may_end_early):
        witness = QueueWitness(disk, directory, sizes)
        try:
            ends = [found.log_end, *(found.files[-1].end for _ in tails)]
            if may_end_early:
                plan.lost_behind = witness.losses(max(ends), OFFSET_MAX)
            planner = LogPlanner(
                found.files, [*found.holes, *tails], witness.losses,
                property_crc=sizes.property_crc, now_ms=now_ms,
            )  # fmt: skip
            of_damage = [*map(planner.of_hole, found.holes), *map(planner.of_tail, tails)]
            actions, left = planner.of_suspects(suspects)
        finally:
            witness.close()
        plan.log = _without_overlaps([*of_damage, *actions])
        plan.left += left
        if plan.log:  # Gaps that remain in queues are reported after the repair.
            plan.left = [finding for finding in plan.left if finding.kind != "queue_offset"]
    has_extension = disk.exists(directory / CONSUME_QUEUE_EXTENSION_DIRECTORY)
    if plan.builds_views and has_extension and not sizes.consume_queue_extension:
        plan.notes.append("units will keep the plain tags code instead of an extension's address")
    return plan


def _without_overlaps(actions: list[LogAction]) -> list[LogAction]:
    """Returns actions in log order, without those that another one covers."""
    kept: list[LogAction] = []
    for action in sorted(actions, key=lambda action: (action.begin, -action.end)):
        if not kept or action.begin >= kept[-1].end:
            kept.append(action)
    return kept


def _take(disk: Disk, path: Path, finding: Finding, plan: RepairPlan) -> None:
    """Plans the action on a finding outside of the log."""
    if Path(finding.file).parts[0] in VIEW_NAMES:
        plan.view_findings[finding.kind] = plan.view_findings.get(finding.kind, 0) + 1
    elif finding.file == CHECKPOINT_FILE:
        plan.checkpoint = True
    elif finding.kind == "table" and finding.repairable:
        is_restored = path.parent.name == CONFIG_DIRECTORY and parses(disk, backup_of(path))
        act = FileAct.RESTORE if is_restored else FileAct.REMOVE
        plan.files.append(FileAction(finding.file, finding.found, act))
    elif finding.kind != "lost_records":  # Told by the mark itself.
        plan.left.append(finding)


def _take_of_log(
    disk: Disk, path: Path, finding: Finding, plan: RepairPlan, suspects: list[Suspect]
) -> None:
    kind, base = finding.kind, offset_from_file_name(path.name)
    if kind == "file_size" and _is_unused(disk, path):
        plan.files.append(FileAction(finding.file, "an empty file", FileAct.REMOVE))
    elif kind in _BLOCKING or (kind in _DAMAGE and not finding.repairable):
        plan.blocked.append(finding)
    elif kind == "stray_file":
        plan.files.append(FileAction(finding.file, "no file of the log", FileAct.REMOVE))
    elif base is not None and finding.repairable and kind in _SUSPECT:
        suspects.append(Suspect(base + finding.offset, kind, finding))
    elif kind not in _DAMAGE:
        plan.left.append(finding)


def _is_unused(disk: Disk, path: Path) -> bool:
    """Returns whether a file of the log is the last one and empty: it was never used."""
    names = [name for name in disk.names(path.parent) if offset_from_file_name(name) is not None]
    return path.name == names[-1] and disk.file_size(path) == 0
