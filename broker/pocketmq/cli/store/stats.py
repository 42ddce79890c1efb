"""`pocketmq store stats`: counts messages of a store, and their distribution."""

from typing import TYPE_CHECKING, Final

import click

from pocketmq.cli.documents import Document
from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Exit, Failure, Output, at, columns, moment, talk
from pocketmq.cli.store.rows import print_due, print_producers
from pocketmq.cli.store.selection import Chosen, searched, selection_options

if TYPE_CHECKING:
    from pocketmq.tools.statistics import Statistics

LAG: Final = "group"
DUE, PRODUCER_GROUP = "due", "producer-group"
LABELS: Final = {
    "topic": ("topic",),
    "queue": ("topic", "queue_id"),
    "tag": ("topic", "tag"),
    "key": ("topic", "key"),
    "host": ("born_host",),
    "hour": ("hour",),
    "day": ("day",),
    "size": ("from_bytes", "below_bytes"),
}
"""Fields that identify a row, by the grouping of messages."""
AMOUNT_COLUMNS: Final = columns(
    "messages", "bytes", "body_bytes", "body_bytes_average",
    "body_bytes_max", "compressed_ratio", "keys_per_message",
    at("first_store_timestamp_ms"), at("last_store_timestamp_ms"),
)  # fmt: skip
LARGEST_COLUMNS: Final = columns(
    "topic", "queue_id", "queue_offset", "physical_offset",
    "body_bytes",
)  # fmt: skip
LAG_COLUMNS: Final = columns(
    "group", "topic", "queue_id", "committed_offset", "end_offset",
    "lag",
)  # fmt: skip


@click.command(
    epilog=examples(
        "pocketmq store stats ./store",
        "pocketmq store stats ./store --by hour --topic orders",
        "pocketmq store stats ./store --by key --top 50 -o jsonl",
        "pocketmq store stats ./store --by group",
        "pocketmq store stats ./store --by due",
    )
)
@click.option(
    "--by", type=click.Choice([*LABELS, LAG, DUE, PRODUCER_GROUP]), help="Group messages by this."
)
@click.option(
    "--top", type=click.IntRange(min=1), default=20, show_default=True,
    help="Rows shown, largest first; hours, days and sizes are all shown.",
)  # fmt: skip
@selection_options
@form_option
def stats(chosen: Chosen, by: str | None, top: int, out: Output) -> None:
    """Count messages and bytes of a store, and their distribution.

    Without --by: totals, and the largest messages. Hours and days are UTC. By group: lag of
    consumer groups, by queue. By due: delayed messages, by hour. By producer-group: undecided
    transactions. Damaged records are skipped and reported; the exit code is then 10.
    """
    if by == LAG:
        _print_lags(chosen, out)
        return
    if by in (DUE, PRODUCER_GROUP):
        show = print_due if by == DUE else print_producers
        show(chosen.opened(with_index=False), out)
        return
    from pocketmq.tools.statistics import measure

    with searched(chosen, "Counting") as store:
        found = measure(store.search, store.files, by=by, top=top)
        _print(found, by, out)


def _print(found: "Statistics", by: str | None, out: Output) -> None:
    if out.form == "json":
        document: Document = {"summary": found.summary, "largest": found.largest}
        if by is not None:
            document |= {"by": by, "groups": found.group_count, "rows": found.rows}
            document |= {"is_rough": found.is_rough}
        out.show(document)
    elif by is None:
        out.show(_plain(found.summary) if out.form == "table" else found.summary)
        if out.form == "table" and found.largest:
            click.echo("\nLargest messages:")
            out.stream(found.largest, LARGEST_COLUMNS)
    else:
        out.stream(found.rows, [*columns(*LABELS[by]), *AMOUNT_COLUMNS])
        _say(found)


def _plain(summary: Document) -> Document:
    return {
        name.removesuffix("_ms"): moment(value or 0) if name.endswith("_ms") else value
        for name, value in summary.items()
    }


def _say(found: "Statistics") -> None:
    summary = found.summary
    talk(f"{summary['messages']} messages, {summary['bytes']} bytes; rows: {found.group_count}")
    if len(found.rows) < found.group_count:
        talk(f"Only the {len(found.rows)} largest rows are shown; --top shows more")
    if found.is_rough:
        talk("Note: more rows than fit in memory; counts may be too small")


def _print_lags(chosen: Chosen, out: Output) -> None:
    from pocketmq.tools.lag import group_lags, queue_ranges

    with searched(chosen, "Counting") as store:
        ranges = queue_ranges(store.disk, chosen.directory, store.sizes, store.search)
        try:
            lags = group_lags(store.disk, chosen.directory, ranges)
        except ValueError as error:
            raise Failure(f"consumerOffset.json cannot be read: {error}", Exit.FAILED) from error
        wants = store.search.selection.wants_queue
        rows = [lag._asdict() for lag in lags if wants(lag.topic, lag.queue_id)]
        out.stream(rows, LAG_COLUMNS)
