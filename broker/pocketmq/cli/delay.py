"""`pocketmq delay`: delayed messages, by delay level or delivery time."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import click

from pocketmq.cli.broker_names import topic_argument
from pocketmq.cli.charts import barred
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.creation import some_of_topic
from pocketmq.cli.options import examples, wall_ms
from pocketmq.cli.output import Exit, Failure, Output, at, columns
from pocketmq.cli.vocabulary import limit_option
from pocketmq.client import errors
from pocketmq.format.recall_handle import decode_recall_handle
from pocketmq.model.administration import DelayedMessage

COLUMNS: Final = columns("message_id", "topic", at("deliver_at_ms"))
MORE_COLUMNS: Final = columns("queue_id", "delay_level", at("store_timestamp_ms"), "tag")

DUE_WITHIN: Final = (
    ("now", 0), ("1s", 1_000), ("1m", 60_000), ("10m", 600_000), ("1h", 3_600_000),
    ("6h", 21_600_000), ("1d", 86_400_000), ("3d", 259_200_000), ("later", 1 << 63),
)  # fmt: skip
"""Bars of a histogram: name, and upper limit of the ms until the delivery."""


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq delay ls",
        "pocketmq delay show 0102FC000000014F600B1281BC00000000",
        "pocketmq delay recall 0102FC000000014F600B1281BC00000000",
    ),
)
def delay() -> None:
    """List and recall delayed messages."""


@delay.asks(
    "List delayed messages.",
    "pocketmq delay ls",
    "pocketmq delay ls --histogram",
    "pocketmq delay ls reminders -o jsonl",
)
@topic_argument(required=False, default="")
@limit_option("Print at most this many.")
@click.option(
    "--histogram", "is_histogram", is_flag=True,
    help="Count them by the time until their delivery.",
)  # fmt: skip
def ls(
    broker: BrokerConnection, out: Output, topic: str, count_max: int | None, is_histogram: bool
) -> None:
    """List delayed messages of TOPIC or of all topics.

    Messages with a delay level are first, by level; those with a delivery time follow in the order
    they were sent.
    """

    found = some_of_topic(broker, topic, broker.all(broker.admin.list_delayed, topic=topic))
    if is_histogram:
        bars = histogram((one.deliver_at_ms for one in islice(found, count_max)), wall_ms())
        out.table(bars, columns("due_within", barred("message_count", bars)))
        return
    rows = (_document(one) for one in islice(found, count_max))
    out.table(rows, COLUMNS, MORE_COLUMNS, none="no delayed messages")


def histogram(deliver_at_ms: Iterable[int], now_ms: int) -> list[dict[str, object]]:
    """Returns message counts by DUE_WITHIN; a message counts in the first entry that fits."""
    counts = [0] * len(DUE_WITHIN)
    for moment in deliver_at_ms:
        left_ms = moment - now_ms
        place = next(n for n, (_, limit_ms) in enumerate(DUE_WITHIN) if left_ms <= limit_ms)
        counts[place] += 1
    return [
        {"due_within": name, "message_count": count}
        for (name, _), count in zip(DUE_WITHIN, counts, strict=True)
    ]


@delay.asks("Show a delayed message.", "pocketmq delay show ID")
@click.argument("message_id", metavar="ID")
def show(broker: BrokerConnection, out: Output, message_id: str) -> None:
    """Show the delivery time and the recall handle of the delayed message with this unique key."""
    found = _with_id(broker, message_id)
    out.table((_document(one) for one in found), COLUMNS, MORE_COLUMNS)


@delay.asks(
    "Recall a delayed message.",
    "pocketmq delay recall ID",
    "pocketmq delay recall HANDLE      the recall_handle that produce printed",
)
@click.argument("which", metavar="ID|HANDLE")
def recall(broker: BrokerConnection, out: Output, which: str) -> None:
    """Recall a message with a delivery time, by its unique key or its recall handle.

    Messages with a delay level have no handle and cannot be recalled.
    """
    for topic, handle in _handles(broker, which):
        message_id = broker.ask(broker.client.recall(topic, handle))
        out.show({"message_id": message_id, "topic": topic})


def _handles(broker: BrokerConnection, which: str) -> list[tuple[str, str]]:
    """Returns (topic, handle) of the selected messages."""
    try:
        return [(decode_recall_handle(which).topic, which)]
    except ValueError:
        found = _with_id(broker, which)
    handles = [(one.topic, one.recall_handle) for one in found if one.recall_handle]
    if not handles:
        raise Failure(
            f"message {which} has a delay level: it cannot be recalled", Exit.REFUSED,
            "to be able to recall a message, send it with --delay or --at",
        )  # fmt: skip
    return handles


def _with_id(broker: BrokerConnection, message_id: str) -> Sequence[DelayedMessage]:
    try:
        return broker.ask(broker.admin.list_delayed(message_id=message_id)).items
    except errors.MessageNotFound as error:
        raise Failure(
            f"no delayed message has the id {message_id}: it was delivered or recalled, or never "
            "existed", Exit.NOT_FOUND, f"pocketmq msg trace {message_id}, or: pocketmq delay ls",
        ) from error  # fmt: skip


def _document(one: DelayedMessage) -> dict[str, object]:
    return {name: value for name, value in one._asdict().items() if value not in (None, "")}
