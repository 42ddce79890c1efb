"""`pocketmq topic`: creating, listing and describing topics."""

from typing import Final

import click

from broker.cli.connection import Connection, endpoint_option
from broker.cli.documents import topic_document
from broker.cli.output import (
    Rows,
    chosen_format,
    column,
    moment,
    output_option,
    print_document,
)

TYPES: Final = ("normal", "fifo", "delay", "transaction", "priority")
PAGE_COUNT: Final = 1_000

COLUMNS: Final = {
    "NAME": column("name"),
    "TYPE": column("type"),
    "READ": column("read_queue_count"),
    "WRITE": column("write_queue_count"),
    "PERMISSION": column("permission"),
}
QUEUE_COLUMNS: Final = {
    "QUEUE": column("queue_id"),
    "MIN": column("min_offset"),
    "MAX": column("max_offset"),
    "FIRST STORED": lambda row: moment(row["min_store_timestamp_ms"]),
    "LAST STORED": lambda row: moment(row["max_store_timestamp_ms"]),
}


@click.group(
    epilog="""\b
Example:
  pocketmq topic ls
"""
)
def topic() -> None:
    """Create, list and describe topics."""


@topic.command(
    epilog="""\b
Example:
  pocketmq topic create orders --queues 4
"""
)
@click.argument("name")
@click.option(
    "--type", "type_name", type=click.Choice(TYPES, case_sensitive=False), default="normal",
    show_default=True, help="What its messages are.",
)  # fmt: skip
@click.option("--queues", "queue_count", type=click.IntRange(1), default=8, show_default=True)
@output_option
@endpoint_option
def create(
    name: str, type_name: str, queue_count: int, output_format: str | None, endpoint: str
) -> None:
    """Create a topic; one that is there with the same settings stays as it is."""
    with Connection(endpoint) as broker:
        made = broker.ask(
            broker.client.create_topic(name, queue_count=queue_count, type_name=type_name)
        )
    print_document(topic_document(made), output_format)


@topic.command(
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
    with Connection(endpoint) as broker, Rows(output_format, COLUMNS) as rows:
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


@topic.command(
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
    if chosen_format(output_format) != "table":
        print_document(document, output_format)
        return
    queues = document.pop("queues", [])
    print_document(document, output_format)
    with Rows(output_format, QUEUE_COLUMNS) as rows:
        for queue in queues:
            rows.add(queue)
