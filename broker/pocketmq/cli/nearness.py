"""Names near a mistyped topic, group or user, for the next step of an error."""

from collections.abc import Callable
from typing import Final

import click

from pocketmq.cli.failures import failure_of_client
from pocketmq.cli.output import Exit, Failure, typed
from pocketmq.client import ClientError, Unreachable
from pocketmq.model.errors import Corruption
from pocketmq.model.nearness import NEAR, nearest

VERIFY: Final = (
    "check the store on the broker's machine: pocketmq store verify {directory} --read-only"
)
FIELDS: Final = {"TopicNotFound": "topic", "GroupNotFound": "group", "UserNotFound": "user"}
"""Field with the unknown name, by reason."""


def failure_at(
    error: Exception, command_path: str, context: str, names: Callable[[str], list[str]],
    directory: Callable[[], str],
) -> click.ClickException | None:  # fmt: skip
    """Returns the failure for a client's error, with a near name if a name is unknown.

    context     name of the context with the broker's address, "" for none
    names       returns the names of a kind: "topic", "group" or "user"
    directory   returns the broker's store directory, DIR if the broker does not report it
    Returns     None if the error is no ClientError
    """
    if not isinstance(error, ClientError):
        return None
    failure = failure_of_client(error, command_path.split()[1])
    if (
        context
        and isinstance(error, Unreachable)
        and not error.is_uncertain
        and not error.has_cause
    ):
        step = "start the broker, or choose another context: pocketmq context ls"
        return Failure(f"{failure.message} (context {context})", failure.exit_code, step)
    if error.reason == Corruption.__name__:
        failure.next_step = VERIFY.format(directory=typed(directory()))
    if failure.exit_code != Exit.NOT_FOUND or error.reason not in FIELDS:
        return failure
    kind = FIELDS[error.reason]
    near = nearest(error.fields.get(kind, ""), names(kind), NEAR)
    if near:
        otherwise = f" If not: {failure.next_step}" if failure.next_step else ""
        failure.next_step = f"did you mean {near}?{otherwise}"
    return failure
