"""`pocketmq consume`: prints messages of a topic, by queue offset or received for a group."""

from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Final, NamedTuple

import click

from pocketmq.cli.broker_names import groups, topic_argument
from pocketmq.cli.connection import BrokerConnection, asks_broker
from pocketmq.cli.documents import MESSAGE_COLUMNS, ShownMessages, leased_document
from pocketmq.cli.options import DURATION, POSITION, Position, filtered, takes
from pocketmq.cli.output import Exit, Failure, Output, columns, counted, duration, talk
from pocketmq.cli.pulling import Damaged, QueueReader
from pocketmq.cli.vocabulary import limit_option
from pocketmq.client import ClientError, Leased, PullQuery, ReceiveQuery, SettleStatus
from pocketmq.model.administration import QueueState
from pocketmq.model.topic import RETRY_PREFIX

# -- receives ----------------------------------------------------------------------------------
COLUMNS: Final = [*columns("attempt"), *MESSAGE_COLUMNS]
BATCH_COUNT: Final = 32
"""Upper limit of messages in one receive."""
WAIT_MS: Final = 15_000
"""Longest wait of one receive."""


def show_received(
    broker: BrokerConnection,
    out: Output,
    query: ReceiveQuery,
    *,
    count_max: int | None,
    wait_ms: int,
    acknowledges: bool,
) -> None:
    """Prints the messages that a group receives, until none arrives within `wait_ms`.

    acknowledges   whether printed messages are acknowledged
    Errors         ClientError
    """
    late = 0
    with out.rows(COLUMNS) as rows:
        shown = ShownMessages(rows, count_max)
        deadline_s = monotonic() + wait_ms / 1000
        while shown.left > 0:
            left_ms = max(int((deadline_s - monotonic()) * 1000), 0)
            count = int(min(shown.left, BATCH_COUNT))
            asked = replace(query, max_messages=count, wait_ms=min(left_ms, WAIT_MS))
            received = broker.ask(broker.client.receive(asked))
            if received:
                shown.add_documents([leased_document(one) for one in received])
                late += _acknowledge(broker, query, received) if acknowledges else 0
                deadline_s = monotonic() + wait_ms / 1000
            elif left_ms <= WAIT_MS:
                break
    if not shown.count:
        _report_none(broker, query, wait_ms)
    if late:
        talk(f"{late} leases expired before acknowledgement: their messages are redelivered")


def _report_none(broker: BrokerConnection, query: ReceiveQuery, wait_ms: int) -> None:
    """Reports that a group received nothing, and where its messages may be."""
    waited = f"within {duration(wait_ms)}" if wait_ms else "now; --wait 30s waits for some"
    match = "" if query.expression == "*" else f" matches {query.expression}"
    talk(f"no message of {query.topic} for {query.group}{match} {waited}")
    admin = broker.admin
    with suppress(ClientError):  # The caller may receive, but not ask for these.
        own = [
            query.topic,
            RETRY_PREFIX + query.group,
            f"{RETRY_PREFIX}{query.group}_{query.topic}",
        ]
        lags = broker.ask(admin.group_lag(query.group))
        count = sum(lag.lag_messages for lag in lags if lag.topic in own)
        if count and query.expression == "*":
            held = counted(count, "message")
            talk(f"{held} leased, or waiting for a redelivery: pocketmq group lag {query.group}")
        dead = broker.ask(admin.list_dead_letters(query.group)).items
        if waiting := sum(row.waiting_count for row in dead):
            talk(f"{counted(waiting, 'dead letter')}: pocketmq dlq peek {query.group}")


def _acknowledge(broker: BrokerConnection, query: ReceiveQuery, received: list[Leased]) -> int:
    """Acknowledges messages; returns how many of their leases had expired."""
    handles = [one.receipt_handle for one in received]
    settled = broker.ask(broker.client.ack(query.group, query.topic, handles))
    return sum(one.status is not SettleStatus.OK for one in settled)


# -- the command -------------------------------------------------------------------------------
class Way(NamedTuple):
    """Options of which some apply to --pull only and some to --pop only; None: not given."""

    is_pull: bool
    is_pop: bool
    group: str
    queue_id: int | None
    begin: Position | None
    invisible_ms: int | None
    acknowledges: bool | None

    @property
    def receives(self) -> bool:
        """Whether messages are received for a group; a group alone implies --pop."""
        return self.is_pop or bool(self.group and not self.is_pull)

    def check(self) -> None:
        """Raises UsageError for options that exclude each other."""
        if self.is_pull and self.is_pop:
            raise click.UsageError("--pull and --pop exclude each other")
        if not self.is_pull and not self.receives:
            raise click.UsageError("add either --pull, or -g GROUP to receive for a group")
        if self.is_pop and not self.group:
            raise click.UsageError("--pop receives for a group: add -g GROUP")
        if self.receives and self.queue_id is not None:
            raise click.UsageError("--queue is for --pull: a group has its own offsets")
        if self.begin is not None and self.receives and self.begin.queue_offset is not None:
            raise click.UsageError(
                "--from takes earliest, latest or a time with --pop; "
                "for an offset: pocketmq group reset GROUP --topic TOPIC --to OFFSET --yes"
            )
        if self.is_pull and (self.group or self.invisible_ms or self.acknowledges is not None):
            raise click.UsageError("-g, --ack and --invisible are for --pop: --pull has no group")


