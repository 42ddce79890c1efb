"""Plans the repair of a store; changes nothing.

finding                                    repair
damage before valid records of its file    fillers (format/filler_record.py)
damage up to the end of a non-last file    fillers and a BLANK
damage after the last valid record         zeros up to the file's end
impossible fields in a record's head       fillers
wrong name of a correct property CRC       the name is rewritten
impossible store times                     the previous record's store time, else the next one's
views that differ from the log             all views are rebuilt
an unreadable table                        its valid .bak replaces it, else it is removed
timer files that differ from the log       the wheel is rebuilt from units, units from the log
a checkpoint beyond the log's end          its values are lowered to the log's end
a flushed mark beyond the log's end        the mark is lowered; the missing records are reported
a missing or short log file                if accepted: fillers; for the oldest, a raised mark
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.filler_record import Style, size_min
from pocketmq.format.names import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    VIEW_DIRECTORIES,
    offset_from_file_name,
)
from pocketmq.format.properties import NAME_SEPARATOR, PAIR_SEPARATOR, decode_properties
from pocketmq.format.record import (
    BLANK_SIZE,
    PROPERTY_CRC_SIZE,
    BadRecord,
    decode_record,
    encode_blank,
    property_crc_field,
    split_record,
)
from pocketmq.log.foreign import check_understood
from pocketmq.log.quarantine import unfinished_repair
from pocketmq.model.finding import Finding, Loss
from pocketmq.model.message import KEYS, OFFSET_MAX, UNIQUE_KEY, has_queue_offset
from pocketmq.rebuild.log_files import KnownShape, LogFile, bytes_at
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.durable import flushed_upto
from pocketmq.tools.repair.actions import (
    FileAct,
    FileAction,
    LogAct,
    LogAction,
    RepairPlan,
    backup_of,
)
from pocketmq.tools.repair.neighbours import TIME_SIZE, Neighbour, Neighbours, store_time_position
from pocketmq.tools.verify.collector import LOST_RECORDS, MISNAMED, STRAY, Fold
from pocketmq.tools.verify.listing import cut_step
from pocketmq.tools.verify.losses import QueueWitness, RecordedRanges
from pocketmq.tools.verify.tables import parses
from pocketmq.tools.verify.timers import is_about_timers
from pocketmq.tools.verify.verification import STORE_TIME, Verification, VerifyOptions, verify
from pocketmq.walk.log_walk import ORDERLY_END, Hole

# -- plans the replacement of each damaged range of the log ------------------------------------
NO_PROPERTY_CRC: Final = "property_crc"
"""Kind of finding: a record has no property CRC, but others have one."""
QUEUE_OFFSET: Final = "queue_offset"
_NAME_SIZE: Final = 9
"""Bytes of a property CRC's name and the separator after it."""
_DIGITS: Final = slice(_NAME_SIZE, PROPERTY_CRC_SIZE - 1)
_PIECE: Final = 1024 * 1024
_NAMES_MAX: Final = 20
"""Upper limit of records of one damaged range whose ids and keys are reported."""


Losses = Callable[[int, int], tuple[Loss, ...]]
"""Returns the messages whose records begin in [begin, end)."""


class Suspect(NamedTuple):
    """A valid record with an impossible field or no property CRC; `kind` is the finding's kind."""

    physical_offset: int
    kind: str
    finding: Finding


