"""`pocketmq consume --pop`: messages received for a group, each under a lease, and acknowledged."""

from dataclasses import replace
from time import monotonic
from typing import Final

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.documents import MESSAGE_COLUMNS, ShownMessages, leased_document
from pocketmq.cli.output import Output, columns, talk
from pocketmq.client import Leased, ReceiveQuery, SettleStatus

COLUMNS: Final = [*columns("attempt"), *MESSAGE_COLUMNS]
BATCH_COUNT: Final = 32
"""Messages of one receive, at most."""
WAIT_MS: Final = 15_000
"""How long one receive waits."""


def show_received(
    broker: BrokerConnection,
    out: Output,
    query: ReceiveQuery,
    *,
    count_max: int | None,
    wait_ms: int,
    acknowledges: bool,
) -> None:
    """Prints the messages a group receives until none come for `wait_ms`.

    acknowledges   acknowledge printed messages
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
    if late:
        talk(f"{late} leases ran out before they were acknowledged: those messages come again")


def _acknowledge(broker: BrokerConnection, query: ReceiveQuery, received: list[Leased]) -> int:
    """Acknowledges messages; returns how many of the leases had ended already."""
    handles = [one.receipt_handle for one in received]
    settled = broker.ask(broker.client.ack(query.group, query.topic, handles))
    return sum(one.status is not SettleStatus.OK for one in settled)
