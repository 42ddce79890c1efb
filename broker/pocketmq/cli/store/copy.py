"""Documents and errors of a copy, for `store backup`, `store restore` and `archive`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.cli.output import Exit, Failure, Output, moment, talk, typed
from pocketmq.cli.store.access import sizes_of
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from pocketmq.model.errors import UnknownGeometry

if TYPE_CHECKING:
    from pocketmq.files.disk import Disk
    from pocketmq.rebuild.log_files import KnownShape
    from pocketmq.tools.copies import Backup


def refuse_damage(found: "Backup", directory: Path, what: str) -> None:
    """Raises Failure if the copied store was damaged.

    directory   a store with the damage, which the next step names
    """
    for file in found.damaged:
        talk(f"Damage: {file.path} {file.damage}")
    if found.damaged:
        text = f"the store's log is damaged; the log was {what}"
        raise Failure(text, Exit.DAMAGED, f"pocketmq store verify {typed(directory)}")


@contextmanager
def shown_errors() -> Iterator[None]:
    """Turns OSError into a failure of the command."""
    try:
        yield
    except OSError as error:
        raise Failure(str(error), Exit.FAILED) from error


def document_of(found: "Backup") -> dict[str, Any]:
    """Returns the document of a copy."""
    views = (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY)
    return asdict(found) | {
        "files": len(found.files),
        "damaged_files": len(found.damaged),
        "has_views": not any(name in found.left_out for name in views),
    }


def shown(found: "Backup", out: Output) -> dict[str, Any]:
    """Returns the document of a copy; for a table the fields that people need."""
    document = document_of(found)
    if not out.is_table:
        return document
    names = ("store", "time_ms", "begin", "upto", "files", "bytes_copied", "damaged_files")
    document["time_ms"] = moment(found.time_ms)
    shown = {name: document[name] for name in names}
    has_views = "yes" if document["has_views"] else "no: the first start of the copy builds them"
    return {**shown, "has_views": has_views}


def store_of(copy: Path) -> str:
    """Returns the directory of which a copy was made, DIR if its backup.json has none."""
    from pocketmq.tools.copies import BACKUP_FILE

    try:
        return str(json.loads((copy / BACKUP_FILE).read_bytes())["store"])
    except (OSError, ValueError, KeyError, TypeError):
        return "DIR"


def sizes_of_copy(disk: "Disk", directory: Path, assignments: tuple[str, ...]) -> "KnownShape":
    """Returns the sizes for a copy's manifest; default index sizes if no file shows them."""
    try:
        return sizes_of(disk, directory, assignments, with_index=True)
    except UnknownGeometry as error:
        talk(f"Note: {error}; the copy states the default sizes")
        return sizes_of(disk, directory, assignments, with_index=False)
