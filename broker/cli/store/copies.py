"""`pocketmq store backup` and `restore`: generations of a store in a directory."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.documents import Document
from broker.cli.failures import EXIT_NOT_FOUND, EXIT_REFUSED, Failure
from broker.cli.output import column, output_option, print_document, talk
from broker.cli.progress import progress
from broker.cli.settings import set_option, sizes_of
from broker.cli.store.options import accessible, directory_argument, print_rows, yes_option

if TYPE_CHECKING:
    from broker.tools.backup import Generation

GENERATION_COLUMNS = {
    "GENERATION": column("name"),
    "LOG UP TO": column("upto"),
    "FILES": column("files"),
    "RUNNING": column("is_live"),
    "WITH VIEWS": column("is_whole"),
}


@click.command(
    epilog="""\b
Examples:
  pocketmq store backup ./store ./backups
  pocketmq store backup ./store ./backups --keep 7 --yes
"""
)
@directory_argument
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
@click.option("--with-views", is_flag=True, help="Copy queues and index too (stopped stores only).")
@click.option("--level", type=click.IntRange(1, 19), default=3, show_default=True, help="Of zstd.")
@click.option("--keep", type=click.IntRange(min=1), help="Remove all but so many generations.")
@yes_option
@set_option
@output_option
def backup(
    directory: Path,
    target: Path,
    with_views: bool,
    level: int,
    keep: int | None,
    yes: bool,
    assignments: tuple[str, ...],
    output_format: str | None,
) -> None:
    """Copy a store, running or stopped, as a new generation below TARGET.

    Full files of the log are read and kept once for all generations. Of a running store the log is
    copied up to what is flushed; its queues and index are built again when it is restored.
    """
    from broker.tools import backup as tools

    disk = accessible(directory, read_only=True)
    sizes = sizes_of(disk, directory, assignments, with_index=False)
    if keep is not None and not yes:
        names = [generation.name for generation in tools.generations(target)]
        gone = names[: max(len(names) + 1 - keep, 0)]
        print_document({"would_remove": gone}, output_format)
        raise Failure("nothing was done: --keep removes generations", EXIT_REFUSED, "add --yes")
    total = sum(path.stat().st_size for path in (directory / "commitlog").glob("*"))
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    with progress("Copying", total) as tell:
        result = tools.backup(
            disk, directory, target, sizes, name=name, with_views=with_views, level=level, tell=tell
        )
    document = {
        **_document(result.generation),
        "bytes_read": result.bytes_read,
        "objects_new": result.objects_new,
        "files_known": result.files_known,
    }
    if keep is not None:
        dropped, objects = tools.drop_generations(disk, target, keep)
        document |= {"generations_removed": dropped, "objects_removed": objects}
    print_document(document, output_format)


def _document(generation: "Generation") -> Document:
    return {
        "name": generation.name,
        "upto": generation.upto,
        "files": len(generation.files),
        "is_live": generation.is_live,
        "is_whole": generation.is_whole,
    }


@click.command(
    epilog="""\b
Examples:
  pocketmq store restore ./backups --list
  pocketmq store restore ./backups ./store-again
"""
)
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--generation", metavar="NAME", help="Which one [default: the newest].")
@click.option("--list", "is_list", is_flag=True, help="Show the generations.")
@output_option
def restore(
    target: Path,
    directory: Path | None,
    generation: str | None,
    is_list: bool,
    output_format: str | None,
) -> None:
    """Bring a generation back as a new store; every byte is proved on the way.

    Without views (a running store's backup) the store opens as after a crash and builds them again.
    """
    from broker.files.disk import Disk
    from broker.tools.backup import generations
    from broker.tools.restore import restore as restore_store

    found = generations(target)
    if is_list:
        print_rows(map(_document, found), output_format, GENERATION_COLUMNS)
        return
    if directory is None:
        raise click.UsageError("name the directory to restore to, or --list")
    chosen = [one for one in found if generation in (None, one.name)]
    if not chosen:
        text = f"there is no generation {generation or ''} in {target}".replace("  ", " ")
        raise Failure(text, EXIT_NOT_FOUND, f"pocketmq store restore {target} --list")
    with progress("Restoring", sum(file.kept for file in chosen[-1].files)) as tell:
        restore_store(Disk(), target, chosen[-1], directory, tell=tell)
    talk(f"Restored to {directory}: the log up to {chosen[-1].upto}")
    print_document({**_document(chosen[-1]), "store": str(directory)}, output_format)
