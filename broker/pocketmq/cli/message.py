"""`pocketmq msg`: single messages by id, queue offset or key, and their history."""

from math import inf
from shlex import quote
from typing import Final

import click

from pocketmq.cli.archived_messages import (
    TOPIC_NOT_FOUND,
    ArchivedMessages,
    KeyMatches,
    archive_option,
)
from pocketmq.cli.broker_names import topic_argument, topics
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.documents import FOUND_COLUMNS, message_document
from pocketmq.cli.message_history import otlp_option, print_history, trace_topic_option
from pocketmq.cli.options import MOMENT, ReadBy, examples
from pocketmq.cli.output import Exit, Failure, Output, talk
from pocketmq.cli.pulling import QueueReader
from pocketmq.cli.vocabulary import limit_option
from pocketmq.client import ClientError, KeyQuery, PullQuery, StoredMessage
from pocketmq.model.decimal import number_of

MATCHES_DEFAULT: Final = 64
NOT_FOUND: Final = "MessageNotFound"


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq msg by-key orders order-42",
        "pocketmq msg trace 7F00000100002A9F0000000000000000",
    ),
)
def msg() -> None:
    """Look up single messages and their history."""


@msg.asks(
    None,
    "pocketmq msg by-key orders order-42",
    "pocketmq msg by-key orders order-42 --since -2h --all -o jsonl",
)
@topic_argument()
@click.argument("key")
@click.option("--since", "begin_ms", type=MOMENT, default=0, help="Stored at this time or later.")
@click.option("--until", "end_ms", type=MOMENT, default=0, help="Stored at this time or earlier.")
@click.option("--all", "is_all", is_flag=True, help="Print all matches.")
@limit_option("Print at most this many, newest first.", default=MATCHES_DEFAULT, show_default=True)
@archive_option
def by_key(
    broker: BrokerConnection,
    out: Output,
    topic: str,
    key: str,
    begin_ms: int,
    end_ms: int,
    is_all: bool,
    count_max: int,
    target: str | None,
) -> None:
    """Print the messages of TOPIC that carry KEY, newest first. Exit code 3 if there is none.

    With `--archive` messages that only the archive has are printed after those of the broker, each
    message once.
    """
    query = KeyQuery(topic, key, 0, begin_ms, end_ms)
    matches = KeyMatches(broker, query, inf if is_all else count_max, is_lenient=bool(target))
    found_count = 0
    with out.rows(FOUND_COLUMNS) as rows:
        for page in matches if target is None else [matches.and_archived(target)]:
            for document in page:
                rows.add(document)
                found_count += 1
            rows.flush()
    if not found_count:
        text = f"topic {topic!r} holds no message with key {key!r}"
        bounds = " between --since and --until" if begin_ms or end_ms else ""
        step = (
            f"list the last hour: pocketmq tail {topic} --from -1h --no-follow; "
            f"if it is delayed or undecided: pocketmq delay ls {topic}, pocketmq txn ls; "
            f"if it was purged: pocketmq store grep {quote(key)} STORE --in key --read-only"
        )
        raise Failure(text + bounds, Exit.NOT_FOUND, step)
    if not matches.is_complete:
        talk(f"there may be more than {count_max}; --all prints them")


def _place_from_text(text: str) -> tuple[str, int, int]:
    topic, *numbers = [*text.rsplit(":", 2), "", ""][:3]
    queue_id, queue_offset = map(number_of, numbers)
    if queue_id < 0 or queue_offset < 0:
        raise ValueError(f"{text!r} is not TOPIC:QUEUE:OFFSET")
    return topic, queue_id, queue_offset


@msg.asks(
    None,
    "pocketmq msg get 7F00000100002A9F0000000000000000 --topic orders",
    "pocketmq msg get --offset orders:0:42",
)
@click.argument("message_id", metavar="ID", required=False)
@click.option(
    "--topic", shell_complete=topics, help="Topic of the message [default: search every topic]."
)
@click.option(
    "--offset", "place", type=ReadBy("TOPIC:QUEUE:OFFSET", _place_from_text),
    help="Queue and queue offset of the message, instead of ID.",
)  # fmt: skip
@archive_option
def get(
    broker: BrokerConnection,
    out: Output,
    message_id: str | None,
    topic: str | None,
    place: tuple[str, int, int] | None,
    target: str | None,
) -> None:
    """Print the message with an ID, which is a message id or an offset message id."""
    if (message_id is None) == (place is None):
        raise click.UsageError("give an ID, or --offset TOPIC:QUEUE:OFFSET")
    try:
        if place is not None:
            message = _at(broker, place)
        else:
            message = _with_id(broker, topic, str(message_id))
    except (Failure, ClientError) as error:
        if target is None or not _is_absence(error):
            raise
        archive = ArchivedMessages(target)
        found = archive.at(*place) if place else archive.by_id(topic, str(message_id))
        if found is None:
            raise
        archive.check(broker, found["topic"])
        out.show(found)
    else:
        out.show(message_document(message))


