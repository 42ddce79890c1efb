"""`pocketmq store dump` and `info`: what lies in a store directory."""

from pathlib import Path
from typing import Final

import click

from broker.cli.documents import Document, message_document
from broker.cli.message import COLUMNS
from broker.cli.options import (
    directory_argument,
    output_option,
    queue_option,
    read_only_option,
    set_option,
)
from broker.cli.output import chosen_format, column, print_document
from broker.cli.settings import sizes_of
from broker.cli.store.options import accessible, print_rows, tell_damage

UNIT_COLUMNS: Final = {
    "QUEUE OFFSET": column("queue_offset"),
    "PHYSICAL OFFSET": column("physical_offset"),
    "SIZE": column("size"),
    "TAGS CODE": column("tags_code"),
}
INDEX_COLUMNS: Final = {
    "FILE": column("file"),
    "NUMBER": column("number"),
    "SLOT": column("slot"),
    "HASH": column("key_hash"),
    "PHYSICAL OFFSET": column("physical_offset"),
    "PREVIOUS": column("previous"),
}


@click.command(
    epilog="""\b
Examples:
  pocketmq store dump ./store -o jsonl
  pocketmq store dump ./store --queue orders:0
"""
)
@directory_argument
@queue_option("The units of a queue instead.")
@click.option("--index", "is_index", is_flag=True, help="The entries of the index instead.")
@read_only_option
@set_option
@output_option
def dump(
    directory: Path,
    queue: tuple[str, int] | None,
    is_index: bool,
    read_only: bool,
    assignments: tuple[str, ...],
    output_format: str | None,
) -> None:
    """Print every message of a store in the order it was stored.

    Damaged records are passed over and told of on standard error; the exit code is then 10.
    """
    if queue is not None and is_index:
        raise click.UsageError("--queue and --index exclude each other")
    from broker.rebuild.log_files import find_log_files
    from broker.tools.dump import index_rows, queue_units
    from broker.tools.selection import LogSearch

    disk = accessible(directory, read_only=read_only)
    sizes = sizes_of(disk, directory, assignments, with_index=is_index)
    if queue is not None:
        topic, queue_id = queue
        units = queue_units(disk, directory, sizes, topic=topic, queue_id=queue_id)
        print_rows((unit._asdict() for unit in units), output_format, UNIT_COLUMNS)
    elif is_index:
        entries = index_rows(disk, directory, sizes)
        print_rows((row._asdict() for row in entries), output_format, INDEX_COLUMNS)
    else:
        search = LogSearch(find_log_files(directory, sizes.commit_log_file_bytes))
        print_rows(map(message_document, search.messages()), output_format, COLUMNS)
        tell_damage(search, "bring the damaged files back from a copy")


@click.command(
    epilog="""\b
Example:
  pocketmq store info ./store
"""
)
@directory_argument
@read_only_option
@set_option
@output_option
def info(
    directory: Path, read_only: bool, assignments: tuple[str, ...], output_format: str | None
) -> None:
    """Describe a store: files and sizes, how far it reaches, how it was left."""
    from broker.tools.inspect import describe

    disk = accessible(directory, read_only=read_only)
    sizes = sizes_of(disk, directory, assignments, with_index=True)
    found = describe(disk, directory, sizes)
    is_table = chosen_format(output_format) == "table"
    print_document(_summary(found) if is_table else found, output_format)


def _summary(found: Document) -> Document:
    """Return a description in a few lines."""
    log, queues, index = found["commit_log"], found["consume_queues"], found["index"]
    entries = sum(file["entries"] for file in index["files"])
    mark = found["flushed_mark"]
    return {
        "directory": found["directory"],
        "in use": found["in_use"],
        "left in order": found["left_in_order"],
        "commit log": (
            f"{log['files']} files of {log['file_size_bytes']} bytes, "
            f"{log['min_offset']} to {log['end_offset']}"
        ),
        "known durable": "unknown" if mark is None else f"to {mark}",
        "queues": f"{len(queues['queues'])} with {queues['messages']} messages",
        "damaged queues": queues["damaged"],
        "index": (
            f"{len(index['files'])} files with {entries} entries "
            f"({index['slot_count']} slots, {index['entry_count_max']} entries each)"
        ),
        "topics": found["topics"],
    }
