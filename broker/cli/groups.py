"""Groups of commands that are loaded when called.

`pocketmq --help` shows names and one line each from a table; only the command that is called is
imported, and with it gRPC, numpy or the broker.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click


class Place(NamedTuple):
    """The module where a command is defined by its name, and what a list of commands says of it."""

    module: str
    about: str


class LazyGroup(click.Group):
    """A group whose commands are named by their places."""

    def __init__(self, *args: Any, places: Mapping[str, Place], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._places)

    def load(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command, None when there is none of this name."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        command = getattr(import_module(place.module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    get_command = load  # click's name for it

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any."""
        rows: Sequence[tuple[str, str]] = [(n, p.about) for n, p in self._places.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
