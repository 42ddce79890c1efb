"""`pocketmq tail`: a topic's messages as they are stored, without a group and without a trace.

what is there   every queue page by page, merged in the order of the log
what comes      a long poll on every queue; what arrives together is sorted
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

import click

from broker.cli.connection import Connection, asks_broker
from broker.cli.documents import MESSAGE_COLUMNS, PAGE_COUNT, message_document, readable_queues
from broker.cli.following import Pull, Show, follow, place_in_log
from broker.cli.options import MOMENT
from broker.cli.output import Output
from broker.cli.watching import Patience
from broker.client.values import PullPage, PullQuery
from broker.model.message import StoredMessage
from broker.model.reading import Bound

if TYPE_CHECKING:
    from broker.client.broker import BrokerClient


@asks_broker(
    "pocketmq tail orders",
    "pocketmq tail orders --since 10m",
    "pocketmq tail orders -n 20 --no-follow -o jsonl",
)
@click.argument("topic")
@click.option("--since", "since_ms", type=MOMENT, help="Begin with messages stored then or later.")
@click.option("-n", "last_count", type=click.IntRange(0), help="Begin with the last so many.")
@click.option("--max", "count_max", type=click.IntRange(1), help="End after so many messages.")
@click.option("--follow/--no-follow", default=True, help="Wait for more [default: yes].")
@click.option("--tag-filter", default="*", metavar="A||B", help="Only these tags.")
def tail(broker: Connection, out: Output, topic: str, count_max: int | None, **given: Any) -> None:
    """Print the messages of TOPIC in the order they were stored, and go on as more come.

    Left to itself it begins now. It needs no group and commits nothing; Ctrl-C ends it. When the
    broker goes away it is waited for, and nothing is left out or shown twice.
    """
    wanted = Wanted(topic, **given, is_sifted=not broker.finds_times(topic))
    if wanted.since_ms is not None and wanted.last_count is not None:
        raise click.UsageError("--since and -n exclude each other")
    left = count_max or inf
    with out.rows(MESSAGE_COLUMNS) as rows:

        def show(messages: Sequence[StoredMessage]) -> bool:
            nonlocal left
            shown = messages[: int(min(left, len(messages)))]
            for message in shown:
                rows.add(message_document(message))
            rows.flush()
            left -= len(shown)
            return left > 0

        pull = broker.reader(topic).pull
        broker.ask(print_tail(broker.client, pull, wanted, show))


@dataclass(frozen=True)
class Wanted:
    """What to print; without time and count it begins where the queues end now.

    is_sifted   read it all for a time: brokers look times up in the topics of their clients only
    """

    topic: str
    since_ms: int | None = None
    last_count: int | None = None
    tag_filter: str = "*"
    follow: bool = True
    is_sifted: bool = False


@dataclass
class Reader:
    """One queue: what to pull next, what was pulled and not shown yet, whether that was all."""

    query: PullQuery
    pulled: deque[StoredMessage] = field(default_factory=deque)
    is_at_end: bool = False


async def print_tail(client: "BrokerClient", pull: Pull, wanted: Wanted, show: Show) -> None:
    """Show what is there, then what comes.

    Errors   ClientError
    """
    queues = readable_queues(await client.admin.describe_topic(wanted.topic))
    readers = [
        Reader(PullQuery(wanted.topic, queue.queue_id, place, expression=wanted.tag_filter))
        for queue in queues
        for ends in [range(queue.min_offset, queue.max_offset)]
        for place in [await _begin(client, wanted, queue.queue_id, ends)]
    ]
    if wanted.last_count is not None:
        kept = deque[StoredMessage](maxlen=wanted.last_count)
        async for messages in _merged(pull, readers):
            kept.extend(messages)
        if kept and not show(list(kept)):
            return
    else:
        async for messages in _merged(pull, readers):
            late = [m for m in messages if m.store_timestamp_ms >= (wanted.since_ms or 0)]
            if late and not show(late):
                return
    if wanted.follow:
        patience = Patience()
        patience.answered()
        await follow(pull, [reader.query for reader in readers], show, patience=patience)


async def _begin(client: "BrokerClient", wanted: Wanted, queue_id: int, ends: range) -> int:
    """Return where to begin in a queue."""
    if wanted.last_count is not None:
        return max(ends.stop - wanted.last_count, ends.start)
    if wanted.since_ms is None:
        return ends.stop
    if wanted.is_sifted:
        return ends.start
    return await client.query_by_time(wanted.topic, queue_id, wanted.since_ms, Bound.LOWER)


async def _merged(pull: Pull, readers: list[Reader]) -> AsyncIterator[list[StoredMessage]]:
    """Yield what the queues hold, in the order of the log, until all are at their end."""
    while True:
        empty = [reader for reader in readers if not (reader.pulled or reader.is_at_end)]
        await asyncio.gather(*(_refill(pull, reader) for reader in empty))
        filled = [reader for reader in readers if reader.pulled]
        if not filled:
            if all(reader.is_at_end for reader in readers):
                return
            continue
        if any(not (reader.pulled or reader.is_at_end) for reader in readers):
            continue
        # Up to where every queue that goes on is known.
        ends = [r.pulled[-1].physical_offset for r in filled if not r.is_at_end]
        bound = min(ends) if ends else None
        messages = [message for reader in filled for message in _taken(reader, bound)]
        yield sorted(messages, key=place_in_log)


def _taken(reader: Reader, bound: int | None) -> list[StoredMessage]:
    """Take the messages out of a reader that lie up to a place in the log, or all."""
    taken = []
    while reader.pulled and (bound is None or reader.pulled[0].physical_offset <= bound):
        taken.append(reader.pulled.popleft())
    return taken


async def _refill(pull: Pull, reader: Reader) -> None:
    """Pull the next page of a queue."""
    page: PullPage = await pull(replace(reader.query, max_messages=PAGE_COUNT))
    before = reader.query.queue_offset
    reader.query = replace(reader.query, queue_offset=page.next_begin_offset)
    reader.pulled.extend(page.messages)
    is_stuck = not page.messages and page.next_begin_offset <= before
    reader.is_at_end = is_stuck or page.next_begin_offset >= page.max_offset
