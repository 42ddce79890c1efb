"""Completes the names of a broker's topics, groups and users.

A shell runs the command itself for each completion. If the broker does not answer within
TIMEOUT_MS, no name is offered: a shell shows no errors during a completion, and its user should not
wait.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from pocketmq.cli.completing import Complete, beginning
from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.target import target_of
from pocketmq.client import ClientError

Command = TypeVar("Command", bound=Callable[..., Any])

TIMEOUT_MS: Final = 1_000
"""Longest wait for the broker's names."""


def _names(kind: str) -> Complete:
    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return beginning(_asked(ctx, kind, incomplete), incomplete)

    return complete


def _asked(ctx: click.Context, kind: str, incomplete: str) -> list[str]:
    """Returns the broker's names of a kind; [] if the call fails.

    System names are included only if `incomplete` begins as they do: with a capital, % or r.
    """
    is_system = incomplete[:1].isupper() or incomplete[:1] in ("%", "r")
    try:
        target = target_of(ctx, ctx.params)
        with BrokerConnection(*target[:3], timeout_ms=TIMEOUT_MS) as broker:
            return broker.names(kind, with_system=is_system)
    except (ClientError, click.ClickException, OSError):
        return []


def resources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes a resource of a grant: topic:NAME, group:NAME, cluster:NAME."""
    kind, separator, _ = incomplete.partition(":")
    if not separator:
        return beginning(("topic:", "group:", "cluster:", "*"), incomplete)
    found = _asked(ctx, kind, "") if kind in ("topic", "group") else []
    return beginning((f"{kind}:{name}" for name in [*found, "*"]), incomplete)


topics: Final = _names("topic")
groups: Final = _names("group")
users: Final = _names("user")


def topic_argument(name: str = "topic", **given: Any) -> Callable[[Command], Command]:
    """Returns the decorator of an argument that is a topic's name."""
    return click.argument(name, shell_complete=topics, **given)


def group_argument(name: str = "group", **given: Any) -> Callable[[Command], Command]:
    """Returns the decorator of an argument that is a consumer group's name."""
    return click.argument(name, shell_complete=groups, **given)


def user_argument(name: str = "user", **given: Any) -> Callable[[Command], Command]:
    """Returns the decorator of an argument that is a user's access key."""
    return click.argument(name, shell_complete=users, **given)
