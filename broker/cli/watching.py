"""Looking on for long: a picture shown again and again, over restarts of the broker too."""

import time
from collections.abc import Callable

import click

from broker.cli.output import talk
from broker.client.values import ClientError


class Patience:
    """Waits for a broker that goes away once it has answered; says so once, and when it is back.

    say   tells people
    """

    __slots__ = ("_has_answered", "_say", "is_gone")

    def __init__(self, say: Callable[[str], None] = talk) -> None:
        self._say = say
        self._has_answered = False
        self.is_gone = False

    def answered(self) -> None:
        """Take note of an answer."""
        if self.is_gone:
            self._say("The broker answers again.")
        self._has_answered = True
        self.is_gone = False

    def failed(self, error: ClientError) -> None:
        """Take note of an error; what does not pass, or was there from the beginning, is raised."""
        if not (self._has_answered and error.retryable):
            raise error
        if not self.is_gone:
            self._say(f"{error.message}; trying again until Ctrl-C")
        self.is_gone = True
        assert self._has_answered


def repeat(watch_s: float | None, show: Callable[[], None]) -> None:
    """Call a function once, or every so many seconds on an empty screen until Ctrl-C.

    Errors   what the function raises; what passes, as a restart of the broker, only the first time
    """
    if watch_s is None:
        show()
        return
    patience = Patience()
    try:
        while True:
            if not patience.is_gone:
                click.clear()  # does nothing where standard output is no terminal
            try:
                show()
                patience.answered()
            except ClientError as error:
                patience.failed(error)
            time.sleep(watch_s)
    except KeyboardInterrupt:
        return
