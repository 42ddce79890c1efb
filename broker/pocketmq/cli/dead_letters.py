"""`pocketmq dlq`: dead letters, which groups failed to consume."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Final

import click

from pocketmq.cli.broker_names import group_argument, topics
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.documents import MESSAGE_COLUMNS, ShownMessages
from pocketmq.cli.group import show_moved
from pocketmq.cli.options import examples, yes_option
from pocketmq.cli.output import Output, at, columns, counted, only_planned, talk
from pocketmq.cli.pulling import QueueReader
from pocketmq.cli.vocabulary import limit_option
from pocketmq.client import ClientError, PullQuery
from pocketmq.model.administration import DeadLetters, ResetTarget

COLUMNS: Final = columns("group", "waiting_count", at("first_store_timestamp_ms"))
MORE_COLUMNS: Final = columns("topic", "stored_count")
REDRIVEN_COLUMNS: Final = columns("message_id", "topic", "queue_id", "queue_offset")
MORE_REDRIVEN_COLUMNS: Final = columns("dead_queue_id", "dead_queue_offset")
REDRIVEN_MAX: Final = 1_024
"""Upper limit of dead letters sent again by one call."""


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq dlq ls",
        "pocketmq dlq peek billing --limit 10",
        "pocketmq dlq redrive billing --yes",
        "pocketmq dlq purge billing --yes",
    ),
)
def dlq() -> None:
    """List, redrive or purge dead letters, which groups failed to consume."""


@dlq.asks("List groups that have dead letters.", "pocketmq dlq ls", "pocketmq dlq ls billing")
@group_argument(required=False)
def ls(broker: BrokerConnection, out: Output, group: str | None) -> None:
    """List groups with their number of pending dead letters, and the time of the first.

    Redriven and purged dead letters are not pending.
    """
    if group is not None:
        found: Iterator[DeadLetters] = iter(broker.ask(broker.admin.list_dead_letters(group)).items)
    else:
        found = broker.all(broker.admin.list_dead_letters)
    out.table((row._asdict() for row in found), COLUMNS, MORE_COLUMNS, none="no dead letters")


@dlq.asks(
    "Print dead letters.",
    "pocketmq dlq peek billing",
    "pocketmq dlq peek billing --all -o jsonl",
)
@group_argument()
@limit_option("Print at most this many.")
@click.option(
    "--all", "is_all", is_flag=True, help="Include dead letters that are no longer pending."
)
def peek(
    broker: BrokerConnection, out: Output, group: str, count_max: int | None, is_all: bool
) -> None:
    """Print the pending dead letters of GROUP in order, without changing them."""
    with out.rows(MESSAGE_COLUMNS) as rows:
        shown = ShownMessages(rows, count_max)
        for query in _waiting(broker, group, is_all=is_all):
            for page in QueueReader(query).pages(broker, shown.left):
                shown.add(page.messages)
    if not shown.count:
        pending = "" if is_all else "pending "
        talk(f"{group} has no {pending}dead letters")


@dlq.asks(
    "Send dead letters again.",
    "pocketmq dlq redrive billing                      what would be sent, and where",
    "pocketmq dlq redrive billing --limit 100 --yes",
    "pocketmq dlq redrive billing --to-topic orders-repaired --yes",
)
@group_argument()
@limit_option("Send at most this many, oldest first.")
@click.option(
    "--to-topic", "topic", default="", shell_complete=topics,
    help="Target topic [default: the original topic].",
)  # fmt: skip
@yes_option
def redrive(
    broker: BrokerConnection, out: Output, group: str, count_max: int | None, topic: str, yes: bool
) -> None:
    """Send the pending dead letters of GROUP again, as their producers sent them.

    All groups of the topic receive them, not only GROUP. Sent dead letters are no longer pending;
    a crash may send some twice. Those that arrive meanwhile stay pending. Without --yes at most
    1,024 are listed.
    """
    left = count_max or inf
    until: Mapping[int, int] | None = None
    with out.rows(REDRIVEN_COLUMNS, MORE_REDRIVEN_COLUMNS) as rows:
        while True:
            asked = int(min(left, REDRIVEN_MAX))
            done, waiting, until = broker.ask(
                broker.admin.redrive_dead_letters(
                    group, asked, topic=topic, dry_run=not yes, until=until
                )
            )
            for each in done:
                rows.add({n: v for n, v in each._asdict().items() if v is not None})
            rows.flush()
            left -= len(done)
            if not (yes and done and waiting and left > 0):
                break
    if not waiting and not done:
        talk(f"{group} has no pending dead letters")
    elif not yes:
        count = min(waiting, count_max or waiting)
        raise only_planned(f"{counted(count, 'dead letter')} would be sent again")


@dlq.asks(
    "Mark dead letters as handled.",
    "pocketmq dlq purge billing            what would be purged",
    "pocketmq dlq purge billing --yes      purge it",
)
@group_argument()
@yes_option
def purge(broker: BrokerConnection, out: Output, group: str, yes: bool) -> None:
    """Mark the pending dead letters of GROUP as handled.

    They stay in the store until they expire: `pocketmq dlq peek GROUP --all` still prints them.
    """
    (letters,) = broker.ask(broker.admin.list_dead_letters(group)).items
    if not letters.waiting_count:
        talk(f"{group} has no pending dead letters: nothing to purge")
        return
    end = ResetTarget(latest=True)
    moved = broker.ask(broker.admin.reset_offsets(group, letters.topic, end, dry_run=not yes))
    show_moved(group, moved, out, is_done=yes)


def _waiting(broker: BrokerConnection, group: str, *, is_all: bool) -> Iterator[PullQuery]:
    """Yields a query for each queue; the query begins at the first dead letter to print."""
    (letters,) = broker.ask(broker.admin.list_dead_letters(group)).items
    if not letters.stored_count:
        return
    topic = letters.topic
    stands = {} if is_all else _stands(broker, group, topic)
    for queue in broker.ask(broker.admin.describe_topic(topic)).queues:
        query = PullQuery(topic, queue.queue_id, queue.min_offset)
        yield replace(query, queue_offset=max(queue.min_offset, stands.get(queue.queue_id, 0)))


def _stands(broker: BrokerConnection, group: str, topic: str) -> dict[int, int]:
    """Returns the offsets of a group in a topic, by queue; empty for a deleted group."""
    try:
        offsets = broker.ask(broker.admin.list_offsets(group, topic))
    except ClientError as error:
        if error.reason != "GroupNotFound":
            raise
        return {}
    return {row.queue_id: row.queue_offset for row in offsets}