class LogPlanner:
    """Plans what replaces the damaged and missing bytes of a log.

    losses   returns the messages whose records start in a range of the log
    """

    __slots__ = ("_files", "_losses", "_neighbours", "_now_ms", "_property_crc")

    def __init__(
        self, files: Sequence[LogFile], damage: Sequence[Hole], losses: Losses,
        *, property_crc: bool, now_ms: int = 0,
    ) -> None:  # fmt: skip
        self._files = files
        self._now_ms = now_ms
        self._losses = losses
        self._property_crc = property_crc
        self._neighbours = Neighbours(files, damage, property_crc=property_crc)

    def of_hole(self, hole: Hole) -> LogAction:
        """Returns the replacement of damage that valid records, or further files, follow."""
        end, style, taken = hole.end, self._style(hole.begin, hole.end), list[Neighbour]()
        if end == self._file_at(hole.begin).end and not hole.is_followed:
            is_blank = self._is_damaged_blank(hole) or (
                end - hole.begin - BLANK_SIZE < size_min(style)
            )
            act = LogAct.BLANK if is_blank else LogAct.FILE_END
            return self._action(hole.begin, end, hole.reason, act, style)
        while end - hole.begin < size_min(style):
            # The damage is shorter than the smallest filler, so the next record is replaced also.
            following = self._neighbours.at(end)
            assert following is not None
            end += following.size
            taken.append(following)
        action = self._action(hole.begin, end, hole.reason, LogAct.STAND_IN, style, taken=taken)
        return replace(action, names=tuple(self._names(hole.begin, hole.end)))

    def _names(self, begin: int, end: int) -> Iterator[str]:
        """Yields ids and keys of damaged records whose lengths and properties can be read."""
        for _ in range(_NAMES_MAX):
            size = int.from_bytes(bytes_at(self._files, begin, 4)) if end - begin >= 4 else 0
            if not 0 < size <= end - begin:
                return
            content = bytes_at(self._files, begin, size)
            try:
                _, _, _, _, block_begin, block_end = split_record(content, 0)
            except BadRecord:
                return
            block = content[block_begin:block_end]
            if not _is_property_block(block):
                return
            found = decode_properties(block)
            yield f"id {found.get(UNIQUE_KEY, 'unknown')}, keys {found.get(KEYS, 'none')}"
            begin += size

    def of_gap(self, gap: Hole) -> LogAction:
        """Returns the replacement of a missing file, or of a file's missing end."""
        begin, end, base = gap.begin, gap.end, int(Path(gap.path).name)
        ends = [file.end for file in self._files if file.base == base]
        lacks_from = ends[0] if ends else base
        style = self._style(begin, end)
        if all(file.base < end for file in self._files):
            act = LogAct.ZERO
        elif end - begin - BLANK_SIZE < size_min(style) or self._is_blank(begin, end, lacks_from):
            act = LogAct.BLANK
        else:
            act = LogAct.FILE_END
        action = self._action(begin, end, gap.reason, act, style, path=Path(gap.path))
        return replace(action, lacks_from=lacks_from)

    def _is_blank(self, begin: int, end: int, lacks_from: int) -> bool:
        """Returns whether a file was cut after the head of its BLANK, so that it lost no record."""
        if lacks_from < begin + BLANK_SIZE:
            return False
        return bytes_at(self._files, begin, BLANK_SIZE) == encode_blank(end - begin)

    def _is_damaged_blank(self, hole: Hole) -> bool:
        """Returns whether the damage can only be a damaged BLANK.

        Such damage is 8 bytes that are not all zeros, and then zeros. No consume unit points to it.
        """
        if self._losses(hole.begin, hole.end):
            return False
        front, *rest = (piece.strip(b"\0") for piece in self._pieces(hole))
        return front != b"" and not any(rest)

    def _pieces(self, hole: Hole) -> Iterator[bytes]:
        """Yields the first BLANK_SIZE bytes of damage, then the rest in pieces."""
        yield bytes_at(self._files, hole.begin, BLANK_SIZE)
        for begin in range(hole.begin + BLANK_SIZE, hole.end, _PIECE):
            yield bytes_at(self._files, begin, min(_PIECE, hole.end - begin))

    def of_tail(self, tail: Hole) -> LogAction:
        """Returns the replacement of the bytes after the last valid record."""
        end = self._file_at(tail.begin).end
        style = self._style(tail.begin, end)
        return self._action(tail.begin, end, tail.reason, LogAct.ZERO, style)

    def of_suspects(self, suspects: Sequence[Suspect]) -> tuple[list[LogAction], list[Finding]]:
        """Returns actions on records with impossible fields, and findings left unrepaired."""
        odd_places = {found.physical_offset for found in suspects if found.kind == STORE_TIME}
        actions: list[LogAction] = []
        left: list[Finding] = []
        for run in self._runs(sorted(odd_places)):
            actions += self._of_odd_run(run, odd_places)
            odd_places.difference_update(record.physical_offset for record in run)
        for suspect in suspects:
            if suspect.kind == STORE_TIME and suspect.physical_offset not in odd_places:
                continue
            action = self._of_suspect(suspect)
            if action is None:
                left.append(suspect.finding)
            else:
                actions.append(action)
        return actions, left

    def _runs(self, odd_places: Sequence[int]) -> Iterator[list[Neighbour]]:
        """Yields sequences of two or more adjacent records with impossible store times."""
        run: list[Neighbour] = []
        for place in odd_places:
            record, before = self._neighbours.at(place), self._neighbours.before(place)
            is_next = run and before is not None and before.physical_offset == run[-1][0]
            if len(run) > 1 and not is_next:
                yield run
            run = [*run, record] if is_next and record else [record] if record else []
        if len(run) > 1:
            yield run

    def _of_odd_run(self, run: Sequence[Neighbour], odd_places: set[int]) -> Iterator[LogAction]:
        """Yields actions that give all records of a sequence one possible store time.

        It is the store time of the previous record, else of the next record, else the time of the
        repair. Such sequences exist if the clock of the broker's machine was wrong.
        """
        before, behind = self._neighbours.before(run[0][0]), self._neighbours.after(run[-1].end)
        beside = [one for one in (before, behind) if one and one.physical_offset not in odd_places]
        time_ms = beside[0].time_ms if beside else self._now_ms
        number = 0
        while number < len(run):
            begin, content = run[number].physical_offset, bytearray()
            file, first = self._file_at(begin), number
            while number < len(run) and len(content) < _PIECE:
                if run[number].physical_offset != begin + len(content) or not begin < file.end:
                    break
                content += self._with_time(run[number], time_ms)
                number += 1
            yield self._action(
                begin, begin + len(content),
                f"{number - first} records have impossible store times",
                LogAct.TIME, Style(time_ms, run[first].property_crc), bytes(content),
            )  # fmt: skip

    def _with_time(self, record: Neighbour, time_ms: int) -> bytes:
        """Returns a record with another store time, and with its property CRC recomputed."""
        content = bytearray(bytes_at(self._files, record.physical_offset, record.size))
        position = store_time_position(bytes(content))
        content[position : position + TIME_SIZE] = time_ms.to_bytes(TIME_SIZE)
        if record.property_crc:
            content[-PROPERTY_CRC_SIZE:] = property_crc_field(bytes(content[:-PROPERTY_CRC_SIZE]))
        return bytes(content)

    def _of_suspect(self, suspect: Suspect) -> LogAction | None:
        record = self._neighbours.at(suspect.physical_offset)
        if record is None:
            return None
        if suspect.kind == NO_PROPERTY_CRC:
            return self._of_lost_crc(record)
        if suspect.kind == STORE_TIME:
            return self._of_odd_time(record)
        return self._of_record(record, f"{suspect.kind}: {suspect.finding.found}")

    def _of_record(
        self, record: Neighbour, reason: str, taken: Sequence[Neighbour] = ()
    ) -> LogAction:
        begin, end = record.physical_offset, record.end
        style = self._style(begin, end)
        return self._action(begin, end, reason, LogAct.STAND_IN, style, taken=taken)

    def _of_odd_time(self, record: Neighbour) -> LogAction | None:
        """Returns the action that gives a single record a possible store time.

        Returns None if the log has no other record whose store time could be copied.
        """
        begin = record.physical_offset
        before, behind = self._neighbours.before(begin), self._neighbours.at(record.end)
        beside = [found for found in (before, behind) if found is not None]
        if not beside:
            return None
        content = bytes_at(self._files, begin, record.size)
        place, time_ms = begin + store_time_position(content), beside[0].time_ms
        return self._action(
            place, place + TIME_SIZE, f"the record at {begin} has an impossible store time",
            LogAct.TIME, Style(time_ms, record.property_crc), time_ms.to_bytes(TIME_SIZE),
        )  # fmt: skip

    def _of_lost_crc(self, record: Neighbour) -> LogAction | None:
        """Returns the action on a record without a property CRC in a log whose records have one.

        If only the CRC's name is damaged, the action rewrites the name. If other properties are
        damaged, a filler replaces the record. Otherwise the record was written without a CRC and
        stays unchanged (None).
        """
        content = bytes_at(self._files, record.physical_offset, record.size)
        expected = property_crc_field(content[:-PROPERTY_CRC_SIZE])
        if content[-PROPERTY_CRC_SIZE:][_DIGITS] == expected[_DIGITS]:
            return self._action(
                record.end - PROPERTY_CRC_SIZE, record.end,
                "the name of its property CRC is damaged, the CRC itself is right",
                LogAct.CRC_FIELD, Style(record.time_ms, property_crc=True), expected,
            )  # fmt: skip
        _, _, _, _, block_begin, block_end = split_record(content, 0)
        if _is_property_block(content[block_begin:block_end]):
            return None
        return self._of_record(record, "its properties are damaged", [record])

    def _action(
        self, begin: int, end: int, reason: str, act: LogAct, style: Style, content: bytes = b"",
        path: Path | None = None, taken: Sequence[Neighbour] = (),
    ) -> LogAction:  # fmt: skip
        """Returns an action; with `content`, the action rewrites fields and loses no message.

        taken   replaced records whose topic, queue and offset are right: queues show no loss there
        """
        path = path or Path(self._file_at(begin).path)
        why = "no record where one must be" if reason == ORDERLY_END else reason
        losses = () if content else self._losses(begin, end)
        for record in taken:
            losses += self._loss_of(record, losses)
        return LogAction(
            f"{path.parent.name}/{path.name}", begin, end, why, act, style, losses, content
        )

    def _loss_of(self, record: Neighbour, known: Sequence[Loss]) -> tuple[Loss, ...]:
        """Returns the message of a valid record, unless known losses contain it."""
        own = _message_at(self._files, record.physical_offset)
        is_known = any(
            loss[:2] == own[:2] and loss.first <= own.first < loss.first + loss.messages
            for loss in known
        )
        return () if is_known or not own.messages else (own,)

    def _style(self, begin: int, end: int) -> Style:
        before, after = self._neighbours.before(begin), self._neighbours.after(end)
        beside = [found for found in (before, after) if found is not None]
        is_marked = self._property_crc or any(found.property_crc for found in beside)
        return Style(beside[0].time_ms if beside else 0, is_marked)

    def _file_at(self, physical_offset: int) -> LogFile:
        return next(file for file in self._files if file.base <= physical_offset < file.end)


