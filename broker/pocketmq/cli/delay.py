"""`pocketmq delay`: delayed messages, by delay level or delivery time."""

from itertools import islice
from typing import Final

import click

from pocketmq.cli.broker_names import topic_argument
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.options import examples
from pocketmq.cli.output import Exit, Failure, Output, at, columns
from pocketmq.cli.vocabulary import limit_option
from pocketmq.format.recall_handle import decode_recall_handle
from pocketmq.model.administration import DelayedMessage

COLUMNS: Final = columns("message_id", "topic", at("deliver_at_ms"))
MORE_COLUMNS: Final = columns("queue_id", "delay_level", at("store_timestamp_ms"), "tag")


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


@delay.asks("List delayed messages.", "pocketmq delay ls", "pocketmq delay ls reminders -o jsonl")
@topic_argument(required=False, default="")
@limit_option("Print at most this many.")
def ls(broker: BrokerConnection, out: Output, topic: str, count_max: int | None) -> None:
    """List delayed messages of TOPIC or of all topics.

    Messages with a delay level are first, by level; those with a delivery time follow in the order
    they were sent.
    """

    found = broker.all(broker.admin.list_delayed, topic=topic)
    rows = (_document(one) for one in islice(found, count_max))
    out.table(rows, COLUMNS, MORE_COLUMNS, none="no delayed messages")


@delay.asks("Show a delayed message.", "pocketmq delay show ID")
@click.argument("message_id", metavar="ID")
def show(broker: BrokerConnection, out: Output, message_id: str) -> None:
    """Show the delivery time and the recall handle of the delayed message with this unique key."""
    found = broker.ask(broker.admin.list_delayed(message_id=message_id)).items
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
        found = broker.ask(broker.admin.list_delayed(message_id=which)).items
    handles = [(one.topic, one.recall_handle) for one in found if one.recall_handle]
    if not handles:
        raise Failure(
            f"message {which} has a delay level: it cannot be recalled", Exit.REFUSED,
            "to be able to recall a message, send it with --delay or --at",
        )  # fmt: skip
    return handles


def _document(one: DelayedMessage) -> dict[str, object]:
    return {name: value for name, value in one._asdict().items() if value not in (None, "")}
