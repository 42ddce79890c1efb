"""`pocketmq user`: users that may call."""

import secrets
from pathlib import Path
from typing import Final

import click

from pocketmq.cli.connection import BrokerConnection, ConnectedGroup, secret_of
from pocketmq.cli.options import (
    FILE,
    access_key_option,
    examples,
    secret_key_file_option,
    secret_key_option,
    yes_option,
)
from pocketmq.cli.output import Output, columns, only_planned, talk
from pocketmq.cli.rosters import roster_of, store_option
from pocketmq.format.signature import page_token_of

SECRET_BYTES: Final = 16
"""Of a secret that is made here: 32 characters, and none that a shell or an option could read."""
COLUMNS: Final = columns("access_key", "admin", "enabled")

secret_file_option: Final = click.option(
    "--secret-file", type=FILE, help="File with the secret; without it one is made."
)


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq user add admin --admin --store ./store     before the first start",
        "pocketmq user add orders-app",
        "pocketmq user ls",
    ),
)
def user() -> None:
    """Users by their access keys: the callers of a broker that checks access.

    `pocketmq acl` sets their permissions; admins may do everything. A secret is shown once, when it
    is made.
    """


@user.asks(
    "Make a user.",
    "pocketmq user add admin --admin --store ./store",
    "pocketmq user add orders-app --secret-file ./orders-app.secret",
)
@click.argument("key")
@click.option("--admin", is_flag=True, help="Make it an admin, who may do everything.")
@secret_file_option
@store_option
def add(
    broker: BrokerConnection, out: Output, key: str, admin: bool, secret_file: Path | None,
    store: Path | None,
) -> None:  # fmt: skip
    """Make a user, and show the secret if it is made here: it is not shown again."""
    secret = secret_of(secret_file) or secrets.token_hex(SECRET_BYTES)
    made = roster_of(broker, store).add(key, secret, is_admin=admin)
    out.show(made if secret_file else {**made, "secret": secret})
    if not admin:
        talk(f"It may do nothing yet: pocketmq acl grant {key} pub,sub topic:NAME")


@user.asks("List users by their keys.", "pocketmq user ls -o jsonl")
@store_option
def ls(broker: BrokerConnection, out: Output, store: Path | None) -> None:
    """List users by their keys, without their secrets."""
    out.table(roster_of(broker, store).users(), COLUMNS)


@user.asks(
    "Change a user.",
    "pocketmq user edit orders-app --enabled false",
    "pocketmq user edit orders-app --new-secret",
)
@click.argument("key")
@click.option("--admin/--no-admin", default=None, help="Whether it is an admin: true or false.")
@click.option("--enabled", type=click.BOOL, help="Whether it is enabled: true or false.")
@click.option("--new-secret", is_flag=True, help="Make a new secret, and show it.")
@secret_file_option
@store_option
def edit(
    broker: BrokerConnection, out: Output, key: str, admin: bool | None, enabled: bool | None,
    new_secret: bool, secret_file: Path | None, store: Path | None,
) -> None:  # fmt: skip
    """Change the given settings of a user, at once, also for connected clients."""
    if new_secret and secret_file:
        raise click.UsageError("--new-secret and --secret-file exclude each other")
    made = secrets.token_hex(SECRET_BYTES) if new_secret else None
    secret = made or secret_of(secret_file) or None
    changed = roster_of(broker, store).change(key, secret, admin, enabled)
    out.show({**changed, "secret": made} if made else changed)


@user.command(epilog=examples("pocketmq user token --access-key app --secret-key-file ./secret"))
@access_key_option
@secret_key_option
@secret_key_file_option
def token(access_key: str, secret_key: str, secret_key_file: Path | None) -> None:
    """Print the bearer token by which a user reads pages: /metrics, /version.

    The token does not reveal the secret, so it may be sent without TLS: a reader of the connection
    can read the same pages, and nothing else. No broker is asked. A new secret makes a new token,
    and ends this one.
    """
    secret = secret_key or secret_of(secret_key_file)
    if not access_key or not secret:
        raise click.UsageError("a token is made of both: --access-key, and --secret-key-file")
    click.echo(page_token_of(access_key, secret))


@user.asks("Remove a user and its grants.", "pocketmq user rm orders-app --yes")
@click.argument("key")
@yes_option
@store_option
def rm(broker: BrokerConnection, out: Output, key: str, yes: bool, store: Path | None) -> None:
    """Remove a user and its grants; without --yes only show what would be removed."""
    roster = roster_of(broker, store)
    plan = {"access_key": key, "grants": roster.grants(key)}
    if yes:
        roster.remove(key)
    out.show(plan)
    if not yes:
        raise only_planned(f"user {key} is still there")
