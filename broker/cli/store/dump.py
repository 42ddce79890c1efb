"""`pocketmq store dump`: every message, unit or index entry of a store."""

from typing import Final

import click

from broker.cli.documents import message_document
from broker.cli.message import COLUMNS
from broker.cli.options import examples, form_option, queue_option
from broker.cli.output import Output, columns
from broker.cli.store.access import Given, given_options, show_damage

UNIT_COLUMNS: Final = columns(
    "queue_offset", "physical_offset", "size",
    "tags_code",
)  # fmt: skip
INDEX_COLUMNS: Final = columns(
    "file", "number", "slot", "key_hash", "physical_offset",
    "previous",
)  # fmt: skip


@click.command(
    epilog=examples(
        "pocketmq store dump ./store -o jsonl",
        "pocketmq store dump ./store --queue orders:0",
    )
)
@queue_option("The units of a queue instead.")
@click.option("--index", "is_index", is_flag=True, help="The entries of the index instead.")
@given_options
@form_option
def dump(given: Given, queue: tuple[str, int] | None, is_index: bool, out: Output) -> None:
    """Print every message of a store in the order it was stored.

    Damaged records, and log files that are missing or cut short, are passed over and told of on
    standard error; the exit code is then 10.
    """
    if queue is not None and is_index:
        raise click.UsageError("--queue and --index exclude each other")
    from broker.rebuild.log_files import find_readable_files
    from broker.tools.dump import index_rows, queue_units
    from broker.tools.selection import LogSearch

    store = given.opened(with_index=is_index)
    if queue is not None:
        out.stream((unit._asdict() for unit in queue_units(*store, *queue)), UNIT_COLUMNS)
    elif is_index:
        out.stream((row._asdict() for row in index_rows(*store)), INDEX_COLUMNS)
    else:
        size = store.sizes.commit_log_file_size_bytes
        files, gaps = find_readable_files(given.directory, size)
        search = LogSearch(files, gaps=gaps)
        out.stream(map(message_document, search.messages()), COLUMNS)
        show_damage(search, "bring the damaged files back from a copy")
