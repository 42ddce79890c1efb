"""--set, and what it means for commands that read a store without a broker."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.tools.store_access import Sizes

Command = TypeVar("Command", bound=Callable[..., Any])

GEOMETRY_FIELDS: Final = frozenset({"index_slot_count", "index_entry_count_max"})


def set_option(command: Command) -> Command:
    """Give a command --set."""
    option = click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting by our name or RocketMQ's (flushDiskType=ASYNC_FLUSH); may be repeated.",
    )
    return option(command)


def sizes_of(
    disk: "Disk", directory: Path, assignments: Sequence[str], *, with_index: bool
) -> "Sizes":
    """Return the file sizes of a store: as set, else as it says itself, else as its files show.

    Errors   IllegalConfig, UnknownGeometry (only with the index)
    """
    from broker.config.load import load
    from broker.format.index_layout import IndexGeometry
    from broker.format.names import OWN_DIRECTORY
    from broker.log.store_manifest import ManifestFile
    from broker.store.geometry import settle_sizes
    from broker.tools.store_access import Sizes

    config = load(assignments=assignments)
    for warning in config.warnings:
        click.echo(f"Note: {warning}", err=True)
    settings = replace(config.store_settings(), directory=directory)
    if not with_index:
        # Else the geometry would be looked for in an index file, which takes a while.
        settings = replace(settings, explicit=settings.explicit | GEOMETRY_FIELDS)
    manifest = ManifestFile(disk, directory / OWN_DIRECTORY).read()
    settled = settle_sizes(settings, manifest, disk)
    return Sizes(
        settled.commit_log_file_size_bytes,
        settled.consume_queue_file_size_bytes,
        IndexGeometry(settled.index_slot_count, settled.index_entry_count_max),
    )
