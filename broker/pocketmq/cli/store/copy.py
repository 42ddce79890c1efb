"""Shared by `store backup`, `store restore` and `archive ship`: documents and errors of a copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.cli.output import Exit, Failure, talk
from pocketmq.cli.store.access import sizes_of
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
        text = f"the store's log is damaged; it was {what}"
        raise Failure(text, Exit.DAMAGED, f"pocketmq store verify {directory}")


@contextmanager
def shown_errors() -> Iterator[None]:
    """Turns OSError into a failure of the command."""
    try:
        yield
    except OSError as error:
        raise Failure(str(error), Exit.FAILED) from error


def document_of(found: "Backup") -> dict[str, Any]:
    """Returns the document of a copy."""
    return asdict(found) | {"files": len(found.files), "damaged_files": len(found.damaged)}


def sizes_of_copy(disk: "Disk", directory: Path, assignments: tuple[str, ...]) -> "KnownShape":
    """Returns the sizes for a copy's manifest; default index sizes if no file shows them."""
    try:
        return sizes_of(disk, directory, assignments, with_index=True)
    except UnknownGeometry as error:
        talk(f"Note: {error}; the copy has the default")
        return sizes_of(disk, directory, assignments, with_index=False)
