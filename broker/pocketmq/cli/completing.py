"""Completion of values that need no broker: actions, settings, presets, contexts."""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def actions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the last of several actions, which commas separate."""
    from pocketmq.model.access import Action

    before, comma, _ = incomplete.rpartition(",")
    return beginning((f"{before}{comma}{action.value}" for action in Action), incomplete)


def assignments(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completes KEY=VALUE: names of settings; values of booleans and of fixed choices."""
    from pocketmq.config.sections import KNOBS

    key, separator, _ = incomplete.partition("=")
    if not separator:
        return [
            CompletionItem(f"{name}=", help=knob.why)
            for name, knob in KNOBS.items()
            if name.startswith(incomplete)
        ]
    knob = KNOBS.get(key)
    values = (
        () if knob is None else knob.choices or (("true", "false") if knob.kind is bool else ())
    )
    return beginning((f"{key}={value}" for value in values), incomplete)


def presets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes names of presets."""
    from pocketmq.config.sections import PRESETS

    return beginning(PRESETS, incomplete)


def contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes names of the user's contexts."""
    from pocketmq.cli.context_file import read_contexts

    try:
        return beginning(read_contexts().by_name, incomplete)
    except click.ClickException:
        return []


def beginning(found: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Returns the names that begin with what was typed."""
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]
