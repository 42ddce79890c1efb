"""`pocketmq store dump`: prints every message, unit or index entry of a store."""

import click

from pocketmq.cli.documents import FOUND_COLUMNS, message_document
from pocketmq.cli.options import examples, form_option, queue_option
from pocketmq.cli.output import Output, typed
from pocketmq.cli.store.access import Given, given_options, show_damage
from pocketmq.cli.store.rows import print_halves, print_index, print_pending, print_units


@click.command(
    epilog=examples(
        "pocketmq store dump ./store -o jsonl",
        "pocketmq store dump ./store --queue orders:0",
        "pocketmq store dump ./store --timers -o table",
        "pocketmq store dump ./store --halves -o table",
    )
)
@queue_option("Dump the units of a queue instead.")
@click.option("--index", "is_index", is_flag=True, help="Dump the entries of the index instead.")
@click.option("--timers", is_flag=True, help="Dump delayed messages instead.")
@click.option("--halves", is_flag=True, help="Dump undecided half messages instead.")
@given_options
@form_option
def dump(
    given: Given,
    queue: tuple[str, int] | None,
    is_index: bool,
    timers: bool,
    halves: bool,
    out: Output,
) -> None:
    """Print every message of a store in the order it was stored; `store grep` prints some.

    Damaged records, and log files that are missing or cut short, are skipped and reported on
    standard error; the exit code is then 10.
    """
    if sum((queue is not None, is_index, timers, halves)) > 1:
        raise click.UsageError("--queue, --index, --timers and --halves exclude each other")
    from pocketmq.rebuild.log_files import find_readable_files
    from pocketmq.tools.selection import LogSearch

    store = given.opened(with_index=is_index)
    if queue is not None:
        print_units(store, queue, out)
    elif is_index:
        print_index(store, out)
    elif timers:
        print_pending(store, out)
    elif halves:
        print_halves(store, out)
    else:
        size = store.sizes.commit_log_file_size_bytes
        files, gaps = find_readable_files(given.directory, size)
        search = LogSearch(files, gaps=gaps)
        out.stream(map(message_document, search.messages()), FOUND_COLUMNS)
        show_damage(search, f"pocketmq store verify {typed(given.directory)}")
