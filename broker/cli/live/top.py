"""`pocketmq top`: topics by what goes in and out, drawn again and again on a terminal."""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.connection import Connection, endpoint_option
from broker.cli.live.snapshot import snapshot_document, take_snapshot
from broker.cli.live.status import disk_text
from broker.cli.output import (
    TABLES,
    Columns,
    Rows,
    chosen_format,
    column,
    output_option,
    print_document,
)
from broker.cli.progress import amount
from broker.client.values import StoreStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS: Final[Columns] = {
    "TOPIC": column("name"),
    "IN/S": column("in_per_s"),
    "OUT/S": column("out_per_s"),
    "LAG": column("lag_messages"),
    "MESSAGES": column("message_count"),
    "GROUPS": column("group_count"),
}
LINES_KEPT: Final = 8
"""Lines of a terminal that are not for topics."""


@click.command(
    epilog="""\b
Examples:
  pocketmq top
  pocketmq top --interval 5 -o json
"""
)
@click.option(
    "--interval", "interval_s", type=click.FloatRange(0.1), default=1.0, show_default=True,
    metavar="SECONDS", help="Rates are those of so many seconds.",
)  # fmt: skip
@click.option(
    "--count", "count_max", type=click.IntRange(1),
    help="End after so many [default: 1, on a terminal with Ctrl-C].",
)  # fmt: skip
@output_option
@endpoint_option
def top(interval_s: float, count_max: int | None, output_format: str | None, endpoint: str) -> None:
    """Show topics by messages in and out a second, with lag and the store's numbers.

    IN counts messages stored, OUT offsets committed by groups. On a terminal the picture is drawn
    again every interval; elsewhere it is printed once.
    """
    form = chosen_format(output_format)
    is_terminal = sys.stdout.isatty()
    with Connection(endpoint) as broker:
        if form == "table" and is_terminal:
            _draw(_moments(broker, interval_s, count_max))
            return
        for document in _moments(broker, interval_s, count_max or 1):
            if form not in TABLES and form != "csv":
                print_document(document, form)
                continue
            with Rows(form, COLUMNS) as rows:
                for row in document["topics"]:
                    rows.add(row)


def _moments(
    broker: Connection, interval_s: float, count_max: int | None
) -> Iterator[dict[str, Any]]:
    """Yield what happened in each interval."""
    before, count = take_snapshot(broker), 0
    while count_max is None or count < count_max:
        time.sleep(interval_s)
        after = take_snapshot(broker)
        yield snapshot_document(before, after)
        before, count = after, count + 1


def _draw(moments: Iterator[dict[str, Any]]) -> None:
    """Draw each moment over the one before, until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    try:
        with Live("Looking…", console=console, screen=True, auto_refresh=False) as live:
            for document in moments:
                picture = _picture(document, max(console.height - LINES_KEPT, 1))
                live.update(picture, refresh=True)
    except KeyboardInterrupt:
        return


def _picture(document: dict[str, Any], line_count: int) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in COLUMNS:
        table.add_column(title, justify="left" if title == "TOPIC" else "right", no_wrap=True)
    for row in document["topics"][:line_count]:
        table.add_row(*(Text(str(cell(row))) for cell in COLUMNS.values()))
    return Group(*map(Text, head_lines(document)), table)


def head_lines(document: dict[str, Any]) -> list[str]:
    """Return what stands above the topics."""
    status = StoreStatus(**document["store"])
    log_bytes = amount(status.appended_offset - status.min_offset)
    rates = f"in {document['in_per_s']}/s   out {document['out_per_s']}/s"
    log = f"log {log_bytes}, {amount(document['log_bytes_per_s'])}/s"
    modes = f"flush {status.flush_mode}   retention {status.retention_state}"
    return [
        f"{status.broker} of {status.cluster}   {status.state}   disk {disk_text(status)}",
        f"{rates}   lag {document['lag_messages']}   {log}   {modes}",
        f"{status.topic_count} topics, {status.queue_count} queues, {status.group_count} groups",
        "",
    ]
