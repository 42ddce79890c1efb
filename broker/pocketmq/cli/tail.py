"""`pocketmq tail`: prints a topic's messages as they are stored, without a group."""

from typing import Any

import click

from pocketmq.cli.broker_names import topic_argument
from pocketmq.cli.connection import BrokerConnection, asks_broker
from pocketmq.cli.creation import is_missing
from pocketmq.cli.documents import MESSAGE_COLUMNS, ShownMessages
from pocketmq.cli.options import POSITION, Position, filtered
from pocketmq.cli.output import Output, talk
from pocketmq.cli.vocabulary import limit_option, option
from pocketmq.client import TailQuery
from pocketmq.client.following import BrokerWait


@asks_broker(
    "pocketmq tail orders",
    "pocketmq tail orders --from -10m",
    "pocketmq tail orders --filter \"price > 100 AND TAGS = 'paid'\"",
    "pocketmq tail orders --last 20 --no-follow -o jsonl",
)
@topic_argument()
@option(
    "--from", "begin", metavar="earliest|latest|TIME", type=POSITION, aliases=("--since",),
    help="Begin at the earliest or latest message, or with the first one stored at this time or "
    "later [default: latest].",
)  # fmt: skip
@click.option(
    "-n", "--last", "last_count", metavar="N", type=click.IntRange(0),
    help="Begin with this many of the last messages.",
)  # fmt: skip
@limit_option("End after this many messages.")
@click.option("--follow/--no-follow", default=True, help="Wait for more [default: yes].")
@filtered
def tail(
    broker: BrokerConnection, out: Output, topic: str, begin: Position | None,
    count_max: int | None, **given: Any,
) -> None:  # fmt: skip
    """Print the messages of TOPIC in the order they were stored, and continue with new ones.

    By default only new messages are printed. No group is needed, and no offset is committed.
    While the broker is unreachable, the command waits, then continues without losing or repeating a
    message. Ctrl-C ends it.
    """
    if begin is not None and given["last_count"] is not None:
        raise click.UsageError("--from and --last exclude each other")
    wanted = TailQuery(topic, since_ms=_since_ms(begin), **given)
    is_silent = wanted.follow and wanted.since_ms is None and wanted.last_count is None
    if is_silent and not is_missing(broker, topic):
        talk(f"waiting for new messages of {topic}; --from earliest prints those before")
    with out.rows(MESSAGE_COLUMNS) as rows:
        shown = ShownMessages(rows, count_max)
        broker.show(broker.client.tail_pages(wanted, BrokerWait(talk)), shown.add)


def _since_ms(begin: Position | None) -> int | None:
    """Returns the time to begin at; None: only new messages."""
    if begin is None or begin.is_latest:
        return None
    if begin.queue_offset:
        text = (
            "a queue offset is of one queue: pocketmq consume TOPIC --pull --queue N --from OFFSET"
        )
        raise click.UsageError(text)
    return begin.time_ms or 0
