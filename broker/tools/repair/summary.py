"""A plan or a report in sentences, one a line."""

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]


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
