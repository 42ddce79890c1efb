"""`pocketmq archive run` and `compact`: messages as Parquet files, each exactly once."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pocketmq.cli.options import ENDPOINT, MOMENT, examples, form_option, set_option
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


@click.command(
    epilog=examples(
        "pocketmq archive run ./store /mnt/lake",
        "pocketmq archive run localhost:8081 's3://bucket/lake?region=eu-central-1'",
        "pocketmq archive run ./store /mnt/lake --topic orders --until 2026-11-28",
    )
)
@click.argument("source", metavar="DIR|HOST:PORT")
@click.argument("target", metavar="TARGET")
@click.option(
    "--topic", "patterns", multiple=True, metavar="PATTERN",
    help="A topic, or a pattern with * and ?; may be repeated [default: all but system topics].",
)  # fmt: skip
@click.option("--until", "until_ms", type=MOMENT, help="Stored before this time.")
@set_option
@access_key_option
@secret_key_option
@secret_key_file_option
@form_option
def run(
    source: str, target: str, patterns: tuple[str, ...], until_ms: int | None,
    assignments: tuple[str, ...], out: Output, **connection: Any,
) -> None:  # fmt: skip
    """Write new messages of a store or a running broker to Parquet files by date and topic.

    TARGET is a directory or a URL, as in `archive ship`, with one lake. A run adds the messages
    that the lake does not have. If it is killed, the next run leaves each message in the lake
    exactly once. A store in use is read up to its flushed offset. Two runs must not write to one
    TARGET at the same time. Needs pyarrow: pip install pyarrow.
    """
    endpoint = "" if Path(source).is_dir() else _endpoint_of(source)
    chosen, search = tuple(sorted(set(patterns))), None
    with _opened(target) as lake:
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
    """
    with _opened(target, is_there=True) as lake:
        from pocketmq.tools.lake.compaction import compact_lake

        with progress("Compacting", sum(file.size for file in lake.manifest.files)) as advance:
            compacted = compact_lake(lake, advance=advance)
        out.show({"target": lake.target, **compacted._asdict()})


@contextmanager
def _opened(target: str, *, is_there: bool = False) -> "Iterator[Lake]":
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
        with opened_lake(disk, objects) as lake:
            yield lake


def _endpoint_of(source: str) -> str:
    try:
        return str(ENDPOINT.convert(source, None, None))
    except click.BadParameter as error:
        text = f"{source} is neither a directory nor HOST:PORT"
        raise Failure(text, Exit.NOT_FOUND, "name a store's directory, or a broker") from error
