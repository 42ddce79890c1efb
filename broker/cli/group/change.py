"""`pocketmq group create | edit | rm`."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from broker.cli.connection import Connection, endpoint_option
from broker.cli.documents import group_document
from broker.cli.failures import EXIT_REFUSED, Failure
from broker.cli.output import output_option, print_document
from broker.cli.store.options import yes_option
from broker.client.admin_values import GroupSettings

Command = TypeVar("Command", bound=Callable[..., Any])

SETTING_OPTIONS: Final = (
    click.option("--fifo", type=click.BOOL, help="Consume in order: true or false."),
    click.option(
        "--max-attempts", type=click.IntRange(1), help="Deliveries in all, the first included."
    ),
    click.option("--retry-queues", type=click.IntRange(1), help="Queues of its retry topic."),
    click.option("--enabled", type=click.BOOL, help="Whether it may consume: true or false."),
)


def setting_options(command: Command) -> Command:
    """Give a command the settings of a group."""
    for option in reversed(SETTING_OPTIONS):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Examples:
  pocketmq group create billing
  pocketmq group create billing --fifo true --max-attempts 5
"""
)
@click.argument("name")
@setting_options
@output_option
@endpoint_option
def create(
    name: str,
    fifo: bool | None,
    max_attempts: int | None,
    retry_queues: int | None,
    enabled: bool | None,
    output_format: str | None,
    endpoint: str,
) -> None:
    """Create a group; one that is there with the same settings stays as it is.

    What is not given is RocketMQ's default: 17 attempts, not in order, 1 retry queue.
    """
    settings = GroupSettings(enabled, fifo, max_attempts, retry_queues)
    with Connection(endpoint) as broker:
        made = broker.ask(broker.client.create_group(name, settings))
    print_document(group_document(made), output_format)


@click.command(
    epilog="""\b
Examples:
  pocketmq group edit billing --max-attempts 5
  pocketmq group edit billing --enabled false
"""
)
@click.argument("name")
@setting_options
@output_option
@endpoint_option
def edit(
    name: str,
    fifo: bool | None,
    max_attempts: int | None,
    retry_queues: int | None,
    enabled: bool | None,
    output_format: str | None,
    endpoint: str,
) -> None:
    """Change what is given of a group; where it stands stays."""
    settings = GroupSettings(enabled, fifo, max_attempts, retry_queues)
    if settings == GroupSettings():
        raise click.UsageError("say what to change, as --max-attempts 5")
    with Connection(endpoint) as broker:
        changed = broker.ask(broker.client.update_group(name, settings))
    print_document(group_document(changed), output_format)


@click.command(
    epilog="""\b
Examples:
  pocketmq group rm billing            what would be removed
  pocketmq group rm billing --yes      remove it
"""
)
@click.argument("name")
@click.option("--with-topics", is_flag=True, help="Its retry and dead-letter topics too.")
@yes_option
@output_option
@endpoint_option
def rm(name: str, with_topics: bool, yes: bool, output_format: str | None, endpoint: str) -> None:
    """Remove a group and where it stands; its messages stay.

    A consumer that comes back under this name makes the group anew, without offsets.
    """
    with Connection(endpoint) as broker:
        if not yes:
            found = broker.ask(broker.client.describe_group(name))
            plan = {"group": name, "offsets_in": found.topics, "with_topics": with_topics}
            print_document(plan, output_format)
            text = f"nothing was done: offsets in {len(found.topics)} topics would be gone"
            raise Failure(text, EXIT_REFUSED, "add --yes to do it")
        removed = broker.ask(broker.client.delete_group(name, with_topics=with_topics))
    print_document({"group": name, "removed_topics": removed}, output_format)
