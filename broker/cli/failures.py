"""Errors as the command line shows them: what, why, the next command, and an exit code.

0 ok · 1 failed · 2 usage · 3 not found · 4 refused · 5 unreachable · 6 timeout
10 the store is damaged · 130 interrupted

Error: topic 'orders' does not exist
Next:  pocketmq topic create orders
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TextIO

import click

from broker.client.values import ClientError, DeadlineExceeded, Unreachable
from broker.model.errors import (
    BrokerError,
    Corruption,
    IllegalConfig,
    NotAStore,
    RequestError,
    StorageError,
    StoreFailed,
    StoreGap,
    StoreLocked,
    ViewFailed,
)

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_FOUND: Final = 3
EXIT_REFUSED: Final = 4
EXIT_UNREACHABLE: Final = 5
EXIT_TIMEOUT: Final = 6
EXIT_DAMAGED: Final = 10

LOOK_AT_STORE: Final = "look at its store: pocketmq store verify ./store"
"""What to do about a broker that met damage."""

FAILED_CODES: Final = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS", "CANCELLED"})
"""gRPC statuses of an error that is neither the request's nor the moment's."""


class Failure(click.ClickException):
    """An error to show; `next_step` is what to do about it, "" when the text says it."""

    def __init__(self, text: str, exit_code: int, next_step: str = "") -> None:
        super().__init__(text)
        self.exit_code = exit_code  # type: ignore[misc]
        self.next_step = next_step

    def show(self, file: TextIO | None = None) -> None:  # type: ignore[override]
        """Write the error to standard error."""
        click.echo(f"Error: {self.message}", file=file, err=True)
        if self.next_step:
            click.echo(f"Next:  {self.next_step}", file=file, err=True)


def only_planned(text: str) -> Failure:
    """Return what ends a command that showed what it would do, and was not told --yes."""
    return Failure(f"nothing was done: {text}", EXIT_REFUSED, "add --yes to do it")


def failure_of_client(error: ClientError) -> Failure:
    """Return what a broker's answer, or its silence, means for the command."""
    if isinstance(error, Unreachable):
        next_step = "pocketmq serve --store ./store, or name the broker: --endpoint HOST:PORT"
        return Failure(error.message, EXIT_UNREACHABLE, next_step)
    if isinstance(error, DeadlineExceeded):
        next_step = "look at the broker's log; whether the request took effect is unknown"
        return Failure(error.message, EXIT_TIMEOUT, next_step)
    step = _NEXT_STEPS.get(error.reason)
    next_step = step(error.fields) if step else ""
    if not next_step and error.retryable:
        next_step = "try again"
    if error.code == "NOT_FOUND":
        return Failure(error.message, EXIT_NOT_FOUND, next_step)
    code = EXIT_FAILED if error.code in FAILED_CODES else EXIT_REFUSED
    return Failure(error.message, code, next_step)


def failure_of_broker(error: BrokerError) -> Failure:
    """Return what an error met in this process means for the command."""
    return Failure(str(error), _exit_code(error), _LOCAL_STEPS.get(type(error), ""))


def _exit_code(error: BrokerError) -> int:
    if isinstance(error, IllegalConfig):
        return EXIT_USAGE
    if isinstance(error, Corruption | StoreGap):
        return EXIT_DAMAGED
    if isinstance(error, StoreFailed | ViewFailed):
        return EXIT_FAILED
    return EXIT_REFUSED if isinstance(error, StorageError | RequestError) else EXIT_FAILED


_NEXT_STEPS: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {
    "TopicExists": lambda fields: f"pocketmq topic info {fields.get('topic', 'NAME')}",
    "GroupExists": lambda fields: f"pocketmq group info {fields.get('group', 'NAME')}",
    "QueueOutOfRange": lambda fields: f"pocketmq topic info {fields.get('topic', 'NAME')}",
    "MessageNotFound": lambda fields: "look it up by a key: pocketmq msg by-key TOPIC KEY",
}
"""What to do next, by the reason the broker gave and the fields that came with it."""

_LOCAL_STEPS: Final[Mapping[type[BrokerError], Any]] = {
    StoreLocked: "stop the other process; the offline commands can look on with --read-only",
    IllegalConfig: "see conf/broker.toml for all settings and their defaults",
    NotAStore: "name the directory that holds commitlog/",
}
