"""Actions of a repair: each copies damage to the quarantine and then repairs it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.checkpoint_layout import (
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)
from pocketmq.format.filler_record import Style, stand_in, stand_in_to_file_end
from pocketmq.format.names import (
    BACKUP_SUFFIX,
    CHECKPOINT_FILE,
    CONSUMER_OFFSETS_FILE,
    DELAY_OFFSETS_FILE,
    GROUPS_FILE,
    ORDER_INFO_FILE,
    OWN_DIRECTORY,
    TOPICS_FILE,
)
from pocketmq.log.quarantine import Quarantine
from pocketmq.log.store_directory import ManifestFile
from pocketmq.model.finding import Doubt, Finding, Loss, shown_loss
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import LogFile
from pocketmq.tools.install import write_mark
from pocketmq.tools.verify.collector import STRAY


# -- repairs or removes damaged tables, checkpoint and mark ------------------------------------
def backup_of(path: Path) -> Path:
    """Returns the path of a table's previous version."""
    return path.with_name(path.name + BACKUP_SUFFIX)


def lower_checkpoint(
    disk: Disk, directory: Path, *, log_end: int, last_time_ms: int, last_place: int
) -> dict[str, Any]:
    """Lowers checkpoint and mark to the log's end; returns their old and new values.

    log_end        physical offset after the last valid record
    last_time_ms   store time of the last valid record
    last_place     physical offset of the last valid record
    """
    path = directory / CHECKPOINT_FILE
    content = disk.read_file(path) if disk.exists(path) else b""
    before = decode_checkpoint(content)
    limits = CheckpointValues(
        physic_msg_timestamp=last_time_ms,
        logics_msg_timestamp=last_time_ms,
        index_msg_timestamp=last_time_ms,
        master_flushed_offset=before.master_flushed_offset,
        confirm_physical_offset=last_place,
        logics_physical_offset=last_place,
    )
    after = CheckpointValues(*(max(0, min(pair)) for pair in zip(before, limits, strict=True)))
    packed = encode_checkpoint(before), encode_checkpoint(after)
    mark = write_mark(disk, directory, *packed, log_end=log_end)
    wanted = packed[1].ljust(CHECKPOINT_FILE_SIZE, b"\0")
    if content and content != wanted:
        disk.replace_file(path, wanted)
        _follow(disk, directory, *packed)
    return {"checkpoint": {"before": before._asdict(), "after": after._asdict()}, "mark": mark}


def _follow(disk: Disk, directory: Path, before: bytes, after: bytes) -> None:
    """Replaces the old checkpoint in the manifest by the new one, if the manifest contains it."""
    file = ManifestFile(disk, directory / OWN_DIRECTORY)
    try:
        manifest = file.read()
    except ValueError:
        return
    if manifest is None or manifest.closed is None or manifest.closed.checkpoint != before.hex():
        return
    file.write(replace(manifest, closed=replace(manifest.closed, checkpoint=after.hex())))


# ----------------------------------------------------------------------------------------------
Document = dict[str, Any]


_PIECE: Final = 4096
"""Pieces of this size are not written to a completed file if they consist of zeros."""


class LogAct(Enum):
    """Replacements of damaged bytes of the log."""

    STAND_IN = "filler records"
    FILE_END = "filler records and a BLANK"
    BLANK = "a BLANK"
    ZERO = "zeros"
    CRC_FIELD = "its property CRC"
    TIME = "the store time of the record before"


_WITHOUT: Final = {
    TOPICS_FILE: "a start takes the topics from log and queues, without types and attributes",
    CONSUMER_OFFSETS_FILE: (
        "all groups lose their offsets and begin as new ones (broker.group_begin): read the "
        "offsets off the damaged file, and set them with `pocketmq group reset`"
    ),
    GROUPS_FILE: "groups lose their settings, and are made again at their first use",
    DELAY_OFFSETS_FILE: (
        "the broker finds the progress of the delay levels by the delivered messages, and may "
        "deliver some again"
    ),
    ORDER_INFO_FILE: "leases of FIFO groups are lost: their messages are delivered again",
}
"""File of config/ -> effect of its removal."""


class FileAct(Enum):
    """Repairs of a small file."""

    RESTORE = "its .bak takes its place"
    REMOVE = "it is moved to pocketmq/quarantine"
    RENAME = "it gets the name of its first record's offset"


