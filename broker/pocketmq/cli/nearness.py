"""Names near a mistyped topic, group or user, for the next step of an error."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final

import click

from pocketmq.cli.failures import failure_of_client
from pocketmq.cli.output import Exit, Failure
from pocketmq.client import ClientError, Unreachable

NEARNESS: Final = 0.75
"""Minimum similarity of two names, as difflib measures it (0 to 1)."""
FIELDS: Final = {"TopicNotFound": "topic", "GroupNotFound": "group", "UserNotFound": "user"}
"""Field with the unknown name, by reason."""


def failure_at(
    error: Exception, command_path: str, context: str, names: Callable[[str], list[str]]
) -> click.ClickException | None:
    """Returns the failure for a client's error, with a near name if a name is unknown.

    context   name of the context with the broker's address, "" for none
    names     returns the names of a kind: "topic", "group" or "user"
    Returns   None if the error is no ClientError
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
    if failure.exit_code != Exit.NOT_FOUND or error.reason not in FIELDS:
        return failure
    kind = FIELDS[error.reason]
    near = nearest(error.fields.get(kind, ""), names(kind))
    if near:
        otherwise = f" If not: {failure.next_step}" if failure.next_step else ""
        failure.next_step = f"did you mean {near}?{otherwise}"
    return failure


def nearest(name: str, names: Iterable[str]) -> str:
    """Returns the name most like a mistyped one, "" for none."""
    by_lower_case = {other.lower(): other for other in names if other != name}
    near = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=NEARNESS)
    return by_lower_case[near[0]] if near else ""
