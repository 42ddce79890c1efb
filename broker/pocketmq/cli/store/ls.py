"""`pocketmq store ls`: lists the files of a store."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Output, at, columns, talk
from pocketmq.cli.store.access import Given, accessible, given_options, sizes_of

if TYPE_CHECKING:
    from pocketmq.files.disk import Disk
    from pocketmq.rebuild.log_files import KnownShape

KINDS: Final = (
    "commitlog", "consumequeue", "consumequeue_ext", "index", "config", "pocketmq", "other",
)  # fmt: skip
FILE_COLUMNS: Final = columns(
    "path", "kind", "size", "allocated", "begin", "end",
    at("first_stored_ms"), at("last_stored_ms"), "note",
)  # fmt: skip


@click.command(epilog=examples("pocketmq store ls ./store --kind commitlog"))
@click.option("--kind", type=click.Choice(KINDS), help="List only files of this kind.")
@given_options
@form_option
def ls(given: Given, kind: str | None, out: Output) -> None:
    """List the files of a store: length, allocated space, range of offsets, irregularities.

    BEGIN and END are physical offsets of the log and the index, queue offsets of a queue. Damage is
    not an error: NOTE reports it.
    """
    from pocketmq.tools.listing import list_files

    disk = accessible(given.directory, read_only=given.read_only, plain_only=False)
    sizes = _sizes_as_far_as_known(disk, given)
    rows = list_files(disk, given.directory, sizes, kind or "")
    out.stream((row._asdict() for row in rows), FILE_COLUMNS)


def _sizes_as_far_as_known(disk: "Disk", given: Given) -> "KnownShape":
    """Returns a store's sizes.

    The slot and entry counts of index files are 0 if damaged files do not show them.
    """
    from pocketmq.model.errors import UnknownGeometry

    try:
        return sizes_of(disk, given.directory, given.assignments, with_index=True)
    except UnknownGeometry as error:
        talk(f"Note: {error}; until then the lengths of index files are not checked")
    sizes = sizes_of(disk, given.directory, given.assignments, with_index=False)
    return replace(sizes, index_slot_count=0, index_entry_count_max=0)
