"""`pocketmq store ls` and `diff`: the files of a store, and where two stores differ."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker.cli.failures import EXIT_FAILED, Failure
from broker.cli.output import Rows, column, moment, output_option
from broker.cli.settings import set_option, sizes_of
from broker.cli.store.options import (
    accessible,
    directory_argument,
    print_rows,
    read_only_option,
)

if TYPE_CHECKING:
    from broker.tools.difference import Difference

KINDS: Final = ("commitlog", "consumequeue", "consumequeue_ext", "index", "other")
FILE_COLUMNS: Final = {
    "FILE": column("path"),
    "BYTES": column("size"),
    "ON DISK": column("allocated"),
    "BEGIN": column("begin"),
    "END": column("end"),
    "STORED": lambda row: moment(row["store_time_ms"]),
    "NOTE": column("note"),
}
DIFFERENCE_COLUMNS: Final = {
    "KIND": column("kind"),
    "WHERE": column("where"),
    "LEFT": column("left"),
    "RIGHT": column("right"),
}


@click.command(
    epilog="""\b
Example:
  pocketmq store ls ./store --kind commitlog
"""
)
@directory_argument
@click.option("--kind", type=click.Choice(KINDS), help="Files of this kind only.")
@read_only_option
@set_option
@output_option
def ls(
    directory: Path,
    kind: str | None,
    read_only: bool,
    assignments: tuple[str, ...],
    output_format: str | None,
) -> None:
    """List the files of a store: length, room on disk, how far each reaches, what is odd."""
    from broker.tools.listing import list_files

    disk = accessible(directory, read_only=read_only)
    sizes = sizes_of(disk, directory, assignments, with_index=True)
    rows = (row._asdict() for row in list_files(disk, directory, sizes, kind or ""))
    print_rows(rows, output_format, FILE_COLUMNS)


@click.command(
    epilog="""\b
Examples:
  pocketmq store diff ./store ./copy
  pocketmq store diff ./store ./copy --files
"""
)
@click.argument("left", type=click.Path(path_type=Path))
@click.argument("right", type=click.Path(path_type=Path))
@click.option("--files", "is_files", is_flag=True, help="Compare files byte by byte instead.")
@read_only_option
@set_option
@output_option
def diff(
    left: Path,
    right: Path,
    is_files: bool,
    read_only: bool,
    assignments: tuple[str, ...],
    output_format: str | None,
) -> None:
    """Tell where two stores differ; the exit code is 1 when they do.

    Messages are compared queue by queue with all their fields, wherever they lie in the log, and
    the tables under config/. With --files the bytes of log, queues and index are compared.
    """
    from broker.tools.difference import (
        Side,
        file_differences,
        message_differences,
        table_differences,
    )

    sides = []
    for directory in (left, right):
        disk = accessible(directory, read_only=read_only)
        sides.append(Side(directory, sizes_of(disk, directory, assignments, with_index=False)))
    found: Iterator[Difference]
    if is_files:
        found = file_differences(left, right)
    else:
        messages = message_differences(disk, sides[0], sides[1])
        found = chain(messages, table_differences(left, right))
    count = 0
    with Rows(output_format, DIFFERENCE_COLUMNS) as rows:
        for difference in found:
            rows.add(difference._asdict())
            count += 1
    if count:
        raise Failure(f"the stores differ in {count} places", EXIT_FAILED)
