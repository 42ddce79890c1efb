"""What an error means for a command: its exit code, and what to do next."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.cli.output import Exit, Failure
from broker.client.values import ClientError, DeadlineExceeded, Unreachable
from broker.model.errors import (
    BrokerError,
    Corruption,
    IllegalConfig,
    LogMissing,
    NotAStore,
    RequestError,
    StorageError,
    StoreFailed,
    StoreGap,
    StoreLocked,
    ViewFailed,
)

FAILED_CODES: Final = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS", "CANCELLED"})
"""gRPC statuses of an error that is neither the request's nor the moment's."""


def failure_of_client(error: ClientError, command: str = "") -> Failure:
    """Return what a broker's answer, or its silence, means for the command.

    command   the first word of it
    """
    if isinstance(error, Unreachable):
        next_step = "pocketmq serve --store ./store, or name the broker: --endpoint HOST:PORT"
        return Failure(error.message, Exit.UNREACHABLE, next_step)
    if isinstance(error, DeadlineExceeded) or error.code == "DEADLINE_EXCEEDED":
        next_step = "look at the broker's log; whether the request took effect is unknown"
        return Failure(error.message, Exit.TIMEOUT, next_step)
    step = _NEXT_STEPS.get(error.reason)
    next_step = step(error.fields) if step else ""
    if not next_step and error.retryable:
        next_step = "try again"
    if error.code == "NOT_FOUND":
        text, _, advice = error.message.partition(CREATE_IT)
        # Who looks, changes or removes has named what is not there: creating it is of no help.
        next_step = advice if advice and command == "produce" else next_step
        return Failure(text, Exit.NOT_FOUND, next_step)
    code = Exit.FAILED if error.code in FAILED_CODES else Exit.REFUSED
    return Failure(error.message, code, next_step)


def failure_of_broker(error: BrokerError) -> Failure:
    """Return what an error met in this process means for the command."""
    return Failure(str(error), _exit_code(error), _LOCAL_STEPS.get(type(error), ""))


def _exit_code(error: BrokerError) -> int:
    if isinstance(error, IllegalConfig):
        return Exit.USAGE
    if isinstance(error, Corruption | StoreGap | LogMissing):
        return Exit.DAMAGED
    if isinstance(error, StoreFailed | ViewFailed):
        return Exit.FAILED
    return Exit.REFUSED if isinstance(error, StorageError | RequestError) else Exit.FAILED


CREATE_IT: Final = "; create it: "
_NEXT_STEPS: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {
    "TopicNotFound": lambda fields: "pocketmq topic ls",
    "GroupNotFound": lambda fields: "pocketmq group ls",
    "TopicExists": lambda fields: f"pocketmq topic info {fields.get('topic', 'NAME')}",
    "GroupExists": lambda fields: f"pocketmq group info {fields.get('group', 'NAME')}",
    "QueueOutOfRange": lambda fields: f"pocketmq topic info {fields.get('topic', 'NAME')}",
    "MessageNotFound": lambda fields: "look it up by a key: pocketmq msg by-key TOPIC KEY",
}
"""What to do next, by the reason the broker gave and the fields that came with it."""

_LOCAL_STEPS: Final[Mapping[type[BrokerError], Any]] = {
    StoreLocked: "stop the other process; the offline commands can look on with --read-only",
    IllegalConfig: "pocketmq config init prints all settings with their defaults",
    NotAStore: "name the directory that holds commitlog/",
}
