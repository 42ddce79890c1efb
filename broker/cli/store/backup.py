"""`pocketmq store backup` and `restore`: a copy of a store, and a store of a copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.cli.options import PATH, directory_argument, form_option, set_option, wall_ms
from broker.cli.output import Exit, Failure, Output, amount, progress, talk
from broker.cli.store.access import accessible, log_bytes, sizes_of
from broker.model.errors import Corruption, UnknownGeometry

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.rebuild.log_files import KnownShape
    from broker.tools.copies import Backup


@click.command(
    epilog="""\b
Examples:
  pocketmq store backup ./store /mnt/backup
  restic backup /mnt/backup        generations, compression, other machines
"""
)
@directory_argument
@click.argument("copy", metavar="COPY", type=PATH)
@click.option("--with-views", is_flag=True, help="Copy queues and index too (stopped stores only).")
@set_option
@form_option
def backup(
    directory: Path, copy: Path, with_views: bool, assignments: tuple[str, ...], out: Output
) -> None:
    """Copy a store, running or stopped, to COPY; once more: bring the copy up to date.

    COPY is a plain store directory that opens as it is, with the sum of every file in backup.json.
    Full files of the log are copied once. Of a running store the log is copied up to what is
    flushed, and the tables under config/; queues and index are built again when the copy is opened.
    For generations, compression and other machines give COPY to restic or borg.
    """
    from broker.tools.backup import backup as backup_store

    disk = accessible(directory, read_only=True)
    sizes = _sizes(disk, directory, assignments)
    with _shown_errors(), progress("Copying", log_bytes(directory)) as advance:
        made = backup_store(
            disk, directory, copy, sizes, now_ms=wall_ms(), with_views=with_views, advance=advance
        )
    out.show(_document(made))
    talk(
        f"The log from {made.begin} up to {made.upto}: copied {amount(made.bytes_copied)}, "
        f"{made.files_known} files were known"
    )
    if made.left_out:
        talk(f"Note: left out: {', '.join(made.left_out)}")
    _refuse_damage(made, "copied as it is")


@click.command(
    epilog="""\b
Example:
  pocketmq store restore /mnt/backup ./store-again
"""
)
@click.argument("copy", metavar="COPY", type=PATH)
@directory_argument
@form_option
def restore(copy: Path, directory: Path, out: Output) -> None:
    """Copy a backup to a new store; every byte is proved on the way.

    DIR may not exist, or is empty. A copy without queues and index opens as after a crash and
    builds them again. When anything is damaged the exit code is 10 and no store appears.
    """
    from broker.files.disk import Disk
    from broker.tools.restore import restore as restore_store

    if not copy.is_dir():
        raise Failure(f"there is no directory {copy}", Exit.NOT_FOUND)
    try:
        with _shown_errors(), progress("Restoring", log_bytes(copy)) as advance:
            found = restore_store(Disk(), copy, directory, advance=advance)
    except Corruption as error:
        step = (
            f"pocketmq store backup STORE {copy} (once more, also after a broker had it open), "
            "or bring the copy back from what holds its generations"
        )
        raise Failure(f"{error}; nothing was restored", Exit.DAMAGED, step) from error
    out.show({**_document(found), "restored_to": str(directory)})
    if found.left_out:
        talk(f"Note: not part of the copy: {', '.join(found.left_out)}")
    _refuse_damage(found, "restored as it was")


def _sizes(disk: "Disk", directory: Path, assignments: tuple[str, ...]) -> "KnownShape":
    """Return the sizes a copy is to state; without those of an index that no file tells."""
    try:
        return sizes_of(disk, directory, assignments, with_index=True)
    except UnknownGeometry as error:
        talk(f"Note: {error}; the copy states the default")
        return sizes_of(disk, directory, assignments, with_index=False)


def _refuse_damage(found: "Backup", what: str) -> None:
    """End with the exit code of damage when the store was damaged when it was copied."""
    for file in found.damaged:
        talk(f"Damage: {file.path} {file.damage}")
    if found.damaged:
        text = f"the store's log is damaged; it was {what}"
        raise Failure(text, Exit.DAMAGED, "pocketmq store verify DIR")


@contextmanager
def _shown_errors() -> Iterator[None]:
    """Let files that cannot be read be told as an error."""
    try:
        yield
    except OSError as error:
        raise Failure(str(error), Exit.FAILED) from error


def _document(found: "Backup") -> dict[str, Any]:
    return asdict(found) | {"files": len(found.files), "damaged_files": len(found.damaged)}
