"""--watch: the same answer again and again, until Ctrl-C."""

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

INTERVAL_MIN_S: Final = 0.1

Command = TypeVar("Command", bound=Callable[..., Any])


def watch_option(command: Command) -> Command:
    """Give a command --watch."""
    option = click.option(
        "--watch",
        "watch_s",
        type=click.FloatRange(INTERVAL_MIN_S),
        metavar="SECONDS",
        help="Show it again every so many seconds, until Ctrl-C.",
    )
    return option(command)


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
