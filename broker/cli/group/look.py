"""`pocketmq group ls | info | lag`."""

from collections.abc import Iterator
from typing import Any, Final

import click

from broker.cli.connection import Connection, endpoint_option
from broker.cli.documents import group_document, lag_documents
from broker.cli.output import Document, Rows, column, output_option, print_document
from broker.cli.watch import repeat, watch_option
from broker.client.admin_values import TopicLag

COLUMNS: Final = {
    "NAME": column("name"),
    "ENABLED": column("enabled"),
    "FIFO": column("fifo"),
    "ATTEMPTS": column("max_attempts"),
    "RETRY QUEUES": column("retry_queue_count"),
}
MORE_COLUMNS: Final = {
    "BROADCAST": column("broadcast_enabled"),
    "BEGINS AT MIN": column("begins_at_min"),
    "TIMEOUT MINUTES": column("consume_timeout_minutes"),
    "SYSTEM": column("system"),
    "ATTRIBUTES": column("attributes"),
}
LAG_COLUMNS: Final = {
    "TOPIC": column("topic"),
    "QUEUE": column("queue_id"),
    "COMMITTED": column("committed_offset"),
    "MAX": column("max_offset"),
    "LAG": column("lag_messages"),
    "AGE": lambda row: age_text(row["lag_ms"]),
}
MORE_LAG_COLUMNS: Final = {
    "GROUP": column("group"),
    "MIN": column("min_offset"),
    "LAG MS": column("lag_ms"),
}
SUM_COLUMNS: Final = {
    "GROUP": column("group"),
    "TOPIC": column("topic"),
    "LAG": column("lag_messages"),
}
MORE_SUM_COLUMNS: Final = {"COMMITTED SUM": column("committed_sum")}


@click.command(
    epilog="""\b
Example:
  pocketmq group ls -o jsonl
"""
)
@click.option("--system", is_flag=True, help="The broker's own groups too.")
@output_option
@endpoint_option
def ls(system: bool, output_format: str | None, endpoint: str) -> None:
    """List groups by name."""
    token = ""
    with Connection(endpoint) as broker, Rows(output_format, COLUMNS, MORE_COLUMNS) as rows:
        while True:
            page = broker.ask(broker.client.list_groups(page_token=token, include_system=system))
            for found in page.groups:
                rows.add(group_document(found))
            token = page.next_page_token
            if not token:
                return


@click.command(
    epilog="""\b
Example:
  pocketmq group info billing
"""
)
@click.argument("name")
@output_option
@endpoint_option
def info(name: str, output_format: str | None, endpoint: str) -> None:
    """Describe a group: its settings, and the topics it has an offset in."""
    with Connection(endpoint) as broker:
        found = broker.ask(broker.client.describe_group(name))
    print_document(group_document(found), output_format)


@click.command(
    epilog="""\b
Examples:
  pocketmq group lag
  pocketmq group lag billing --topic orders --watch 2
"""
)
@click.argument("name", required=False)
@click.option("--topic", help="Only this topic.")
@watch_option
@output_option
@endpoint_option
def lag(
    name: str | None,
    topic: str | None,
    watch_s: float | None,
    output_format: str | None,
    endpoint: str,
) -> None:
    """Tell how many messages a group has not consumed, and how old the first of them is.

    Without NAME all groups are told, by topic. A queue the group never committed in counts as
    consumed; so do messages that expired unread.
    """
    with Connection(endpoint) as broker:

        def show() -> None:
            columns: tuple[Any, Any] = (LAG_COLUMNS, MORE_LAG_COLUMNS)
            if name is None:
                columns = (SUM_COLUMNS, MORE_SUM_COLUMNS)
            with Rows(output_format, *columns) as rows:
                for row in _lags(broker, name, topic or ""):
                    rows.add(row)

        repeat(watch_s, show)


def _lags(broker: Connection, name: str | None, topic: str) -> Iterator[Document]:
    if name is None:
        found = all_lags(broker, topic)
    else:
        found = iter(broker.ask(broker.client.group_lag(name, topic)))
    for row in found:
        yield from lag_documents(row)


def all_lags(broker: Connection, topic: str = "") -> Iterator[TopicLag]:
    """Yield how far every group is behind, in one topic or in all."""
    token = ""
    while True:
        page = broker.ask(broker.client.all_lags(topic=topic, page_token=token))
        yield from page.topics
        token = page.next_page_token
        if not token:
            return


def age_text(age_ms: int) -> str:
    """Return an age for people: 250 ms, 41 s, 12 m, 7 h, 3 d; "" for 0."""
    if not age_ms:
        return ""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if age_ms >= 2 * unit_ms:
            return f"{age_ms // unit_ms} {unit}"
    return f"{age_ms} ms"
