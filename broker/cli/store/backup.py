"""`pocketmq store backup` and `restore`: generations of a store in a directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.documents import Document
from broker.cli.failures import EXIT_DAMAGED, EXIT_FAILED, EXIT_NOT_FOUND, EXIT_REFUSED, Failure
from broker.cli.options import directory_argument, output_option, set_option, yes_option
from broker.cli.output import Output, column, moment, print_document, talk
from broker.cli.parameters import MOMENT
from broker.cli.progress import amount, progress
from broker.cli.settings import sizes_of
from broker.cli.store.access import accessible
from broker.model.errors import Corruption

if TYPE_CHECKING:
    from broker.tools.backup import BackupResult
    from broker.tools.backup_manifest import BackupTarget, Catalog, Drop, Generation

GENERATION_COLUMNS = {
    "GENERATION": column("name"),
    "TIME": lambda row: moment(row["time_ms"]),
    "LOG FROM": column("begin"),
    "UP TO": column("upto"),
    "FILES": column("files"),
    "RUNNING": column("is_live"),
    "WITH VIEWS": column("is_whole"),
    "DAMAGED": column("damaged_files"),
}


@click.command(
    epilog="""\b
Examples:
  pocketmq store backup ./store ./backups
  pocketmq store backup ./store ./backups --keep 7          what would be removed
  pocketmq store backup ./store ./backups --keep 7 --yes
"""
)
@directory_argument
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@click.option("--with-views", is_flag=True, help="Copy queues and index too (stopped stores only).")
@click.option("--level", type=click.IntRange(1, 19), default=3, show_default=True, help="Of zstd.")
@click.option("--check", is_flag=True, help="Read full files of the log again and compare.")
@click.option("--keep", type=click.IntRange(min=1), help="Remove all but so many generations.")
@yes_option
@set_option
@output_option
def backup(
    directory: Path,
    target: Path,
    with_views: bool,
    level: int,
    check: bool,
    keep: int | None,
    yes: bool,
    assignments: tuple[str, ...],
    output_format: str | None,
) -> None:
    """Copy a store, running or stopped, as a new generation below TARGET.

    A full file of the log is read and kept once for all generations. Of a running store the log is
    copied up to what is flushed, and the tables under config/; queues and index are built again
    when the copy is opened. --keep without --yes shows what would be removed and copies nothing.
    """
    from broker.tools.backup import BackupOptions
    from broker.tools.backup import backup as backup_store
    from broker.tools.backup_manifest import BackupTarget

    disk = accessible(directory, read_only=True)
    sizes = sizes_of(disk, directory, assignments, with_index=False)
    place = BackupTarget(disk, target)
    if keep is not None and not yes:
        print_document(_drop_document(place.plan_drop(keep, with_next=True)), output_format)
        raise Failure("nothing was done: --keep removes generations", EXIT_REFUSED, "add --yes")
    options = BackupOptions(with_views=with_views, level=level, check=check)
    total = sum(path.stat().st_size for path in (directory / "commitlog").glob("*"))
    with _shown_errors(), progress("Copying", total) as tell:
        result = backup_store(
            disk, directory, place, sizes, options, now=datetime.now(UTC), tell=tell
        )
    document = _result_document(result)
    if keep is not None:
        with place.held():
            plan = place.plan_drop(keep)
            place.drop(plan)
        document |= _drop_document(plan)
    print_document(document, output_format)
    _tell(result, place.catalog())


def _tell(result: "BackupResult", catalog: "Catalog") -> None:
    generation = result.generation
    talk(
        f"The log from {generation.begin} up to {generation.upto}: read {amount(result.bytes_read)}"
        f", wrote {amount(result.object_bytes_new)}, {result.files_known} full files were known"
    )
    if generation.left_out:
        talk(f"Note: left out: {', '.join(generation.left_out)}")
    for error in catalog.damaged:
        talk(f"Damage: {error}")
    _refuse_damage(generation, "copied as it is")


def _refuse_damage(generation: "Generation", what: str) -> None:
    """End with the exit code of damage when the store was damaged when it was copied."""
    for file in generation.damaged:
        talk(f"Damage: {file.path} {file.damage}")
    if generation.damaged:
        text = f"the store's log is damaged; it was {what}"
        raise Failure(text, EXIT_DAMAGED, "pocketmq store verify DIR")


@contextmanager
def _shown_errors() -> Iterator[None]:
    """Let files that cannot be read be told as an error."""
    try:
        yield
    except OSError as error:
        raise Failure(str(error), EXIT_FAILED) from error


def _document(generation: "Generation") -> Document:
    return {
        "name": generation.name,
        "time_ms": generation.time_ms,
        "store": generation.store,
        "begin": generation.begin,
        "upto": generation.upto,
        "files": len(generation.files),
        "is_live": generation.is_live,
        "is_whole": generation.is_whole,
        "left_out": generation.left_out,
        "damaged_files": len(generation.damaged),
    }


def _result_document(result: "BackupResult") -> Document:
    return {
        **_document(result.generation),
        "bytes_read": result.bytes_read,
        "objects_new": result.objects_new,
        "object_bytes_new": result.object_bytes_new,
        "files_known": result.files_known,
        "files_changed": result.changed,
    }


def _drop_document(plan: "Drop") -> Document:
    return {
        "generations_removed": plan.generations,
        "objects_removed": len(plan.objects),
        "object_bytes_removed": plan.object_bytes,
    }


@click.command(
    epilog="""\b
