"""The command line's words, and their older spellings.

--topic --group              a topic, a consumer group
--queue                      number of a queue; in `store dump`, TOPIC:QUEUE
--message-group              group of messages that keep their order
--producer-group             group of producers that decide transactions
--from                       position to begin at: earliest, latest, a queue offset or a time; in
                             `store export`, `grep` and `stats`, a physical offset
--since --until              bounds of the time a message was stored
--limit                      maximum number of messages or rows
--wait                       maximum time to wait for messages or an answer
--watch                      interval of a repeated command
--yes                        makes the change that is only shown without it, or replaces a file

An older spelling keeps its meaning, and no help shows it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

CONNECTION: Final = "Connection"
"""Heading of the options that choose a broker."""


class NamedOption(click.Option):
    """An option with hidden older spellings and a heading in help.

    aliases   older spellings
    heading   heading of its part of the help; "": the command's own options
    """

    def __init__(
        self, *args: Any, aliases: Sequence[str] = (), heading: str = "", **extra: Any
    ) -> None:
        super().__init__(*args, **extra)
        self.aliases = (*aliases,)
        self.heading = heading

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Adds the option and its older spellings to a parser."""
        shown = self.opts
        assert not {*shown} & {*self.aliases}
        self.opts = [*shown, *self.aliases]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


def option(*names: str, **given: Any) -> Callable[[Command], Command]:
    """Returns the decorator of a NamedOption, like click.option."""
    return click.option(*names, cls=NamedOption, **given)


class HeadedCommand(click.Command):
    """A command whose help lists options under their headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the command's own options, then those of each heading."""
        parts: dict[str, list[tuple[str, str]]] = {"": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                parts.setdefault(getattr(parameter, "heading", ""), []).append(record)
        for heading, records in parts.items():
            if records:
                with formatter.section(f"{heading} options".strip().capitalize()):
                    formatter.write_dl(records)


def limit_option(about: str, *older: str, **given: Any) -> Callable[[Command], Command]:
    """Returns the decorator of --limit, whose value is passed as `count_max`."""
    return option(
        "--limit", "count_max", metavar="N", type=click.IntRange(1), help=about,
        aliases=("--max", *older), **given,
    )  # fmt: skip
