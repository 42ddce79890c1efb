"""`pocketmq produce`: one message from the command line, or one a line from a file or a pipe."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from pocketmq.cli.broker_names import topic_argument
from pocketmq.cli.connection import BrokerConnection, asks_broker
from pocketmq.cli.creation import exists, is_missing, report_creation
from pocketmq.cli.documents import receipt_document
from pocketmq.cli.options import DELIVERY, DURATION, PAIR, wall_ms
from pocketmq.cli.output import Exit, Failure, Output, PrintedRows, columns, talk, typed
from pocketmq.cli.produced_lines import (
    NUMBER,
    BadLine,
    Replay,
    batches,
    filled,
    json_messages,
    line_groups,
    plain_messages,
    repeated,
)
from pocketmq.cli.vocabulary import option
from pocketmq.client import ClientError, Message, Receipt, Wait
from pocketmq.model.errors import DiskFull, RequestError
from pocketmq.model.message import INT32_MAX

BATCH_DEFAULT: Final = 256
BATCH_MAX: Final = 1_024
COUNT_MAX: Final = 1_000_000_000
SPLITTABLE: Final = frozenset({"BodyTooLarge", "RecordTooLarge"})
"""Errors of a batch that is too large: nothing is stored, and its halves may succeed."""

WISHES: Final = {
    "message_group": "--message-group",
    "delay_ms": "--delay",
    "deliver_at_ms": "--at",
    "delay_level": "--delay-level",
    "priority": "--priority",
    "transactional": "--transactional",
}
"""Options that exclude each other, by the message's field."""
DELAYS: Final = ("--delay", "--at", "--delay-level")
"""Options that --transactional does not exclude."""

COLUMNS: Final = columns("message_id", "queue_id", "queue_offset", "status")


@asks_broker(
    "pocketmq produce orders 'hello' -k order-42 -t created",
    "pocketmq produce reminders 'call back' --delay 30s",
    "pocketmq produce orders 'order 43' --transactional     then: pocketmq txn commit ID",
    "pocketmq produce orders 'order {n}' -k order-{n} --count 100 --template",
    "seq 1000 | pocketmq produce orders -o jsonl",
    "pocketmq consume orders --pull -o jsonl | pocketmq produce copies --jsonl",
)
@topic_argument()
@click.argument("body", required=False)
@click.option(
    "-k", "--key", "keys", multiple=True, help="Key to find the message by; may be repeated."
)
@click.option("-t", "--tag", help="Tag that consumers can filter by.")
@click.option(
    "-p", "--property", "properties", multiple=True, type=PAIR,
    help="User property; may be repeated.",
)  # fmt: skip
@click.option("--queue", "queue_id", type=click.IntRange(0), help="Queue [default: any].")
@option(
    "--message-group", aliases=("--group",), metavar="NAME",
    help="Message group; messages of one group keep their order.",
)  # fmt: skip
@click.option(
    "--delay", "delay_ms", type=DURATION, help="Deliver it after this time, as 30s or 2h."
)
@click.option(
    "--at", "deliver_at_ms", type=DELIVERY,
    help="Deliver it at this time, as 2026-11-21T02:30:00Z or +15m.",
)  # fmt: skip
@click.option(
    "--delay-level", type=click.IntRange(1), help="Deliver it after the time of this delay level."
)
@click.option(
    "--priority",
    type=click.IntRange(0, INT32_MAX),
    help="Deliver it before messages of lower priority.",
)
@click.option(
    "--transactional", is_flag=True, default=None,
    help="Hold it back until its transaction is committed.",
)  # fmt: skip
@click.option(
    "--producer-group",
    default="",
    help="Producer group that decides the transaction [default: the topic's name].",
)
@click.option(
    "--file", "path", metavar="FILE|-",
    help="Send each line as a message; - is standard input, which is read where BODY is left out "
    "and no terminal is attached.",
)  # fmt: skip
@click.option(
    "--jsonl", "is_json", is_flag=True,
    help="Lines are JSON: body or body_base64, keys, properties, tag, queue_id, message_group, "
    "delay_level, deliver_at_ms, delay_ms, priority. Lines of store export and consume -o jsonl "
    "are sent to TOPIC, whatever their topic was, with new ids and times.",
)  # fmt: skip
@click.option(
    "--count", type=click.IntRange(1, COUNT_MAX), default=1, help="Send BODY this many times."
)
@click.option(
    "--template", "is_template", is_flag=True,
    help="Replace {n} in BODY, keys and properties by the number of the message, from 0.",
)  # fmt: skip
@click.option(
    "--batch", type=click.IntRange(1, BATCH_MAX), default=BATCH_DEFAULT, show_default=True,
    help="Maximum number of lines in one request.",
)  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Do not wait for the flush to disk.")
def produce(
    broker: BrokerConnection,
    out: Output,
    topic: str,
    body: str | None,
    properties: tuple[tuple[str, str], ...],
    path: str | None,
    is_json: bool,
    count: int,
    is_template: bool,
    batch: int,
    no_wait: bool,
    **fields: Any,
) -> None:
    """Send BODY as a message, or each line of a file or of standard input, and print the offsets.

    Empty lines are skipped: a message must have a body. A line may end with CR LF.
    """
    if body is None and path is None and not sys.stdin.isatty():
        path = "-"
    if (body is None) == (path is None):
        raise click.UsageError("give a BODY, or --file FILE (- for standard input)")
    _check_sources(path is not None, is_json, count, is_template)
    _check_wishes(fields)
    if fields["producer_group"] and not fields["transactional"]:
        raise click.UsageError("--producer-group requires --transactional")
    fields["transactional"] = bool(fields["transactional"])
    model = Message(topic, b"", properties=dict(properties), **fields)
    wait = Wait.APPENDED if no_wait else Wait.DURABLE
    if body is not None:
        model = replace(model, body=body.encode("utf-8", "surrogateescape"))
    if count == 1 and path is None:
        is_new = is_missing(broker, topic)
        message = filled(model, "0") if is_template else model
        receipt = broker.ask(broker.client.send(message, wait=wait))
        out.show(receipt_document(receipt))
        if is_new:
            report_creation(broker, topic)
        _talk_held_back(fields, topic, receipt.store_timestamp_ms)
        return
    replay = Replay(wall_ms())
    with ExitStack() as up:
        if path is None:
            if NUMBER.encode() in model.body and not is_template:
                talk(f"Note: {NUMBER} is sent as it is; --template replaces it by a number")
            groups = repeated(model, count, is_template=is_template)
        else:
            groups = _line_messages(path, model, up, replay if is_json else None)
        rows = up.enter_context(out.rows(COLUMNS))
        _send_groups(broker, topic, rows, batches(groups, batch), wait, fields["tag"])
    for note in replay.notes(topic):
        talk(f"Note: {note}")


