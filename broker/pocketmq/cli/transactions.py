"""`pocketmq txn`: transactions that wait for a commit or rollback."""

from typing import Final

import click

from pocketmq.cli.broker_names import topics
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.creation import some_of_topic
from pocketmq.cli.options import examples
from pocketmq.cli.output import Exit, Failure, Output, at, columns
from pocketmq.cli.vocabulary import limit_option, option
from pocketmq.client import Ended, EndStatus, OpenTransaction, Resolution

COLUMNS: Final = columns("transaction_id", "group", "topic", at("store_timestamp_ms"), "checks")
MORE_COLUMNS: Final = columns("message_id", "producer_count")
RESULT_COLUMNS: Final = columns("transaction_id", "result")
RESUMED_COLUMNS: Final = columns("transaction_id", "was")
RESULTS: Final = {Resolution.COMMIT: "committed", Resolution.ROLLBACK: "rolled back"}


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq txn ls",
        "pocketmq txn show 2A.1F4C0.0102FC000000014F600B1281BC00000000",
        "pocketmq txn commit 2A.1F4C0.0102FC000000014F600B1281BC00000000",
    ),
)
def txn() -> None:
    """List, commit or roll back undecided transactions."""


@txn.asks(
    "List undecided transactions.", "pocketmq txn ls", "pocketmq txn ls --producer-group payers"
)
@option(
    "--producer-group", "group", metavar="NAME", default="", aliases=("--group",),
    help="Only transactions of this producer group.",
)  # fmt: skip
@click.option(
    "--topic",
    shell_complete=topics,
    default="",
    help="Only transactions of messages for this topic.",
)
@limit_option("Print at most this many.", default=100, show_default=True)
def ls(broker: BrokerConnection, out: Output, group: str, topic: str, count_max: int) -> None:
    """List undecided transactions, the oldest first.

    CHECKS counts how often the broker asked a producer of the group for its decision.
    """
    listed = broker.admin.list_transactions(group=group, topic=topic, count_max=count_max)
    found = some_of_topic(broker, topic, broker.ask(listed))
    out.table(
        (one._asdict() for one in found),
        COLUMNS,
        MORE_COLUMNS,
        none="no undecided transactions",
    )


@txn.asks("Show a transaction.", "pocketmq txn show ID")
@click.argument("transaction_id", metavar="ID")
def show(broker: BrokerConnection, out: Output, transaction_id: str) -> None:
    """Show a transaction and its state: open, committed, rolled back or given up."""
    out.show(_described(broker, transaction_id)._asdict())


@txn.asks("Commit transactions.", "pocketmq txn commit ID", "pocketmq txn commit ID ID")
@click.argument("transaction_ids", metavar="ID...", nargs=-1, required=True)
def commit(broker: BrokerConnection, out: Output, transaction_ids: tuple[str, ...]) -> None:
    """Commit transactions in place of their producers: their messages are delivered."""
    _end(broker, out, transaction_ids, Resolution.COMMIT)


@txn.asks("Roll transactions back.", "pocketmq txn rollback ID", "pocketmq txn rollback ID ID")
@click.argument("transaction_ids", metavar="ID...", nargs=-1, required=True)
def rollback(broker: BrokerConnection, out: Output, transaction_ids: tuple[str, ...]) -> None:
    """Roll transactions back: their messages are never delivered."""
    _end(broker, out, transaction_ids, Resolution.ROLLBACK)


@txn.asks("Resume expired transactions.", "pocketmq txn resume ID")
@click.argument("transaction_ids", metavar="ID...", nargs=-1, required=True)
def resume(broker: BrokerConnection, out: Output, transaction_ids: tuple[str, ...]) -> None:
    """Resume expired transactions, so that they can be committed or rolled back.

    Each gets a new id. The broker asks its producers for a decision again.
    """
    with out.rows(RESUMED_COLUMNS) as rows:
        for text in transaction_ids:
            again = broker.ask(broker.admin.resume_transaction(text))
            rows.add({"transaction_id": again, "was": text})


def _described(broker: BrokerConnection, transaction_id: str) -> OpenTransaction:
    found, _ = broker.ask(broker.admin.describe_transaction(transaction_id))
    return found


def _end(
    broker: BrokerConnection, out: Output, transaction_ids: tuple[str, ...], resolution: Resolution
) -> None:
    """Ends transactions, each for its own group; raises Failure for the first that failed."""
    failed: Ended | None = None
    with out.rows(RESULT_COLUMNS) as rows:
        for text in transaction_ids:
            group = _described(broker, text).group
            ending = broker.client.end_transactions(group, [(text, resolution)])
            (ended,) = broker.ask(ending)
            is_ended = ended.status is EndStatus.ENDED
            if not is_ended and failed is None:
                failed = ended
            result = RESULTS[resolution] if is_ended else ended.why
            rows.add({"transaction_id": text, "result": result})
    if failed is not None:
        is_unknown = failed.status is EndStatus.NO_TRANSACTION
        raise Failure(failed.why, Exit.NOT_FOUND if is_unknown else Exit.REFUSED, "")
