"""What the commands on a store directory share: access, rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.documents import Document
from broker.cli.failures import EXIT_DAMAGED, EXIT_NOT_FOUND, Failure
from broker.cli.output import Columns, Output, talk

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.tools.selection import LogSearch


def accessible(directory: Path, *, read_only: bool) -> "Disk":
    """Return the disk, for a directory that may be looked at."""
    from broker.files.disk import Disk
    from broker.tools.store_access import check_access

    if not directory.is_dir():
        raise Failure(f"there is no directory {directory}", EXIT_NOT_FOUND)
    disk = Disk()
    check_access(disk, directory, read_only=read_only)
    return disk


def print_rows(documents: Iterable[Document], output_format: str | None, columns: Columns) -> None:
    """Print rows as they come."""
    Output(output_format).table(documents, columns)


def tell_damage(search: "LogSearch", next_step: str) -> None:
    """Say what a search passed over; damage inside the log is a failure."""
    if search.tail is not None:
        talk(f"Note: behind the last record, at {search.tail.begin}: {search.tail.reason}")
    for hole in search.holes:
        talk(f"Damage: {hole.path} at {hole.begin}: {hole.reason}")
    if search.holes:
        text = f"the log is damaged before its end; places passed over: {len(search.holes)}"
        raise Failure(text, EXIT_DAMAGED, next_step)
