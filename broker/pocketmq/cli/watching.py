"""Repeated output of a command, which survives restarts of the broker."""

from collections.abc import Callable
from time import sleep

import click

from pocketmq.cli.output import talk
from pocketmq.client import ClientError
from pocketmq.client.following import BrokerWait


def repeat(watch_s: float | None, show: Callable[[], None]) -> None:
    """Calls `show` once, or every `watch_s` seconds on a cleared screen until Ctrl-C.

    Errors   errors of `show`; while repeating, a retryable one only before `show` first succeeds
    """
    if watch_s is None:
        show()
        return
    patience = BrokerWait(talk)
    try:
        while True:
            if not patience.is_gone:
                click.clear()  # does nothing where standard output is no terminal
            try:
                show()
                patience.answered()
            except ClientError as error:
                patience.failed(error)
            sleep(watch_s)
    except KeyboardInterrupt:
        return
