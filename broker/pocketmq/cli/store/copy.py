"""Shared by `store backup` and `store restore`: documents and errors of a copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.cli.output import Exit, Failure, talk

if TYPE_CHECKING:
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
