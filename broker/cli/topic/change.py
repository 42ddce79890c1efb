"""`pocketmq topic create | edit | rm`."""

from typing import Any, Final

import click

from broker.cli.connection import Connection, endpoint_option
from broker.cli.documents import topic_document
from broker.cli.failures import EXIT_REFUSED, Failure
from broker.cli.output import output_option, print_document, talk
from broker.cli.store.options import yes_option
from broker.client.admin_values import TopicChange
from broker.client.values import TopicState

TYPES: Final = ("normal", "fifo", "delay", "transaction", "priority")
TYPE_ATTRIBUTE: Final = "message.type"
PERMISSIONS: Final = {"none": 0, "w": 2, "r": 4, "rw": 6}


@click.command(
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


class _Attribute(click.ParamType[tuple[str, str]]):
    """NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, separator, text = value.partition("=")
        if not separator or not name:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, text


@click.command(
    epilog="""\b
Examples:
  pocketmq topic edit orders --queues 16
  pocketmq topic edit orders --write-queues 4        drain queues before --read-queues 4
  pocketmq topic edit orders --permission r
"""
)
@click.argument("name")
@click.option("--queues", type=click.IntRange(1), help="Queues to read from and to write to.")
@click.option("--read-queues", type=click.IntRange(1), help="Queues consumers may read from.")
@click.option("--write-queues", type=click.IntRange(1), help="Queues producers may send to.")
@click.option(
    "--permission", type=click.Choice(list(PERMISSIONS)), help="What clients may do: read, write."
)
@click.option("--order/--no-order", default=None, help="RocketMQ's mark of an ordered topic.")
@click.option("--type", "type_name", type=click.Choice(TYPES, case_sensitive=False))
@click.option(
    "--attribute", "attributes", type=_Attribute(), multiple=True, help="Set it; may be repeated."
)
@click.option(
    "--remove-attribute", "removed", metavar="NAME", multiple=True, help="May be repeated."
)
@output_option
@endpoint_option
def edit(
    name: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    permission: str | None,
    order: bool | None,
    type_name: str | None,
    attributes: tuple[tuple[str, str], ...],
    removed: tuple[str, ...],
    output_format: str | None,
    endpoint: str,
) -> None:
    """Change what is given of a topic; messages stay where they are.

    With fewer queues to read from, messages in the others cannot be read until there are more
    again: first take them from the producers with --write-queues.
    """
    given = dict(attributes)
    if type_name is not None:
        given[TYPE_ATTRIBUTE] = type_name.upper()
    change = TopicChange(
        read_queue_count=queues if read_queues is None else read_queues,
        write_queue_count=queues if write_queues is None else write_queues,
        permission=None if permission is None else PERMISSIONS[permission],
        order=order,
        set_attributes=given,
        remove_attributes=removed,
    )
    if change == TopicChange(set_attributes={}):
        raise click.UsageError("say what to change, as --queues 16")
    with Connection(endpoint) as broker:
        before = broker.ask(broker.client.describe_topic(name))
        changed = broker.ask(broker.client.update_topic(name, change))
    print_document(topic_document(changed), output_format)
    _tell_unreadable(before, changed.read_queue_count)


def _tell_unreadable(before: TopicState, read_queue_count: int) -> None:
    """Say how many messages lie in queues that nobody may read any more."""
    beyond = [queue for queue in before.queues if queue.queue_id >= read_queue_count]
    count = sum(queue.max_offset - queue.min_offset for queue in beyond)
    if count:
        talk(
            f"Note: {count} messages lie in queues from {read_queue_count} on and cannot be read "
            f"now; to reach them: pocketmq topic edit {before.name} --read-queues "
            f"{beyond[-1].queue_id + 1}"
        )


@click.command(
    epilog="""\b
Examples:
  pocketmq topic rm orders            what would be removed
  pocketmq topic rm orders --yes      remove it
"""
)
@click.argument("name")
@yes_option
@output_option
@endpoint_option
def rm(name: str, yes: bool, output_format: str | None, endpoint: str) -> None:
    """Remove a topic, its queues, and where groups stand in it.

    The retry topics groups have for it go too. Its messages cannot be read any more; their bytes
    stay in the commit log until that expires.
    """
    with Connection(endpoint) as broker:
        if not yes:
            counts = broker.ask(broker.client.topic_counts(name))
            lags = broker.ask(broker.client.all_lags(topic=name))
            plan = {
                "topic": name,
                "queue_count": counts.queue_count,
                "message_count": counts.message_count,
                "groups": [lag.group for lag in lags.topics],
            }
            print_document(plan, output_format)
            text = f"nothing was done: {counts.message_count} messages would be gone"
            raise Failure(text, EXIT_REFUSED, "add --yes to do it")
        removed = broker.ask(broker.client.delete_topic(name))
    print_document({"topic": name, "removed_topics": removed}, output_format)
