"""What the commands on a store directory share: options, access, rows."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker.cli.documents import Document
from broker.cli.failures import EXIT_NOT_FOUND, Failure
from broker.cli.output import Columns, Rows

if TYPE_CHECKING:
    from broker.files.disk import Disk

FLUSH_COUNT: Final = 512
"""Rows between two flushes of standard output."""

Command = TypeVar("Command", bound=Callable[..., Any])


def directory_argument(command: Command) -> Command:
    """Give a command the store directory."""
    argument = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
    return argument(command)


def read_only_option(command: Command) -> Command:
    """Give a command --read-only."""
    option = click.option(
        "--read-only", is_flag=True, help="Look on even while a broker uses the store."
    )
    return option(command)


def queue_option(about: str) -> Callable[[Command], Command]:
    """Return what gives a command --queue TOPIC:QUEUE, read as (topic, queue id) or None."""
    return click.option("--queue", metavar="TOPIC:QUEUE", callback=_read_queue, help=about)


def _read_queue(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> tuple[str, int] | None:
    if text is None:
        return None
    topic, _, queue_id = text.rpartition(":")
    if not topic or not (queue_id.isascii() and queue_id.isdecimal()):
        raise click.BadParameter(f"{text!r} is not TOPIC:QUEUE")
    return topic, int(queue_id)


def yes_option(command: Command) -> Command:
    """Give a command --yes."""
    option = click.option("--yes", is_flag=True, help="Do it; without this only the plan is shown.")
    return option(command)


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
    with Rows(output_format, columns) as rows:
        for number, document in enumerate(documents, 1):
            rows.add(document)
            if number % FLUSH_COUNT == 0:
                rows.flush()