def _send_groups(
    broker: BrokerConnection,
    topic: str,
    rows: PrintedRows,
    requests: Iterator[list[Message]],
    wait: Wait,
    tag: str | None,
) -> None:
    is_new = is_missing(broker, topic)
    is_empty = True
    sent_count = 0
    try:
        for messages in requests:
            is_empty = False
            for receipt in send_all(broker, messages, wait):
                rows.add(receipt_document(receipt))
                sent_count += 1
            rows.flush()
            if is_new:
                report_creation(broker, topic)
                is_new = False
    except ClientError as error:
        stored = "1 message was" if sent_count == 1 else f"{sent_count} messages were"
        rest = (
            "the request with the next one may be stored or not, so sending it again may make "
            "duplicates"
        )
        if isinstance(error, RequestError | DiskFull):
            rest = "the broker refused the request with the next one, and stored nothing of it"
        talk(f"Note: {stored} sent before this error; {rest}")
        raise
    except BadLine as error:
        sent = "the lines before it were sent" if error.number > 1 else "nothing was sent"
        text = f"{error}; {sent}"
        raise Failure(text, Exit.FAILED, "correct the line, and send from it on") from error
    if is_empty and is_new and tag and exists(broker, broker.admin.describe_topic(tag)):
        text = f"nothing was sent: no line had a body, and topic {topic!r} does not exist"
        step = f"-t {typed(tag)} is the tag; {typed(topic)} to topic {typed(tag)}: "
        step += f"pocketmq produce {typed(tag)} {typed(topic)}"
        raise Failure(text, Exit.NOT_FOUND, step)
    if is_empty:
        talk(f"Note: nothing was sent to {topic}: no line had a body")


def _talk_held_back(fields: Mapping[str, Any], topic: str, stored_ms: int = 0) -> None:
    """Prints a note about a held-back message: when it reaches its topic, and what lists it.

    stored_ms   time at which it was stored; a message with an earlier --at is not held back
    """
    if fields["transactional"]:
        talk(f"Note: it is in {topic} once it is committed: pocketmq txn ls, txn commit")
    elif fields["deliver_at_ms"] and fields["deliver_at_ms"] <= stored_ms:
        talk(f"Note: the time of --at is past, so the message is in {topic} at once")
    elif any(fields[name] for name in ("delay_ms", "deliver_at_ms", "delay_level")):
        talk(f"Note: it is in {topic} once it is due; until then: pocketmq delay ls {topic}")


def _check_sources(is_file: bool, is_json: bool, count: int, is_template: bool) -> None:
    """Raises click.UsageError for options that belong to another source of messages."""
    if is_json and not is_file:
        raise click.UsageError("--jsonl reads lines: leave out BODY, or give --file FILE")
    if is_file and (count > 1 or is_template):
        raise click.UsageError(
            "--count and --template need a BODY in the command line, not in a file"
        )


def _check_wishes(fields: dict[str, Any]) -> None:
    """Raises click.UsageError for options that exclude each other."""
    given = [option for name, option in WISHES.items() if fields[name] is not None]
    if fields["transactional"] and len(given) == 2:  # A delay follows the commit.
        given = [option for option in given if option not in DELAYS]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")


def _line_messages(
    path: str, model: Message, up: ExitStack, replay: Replay | None
) -> Iterator[list[Message]]:
    """Returns the messages of a file's lines, which are JSON if `replay` counts stored ones."""
    lines = line_groups(_opened(path, up))
    return plain_messages(lines, model) if replay is None else json_messages(lines, model, replay)


def _opened(path: str, up: ExitStack) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return up.enter_context(Path(path).open("rb"))
    except OSError as error:
        raise click.FileError(path, error.strerror) from error


def send_all(broker: BrokerConnection, messages: list[Message], wait: Wait) -> Iterator[Receipt]:
    """Sends a batch, in halves if the broker refuses its size; yields receipts in order.

    Errors   ClientError
    """
    try:
        receipts = broker.ask(broker.client.send_many(messages, wait=wait))
    except ClientError as error:
        if error.reason not in SPLITTABLE or len(messages) == 1:
            raise
        middle = len(messages) // 2
        yield from send_all(broker, messages[:middle], wait)
        yield from send_all(broker, messages[middle:], wait)
    else:
        yield from receipts
