"""`pocketmq group`: consumer groups, and where they stand."""

from typing import Final

import click

from broker.cli.lazy import LazyGroup, Place

PLACES: Final = {
    "create": Place("broker.cli.group.change", "create", "Create a group."),
    "ls": Place("broker.cli.group.look", "ls", "List groups by name."),
    "info": Place("broker.cli.group.look", "info", "Describe a group."),
    "lag": Place("broker.cli.group.look", "lag", "Tell how far groups are behind."),
    "edit": Place("broker.cli.group.change", "edit", "Change a group's settings."),
    "reset": Place("broker.cli.group.move", "reset", "Move a group to a time or an offset."),
    "clone": Place("broker.cli.group.move", "clone", "Let a group stand where another one does."),
    "rm": Place("broker.cli.group.change", "rm", "Remove a group."),
}


@click.group(
    cls=LazyGroup,
    places=PLACES,
    epilog="""\b
Examples:
  pocketmq group ls
  pocketmq group lag billing --watch 2
  pocketmq group reset billing --topic orders --to -1h --yes
""",
)
def group() -> None:
    """Create, change, list, move and remove consumer groups."""