@dataclass(frozen=True, slots=True)
class LogAction:
    """Bytes [begin, end) of the log and their replacement.

    file         path below the store
    losses       messages lost according to the consume queues; damaged queues show only some
    content      bytes to write for CRC_FIELD and TIME
    lacks_from   physical offset at which the file's bytes end; OFFSET_MAX: the file is complete
    names        ids and keys that are readable in the damaged bytes, and may be damaged
    """

    file: str
    begin: int
    end: int
    reason: str
    act: LogAct
    style: Style
    losses: tuple[Loss, ...] = ()
    content: bytes = b""
    lacks_from: int = OFFSET_MAX
    names: tuple[str, ...] = ()

    @property
    def document(self) -> Document:
        """The action in the format of the report."""
        return {
            "file": self.file,
            "begin": self.begin,
            "end": self.end,
            "bytes": self.end - self.begin,
            "reason": self.reason,
            "replaced_by": self.act.value,
            "readable": list(self.names),
            "messages_lost": [loss._asdict() for loss in self.losses],
        }

    @property
    def copied_end(self) -> int:
        """Physical offset after the damaged bytes that exist, and are copied to the quarantine."""
        return min(self.end, max(self.lacks_from, self.begin))

    def set_aside(self, disk: Disk, directory: Path, quarantine: Quarantine) -> None:
        """Copies the damaged bytes to the quarantine."""
        path = directory / self.file
        if self.begin < self.copied_end:
            base = int(path.name)
            quarantine.keep(path, self.begin, self.copied_end, base=base, note=self.document)

    def perform(self, disk: Disk, directory: Path, file_size: int) -> None:
        """Replaces the damaged bytes durably.

        Errors   DiskFull, AllocationFailed, FsyncFailed
        """
        path = directory / self.file
        position = self.begin - int(path.name)
        if self.lacks_from < self.end:
            self._complete(disk, path, file_size)
        if self.act is LogAct.ZERO:
            file = MappedFile(disk, path, int(path.name), file_size).open()
            try:
                file.zero_from(position)
                file.sync()
            finally:
                file.close()
            return
        descriptor = disk.open(path)
        try:
            if self.copied_end == self.end:
                disk.allocate(descriptor, position, self.end - self.begin, path)
            for content in self._replacement():
                if self.copied_end == self.end:
                    disk.write_at(descriptor, position, content)
                else:
                    self._write_sparse(disk, descriptor, path, position, content)
                position += len(content)
            disk.sync(descriptor)
        finally:
            disk.close(descriptor)

    def _complete(self, disk: Disk, path: Path, file_size: int) -> None:
        """Creates a missing file, or extends a cut one; zeros stay sparse."""
        is_cut = disk.exists(path)
        descriptor = disk.open(path) if is_cut else disk.make_sparse_file(path, file_size)
        try:
            if is_cut:
                disk.allocate(descriptor, file_size - 1, 1, path)
            disk.sync(descriptor)
        finally:
            disk.close(descriptor)
        disk.sync_directory(path.parent)

    def _write_sparse(
        self, disk: Disk, descriptor: int, path: Path, position: int, content: bytes
    ) -> None:
        """Writes a record, without pieces of zeros where the file had no bytes."""
        old_end = self.copied_end - int(path.name)
        for begin in range(0, len(content), _PIECE):
            place, piece = position + begin, content[begin : begin + _PIECE]
            if place < old_end or piece.strip(b"\0"):
                disk.allocate(descriptor, place, len(piece), path)
                disk.write_at(descriptor, place, piece)

    def _replacement(self) -> Iterable[bytes]:
        if self.act in (LogAct.CRC_FIELD, LogAct.TIME):
            return [self.content]
        if self.act is LogAct.STAND_IN:
            return stand_in(self.begin, self.end, self.style)
        holds_records = self.act is LogAct.FILE_END
        return stand_in_to_file_end(self.begin, self.end, self.style, holds_records=holds_records)


@dataclass(frozen=True, slots=True)
class FileAction:
    """A damaged small file, or a file of the log with a wrong name, and its repair.

    name   new name, for RENAME
    """

    file: str
    reason: str
    act: FileAct
    name: str = ""

    @property
    def document(self) -> Document:
        """The action in the format of the report."""
        return {"file": self.file, "reason": self.reason, "done": self.act.value}

    def set_aside(self, disk: Disk, directory: Path, quarantine: Quarantine) -> None:
        """Copies the file to the quarantine, and also its .bak if the repair removes the .bak."""
        path = directory / self.file
        if self.act is FileAct.RENAME:
            return
        paths = [path, backup_of(path)] if self.act is FileAct.REMOVE else [path]
        for each in paths:
            set_aside_whole(disk, each, quarantine, self.document)

    def perform(self, disk: Disk, directory: Path, file_size: int) -> None:
        """Replaces a table with its .bak, or removes both files; renames or removes a log file.

        Errors   DiskFull, AllocationFailed, FsyncFailed
        """
        path = directory / self.file
        if self.act is FileAct.RESTORE:
            disk.replace_file(path, disk.read_file(backup_of(path)))
            return
        if self.act is FileAct.RENAME:
            disk.rename(path, path.with_name(self.name))
        for name in (path, backup_of(path)) if self.act is FileAct.REMOVE else ():
            disk.unlink(name)
        disk.sync_directory(path.parent)


