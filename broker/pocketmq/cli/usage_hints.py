"""Advice in usage errors: where an option belongs, what it is named here, what needs quotes."""

from collections.abc import Iterable, Mapping
from typing import Final

import click

from pocketmq.cli.groups import NEARNESS

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "-n": ("--limit",),
    "--max-messages": ("--limit",),
    "-f": ("--file", "--follow"),
    "--from-beginning": ("--from earliest", "--since"),
    "--timeout": ("--wait",),
    "--duration": ("--seconds",),
    "--count": ("--limit",),
    "--consumer-group": ("--group",),
    "--broker": ("--endpoint",),
    "--bootstrap-server": ("--endpoint",),
    "--namesrv": ("--endpoint",),
    "--url": ("--endpoint",),
    "--flush": ("--set store.flush=async",),
    "--offset": ("--from",),
    "--keys": ("--key",),
    "--tags": ("--tag",),
    "--partition": ("--queue",),
    "--partitions": ("--queues",),
    "--format": ("--output",),
    "--json": ("-o json",),
    "--force": ("--yes",),
    "--sql": ("--filter",),
    "--data": ("--store",),
    "--data-dir": ("--store",),
    "--dir": ("--store",),
}
"""Options that other tools have -> options of the same meaning; a command has one of them or none.
"""
COMMANDS: Final[Mapping[tuple[str, str], str]] = {
    ("consume", "--follow"): "pocketmq tail TOPIC prints new messages as they are stored",
    ("consume", "-f"): "pocketmq tail TOPIC prints new messages as they are stored",
    **dict.fromkeys(
        (("produce", "--message"), ("produce", "-m")),
        "the body is an argument, as in pocketmq produce TOPIC [BODY]",
    ),
    ("dev", "--store"): "its store is temporary; pocketmq serve --store DIR keeps one",
    ("top", "--watch"): "it repeats by itself on a terminal, at --interval",
    ("serve", "--port"): "use --listen 127.0.0.1:PORT",
    ("serve", "--topics"): "pocketmq topic create NAME creates a topic while the broker runs",
    **dict.fromkeys(
        (("serve", "-n"), ("serve", "--namesrv")),
        "the broker is its own name server; clients name its own address",
    ),
    ("serve", "--log-level"): "use --set logs.level=debug, or set logs.level in the settings file",
    **{
        ("dump", option): f"pocketmq store grep . DIR {option} … prints some messages"
        for option in ("--limit", "--topic", "--key", "--since", "--until")
    },
    ("show", "--endpoint"): (
        "pocketmq definitions export --only settings shows the changed settings of a broker"
    ),
}
"""(command, option that it does not have) -> the command or option that does this."""
NUMBERS: Final[Mapping[str, str]] = {
    "--priority": "messages of higher numbers are delivered first",
    "--delay-level": "pocketmq produce --delay 30s takes a time",
}
"""Options of numbers -> what an error of a word adds."""
EXTRA: Final = "Got unexpected extra argument"


def with_hint(error: click.UsageError) -> click.UsageError:
    """Returns the error of a wrong command line with advice, or unchanged if there is none."""
    ctx, hint = error.ctx, ""
    if isinstance(error, click.BadParameter) and error.param is not None:
        return _of_number(error, error.param)
    if ctx and isinstance(error, click.NoSuchOption):
        hint = COMMANDS.get((ctx.command.name or "", error.option_name), "")
        # What has the same meaning comes before click's suggestions, which look alike.
        hint = hint or _of_option(ctx, error.option_name)
        near = _alike(error.option_name, error.possibilities or ())
        error = click.NoSuchOption(error.option_name, possibilities=near, ctx=ctx)
    elif ctx and error.message.startswith(EXTRA):
        hint = _of_extra(ctx)
    return click.UsageError(f"{error.message.removesuffix('.')}: {hint}", ctx) if hint else error


def _alike(name: str, options: Iterable[str]) -> list[str]:
    """Returns the options of similar letters; click also counts their dashes, which all have."""
    from difflib import get_close_matches

    by_letters = {option.lstrip("-"): option for option in options}
    near = get_close_matches(name.lstrip("-"), by_letters, cutoff=NEARNESS)
    return sorted(by_letters[letters] for letters in near)


def _of_number(error: click.BadParameter, param: click.Parameter) -> click.UsageError:
    """Returns the error of a word in place of a number, with the numbers that are allowed."""
    given, is_number, kind = error.message.partition(" is not a valid ")
    if not is_number or not kind.startswith(("integer", "float")):
        return error
    text = f"{given} is not {'a whole number' if kind.startswith('integer') else 'a number'}"
    if isinstance(param.type, click.IntRange | click.FloatRange):
        least, most = param.type.min, param.type.max
        text += f" of {least} or more" if most is None else f" from {least} to {most}"
    further = [NUMBERS[name] for name in param.opts if name in NUMBERS]
    return click.BadParameter("; ".join([text, *further]), error.ctx, param)


def _of_option(ctx: click.Context, name: str) -> str:
    command = ctx.command
    if isinstance(command, click.Group):
        return _of_group(ctx, command, name)
    if _is_argument(ctx, name.removeprefix("--")):
        names = " ".join(one.make_metavar(ctx) for one in _arguments(command))
        return f"the {name.removeprefix('--')} is an argument, as in {ctx.command_path} {names}"
    right = _meant(command, name)
    return f"use {right}" if right else ""


def _of_group(ctx: click.Context, group: click.Group, name: str) -> str:
    """Returns where the option belongs: behind a command that has it, or has one of its meaning."""
    # The root command would import the modules of all commands.
    names = group.list_commands(ctx) if ctx.parent is not None else []
    right = "" if names else name
    found = (group.get_command(ctx, each) for each in names)
    for command in found:
        if command is not None and not isinstance(command, click.Group):
            if name in _options(command):
                right = name
                break
            right = right or _meant(command, name)
    if not right:
        return f"see {ctx.command_path} COMMAND --help for the options of a command"
    return f"a command's options follow its name, as in {ctx.command_path} COMMAND {right} …"


def _meant(command: click.Command, name: str) -> str:
    """Returns the command's option that has the meaning of another tool's, "" if it has none."""
    has = _options(command)
    return next((text for text in OPTIONS.get(name, ()) if text.partition(" ")[0] in has), "")


def _options(command: click.Command) -> set[str]:
    return {text for one in command.params for text in (*one.opts, *one.secondary_opts)}


def _is_argument(ctx: click.Context, word: str) -> bool:
    """Returns whether a command has an argument of that name, or its group's NAME is meant."""
    names = {one.name for one in _arguments(ctx.command)}
    of = ctx.parent.command.name if ctx.parent else ""
    return word in names or (word == of and "name" in names)


def _of_extra(ctx: click.Context) -> str:
    names = [one.make_metavar(ctx) for one in _arguments(ctx.command)]
    options = {text for one in ctx.command.params for text in one.opts}
    if not names:
        is_store = "--store" in options and "--endpoint" not in options
        about = "; the directory of a store is named by --store" if is_store else ""
        return f"{ctx.command_path} takes options only{about}"
    about = "; a topic is named by --topic" if "--topic" in options else ""
    quotes = "a value with spaces is written in quotes"
    return f"{ctx.command_path} takes {' '.join(names)}{about}; {quotes}"


def _arguments(command: click.Command) -> list[click.Argument]:
    return [one for one in command.params if isinstance(one, click.Argument)]
