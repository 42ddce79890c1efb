"""`pocketmq store export`: writes messages of a store to Parquet, Arrow or JSON lines."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pocketmq.cli.documents import message_document
from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Exit, Failure, Output, json_text, talk
from pocketmq.cli.store.selection import Chosen, searched, selection_options

if TYPE_CHECKING:
    from pocketmq.format.message_columns import MessageColumn
    from pocketmq.model.message import StoredMessage
    from pocketmq.tools.export.files import Line

FORMATS: Final = ("parquet", "arrow", "jsonl")
SPLITS: Final = ("topic", "day", "rows")
COMPRESSIONS: Final = ("zstd", "snappy", "none")
STANDARD_OUTPUT: Final = "-"
BODY: Final = "body"
BODY_TEXT: Final = "body_text"


@click.command(
    epilog=examples(
        "pocketmq store export ./store --to orders.parquet --topic orders --since 2026-11-20",
        "pocketmq store export ./store --to ./lake --format parquet --split-by topic --no-body",
        "pocketmq store export ./store --to - --format jsonl --key order-42",
    )
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FILE|DIRECTORY",
    help="Output file; - is standard output.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Format [default: by the suffix of FILE]."
)
@click.option("--columns", metavar="A,B,…", help="Fields of a message [default: all].")
@click.option("--no-body", is_flag=True, help="All fields except the body.")
@click.option("--raw-body", is_flag=True, help="Leave compressed bodies as they are stored.")
@click.option(
    "--split-by",
    type=click.Choice(SPLITS),
    help="Write several files into a DIRECTORY; days are UTC.",
)
@click.option(
    "--rows", "rows_max", type=click.IntRange(min=1), default=1_000_000, show_default=True,
    help="Messages of one file, with --split-by rows.",
)  # fmt: skip
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    help="Compression of Parquet and Arrow [default: zstd].",
)
@click.option("--system", is_flag=True, help="Include the broker's own topics.")
@click.option("--yes", is_flag=True, help="Replace FILE if it exists.")
@selection_options
@form_option
def export(
    chosen: Chosen,
    target: str,
    form: str | None,
    columns: str | None,
    no_body: bool,
    raw_body: bool,
    split_by: str | None,
    rows_max: int,
    compression: str | None,
    system: bool,
    yes: bool,
    out: Output,
) -> None:
    """Write messages of a store to files that other programs read.

    Fields have the names of `store dump -o jsonl`, and JSONL has its lines. A file appears when it
    is complete. Parquet and Arrow need pyarrow: pip install pyarrow.
    Damaged records are skipped and reported; the exit code is then 10.
    """
    form = form or _form_of(target)
    _refuse_mixtures(target, form, compression, split_by)
    _need_arrow(form)
    wanted = _columns(columns, no_body=no_body)
    from pocketmq.tools.export.files import ExportFormat, export_files, export_stream

    shape = ExportFormat(
        form, wanted, _line_of(wanted), compression=compression or "zstd", decompress=not raw_body,
        split_by=split_by, rows_max=rows_max,
    )  # fmt: skip
    path = Path(target)
    if target != STANDARD_OUTPUT:
        _refuse_target(path, chosen.directory, is_split=split_by is not None, yes=yes)
    with searched(chosen, "Exporting", with_system=system) as store:
        if target == STANDARD_OUTPUT:
            talk(f"{export_stream(store.search, sys.stdout.buffer, shape)} messages")
            return
        done = export_files(store.disk, store.search, path, shape)
        files = [str(file) for file in done.files]
        document = {
            "to": target,
            "format": form,
            "messages": done.messages,
            "bytes": done.bytes,
            "files": len(files) if out.form == "table" else files,
        }
        out.show(document)


def _form_of(target: str) -> str:
    from pocketmq.tools.export.files import SUFFIXES

    form = SUFFIXES.get(Path(target).suffix)
    if form is None:
        raise click.UsageError(
            f"the suffix of {target!r} is no format of an export; add --format {'|'.join(FORMATS)}"
        )
    return form


def _refuse_mixtures(target: str, form: str, compression: str | None, split_by: str | None) -> None:
    """Refuses options that exclude each other."""
    if form == "jsonl" and compression not in (None, "none"):
        raise click.UsageError("JSONL is not compressed; pipe it: --to - | zstd")
    if form == "arrow" and compression == "snappy":
        raise click.UsageError("Arrow does not support snappy; use zstd or none")
    if target == STANDARD_OUTPUT and form == "parquet":
        raise click.UsageError("Parquet cannot be written to a stream; use --format arrow or jsonl")
    if target == STANDARD_OUTPUT and split_by is not None:
        raise click.UsageError("--split-by needs a DIRECTORY to write to")


def _need_arrow(form: str) -> None:
    if form != "jsonl" and find_spec("pyarrow") is None:
        text = f"{form} files need pyarrow, which is not installed"
        raise Failure(text, Exit.FAILED, "pip install pyarrow, or --format jsonl")


def _refuse_target(path: Path, directory: Path, *, is_split: bool, yes: bool) -> None:
    """Refuses a target inside the store, and an existing one without --yes."""
    if path.resolve().is_relative_to(directory.resolve()):
        raise Failure(f"{path} is inside the store", Exit.REFUSED, "write outside of it")
    if not path.exists():
        return
    if is_split and not (path.is_dir() and not any(path.iterdir())):
        text = f"nothing was done: {path} exists already"
        raise Failure(text, Exit.REFUSED, "name a directory that is new or empty")
    if not is_split and path.is_dir():
        raise click.UsageError(f"{path} is a directory; add --split-by {'|'.join(SPLITS)}")
    if not is_split and not yes:
        raise Failure(f"nothing was done: {path} exists", Exit.REFUSED, "add --yes to replace it")


def _columns(text: str | None, *, no_body: bool) -> "list[MessageColumn]":
    """Returns the selected fields."""
    from pocketmq.format.message_columns import columns_of

    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    try:
        given = columns_of(names)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    wanted = [one for one in dict.fromkeys(given) if not (no_body and one.name == BODY)]
    if not wanted:
        raise click.UsageError("--columns and --no-body leave no column")
    return wanted


def _line_of(columns: "list[MessageColumn]") -> "Line":
    """Returns a function that formats these fields as a JSON line; BODY_TEXT follows BODY."""
    from pocketmq.format.message_columns import MESSAGE_COLUMNS

    shown = [
        part
        for column in columns
        for part in ([BODY, BODY_TEXT] if column.name == BODY else [column.name])
    ]

    def line(message: "StoredMessage") -> bytes:
        document = message_document(message)
        if len(columns) < len(MESSAGE_COLUMNS):
            document = {name: document[name] for name in shown if name in document}
        return json_text(document).encode()

    return line