def set_aside_whole(disk: Disk, path: Path, quarantine: Quarantine, note: Document) -> None:
    """Copies a small file to the quarantine, if it exists."""
    if disk.exists(path):
        quarantine.keep(path, 0, disk.file_size(path), base=0, note=note)


@dataclass(slots=True)
class RepairPlan:
    """The plan of a repair.

    blocked          findings that prevent the whole repair
    left             findings that are reported, but not repaired
    view_findings    counts of findings in the views by kind; any of them rebuilds all views
    lost_earlier     messages that an earlier repair replaced by fillers
    timer_findings   counts of findings in the timer's files by kind; any of them rebuilds the files
    checkpoint       whether the checkpoint has a wrong size or impossible values
    missing          [end of the log, its durable offset): missing acknowledged records
    ends_in          file of the log that lacks its records, or is missing, at the log's end; or ""
    head             [begin, end) of the missing oldest files; the repair accepts their loss
    lost_head        messages of these files, according to the queues
    doubts           messages whose tag, keys or id differ from queue or index
    lost_behind      messages whose units refer to offsets after the log's end
    log_files        files of the log
    log_end          physical offset after the last valid record
    is_continued     whether the repair continues one that was killed
    """

    log: list[LogAction] = field(default_factory=list)
    files: list[FileAction] = field(default_factory=list)
    blocked: list[Finding] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    view_findings: dict[str, int] = field(default_factory=dict)
    timer_findings: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    checkpoint: bool = False
    missing: tuple[int, int] | None = None
    ends_in: str = ""
    head: tuple[int, int] | None = None
    lost_head: tuple[Loss, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    lost_behind: tuple[Loss, ...] = ()
    lost_earlier: tuple[Loss, ...] = ()
    log_files: list[LogFile] = field(default_factory=list)
    log_end: int = 0
    is_continued: bool = False

    @property
    def actions(self) -> list[LogAction | FileAction]:
        """Actions on whole files, then on parts of the log.

        A foreign file may have the name of a missing one, which an action on the log writes.
        """
        return [*self.files, *self.log]

    @property
    def lowers_numbers(self) -> bool:
        """Whether the repair lowers checkpoint and flushed mark to the end of the log."""
        return self.checkpoint or self.missing is not None

    @property
    def completes_files(self) -> bool:
        """Whether missing files of the log, or missing ends of files, are written."""
        return any(action.lacks_from < action.end for action in self.log)

    @property
    def renames(self) -> bool:
        """Whether files of the log get their right names."""
        return any(action.act is FileAct.RENAME for action in self.files)

    @property
    def log_bytes(self) -> int:
        """Bytes of the log's files."""
        return sum(file.size for file in self.log_files)

    @property
    def builds_views(self) -> bool:
        """Whether the repair rebuilds the views."""
        return bool(self.log or self.view_findings or self.is_continued)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        is_kept = self.head is None and not self.lowers_numbers
        return is_kept and not (self.files or self.builds_views or self.timer_findings)

    @property
    def losses(self) -> list[Loss]:
        """Messages known to be lost: in repaired and blocked ranges, before and after the log."""
        of_actions = [loss for action in self.log for loss in action.losses]
        of_blocked = [loss for finding in self.blocked for loss in finding.lost]
        return [*self.lost_head, *of_actions, *of_blocked, *self.lost_behind]

    @property
    def lost_count(self) -> int:
        """Number of messages known to be lost."""
        return sum(loss.messages for loss in self.losses)

    @property
    def document(self) -> Document:
        """The plan as a JSON document."""
        return {
            "messages_lost": self.lost_count,
            "lost": [loss._asdict() for loss in self.losses],
            "in_doubt": [doubt._asdict() for doubt in self.doubts],
            "log": [action.document for action in self.log],
            "files": [action.document for action in self.files],
            "oldest_files_missing": list(self.head) if self.head else None,
            "checkpoint_rewritten": self.checkpoint,
            "acknowledged_bytes_missing": list(self.missing) if self.missing else None,
            "log_ends_in": self.ends_in or None,
            "messages_lost_behind_the_end": [loss._asdict() for loss in self.lost_behind],
            "views_rebuilt": self.builds_views,
            "view_findings": self.view_findings,
            "timer_findings": self.timer_findings,
            "lost_earlier": [loss._asdict() for loss in self.lost_earlier],
            "goes_on_with_an_earlier_repair": self.is_continued,
            "left_as_it_is": [finding.document for finding in self.left],
            "not_repairable": [finding.document for finding in self.blocked],
            "notes": self.notes,
        }


# -- as text ---------------------------------------------------------------------------------------
def summary(document: Document) -> list[str]:
    """Returns the lines of text that describe the document of a plan or report."""
    return [
        *_lost_lines(document),
        *_doubt_lines(document),
        *_head_lines(document),
        *_log_lines(document["log"]),
        *map(_file_line, document["files"]),
        *_number_lines(document),
        *_view_lines(document),
        *_timer_lines(document),
        *_left_lines(document),
        *(f"note: {note}" for note in document["notes"]),
    ]


def _lost_lines(document: Document) -> Iterator[str]:
    if document["messages_lost"]:
        yield f"messages lost: {document['messages_lost']}"
        yield from map(_loss_line, document["lost"])


def _loss_line(loss: Document) -> str:
    return f"  lost: {shown_loss(**loss)}"


def _doubt_lines(document: Document) -> Iterator[str]:
    for doubt in document.get("in_doubt", ()):
        yield (
            f"  in doubt: {doubt['topic']}:{doubt['queue_id']} offset {doubt['queue_offset']}: its "
            "tag, keys or id differ from queue or index, which are taken from the log"
        )


def _head_lines(document: Document) -> Iterator[str]:
    head = document.get("oldest_files_missing")
    if head:
        yield (
            f"the oldest files are missing, offsets {head[0]} to {head[1]}: the log begins at "
            f"{head[1]} from now on, as if they had expired"
        )


def _log_lines(rows: list[Document]) -> Iterator[str]:
    for row in rows:
        position = row["begin"] - int(PurePath(row["file"]).name)
        where = f"{row['file']} at byte {position} (physical offset {row['begin']})"
        where += f", {row['bytes']} bytes"
        yield f"{where}: {row['reason']}: {row['replaced_by']}"
        for name in row.get("readable", ()):
            yield f"  readable there: {name}"


def _file_line(row: Document) -> str:
    line = f"{row['file']}: {row['reason']}: {row['done']}"
    effect = _WITHOUT.get(PurePath(row["file"]).name)
    return f"{line}; {effect}" if row["done"] == FileAct.REMOVE.value and effect else line


def _number_lines(document: Document) -> Iterator[str]:
    missing = document["acknowledged_bytes_missing"]
    if document.get("log_ends_in"):
        yield f"{document['log_ends_in']} is missing, or has no records from the log's end on"
    if missing:
        begin, end = missing
        yield f"the log ends at {begin}, but was durable up to {end}: the records between are lost"
    elif document.get("messages_lost_behind_the_end"):
        yield "queues refer to messages after the log's end: they are lost"
    numbers = document.get("numbers")
    if numbers or document.get("checkpoint_rewritten"):
        yield "checkpoint: lowered to the log's end"


def _view_lines(document: Document) -> Iterator[str]:
    found = ", ".join(f"{count} × {kind}" for kind, count in document["view_findings"].items())
    if found:
        yield f"queues and index: {found}"
    views = document.get("views")
    if views:
        yield (
            f"queues and index: rebuilt, {views['records']} records in {views['queues']} queues"
            f" and {views['index_files']} index files"
        )
        if views["old_ones_kept_in"]:
            yield f"the old ones are kept in {views['old_ones_kept_in']}"
    elif document.get("views_rebuilt"):
        yield "queues and index: rebuilt"
        if STRAY in document["view_findings"]:
            yield "the old ones, with the foreign files, are kept in pocketmq/replaced"


def _timer_lines(document: Document) -> Iterator[str]:
    found = ", ".join(f"{count} × {kind}" for kind, count in document["timer_findings"].items())
    if found:
        yield f"timer log and wheel: {found}"
        done = document.get("timers")
        units = f", {done['dropped']} units dropped, {done['added']} added" if done else ""
        yield f"timer log and wheel: rebuilt{units}"


def _left_lines(document: Document) -> Iterator[str]:
    for name, text in (("not_repairable", "not repaired"), ("left_as_it_is", "left unchanged")):
        for finding in document.get(name, ()):
            yield (
                f"{finding['file']} at byte {finding['offset']}: {finding['kind']}, expected "
                f"{finding['expected']}, found {finding['found']}: {text}"
            )
