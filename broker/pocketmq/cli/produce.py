"""`pocketmq produce`: one message from the command line, or one a line from a file or a pipe."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from pocketmq.cli.broker_names import topic_argument
from pocketmq.cli.connection import BrokerConnection, asks_broker
from pocketmq.cli.creation import is_missing, report_creation
from pocketmq.cli.documents import receipt_document
from pocketmq.cli.options import DURATION, MOMENT, PAIR
from pocketmq.cli.output import Output, columns
from pocketmq.cli.vocabulary import option
from pocketmq.client import ClientError, Message, Receipt, Wait
from pocketmq.model.message import INT32_MAX

BATCH_DEFAULT: Final = 256
BATCH_MAX: Final = 1_024
BATCH_BYTES: Final = 1024 * 1024
"""Most bytes of the bodies in a batch of several; the broker's default limit is 4 MiB."""
READ_SIZE: Final = 256 * 1024
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

COLUMNS: Final = columns("message_id", "queue_id", "queue_offset", "status")


@asks_broker(
    "pocketmq produce orders 'hello' -k order-42 -t created",
    "pocketmq produce reminders 'call back' --delay 30s",
    "pocketmq produce orders 'order 43' --transactional     then: pocketmq txn commit ID",
    "seq 1000 | pocketmq produce orders --file - -o jsonl",
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
@click.option("--at", "deliver_at_ms", type=MOMENT, help="Deliver it at this time.")
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
    "--file", "path", metavar="FILE|-", help="Send each line as a message; - is standard input."
)
@click.option(
    "--batch", type=click.IntRange(1, BATCH_MAX), default=BATCH_DEFAULT, show_default=True,
    help="With --file: most messages in one request.",
)  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Do not wait for the flush to disk.")
def produce(
    broker: BrokerConnection,
    out: Output,
    topic: str,
    body: str | None,
    properties: tuple[tuple[str, str], ...],
    path: str | None,
    batch: int,
    no_wait: bool,
    **fields: Any,
) -> None:
    """Send BODY as a message, or each line of --file as one, and print their queue offsets.

    Empty lines are skipped: a message must have a body.
    """
    if (body is None) == (path is None):
        raise click.UsageError("give a BODY, or --file FILE (- for standard input)")
    _check_wishes(fields)
    if fields["producer_group"] and not fields["transactional"]:
        raise click.UsageError("--producer-group requires --transactional")
    fields["transactional"] = bool(fields["transactional"])
    model = Message(topic, b"", properties=dict(properties), **fields)
    wait = Wait.APPENDED if no_wait else Wait.DURABLE
    if path is None:
        assert body is not None
        is_new = is_missing(broker, topic)
        message = replace(model, body=body.encode("utf-8", "surrogateescape"))
        receipt = broker.ask(broker.client.send(message, wait=wait))
        out.show(receipt_document(receipt))
        if is_new:
            report_creation(broker, topic)
        return
    with ExitStack() as up:
        rows = up.enter_context(out.rows(COLUMNS))
        stream = _opened(path, up)
        is_new = is_missing(broker, topic)
        for bodies in batches(line_groups(stream), batch):
            messages = [replace(model, body=line) for line in bodies]
            for receipt in send_all(broker, messages, wait):
                rows.add(receipt_document(receipt))
            rows.flush()
            if is_new:
                report_creation(broker, topic)
                is_new = False


def _check_wishes(fields: dict[str, Any]) -> None:
    """Raises click.UsageError for options that exclude each other."""
    given = [option for name, option in WISHES.items() if fields[name] is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")


def _opened(path: str, up: ExitStack) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return up.enter_context(Path(path).open("rb"))
    except OSError as error:
        raise click.FileError(path, error.strerror) from error


def line_groups(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yields lists of the lines that are available, so that a slow pipe delays none."""
    rest = b""
    # Binary files and standard input are buffered readers, which have read1.
    while piece := stream.read1(READ_SIZE):  # type: ignore[attr-defined]
        *whole, rest = (rest + piece).split(b"\n")
        yield whole
    yield [rest]


def batches(groups: Iterable[list[bytes]], count_max: int) -> Iterator[list[bytes]]:
    """Yields the non-empty bodies of one request each; a batch never spans two groups."""
    for group in groups:
        batch: list[bytes] = []
        size = 0
        for body in filter(None, group):
            if len(batch) == count_max or (batch and size + len(body) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(body)
            size += len(body)
        if batch:
            yield batch


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
