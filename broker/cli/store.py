"""`pocketmq store`: looking at a store directory without a broker."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker.cli.documents import Document, message_document
from broker.cli.failures import EXIT_DAMAGED, EXIT_NOT_FOUND, Failure
from broker.cli.message import COLUMNS
from broker.cli.output import (
    Columns,
    Rows,
    chosen_format,
    column,
    output_option,
    print_document,
    talk,
)
from broker.cli.settings import set_option, sizes_of

if TYPE_CHECKING:
    from broker.files.disk import Disk
    from broker.tools.dump import LogDump

FLUSH_COUNT: Final = 512
"""Rows between two flushes of standard output."""

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

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(
    epilog="""\b
Example:
  pocketmq store info ./store
"""
)
def store() -> None:
    """Look at a store directory, without a broker."""


def _read_only_option(command: Command) -> Command:
    option = click.option(
        "--read-only", is_flag=True, help="Look on even while a broker uses the store."
    )
    return option(command)


def _read_queue(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> tuple[str, int] | None:
    if text is None:
        return None
    topic, _, queue_id = text.rpartition(":")
    if not topic or not (queue_id.isascii() and queue_id.isdecimal()):
        raise click.BadParameter(f"{text!r} is not TOPIC:QUEUE")
    return topic, int(queue_id)


@store.command(
    epilog="""\b
Examples:
  pocketmq store dump ./store -o jsonl
  pocketmq store dump ./store --queue orders:0
"""
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--queue", metavar="TOPIC:QUEUE", callback=_read_queue, help="The units of a queue instead."
)
@click.option("--index", "is_index", is_flag=True, help="The entries of the index instead.")
@_read_only_option
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
    from broker.tools.dump import LogDump, index_rows, queue_units

    disk = _accessible(directory, read_only=read_only)
    sizes = sizes_of(disk, directory, assignments, with_index=is_index)
    if queue is not None:
        topic, queue_id = queue
        units = queue_units(disk, directory, sizes, topic=topic, queue_id=queue_id)
        _print_rows((unit._asdict() for unit in units), output_format, UNIT_COLUMNS)
    elif is_index:
        entries = index_rows(disk, directory, sizes)
        _print_rows((row._asdict() for row in entries), output_format, INDEX_COLUMNS)
    else:
        walk = LogDump(disk, directory, sizes)
        _print_rows(map(message_document, walk), output_format, COLUMNS)
        _tell_damage(walk)


def _accessible(directory: Path, *, read_only: bool) -> "Disk":
    """Return the disk, for a directory that may be looked at."""
    from broker.files.disk import Disk
    from broker.tools.store_access import check_access

    if not directory.is_dir():
        raise Failure(f"there is no directory {directory}", EXIT_NOT_FOUND)
    disk = Disk()
    check_access(disk, directory, read_only=read_only)
    return disk


def _print_rows(
    documents: Iterable[Document],
    output_format: str | None,
    columns: Columns,
) -> None:
    with Rows(output_format, columns) as rows:
        for number, document in enumerate(documents, 1):
            rows.add(document)
            if number % FLUSH_COUNT == 0:
                rows.flush()


def _tell_damage(walk: "LogDump") -> None:
    if walk.tail is not None:
        talk(f"Note: behind the last record, at {walk.tail.physical_offset}: {walk.tail.reason}")
    for hole in walk.holes:
        talk(f"Damage: {hole.path} at {hole.physical_offset}: {hole.reason}")
    if walk.holes:
        text = f"the log is damaged before its end; places passed over: {len(walk.holes)}"
        raise Failure(text, EXIT_DAMAGED, "bring the damaged files back from a copy")


@store.command(
    epilog="""\b
Example:
  pocketmq store info ./store
"""
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@_read_only_option
@set_option
@output_option
def info(
    directory: Path, read_only: bool, assignments: tuple[str, ...], output_format: str | None
) -> None:
    """Describe a store: files and sizes, how far it reaches, how it was left."""
    from broker.tools.inspect import describe

    disk = _accessible(directory, read_only=read_only)
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
