"""`pocketmq store grep`, `stats` and `export`: what lies in the messages of a store."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import click

from broker.cli.documents import message_document
from broker.cli.failures import EXIT_DAMAGED, EXIT_NOT_FOUND, EXIT_REFUSED, Failure
from broker.cli.message import COLUMNS
from broker.cli.output import Rows, column, moment, output_option, print_document, talk
from broker.cli.progress import progress
from broker.cli.settings import set_option, sizes_of
from broker.cli.store.options import (
    accessible,
    directory_argument,
    print_rows,
    read_only_option,
)
from broker.cli.times import MOMENT

if TYPE_CHECKING:
    from broker.tools.selection import LogSearch

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS: Final = ("jsonl", "parquet", "arrow")
DIMENSIONS: Final = ("topic", "queue", "hour", "day", "size", "tag")
AMOUNT_COLUMNS: Final = {
    "GROUP": column("group"),
    "MESSAGES": column("messages"),
    "BYTES": column("record_bytes"),
    "BODIES": column("body_bytes"),
    "LARGEST": column("body_bytes_max"),
    "FIRST": lambda row: moment(row["first_stored_ms"]),
    "LAST": lambda row: moment(row["last_stored_ms"]),
}


def selection_options(command: Command) -> Command:
    """Give a command the options that choose messages."""
    for option in (
        click.option("--topic", "topics", multiple=True, help="Topic or pattern; may be repeated."),
        click.option("--queue", "queue_id", type=click.IntRange(min=0), help="Queue id."),
        click.option("--since", type=MOMENT, help="Stored at or after this time."),
        click.option("--until", type=MOMENT, help="Stored before this time."),
        click.option("--key", default="", help="With this key or unique key."),
        click.option("--tag", default="", help="With this tag."),
        click.option("--system", is_flag=True, help="System topics too."),
        read_only_option,
        set_option,
    ):
        command = option(command)
    return command


@contextmanager
def selected(directory: Path, chosen: dict[str, Any], label: str) -> Iterator["LogSearch"]:
    """Open a store's log for the options of `selection_options`; damage is told at the end."""
    from broker.rebuild.log_files import find_log_files
    from broker.tools.selection import LogSearch, Selection
    from broker.tools.store_access import is_live
    from broker.tools.verify.tables import flushed_upto

    disk = accessible(directory, read_only=chosen["read_only"])
    sizes = sizes_of(disk, directory, chosen["assignments"], with_index=False)
    bounds: dict[str, Any] = {}
    for name, option in (("begin_ms", "since"), ("end_ms", "until")):
        if chosen[option] is not None:
            bounds[name] = chosen[option]
    if is_live(directory):
        bounds["upto"] = flushed_upto(disk, directory) or 0
    queue_id = chosen["queue_id"]
    selection = Selection(
        topics=chosen["topics"],
        queue_ids=frozenset() if queue_id is None else frozenset({queue_id}),
        key=chosen["key"] or None,
        tag=chosen["tag"] or None,
        with_system=chosen["system"],
    )
    files = find_log_files(directory, sizes.commit_log_file_bytes)
    with progress(label, sum(file.size for file in files)) as tell:
        log = LogSearch(files, replace(selection, **bounds), tell=tell)
        yield log
    if log.tail is not None:
        talk(f"Note: behind the last record, at {log.tail.physical_offset}: {log.tail.reason}")
    for hole in log.holes:
        talk(f"Damage: {hole.path} at {hole.physical_offset}: {hole.reason}")
    if log.holes:
        text = f"the log is damaged before its end; places passed over: {len(log.holes)}"
        raise Failure(text, EXIT_DAMAGED, f"pocketmq store verify {directory}")


