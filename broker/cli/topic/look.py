"""`pocketmq topic ls | info | stats`."""

from collections.abc import Iterator
from typing import Final

import click

from broker.cli.connection import Connection, endpoint_option
from broker.cli.documents import counts_document, topic_document
from broker.cli.output import (
    TABLES,
    Rows,
    chosen_format,
    column,
    moment,
    output_option,
    print_document,
)
from broker.cli.watch import repeat, watch_option
from broker.client.admin_values import TopicCounts

PAGE_COUNT: Final = 1_000

COLUMNS: Final = {
    "NAME": column("name"),
    "TYPE": column("type"),
    "READ": column("read_queue_count"),
    "WRITE": column("write_queue_count"),
    "PERMISSION": column("permission"),
}
MORE_COLUMNS: Final = {
    "SYSTEM": column("system"),
    "ORDER": column("order"),
    "ATTRIBUTES": column("attributes"),
}
QUEUE_COLUMNS: Final = {
    "QUEUE": column("queue_id"),
    "MIN": column("min_offset"),
    "MAX": column("max_offset"),
    "FIRST STORED": lambda row: moment(row["min_store_timestamp_ms"]),
    "LAST STORED": lambda row: moment(row["max_store_timestamp_ms"]),
}
COUNT_COLUMNS: Final = {
    "NAME": column("name"),
    "QUEUES": column("queue_count"),
    "MESSAGES": column("message_count"),
    "EVER STORED": column("stored_count"),
    "FIRST STORED": lambda row: moment(row["first_store_timestamp_ms"]),
    "LAST STORED": lambda row: moment(row["last_store_timestamp_ms"]),
}


@click.command(
    epilog="""\b
Example:
  pocketmq topic ls -o jsonl
"""
)
@click.option("--system", is_flag=True, help="The broker's own topics too.")
@output_option
@endpoint_option
def ls(system: bool, output_format: str | None, endpoint: str) -> None:
    """List topics by name."""
    token = ""
    with Connection(endpoint) as broker, Rows(output_format, COLUMNS, MORE_COLUMNS) as rows:
        while True:
            page = broker.ask(
                broker.client.list_topics(
                    page_size=PAGE_COUNT, page_token=token, include_system=system
                )
            )
            for found in page.topics:
                rows.add(topic_document(found))
            token = page.next_page_token
            if not token:
                return


@click.command(
    epilog="""\b
Example:
  pocketmq topic info orders
"""
)
@click.argument("name")
@output_option
@endpoint_option
def info(name: str, output_format: str | None, endpoint: str) -> None:
    """Describe a topic: its settings, and where each of its queues begins and ends."""
    with Connection(endpoint) as broker:
        document = topic_document(broker.ask(broker.client.describe_topic(name)))
    if chosen_format(output_format) not in TABLES:
        print_document(document, output_format)
        return
    queues = document.pop("queues", [])
    print_document(document, output_format)
    with Rows(output_format, QUEUE_COLUMNS) as rows:
        for queue in queues:
            rows.add(queue)


@click.command(
    epilog="""\b
Examples:
  pocketmq topic stats
  pocketmq topic stats orders --watch 2
"""
)
@click.argument("name", required=False)
@click.option("--system", is_flag=True, help="Without NAME: the broker's own topics too.")
@watch_option
@output_option
@endpoint_option
def stats(
    name: str | None,
    system: bool,
    watch_s: float | None,
    output_format: str | None,
    endpoint: str,
) -> None:
    """Count the messages of a topic, queue by queue, or of all topics.

    MESSAGES can be read now, EVER STORED includes what has expired.
    """
    with Connection(endpoint) as broker:

        def show() -> None:
            if name is not None:
                _show_one(broker.ask(broker.client.topic_counts(name)), output_format)
                return
            with Rows(output_format, COUNT_COLUMNS) as rows:
                for counts in _all_counts(broker, system=system):
                    rows.add(counts_document(counts))

        repeat(watch_s, show)


def _all_counts(broker: Connection, *, system: bool) -> Iterator[TopicCounts]:
    token = ""
    while True:
        page = broker.ask(
            broker.client.all_topic_counts(
                page_token=token, include_system=system, totals_only=False
            )
        )
        yield from page.topics
        token = page.next_page_token
        if not token:
            return


def _show_one(counts: TopicCounts, output_format: str | None) -> None:
    document = counts_document(counts)
    if chosen_format(output_format) not in TABLES:
        print_document(document, output_format)
        return
    queues = document.pop("queues", [])
    with Rows(output_format, COUNT_COLUMNS) as rows:
        rows.add(document)
    with Rows(output_format, QUEUE_COLUMNS) as rows:
        for queue in queues:
            rows.add(queue)
