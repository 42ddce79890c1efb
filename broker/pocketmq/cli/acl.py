"""`pocketmq acl`: permissions of users."""

from pathlib import Path
from typing import Final

import click

from pocketmq.cli.broker_names import resources, user_argument
from pocketmq.cli.completing import actions
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.options import examples
from pocketmq.cli.output import Column, Output, columns
from pocketmq.cli.rosters import roster_of, store_option

COLUMNS: Final = columns(
    "user",
    "decision",
    Column("actions", lambda row: ",".join(row["actions"])),
    "resource",
    Column("sources", lambda row: ",".join(row["sources"])),
)

resource_argument: Final = click.argument("resource", shell_complete=resources)
deny_option: Final = click.option(
    "--deny", is_flag=True, help="Deny the actions; denials override grants."
)


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq acl grant orders-app pub 'topic:orders-*'",
        "pocketmq acl grant billing sub topic:orders",
        "pocketmq acl grant billing sub group:billing",
        "pocketmq acl explain billing sub topic:orders",
    ),
)
def acl() -> None:
    """Grant, deny, list and explain permissions of users on topics, groups and the cluster.

    ACTIONS are pub, sub, create, update, delete, get, list and all, separated by commas. A RESOURCE
    is topic:NAME, group:NAME or cluster:NAME. NAME* matches all names with this prefix, and *
    matches everything. Actions that no grant allows are denied.
    """


@acl.asks(
    "Grant or deny actions to a user.",
    "pocketmq acl grant orders-app pub 'topic:orders-*' --source 10.0.0.0/8",
    "pocketmq acl grant orders-app all topic:orders-audit --deny",
)
@user_argument()
@click.argument("actions", shell_complete=actions)
@resource_argument
@deny_option
@click.option(
    "--source", "sources", multiple=True, metavar="NETWORK",
    help="Only from this address or network; may be repeated.",
)  # fmt: skip
@store_option
def grant(
    broker: BrokerConnection, out: Output, user: str, actions: str, resource: str, deny: bool,
    sources: tuple[str, ...], store: Path | None,
) -> None:  # fmt: skip
    """Grant USER ACTIONS on RESOURCE; with --deny, deny them regardless of other grants.

    Actions are added to those of an existing grant for the same resource.
    """
    roster = roster_of(broker, store)
    out.show(roster.grant(user, actions, resource, is_denied=deny, sources=sources))


@acl.asks(
    "Remove actions from a user's grants.",
    "pocketmq acl revoke orders-app pub 'topic:orders-*'",
    "pocketmq acl revoke orders-app all topic:orders-audit --deny",
)
@user_argument()
@click.argument("actions", shell_complete=actions)
@resource_argument
@deny_option
@store_option
def revoke(
    broker: BrokerConnection, out: Output, user: str, actions: str, resource: str, deny: bool,
    store: Path | None,
) -> None:  # fmt: skip
    """Remove ACTIONS from USER's grants for RESOURCE; the action `all` removes every action.

    RESOURCE is compared as text, without matching patterns. The remaining grants for it are
    printed.
    """
    left = roster_of(broker, store).revoke(user, actions, resource, is_denied=deny)
    out.table(left, COLUMNS, none=f"no grant of {user} for {resource} is left")


@acl.asks("List grants.", "pocketmq acl ls orders-app")
@user_argument(default="")
@store_option
def ls(broker: BrokerConnection, out: Output, user: str, store: Path | None) -> None:
    """List the grants of USER, or of all users."""
    out.table(roster_of(broker, store).grants(user), COLUMNS, none="no grants")


@acl.asks(
    "Check whether a user may perform an action, and why.",
    "pocketmq acl explain orders-app pub topic:orders-eu",
)
@user_argument()
@click.argument("action", shell_complete=actions)
@resource_argument
@click.option(
    "--source", default="", metavar="ADDRESS", help="Address of the caller [default: 127.0.0.1]."
)
@store_option
def explain(
    broker: BrokerConnection, out: Output, user: str, action: str, resource: str, source: str,
    store: Path | None,
) -> None:  # fmt: skip
    """Print whether USER may perform ACTION on RESOURCE, and which grant decides."""
    out.show(roster_of(broker, store).explain(user, action, resource, source))