@click.command(
    epilog="""\b
Examples:
  pocketmq store grep 'order 4[0-9]' ./store --topic orders
  pocketmq store grep paid ./store --in properties --count
"""
)
@click.argument("pattern")
@directory_argument
@click.option("--ignore-case", "-i", is_flag=True, help="Upper and lower case are the same.")
@click.option(
    "--in", "place", type=click.Choice(["body", "properties", "any"]), default="any",
    show_default=True, help="Where to look.",
)  # fmt: skip
@click.option("--count", "is_count", is_flag=True, help="Print the number of messages alone.")
@click.option("-n", "--max", "most", type=click.IntRange(min=1), help="Stop after so many.")
@selection_options
@output_option
def grep(
    pattern: str,
    directory: Path,
    ignore_case: bool,
    place: str,
    is_count: bool,
    most: int | None,
    output_format: str | None,
    **chosen: Any,
) -> None:
    """Print messages in which a regular expression is found; exit code 3 when there are none.

    Bodies that are compressed are unfolded; body and properties are searched as UTF-8 bytes.
    """
    try:
        wanted = re.compile(pattern.encode(), re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise click.BadParameter(f"no regular expression: {error}") from error
    from broker.tools.pattern_search import matching

    count = 0
    with selected(directory, chosen, "Searching") as log:
        found = matching(log, wanted, place)
        with Rows(output_format, COLUMNS) if not is_count else _Silent() as rows:
            for message in found:
                count += 1
                if not is_count:
                    rows.add(message_document(message))
                if count == most:
                    break
    if is_count:
        print_document({"messages": count}, output_format)
    if not count:
        raise Failure("no message was found", EXIT_NOT_FOUND)


class _Silent:
    def __enter__(self) -> Any:
        return None

    def __exit__(self, *error: object) -> None:
        return None


@click.command(
    epilog="""\b
Examples:
  pocketmq store stats ./store
  pocketmq store stats ./store --by hour --topic 'orders*'
"""
)
@directory_argument
@click.option(
    "--by", "dimension", type=click.Choice(DIMENSIONS), default="topic", show_default=True
)
@click.option("--top", type=click.IntRange(min=1), help="Only the groups with the most messages.")
@selection_options
@output_option
def stats(
    directory: Path, dimension: str, top: int | None, output_format: str | None, **chosen: Any
) -> None:
    """Count messages and bytes by topic, queue, time, size or tag."""
    from broker.tools.amounts import count_by

    with selected(directory, chosen, "Counting") as log:
        amounts = count_by(log, dimension)
        if top is not None:
            amounts = sorted(amounts, key=lambda amount: -amount.messages)[:top]
        print_rows(map(asdict, amounts), output_format, AMOUNT_COLUMNS)


@click.command(
    epilog="""\b
Examples:
  pocketmq store export ./store --to orders.parquet --topic orders
  pocketmq store export ./store --to - --format jsonl --since -2h
"""
)
@directory_argument
@click.option(
    "--to", "target", required=True, metavar="FILE", help="Where to; - for standard output."
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="[default: by FILE's suffix]")
@click.option("--columns", help="Columns of Parquet and Arrow, by comma [default: all].")
@click.option("--compression", type=click.Choice(["zstd", "snappy", "none"]), default="zstd")
@selection_options
@output_option
def export(
    directory: Path,
    target: str,
    form: str | None,
    columns: str | None,
    compression: str,
    output_format: str | None,
    **chosen: Any,
) -> None:
    """Write messages to a Parquet, Arrow or JSONL file.

    The columns are the fields that JSON output has. A file appears when it is complete; one that
    is there is not replaced. Parquet and Arrow need pyarrow: pip install 'pocketmq[export]'.
    """
    form = form or Path(target).suffix.removeprefix(".")
    if form not in FORMATS:
        raise click.UsageError(f"say --format {'|'.join(FORMATS)}: {target!r} does not tell")
    path = Path(target)
    if target != "-" and path.exists():
        raise Failure(f"{target} exists", EXIT_REFUSED, "name another file or remove it")
    names = [name for name in (columns or "").split(",") if name]
    draft = path.with_name(f"{path.name}.draft")
    try:
        with selected(directory, chosen, "Exporting") as log:
            with sys.stdout.buffer if target == "-" else draft.open("wb") as sink:
                count = _write(log, sink, form, names, compression)
                sink.flush()
                if target != "-":
                    os.fsync(sink.fileno())
            if target != "-":
                draft.replace(path)
    finally:
        if target != "-":
            draft.unlink(missing_ok=True)
    if target == "-":
        talk(f"{count} messages")
    else:
        print_document({"file": target, "messages": count}, output_format)


def _write(log: "LogSearch", sink: IO[bytes], form: str, names: list[str], compression: str) -> int:
    if form == "jsonl":
        return _write_lines(log, sink)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        text = f"{form} needs pyarrow"
        raise Failure(text, EXIT_REFUSED, "pip install 'pocketmq[export]'") from error
    from broker.backfill.arrow_messages import arrow_schema, batches
    from broker.format.message_columns import columns_of
    from broker.rebuild.reader import Chunk

    try:
        fields = columns_of(names)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    schema = arrow_schema(fields)
    count = 0
    if form == "parquet":
        writer: Any = pq.ParquetWriter(sink, schema, compression=compression)
    else:
        codec = None if compression == "none" else compression.replace("snappy", "lz4")
        options = pa.ipc.IpcWriteOptions(compression=codec)
        writer = pa.ipc.new_stream(sink, schema, options=options)
    with writer:
        for picked in log:
            chunk = Chunk(picked.buffer, picked.heads, picked.shift)
            for batch in batches(chunk, log.queues, fields, schema):
                writer.write_batch(batch)
                count += batch.num_rows
    return count


def _write_lines(log: "LogSearch", sink: IO[bytes]) -> int:
    count = 0
    for count, document in enumerate(_documents(log), 1):  # noqa: B007 - the number is returned
        sink.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return count


def _documents(log: "LogSearch") -> Iterable[dict[str, Any]]:
    return map(message_document, log.messages())
