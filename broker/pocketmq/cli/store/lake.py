"""`pocketmq archive run` and `compact`: messages as Parquet files or an Iceberg table."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pocketmq.cli.options import ENDPOINT, MOMENT, examples, form_option, set_option, wall_ms
from pocketmq.cli.output import Exit, Failure, Output, amount, progress, talk, typed
from pocketmq.cli.store.access import show_damage
from pocketmq.cli.store.archive_target import archive_errors, opened_objects
from pocketmq.cli.store.lake_broker import of_broker
from pocketmq.cli.store.lake_directory import of_directory
from pocketmq.cli.target import (
    access_key_option,
    secret_key_file_option,
    secret_key_option,
)

if TYPE_CHECKING:
    from pocketmq.tools.lake.commits import Lake
    from pocketmq.tools.lake.publishing import TableName

PARQUET: Final = "parquet"
ICEBERG: Final = "iceberg"


@click.command(
    epilog=examples(
        "pocketmq archive run ./store /mnt/lake",
        "pocketmq archive run localhost:8081 's3://bucket/lake?region=eu-central-1'",
        "pocketmq archive run ./store /mnt/lake --topic orders --until 2026-11-28",
        "pocketmq archive run ./store /mnt/table --format iceberg",
    )
)
@click.argument("source", metavar="DIR|HOST:PORT")
@click.argument("target", metavar="TARGET")
@click.option(
    "--topic", "patterns", multiple=True, metavar="PATTERN",
    help="A topic, or a pattern with * and ?; may be repeated [default: all but system topics].",
)  # fmt: skip
@click.option("--until", "until_ms", type=MOMENT, help="Stored before this time.")
@click.option(
    "--format", "form", type=click.Choice([PARQUET, ICEBERG]),
    help="What an empty TARGET becomes [default: parquet]; later runs keep it.",
)  # fmt: skip
@click.option(
    "--catalog", metavar="NAME",
    help="Catalog of pyiceberg's configuration that records the Iceberg table [default: TARGET].",
)  # fmt: skip
@click.option("--table", metavar="NAMESPACE.NAME", help="Name of the table in the catalog.")
@set_option
@access_key_option
@secret_key_option
@secret_key_file_option
@form_option
def run(
    source: str, target: str, patterns: tuple[str, ...], until_ms: int | None, form: str | None,
    catalog: str | None, table: str | None, assignments: tuple[str, ...], out: Output,
    **connection: Any,
) -> None:  # fmt: skip
    """Write new messages of a store or a running broker to Parquet files by date and topic.

    TARGET is a directory or a URL, as in `archive ship`, with one lake. A run adds the messages
    that the lake does not have. If it is killed, the next run leaves each message in the lake
    exactly once. A store in use is read up to its flushed offset. Two runs must not write to one
    TARGET at the same time. Needs pyarrow: pip install pyarrow.

    With `--format iceberg` the files are an Iceberg table, and each commit is a snapshot of it.
    Needs pyiceberg: pip install pyiceberg.
    """
    wanted = _wanted_table(form, catalog, table)
    endpoint = "" if Path(source).is_dir() else _endpoint_of(source)
    chosen, search = tuple(sorted(set(patterns))), None
    with _opened(target, table=wanted) as lake:
        _check_form(lake, form, wanted)
        place = lake.target
        if endpoint:
            archived = of_broker(lake, connection | {"endpoint": endpoint}, chosen, until_ms)
        else:
            archived, search = of_directory(lake, Path(source), chosen, until_ms, assignments)
    if archived.gap:
        talk(f"Note: retention removed {amount(archived.gap)} of the log before it was archived")
    out.show({"source": source, "target": place, **archived._asdict()})
    if search is not None:
        show_damage(search, f"pocketmq store verify {typed(source)}")


@click.command(epilog=examples("pocketmq archive compact /mnt/lake"))
@click.argument("target", metavar="TARGET")
@form_option
def compact(target: str, out: Output) -> None:
    """Combine small files of a lake into large ones.

    It takes effect at once: readers of the manifest see either the old files or the new ones.
    Programs that list the directory may see both until the old ones are deleted.

    Of an Iceberg table it also removes snapshots older than five days, or than the table's property
    history.expire.max-snapshot-age-ms, and deletes the files that only they use.
    """
    with _opened(target, is_there=True) as lake:
        from pocketmq.tools.lake.compaction import compact_lake

        with progress("Compacting", sum(file.size for file in lake.manifest.files)) as advance:
            compacted = compact_lake(lake, now_ms=wall_ms(), advance=advance)
        out.show({"target": lake.target, **compacted._asdict()})


@contextmanager
def _opened(
    target: str, *, is_there: bool = False, table: "TableName | None" = None
) -> "Iterator[Lake]":
    """Opens a lake for changes; with `is_there` refuses a target without a lake."""
    if find_spec("pyarrow") is None:
        text = "Parquet files need pyarrow, which is not installed"
        raise Failure(text, Exit.FAILED, "pip install pyarrow")
    from pocketmq.files.disk import Disk
    from pocketmq.tools.lake.commits import opened_lake, read_lake

    disk = Disk()
    objects = opened_objects(disk, target)
    with archive_errors(objects):
        if is_there:
            read_lake(objects)
        with opened_lake(disk, objects, table) as lake:
            yield lake


def _wanted_table(form: str | None, catalog: str | None, table: str | None) -> "TableName | None":
    """Returns the Iceberg table that the options name; None: none."""
    from pocketmq.tools.lake.publishing import TableName

    if (catalog is None) != (table is None):
        raise click.UsageError("--catalog and --table go together: name both")
    if catalog is None or table is None:
        return TableName() if form == ICEBERG else None
    if form == PARQUET:
        raise click.UsageError("--catalog is for --format iceberg")
    if "" in table.split(".") or "." not in table:
        raise click.UsageError(f"--table {table!r} is no NAMESPACE.NAME")
    return TableName(catalog, table)


def _check_form(lake: "Lake", form: str | None, wanted: "TableName | None") -> None:
    """Raises Failure if a lake that exists is not what the options demand."""
    found = lake.table
    if found is None:
        is_other, text = wanted is not None, "Parquet files with a manifest, no Iceberg table"
    else:
        names_other = wanted is not None and bool(wanted.catalog) and wanted != found
        is_other, text = form == PARQUET or names_other, "an Iceberg table"
        if found.catalog:
            text += f", {found.table} of catalog {found.catalog}"
    if is_other:
        text = f"{lake.target} has {text}"
        raise Failure(text, Exit.REFUSED, "name another target, or omit --format and --catalog")


def _endpoint_of(source: str) -> str:
    try:
        return str(ENDPOINT.convert(source, None, None))
    except click.BadParameter as error:
        text = f"{source} is neither a directory nor HOST:PORT"
        raise Failure(text, Exit.NOT_FOUND, "name a store's directory, or a broker") from error
