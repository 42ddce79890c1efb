"""What the commands on a store directory share: access, rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.documents import Document
from broker.cli.failures import EXIT_NOT_FOUND, Failure
from broker.cli.output import Columns, Output

if TYPE_CHECKING:
    from broker.files.disk import Disk


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
