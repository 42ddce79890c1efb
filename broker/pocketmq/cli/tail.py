"""`pocketmq tail`: prints a topic's messages as they are stored, without a group."""

from typing import Any

import click

from pocketmq.cli.connection import BrokerConnection, asks_broker
from pocketmq.cli.documents import MESSAGE_COLUMNS, ShownMessages
from pocketmq.cli.options import MOMENT, filtered
from pocketmq.cli.output import Output, talk
from pocketmq.client import TailQuery
from pocketmq.client.following import BrokerWait


@asks_broker(
    "pocketmq tail orders",
    "pocketmq tail orders --since 10m",
    "pocketmq tail orders --filter \"price > 100 AND TAGS = 'paid'\"",
    "pocketmq tail orders -n 20 --no-follow -o jsonl",
)
@click.argument("topic")
@click.option(
    "--since",
    "since_ms",
    type=MOMENT,
    help="Start with the first message stored at this time or later.",
)
@click.option(
    "-n", "last_count", type=click.IntRange(0), help="Start with this many of the last messages."
)
@click.option("--max", "count_max", type=click.IntRange(1), help="End after this many messages.")
@click.option("--follow/--no-follow", default=True, help="Wait for more [default: yes].")
@filtered
def tail(
    broker: BrokerConnection, out: Output, topic: str, count_max: int | None, **given: Any
) -> None:
    """Print the messages of TOPIC in the order they were stored, and continue with new ones.

    By default only new messages are printed. No group is needed, and no offset is committed.
    While the broker is unreachable, the command waits, then continues without losing or repeating a
    message. Ctrl-C ends it.
    """
    wanted = TailQuery(topic, **given)
    if wanted.since_ms is not None and wanted.last_count is not None:
        raise click.UsageError("--since and -n exclude each other")

    with out.rows(MESSAGE_COLUMNS) as rows:
        shown = ShownMessages(rows, count_max)
        broker.show(broker.client.tail_pages(wanted, BrokerWait(talk)), shown.add)