Examples:
  pocketmq store restore ./backups --list
  pocketmq store restore ./backups ./store-again
  pocketmq store restore ./backups ./store-again --at 2026-11-21T02:30:00Z
"""
)
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@click.argument("directory", metavar="DIR", required=False, type=click.Path(path_type=Path))
@click.option("--generation", "name", metavar="NAME", help="Which one [default: the newest].")
@click.option("--at", "at_ms", type=MOMENT, help="The newest made at this time or before.")
@click.option("--list", "is_list", is_flag=True, help="Show the generations.")
@output_option
def restore(
    target: Path,
    directory: Path | None,
    name: str | None,
    at_ms: int | None,
    is_list: bool,
    output_format: str | None,
) -> None:
    """Bring a generation back as a new store; every byte is proved on the way.

    DIR may not exist, or is empty. A copy without queues and index opens as after a crash and
    builds them again. When anything is damaged the exit code is 10 and no store appears.
    """
    from broker.files.disk import Disk
    from broker.tools.backup_manifest import BackupTarget
    from broker.tools.restore import restore as restore_store

    disk = Disk()
    place = BackupTarget(disk, target)
    if name is not None and at_ms is not None:
        raise click.UsageError("--generation and --at both choose one; give one of them")
    catalog = place.catalog()
    if is_list:
        Output(output_format).table(map(_document, catalog.generations), GENERATION_COLUMNS)
        for error in catalog.damaged:
            talk(f"Damage: {error}")
        if catalog.damaged:
            raise Failure("not every generation can be read", EXIT_DAMAGED)
        return
    if directory is None:
        raise click.UsageError("name the directory to restore to, or --list")
    try:
        chosen = _chosen(place, catalog, name, at_ms)
        total = sum(file.taken for file in chosen.files)
        with _shown_errors(), progress("Restoring", total) as tell:
            restore_store(disk, place, chosen, directory, tell=tell)
    except Corruption as error:
        step = f"try another generation: pocketmq store restore {target} --list"
        raise Failure(f"{error}; nothing was restored", EXIT_DAMAGED, step) from error
    print_document({**_document(chosen), "restored_to": str(directory)}, output_format)
    if chosen.left_out:
        talk(f"Note: not part of the copy: {', '.join(chosen.left_out)}")
    _refuse_damage(chosen, "restored as it was")


def _chosen(
    place: "BackupTarget", catalog: "Catalog", name: str | None, at_ms: int | None
) -> "Generation":
    """Return the generation asked for; one that is damaged is not passed over in silence."""
    from broker.tools.backup_manifest import generation_name

    upper = name or "~"  # Behind all names.
    if at_ms is not None:
        upper = generation_name(datetime.fromtimestamp(at_ms / 1000, UTC))
    fitting = [
        generation
        for generation in catalog.generations
        if name in (None, generation.name) and (at_ms is None or generation.time_ms <= at_ms)
    ]
    lower = fitting[-1].name if fitting else ""
    for error in catalog.damaged:
        if lower < Path(error.path).stem <= upper and name in (None, Path(error.path).stem):
            raise error
    if not fitting:
        what = f"generation {name}" if name else "generation that old" if at_ms else "generation"
        step = f"pocketmq store restore {place.path} --list"
        raise Failure(f"there is no {what} in {place.path}", EXIT_NOT_FOUND, step)
    return fitting[-1]
