"""The options and arguments that several commands take, each declared once."""

import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from broker.cli.output import FORMATS, Output
from broker.cli.parameters import QUEUE

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_ENDPOINT: Final = "127.0.0.1:8081"
WATCH_MIN_S: Final = 0.1

PATH: Final = click.Path(path_type=Path)
FILE: Final = click.Path(path_type=Path, dir_okay=False)
DIRECTORY: Final = click.Path(path_type=Path, exists=True, file_okay=False)

form_option: Final = click.option(
    "-o", "--output", "out", type=click.Choice(FORMATS),
    callback=lambda ctx, param, form: Output(form),
    help="Form of the output [default: table on a terminal, else json].",
)  # fmt: skip
"""Gives a command what prints, as `out`."""
output_option: Final = click.option(
    "-o", "--output", "output_format", type=click.Choice(FORMATS),
    help="Form of the output [default: table on a terminal, else json].",
)  # fmt: skip
endpoint_option: Final = click.option(
    "--endpoint", envvar="POCKETMQ_ENDPOINT", default=DEFAULT_ENDPOINT, show_default=True,
    show_envvar=True, metavar="HOST:PORT", help="The broker to ask.",
)  # fmt: skip
watch_option: Final = click.option(
    "--watch", "watch_s", type=click.FloatRange(WATCH_MIN_S), metavar="SECONDS",
    help="Show it again every so many seconds, until Ctrl-C.",
)  # fmt: skip
yes_option: Final = click.option(
    "--yes", is_flag=True, help="Do it; without this only the plan is shown."
)

set_option: Final = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE",
    help="A setting by our name or RocketMQ's (flushDiskType=ASYNC_FLUSH); may be repeated.",
)  # fmt: skip
file_option: Final = click.option(
    "-c", "--config", "file", type=FILE,
    help="Settings, as in conf/broker.toml; those of conf.d/*.toml beside it go over them.",
)  # fmt: skip
preset_option: Final = click.option(
    "--preset", metavar="NAME", help="Defaults for a kind of machine: dev, edge or server."
)

directory_argument: Final = click.argument("directory", metavar="DIR", type=PATH)
read_only_option: Final = click.option(
    "--read-only", is_flag=True, help="Look on even while a broker uses the store."
)


def queue_option(about: str) -> Callable[[Command], Command]:
    """Return what gives a command --queue TOPIC:QUEUE, read as (topic, queue id) or None."""
    return click.option("--queue", metavar="TOPIC:QUEUE", type=QUEUE, help=about)


def takes(
    name: str, kind: Callable[..., Any], *options: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what gives a command these options and arguments, as one value of a kind.

    name   the command's parameter; the kind's parameters are named as the options
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def gathered(*args: Any, **given: Any) -> None:
            value = kind(**{each: given.pop(each) for each in names})
            command(*args, **{name: value}, **given)

        before = [*getattr(command, "__click_params__", ())]
        decorated: Any = gathered
        for option in reversed(options):
            decorated = option(decorated)
        names = [param.name for param in decorated.__click_params__ if param not in before]
        return gathered

    return decorate


def repeat(watch_s: float | None, show: Callable[[], None]) -> None:
    """Call a function once, or every so many seconds on an empty screen until Ctrl-C."""
    if watch_s is None:
        show()
        return
    try:
        while True:
            click.clear()  # does nothing where standard output is no terminal
            show()
            time.sleep(watch_s)
    except KeyboardInterrupt:
        return
