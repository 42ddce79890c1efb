"""`pocketmq topic`: creating, changing, listing, counting and removing topics."""

from typing import Final

import click

from broker.cli.lazy import LazyGroup, Place

PLACES: Final = {
    "create": Place("broker.cli.topic.change", "create", "Create a topic."),
    "ls": Place("broker.cli.topic.look", "ls", "List topics by name."),
    "info": Place("broker.cli.topic.look", "info", "Describe a topic and its queues."),
    "stats": Place("broker.cli.topic.look", "stats", "Count the messages of topics."),
    "edit": Place("broker.cli.topic.change", "edit", "Change a topic's settings."),
    "rm": Place("broker.cli.topic.change", "rm", "Remove a topic and its queues."),
}


@click.group(
    cls=LazyGroup,
    places=PLACES,
    epilog="""\b
Examples:
  pocketmq topic ls
  pocketmq topic create orders --queues 4
""",
)
def topic() -> None:
    """Create, change, list, count and remove topics."""
