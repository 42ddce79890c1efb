"""What a repair is about to do, as values: shown as the plan, performed, and told in the report."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from broker.format.stand_in import Style
from broker.model.finding import Finding

Document = dict[str, Any]


class LogAct(Enum):
    """What happens to damaged bytes of the log."""

    STAND_IN = "stand-in records"
    FILE_END = "stand-in records and a BLANK"
    BLANK = "a BLANK"
    ZERO = "zeros"
    CRC_FIELD = "its property CRC"
    TIME = "the store time of the record before"


class FileAct(Enum):
    """What happens to a small file; a copy lies in the quarantine in any case."""

    RESTORE = "its .bak takes its place"
    REMOVE = "it is removed"


class Loss(NamedTuple):
    """Messages of one queue whose units lead into damage.

    first   queue offset of the first one
    """

    topic: str
    queue_id: int
    first: int
    messages: int


@dataclass(frozen=True, slots=True)
class LogAction:
    """Bytes [begin, end) of the log and what takes their place.

    file      path below the store
    losses    what the consume queues say was there; damaged queues say less
    content   what is written, where that does not follow from the rest
    """

    file: str
    begin: int
    end: int
    reason: str
    act: LogAct
    style: Style
    losses: tuple[Loss, ...] = ()
    content: bytes = b""

    @property
    def document(self) -> Document:
        """The action as the report has it."""
        return {
            "file": self.file,
            "begin": self.begin,
            "end": self.end,
            "bytes": self.end - self.begin,
            "reason": self.reason,
            "replaced_by": self.act.value,
            "messages_lost": [loss._asdict() for loss in self.losses],
        }


@dataclass(frozen=True, slots=True)
class FileAction:
    """A small file that is damaged."""

    file: str
    reason: str
    act: FileAct

    @property
    def document(self) -> Document:
        """The action as the report has it."""
        return {"file": self.file, "reason": self.reason, "done": self.act.value}


@dataclass(slots=True)
class RepairPlan:
    """Everything a repair is going to do.

    blocked          what no repair can mend, and what keeps it from mending the rest
    left             what is told, but left as it is
    view_findings    findings in the views by kind; with any of them the views are built anew
    checkpoint       whether it says what cannot be
    missing          [end of the log, what was durable): acknowledged records that are gone
    log_begin, log_end, last_time_ms   of the log's sound records
    is_continued     an earlier repair was killed
    """

    log: list[LogAction] = field(default_factory=list)
    files: list[FileAction] = field(default_factory=list)
    blocked: list[Finding] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    view_findings: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    checkpoint: bool = False
    missing: tuple[int, int] | None = None
    log_begin: int = 0
    log_end: int = 0
    log_bytes: int = 0
    is_continued: bool = False

    @property
    def builds_views(self) -> bool:
        """Whether the views are built anew."""
        return bool(self.log or self.view_findings or self.is_continued)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.files or self.checkpoint or self.missing or self.builds_views)

    @property
    def lost_count(self) -> int:
        """Messages known to be lost."""
        return sum(loss.messages for action in self.log for loss in action.losses)

    @property
    def document(self) -> Document:
        """The plan as it is shown."""
        return {
            "log": [action.document for action in self.log],
            "files": [action.document for action in self.files],
            "checkpoint_rewritten": self.checkpoint,
            "acknowledged_bytes_missing": list(self.missing) if self.missing else None,
            "messages_lost": self.lost_count,
            "views_rebuilt": self.builds_views,
            "view_findings": self.view_findings,
            "goes_on_with_an_earlier_repair": self.is_continued,
            "left_as_it_is": [finding._asdict() for finding in self.left],
            "not_repairable": [finding._asdict() for finding in self.blocked],
            "notes": self.notes,
        }


# -- in sentences ----------------------------------------------------------------------------------
def summary(document: Document) -> list[str]:
    """Return what a plan's or a report's document says, for people."""
    return [
        *_log_lines(document["log"]),
        *(f"{row['file']}: {row['reason']}: {row['done']}" for row in document["files"]),
        *_number_lines(document),
        *_view_lines(document),
        *_left_lines(document),
        *(f"note: {note}" for note in document["notes"]),
    ]


def _log_lines(rows: list[Document]) -> Iterator[str]:
    for row in rows:
        where = f"{row['file']} at {row['begin']}, {row['bytes']} bytes"
        yield f"{where}: {row['reason']}: {row['replaced_by']}"
        for loss in row["messages_lost"]:
            queue = f"{loss['topic']}:{loss['queue_id']}"
            yield f"  lost: {loss['messages']} messages of {queue} from {loss['first']} on"


def _number_lines(document: Document) -> Iterator[str]:
    missing = document["acknowledged_bytes_missing"]
    if missing:
        begin, end = missing
        yield f"the log ends at {begin}, but was durable up to {end}: what lay between is gone"
    numbers = document.get("numbers")
    if numbers or document.get("checkpoint_rewritten"):
        yield "checkpoint: brought down to what the log holds"


def _view_lines(document: Document) -> Iterator[str]:
    found = ", ".join(f"{count} × {kind}" for kind, count in document["view_findings"].items())
    if found:
        yield f"queues and index: {found}"
    views = document.get("views")
    if views:
        yield (
            f"queues and index: built anew, {views['records']} records in {views['queues']} queues"
            f" and {views['index_files']} index files"
        )
        if views["old_ones_kept_in"]:
            yield f"the old ones are kept in {views['old_ones_kept_in']}"
    elif document.get("views_rebuilt"):
        yield "queues and index: built anew"


def _left_lines(document: Document) -> Iterator[str]:
    for name, text in (("not_repairable", "cannot be mended"), ("left_as_it_is", "left as it is")):
        for finding in document.get(name, ()):
            yield (
                f"{finding['file']} at byte {finding['offset']}: {finding['kind']}, expected "
                f"{finding['expected']}, found {finding['found']}: {text}"
            )
