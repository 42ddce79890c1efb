"""`pocketmq user`: users of a broker that checks access."""

import secrets
from pathlib import Path
from typing import Any, Final

import click

from pocketmq.cli.broker_names import user_argument
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.options import FILE, examples, yes_option
from pocketmq.cli.output import Output, columns, only_planned, talk
from pocketmq.cli.rosters import BrokerRoster, StoreRoster, roster_of, store_option
from pocketmq.cli.target import (
    access_key_option,
    context_option,
    secret_key_file_option,
    secret_key_option,
    secret_of,
    target_of,
)
from pocketmq.cli.vocabulary import HeadedCommand
from pocketmq.format.signature import page_token_of
from pocketmq.model.access import SECRET_LENGTH_SAFE
from pocketmq.model.errors import LastAdmin

SECRET_BYTES: Final = 16
"""Bytes of a generated secret: 32 hex digits, which shells and option parsers do not interpret."""
UNCHECKED: Final = (
    "Note: this broker checks no users yet: it is only reached from this machine, or access.check "
    "is off; --set access.check=users of pocketmq serve changes that"
)
COLUMNS: Final = columns("access_key", "admin", "enabled")

secret_file_option: Final = click.option(
    "--secret-file", type=FILE, help="File with the user's secret."
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
    """Create, change, list and remove users of a broker that checks access.

    An access key identifies a user. `pocketmq acl` sets permissions; admins may do everything. A
    generated secret is shown only once.
    """


@user.asks(
    "Create a user.",
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
    """Create a user. Without --secret-file a secret is generated, and shown only once."""
    secret = secret_of(secret_file) or secrets.token_hex(SECRET_BYTES)
    roster = roster_of(broker, store)
    made = roster.add(key, secret, is_admin=admin)
    out.show(made if secret_file else {**made, "secret": secret})
    _report_short(key, secret)
    if not admin:
        talk(f"The user has no permissions yet: pocketmq acl grant {key} pub,sub topic:NAME")
    _report_unchecked(roster)


def _report_short(key: str, secret: str | None) -> None:
    if secret and len(secret) < SECRET_LENGTH_SAFE:
        long = f"make a long one: pocketmq user edit {key} --new-secret"
        talk(f"Note: a secret of {len(secret)} characters can be guessed; {long}")


def _report_unchecked(roster: BrokerRoster | StoreRoster) -> None:
    """Reports that a running broker does not check users; a start decides that for a store."""
    if isinstance(roster, BrokerRoster) and not roster.is_checked:
        talk(UNCHECKED)


@user.asks("List users by access key.", "pocketmq user ls -o jsonl")
@store_option
def ls(broker: BrokerConnection, out: Output, store: Path | None) -> None:
    """List users by access key, without their secrets."""
    roster = roster_of(broker, store)
    out.table(roster.users(), COLUMNS, none="no users")
    _report_unchecked(roster)


@user.asks(
    "Change a user.",
    "pocketmq user edit orders-app --enabled false",
    "pocketmq user edit orders-app --new-secret",
)
@user_argument("key")
@click.option("--admin/--no-admin", default=None, help="Grant or withdraw admin permission.")
@click.option("--enabled", type=click.BOOL, help="Whether it is enabled: true or false.")
@click.option("--new-secret", is_flag=True, help="Generate a new secret, and show it.")
@secret_file_option
@store_option
def edit(
    broker: BrokerConnection, out: Output, key: str, admin: bool | None, enabled: bool | None,
    new_secret: bool, secret_file: Path | None, store: Path | None,
) -> None:  # fmt: skip
    """Change the given settings of a user, with immediate effect on connected clients."""
    if new_secret and secret_file:
        raise click.UsageError("--new-secret and --secret-file exclude each other")
    made = secrets.token_hex(SECRET_BYTES) if new_secret else None
    secret = made or secret_of(secret_file) or None
    changed = roster_of(broker, store).change(key, secret, admin, enabled)
    out.show({**changed, "secret": made} if made else changed)
    _report_short(key, secret)


@user.command(
    cls=HeadedCommand,
    epilog=examples("pocketmq user token --access-key app --secret-key-file ./secret"),
)
@context_option
@access_key_option
@secret_key_option
@secret_key_file_option
def token(**given: Any) -> None:
    """Print the bearer token with which a user reads the pages /metrics and /version.

    The token does not reveal the secret, so it may be sent without TLS: an eavesdropper can read
    the same pages, and nothing else. The command needs no broker. A new secret invalidates the
    token.
    """
    user = target_of(click.get_current_context(), given)
    if not user.access_key or not user.secret_key:
        raise click.UsageError(
            "a token needs both, a key and its secret: set POCKETMQ_ACCESS_KEY and "
            "POCKETMQ_SECRET_KEY, or add --access-key and --secret-key-file"
        )
    click.echo(page_token_of(user.access_key, user.secret_key))


@user.asks("Remove a user and its grants.", "pocketmq user rm orders-app --yes")
@user_argument("key")
@yes_option
@store_option
def rm(broker: BrokerConnection, out: Output, key: str, yes: bool, store: Path | None) -> None:
    """Remove a user and its grants; without --yes only show what would be removed."""
    roster = roster_of(broker, store)
    plan = {"access_key": key, "grants": roster.grants(key)}
    if yes:
        roster.remove(key)
    out.show(plan)
    if not yes and roster.must_stay(key):
        raise LastAdmin(user=key)
    if not yes:
        raise only_planned(f"user {key} would be removed")