@asks_broker(
    "pocketmq consume orders --pull --queue 0 --from earliest --limit 10",
    "pocketmq consume orders --pull --from latest --wait 5m -o jsonl",
    "pocketmq consume orders --pull --from -15m",
    "pocketmq consume orders -g billing --pop --wait 30s",
    "pocketmq consume orders -g audit --pop --from latest --wait 30s",
    "pocketmq consume orders -g billing --pop --no-ack --invisible 1m --limit 1",
)
@topic_argument()
@takes(
    "way",
    Way,
    click.option("--pull", "is_pull", is_flag=True, help="Read queues by offset; needs no group."),
    click.option("--pop", "is_pop", is_flag=True, help="Receive for a group, under leases."),
    click.option(
        "-g",
        "--group",
        default="",
        shell_complete=groups,
        help="The group to receive for; implies --pop.",
    ),
    click.option(
        "--queue", "queue_id", type=click.IntRange(0), help="Queue [default: all in turn]."
    ),
    click.option(
        "--from",
        "begin",
        type=POSITION,
        help="Begin at the earliest or latest message, a queue offset, or the first message of a "
        "time or later [default: earliest]. With --pop, only in queues where the group has no "
        "offset [default: the group's setting].",
    ),
    click.option(
        "--invisible",
        "invisible_ms",
        type=DURATION,
        help="Time for which received messages are hidden from the group [default: 30s].",
    ),
    click.option(
        "--ack/--no-ack",
        "acknowledges",
        default=None,
        help="Acknowledge printed messages [default: yes].",
    ),
)
@limit_option("Print at most this many messages.")
@click.option(
    "--wait",
    "wait_ms",
    type=DURATION,
    default=0,
    help="Wait this long for more messages before ending.",
)
@filtered
def consume(
    broker: BrokerConnection,
    out: Output,
    topic: str,
    way: Way,
    count_max: int | None,
    wait_ms: int,
    expression: str,
    sql: bool,
) -> None:
    """Print messages of TOPIC, read from its queues by offset or received for a group.

    --pull changes nothing. It also reads system topics and groups' retry and dead-letter topics. A
    damaged message is reported and skipped; the exit code is then 10.

    --pop receives messages as the group's consumers do, including retries. Printed messages are
    acknowledged. With --no-ack they are redelivered when their leases expire. Messages that --tag
    or --filter excludes count as consumed by the group. A group without an offset begins at --from.
    `pocketmq group create` makes a group.
    """  # fmt: skip
    way.check()
    if way.receives:
        query = ReceiveQuery(
            way.group, topic, invisible_ms=way.invisible_ms or 0, expression=expression, sql=sql,
            begin=way.begin.text if way.begin else "",
        )  # fmt: skip
        acknowledges = way.acknowledges is not False
        show_received(
            broker, out, query, count_max=count_max, wait_ms=wait_ms, acknowledges=acknowledges
        )
        return
    damaged = Damaged()
    begin = way.begin or Position(is_latest=False)
    with out.rows(MESSAGE_COLUMNS) as rows:
        shown = ShownMessages(rows, count_max)
        ends = []
        for queue in _queues(broker, topic, way.queue_id):
            first = _first_offset(broker, topic, queue, begin)
            reader = QueueReader(
                PullQuery(topic, queue.queue_id, first, expression=expression, sql=sql)
            )
            for page in reader.pages(broker, shown.left, damaged):
                shown.add(page.messages)
            ends.append(reader.query)
        if wait_ms and shown.left:
            pull = damaged.passed_over_by(broker.reader(topic).pull)
            broker.show(broker.client.following(pull, wait_ms=wait_ms).pages(ends), shown.add)
    if damaged.count:
        raise damaged.failure(broker.directory)
    if not shown.count:
        match = "" if expression == "*" else f" matches {expression}"
        talk(f"no message of {topic}{match or ' to print'}{' from there on' if way.begin else ''}")


def _first_offset(broker: BrokerConnection, topic: str, queue: QueueState, begin: Position) -> int:
    if begin.time_ms is not None:
        return broker.ask(broker.client.query_by_time(topic, queue.queue_id, begin.time_ms))
    if begin.queue_offset is not None:
        return begin.queue_offset
    return queue.max_offset if begin.is_latest else queue.min_offset


def _queues(broker: BrokerConnection, topic: str, queue_id: int | None) -> list[QueueState]:
    queues = broker.ask(broker.admin.describe_topic(topic)).readable_queues
    chosen = [queue for queue in queues if queue_id in (None, queue.queue_id)]
    if not chosen and queue_id is not None:
        text = f"topic {topic!r} has {len(queues)} queues, none with id {queue_id}"
        raise Failure(text, Exit.NOT_FOUND, f"pocketmq topic info {topic}")
    return chosen
