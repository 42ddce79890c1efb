"""`pocketmq tail`: a topic's messages as they are stored, without a group and without a trace."""

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
    "--since", "since_ms", type=MOMENT, help="Begin with the first message stored then or later."
)
@click.option(
    "-n", "last_count", type=click.IntRange(0), help="Begin with so many of the last messages."
)
@click.option("--max", "count_max", type=click.IntRange(1), help="End after so many messages.")
@click.option("--follow/--no-follow", default=True, help="Wait for more [default: yes].")
@filtered
def tail(
    broker: BrokerConnection, out: Output, topic: str, count_max: int | None, **given: Any
) -> None:
    """Print the messages of TOPIC in the order they were stored, and continue with new ones.

    By default it begins now. It needs no group and commits nothing; Ctrl-C ends it. When the broker
    is gone it waits for it, and no message is lost or repeated.
    """
    wanted = TailQuery(topic, **given)
    if wanted.since_ms is not None and wanted.last_count is not None:
        raise click.UsageError("--since and -n exclude each other")

    with out.rows(MESSAGE_COLUMNS) as rows:
        shown = ShownMessages(rows, count_max)
        broker.show(broker.client.tail_pages(wanted, BrokerWait(talk)), shown.add)