def _is_absence(error: Failure | ClientError) -> bool:
    if isinstance(error, ClientError):
        return error.reason in (NOT_FOUND, TOPIC_NOT_FOUND)
    return bool(error.exit_code == Exit.NOT_FOUND)


def _at(broker: BrokerConnection, place: tuple[str, int, int]) -> StoredMessage:
    topic, queue_id, queue_offset = place
    text = f"queue {queue_id} of topic {topic!r} holds no message at offset {queue_offset}"
    missing = Failure(text, Exit.NOT_FOUND, f"pocketmq topic info {topic}")
    queues = broker.ask(broker.admin.describe_topic(topic)).queues
    ends = {queue.queue_id: queue.max_offset for queue in queues}
    if queue_offset >= ends.get(queue_id, 0):
        raise missing
    for page in QueueReader(PullQuery(topic, queue_id, queue_offset)).pages(broker, 1):
        if page.messages[0].queue_offset == queue_offset:
            return page.messages[0]
    raise missing


def _with_id(broker: BrokerConnection, topic: str | None, message_id: str) -> StoredMessage:
    try:
        return _in_topic(broker, topic, message_id) if topic else _anywhere(broker, message_id)
    except (Failure, ClientError) as error:
        if _is_absence(error):
            _refuse_if_delayed(broker, message_id)
        raise


def _refuse_if_delayed(broker: BrokerConnection, message_id: str) -> None:
    """Raises Failure if a message waits for its delivery time, and is in no topic yet."""
    key, topic = message_id, _delayed_for(broker, message_id)
    if not topic:  # Of the broker's own topics, only a trace parses offset message ids.
        try:
            key, _ = broker.ask(broker.admin.trace_message(message_id))
        except ClientError:
            return
        topic = _delayed_for(broker, key)
    if topic:
        text = f"message {message_id} for topic {topic} waits for its delivery time"
        raise Failure(text, Exit.NOT_FOUND, f"pocketmq delay show {key}")


def _delayed_for(broker: BrokerConnection, key: str) -> str:
    try:
        found = broker.ask(broker.admin.list_delayed(message_id=key)).items
    except ClientError:
        return ""
    return found[0].topic if found else ""


def _in_topic(broker: BrokerConnection, topic: str, message_id: str) -> StoredMessage:
    return broker.ask(broker.reader(topic).query_by_id(topic, message_id))


def _anywhere(broker: BrokerConnection, message_id: str) -> StoredMessage:
    """Returns the message with an id, searching topic by topic."""
    for topic in broker.all(broker.admin.list_topics):
        try:
            return _in_topic(broker, topic.name, message_id)
        except ClientError as error:
            if error.reason != NOT_FOUND:
                raise
    raise _nowhere(message_id)


def _nowhere(message_id: str) -> Failure:
    text = f"no topic holds a message with id {message_id!r}"
    return Failure(text, Exit.NOT_FOUND, "search by key: pocketmq msg by-key TOPIC KEY")


@msg.asks(
    None,
    "pocketmq msg trace 7F00000100002A9F0000000000000000",
    "pocketmq msg trace 7F00000100002A9F0000000000000000 --topic orders -o jsonl",
    "pocketmq msg trace 7F00000100002A9F0000000000000000 --otlp http://127.0.0.1:4317",
)
@click.argument("message_id", metavar="ID")
@click.option(
    "--topic",
    shell_complete=topics,
    default="",
    help="Topic it was sent to [default: search every topic].",
)
@otlp_option
@trace_topic_option
def trace(
    broker: BrokerConnection,
    out: Output,
    message_id: str,
    topic: str,
    otlp: str | None,
    trace_topic: str,
) -> None:
    """Print the history of a message: topics, delays, retries, dead letters, steps of clients.

    ID is its message id or an offset message id. GROUP is the group that retries or dead-lettered
    it. `-o wide` lists the topics of its records, such as retry topics. PASSED_BY lists groups
    whose offset is beyond a record: they acknowledged or skipped it, or have it leased. AWAITED_BY
    lists groups that have not reached it.

    Then come the steps that classic clients with `enableMsgTrace` traced: Pub (a send), SubBefore
    and SubAfter (a listener is called and returns), EndTransaction, Recall. COST_MS is how long the
    send or the listener took. The send of a batch is not found by the id of one message.

    `--otlp` exports a span for each record, with the ids of the broker's own export. Spans of a
    message without `traceparent` get a trace id from its message id. `--otlp` needs the extra otel.
    """
    try:
        key, records = broker.ask(broker.admin.trace_message(message_id, topic))
    except ClientError as error:
        if error.reason != NOT_FOUND or topic:
            raise
        raise _nowhere(message_id) from error
    print_history(broker, out, key, records, trace_topic)
    if otlp:
        from pocketmq.cli.otlp import export_trace

        export_trace(broker, otlp, key, records)