def _message_at(files: Sequence[LogFile], physical_offset: int) -> Loss:
    """Returns the message of a valid record; 0 messages if the record has no queue offset."""
    size = int.from_bytes(bytes_at(files, physical_offset, 4))
    message = decode_record(bytes_at(files, physical_offset, size), decompress=False)
    count = int(has_queue_offset(message.system_flag))
    return Loss(message.topic, message.queue_id, message.queue_offset, count)


def _is_property_block(block: bytes) -> bool:
    """Returns whether a property block is formatted as brokers write it."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return False
    pairs = [pair for pair in text.split(PAIR_SEPARATOR) if pair]
    names = [pair.partition(NAME_SEPARATOR) for pair in pairs]
    return "\0" not in text and all(name and separator for name, separator, _ in names)


# ----------------------------------------------------------------------------------------------
# -- the plan ----------------------------------------------------------------------------------
FINDINGS_MAX: Final = 100_000
BLOCKING: Final = frozenset({"missing_file", "file_size"})
_DAMAGE: Final = frozenset({"record", "torn_tail"})
_SHOWING: Final = frozenset({"record", *BLOCKING})
"""Kinds of findings that show the lost messages of one action."""
_SUSPECT: Final = frozenset({"topic", "queue_id", QUEUE_OFFSET, NO_PROPERTY_CRC, STORE_TIME})
"""Kinds of findings in record heads: brokers never or rarely write such heads."""


def plan_repair(
    disk: Disk, directory: Path, sizes: KnownShape, *, now_ms: int, accept_loss: bool = False,
    advance: Advance = no_advance,
) -> RepairPlan:  # fmt: skip
    """Verifies a store and returns the plan of its repair.

    accept_loss   replaces missing files of the log, and missing ends of files, by fillers
    Errors   NotAStore, and those of `check_understood`
    Cost     that of a verification
    """
    check_understood(disk, directory)
    options = VerifyOptions(findings_max=FINDINGS_MAX, fold=Fold.VIEWS, now_ms=now_ms)
    found = verify(disk, directory, sizes, options, advance)
    plan = RepairPlan(
        notes=found.notes,
        log_files=found.files,
        log_end=found.log_end,
        lost_earlier=found.lost_earlier,
        doubts=found.doubts,
        is_continued=unfinished_repair(disk, directory) is not None,
    )
    suspects: list[Suspect] = []
    for finding in found.findings:
        if is_about_timers(finding):
            counts = plan.timer_findings
            counts[finding.kind] = counts.get(finding.kind, 0) + finding.count
        elif finding.kind == LOST_RECORDS:
            plan.ends_in = finding.file  # `missing` or `lost_behind` has the loss.
        elif finding.file.startswith(f"{COMMIT_LOG_DIRECTORY}/"):
            path = directory / finding.file
            _take_of_log(disk, path, finding, plan, suspects, accept_loss=accept_loss)
        else:
            _take(disk, directory / finding.file, finding, plan)
    if plan.renames:  # Other actions name files of the log: the next round plans them.
        plan.files = [action for action in plan.files if action.act is FileAct.RENAME]
        plan.view_findings, plan.timer_findings, plan.checkpoint = {}, {}, False
        plan.notes.append("other findings are repaired after the files have their names")
        return plan
    if found.head is not None and accept_loss:
        plan.head = (found.head.begin, found.head.end)
        shown = [each.lost for each in found.findings if _place(each) == found.head.begin]
        plan.lost_head = next(iter(shown), ())
    upto = flushed_upto(disk, directory)
    if upto is not None and upto > found.log_end:
        plan.missing = (found.log_end, upto)
    may_end_early = upto is None or plan.missing is not None
    is_damaged = suspects or found.holes or found.gaps or found.tail is not None
    if not plan.blocked and (is_damaged or may_end_early):
        witness = QueueWitness(disk, directory, _recorded(found, suspects))
        _plan_log(
            plan, found, suspects, witness, may_end_early=may_end_early,
            property_crc=sizes.property_crc, now_ms=now_ms,
        )  # fmt: skip
    has_extension = disk.exists(directory / CONSUME_QUEUE_EXTENSION_DIRECTORY)
    if plan.builds_views and has_extension and not sizes.consume_queue_extension:
        plan.notes.append("units will keep the plain tags code instead of an extension's address")
    return plan


def _recorded(found: Verification, suspects: Sequence[Suspect]) -> RecordedRanges:
    """Returns the recorded ranges, without queues of records with an impossible queue offset.

    Such a record counts at its unit's offset, but the repair replaces it.
    """
    odd = [each.physical_offset for each in suspects if each.kind == QUEUE_OFFSET]
    keys = {_message_at(found.files, place)[:2] for place in odd}
    return {key: rows for key, rows in found.recorded.items() if key not in keys}


BLOCKED: Final = "nothing can be done yet: the files marked as not repaired are needed"


def blocked_step(plan: RepairPlan, directory: Path) -> str:
    """Returns what an operator does before a repair that needs files."""
    assert plan.blocked, "nothing blocks the repair"
    step = "restore them from a backup"
    if all(finding.kind in BLOCKING and finding.repairable for finding in plan.blocked):
        step += f"; without one: {accepting(directory)}"
    cut = cut_step(plan.blocked[0], directory)
    return f"{step}; {cut}" if cut else step


def accepting(directory: Path) -> str:
    """Returns the command that repairs without missing files."""
    return f"pocketmq store repair {quote(str(directory))} --accept-loss"


def _plan_log(
    plan: RepairPlan, found: Verification, suspects: list[Suspect], witness: QueueWitness, *,
    may_end_early: bool, property_crc: bool, now_ms: int,
) -> None:  # fmt: skip
    """Plans the actions on the log, whose missing files and ends are accepted as lost."""
    tails = [found.tail] if found.tail is not None else []
    shown = {_place(each): each.lost for each in found.findings if each.kind in _SHOWING}
    ends = [found.log_end, *(found.files[-1].end for _ in tails), *(g.end for g in found.gaps)]
    if may_end_early:
        plan.lost_behind = witness.losses(max(ends), OFFSET_MAX)
    planner = LogPlanner(
        found.files, [*found.holes, *tails],
        lambda begin, end: shown.get(begin) or witness.losses(begin, end),
        property_crc=property_crc, now_ms=now_ms,
    )  # fmt: skip
    of_damage = [*map(planner.of_hole, found.holes), *map(planner.of_tail, tails)]
    of_damage += map(planner.of_gap, found.gaps)
    actions, left = planner.of_suspects(suspects)
    plan.log = _without_overlaps([*of_damage, *actions])
    plan.left += left
    if plan.log:  # The verification after the repair reports gaps that remain.
        plan.left = [finding for finding in plan.left if finding.kind != QUEUE_OFFSET]


def _without_overlaps(actions: list[LogAction]) -> list[LogAction]:
    """Returns actions in log order; of overlapping actions only the first, longest one."""
    kept: list[LogAction] = []
    for action in sorted(actions, key=lambda action: (action.begin, -action.end)):
        if not kept or action.begin >= kept[-1].end:
            kept.append(action)
    return kept


def _place(finding: Finding) -> int:
    """Returns the physical offset of a finding in the log; -1 for other findings."""
    path = Path(finding.file)
    base = offset_from_file_name(path.name)
    is_of_log = path.parts[0] == COMMIT_LOG_DIRECTORY
    return base + finding.offset if is_of_log and base is not None else -1


def _take(disk: Disk, path: Path, finding: Finding, plan: RepairPlan) -> None:
    """Plans the action on a finding outside of the log."""
    if Path(finding.file).parts[0] in VIEW_DIRECTORIES:
        counts = plan.view_findings
        counts[finding.kind] = counts.get(finding.kind, 0) + finding.count
    elif finding.file == CHECKPOINT_FILE:
        plan.checkpoint = True
    elif finding.kind == "table" and finding.repairable:
        is_restored = path.parent.name == CONFIG_DIRECTORY and parses(disk, backup_of(path))
        act = FileAct.RESTORE if is_restored else FileAct.REMOVE
        plan.files.append(FileAction(finding.file, finding.found, act))
    else:
        plan.left.append(finding)


def _take_of_log(
    disk: Disk, path: Path, finding: Finding, plan: RepairPlan, suspects: list[Suspect], *,
    accept_loss: bool,
) -> None:  # fmt: skip
    kind, base = finding.kind, offset_from_file_name(path.name)
    if kind == "file_size" and _is_unused(disk, path):
        plan.files.append(FileAction(finding.file, "an empty file", FileAct.REMOVE))
    elif kind in BLOCKING and accept_loss and finding.repairable:
        return  # `of_gap` plans the action.
    elif kind in BLOCKING or (kind in _DAMAGE and not finding.repairable):
        plan.blocked.append(finding)
    elif kind == STRAY:
        plan.files.append(FileAction(finding.file, finding.found, FileAct.REMOVE))
    elif kind == MISNAMED:
        name = finding.expected.rpartition(" ")[2]
        plan.files.append(FileAction(finding.file, finding.found, FileAct.RENAME, name))
    elif base is not None and finding.repairable and kind in _SUSPECT:
        suspects.append(Suspect(base + finding.offset, kind, finding))
    elif kind not in _DAMAGE:
        plan.left.append(finding)


def _is_unused(disk: Disk, path: Path) -> bool:
    """Returns whether a file is the log's last one and has no bytes."""
    names = [name for name in disk.names(path.parent) if offset_from_file_name(name) is not None]
    return path.name == names[-1] and disk.file_size(path) == 0
