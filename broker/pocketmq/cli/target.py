"""The broker that a command calls, from its options, its environment and the user's contexts.

The first of these that has an address names the broker: options, --context, environment,
POCKETMQ_CONTEXT, the context in use, the default. Credentials come from the first that has an
access key or a secret; the context in use gives its credentials only to its own address. If none
has, and no context gave the address, the credentials of the container's first admin are used.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from pocketmq.cli.completing import contexts
from pocketmq.cli.context_file import Context, read_contexts
from pocketmq.cli.options import DEFAULT_ENDPOINT, ENDPOINT, FILE
from pocketmq.cli.vocabulary import CONNECTION, option

Command = TypeVar("Command", bound=Callable[..., Any])

COMMANDLINE: Final = ParameterSource.COMMANDLINE
_GIVE_SECRET: Final = "set POCKETMQ_SECRET_KEY, or add --secret-key-file FILE"
CREDENTIALS: Final = frozenset({"access_key", "secret_key", "secret_key_file"})
NAMES: Final = CREDENTIALS | {"endpoint", "context"}
"""Parameters of the options below."""

endpoint_option: Final = option(
    "--endpoint", envvar="POCKETMQ_ENDPOINT", show_envvar=True, type=ENDPOINT, heading=CONNECTION,
    help=f"Address of the broker; PORT is 8081 by default.  [default: {DEFAULT_ENDPOINT}]",
)  # fmt: skip
access_key_option: Final = option(
    "--access-key", envvar="POCKETMQ_ACCESS_KEY", show_envvar=True, heading=CONNECTION,
    help="Access key of the user, if the broker checks access.",
)  # fmt: skip
secret_key_option: Final = option(
    "--secret-key", envvar="POCKETMQ_SECRET_KEY", show_envvar=True, heading=CONNECTION,
    help="Secret of the user; a command line is visible to other users of this machine.",
)  # fmt: skip
secret_key_file_option: Final = option(
    "--secret-key-file", envvar="POCKETMQ_SECRET_KEY_FILE", type=FILE, show_envvar=True,
    heading=CONNECTION, help="File with the user's secret.",
)  # fmt: skip
context_option: Final = option(
    "--context", envvar="POCKETMQ_CONTEXT", show_envvar=True, metavar="NAME", heading=CONNECTION,
    shell_complete=contexts, help="Connection that `pocketmq context add` keeps under this name.",
)  # fmt: skip


def connection_options(command: Command) -> Command:
    """Adds the options that choose a broker."""
    for each in (
        context_option, secret_key_file_option, secret_key_option, access_key_option,
        endpoint_option,
    ):  # fmt: skip
        command = each(command)
    return command


class Target(NamedTuple):
    """A broker to call; `context` names the context that the address was taken from, "": none."""

    endpoint: str
    access_key: str = ""
    secret_key: str = ""
    context: str = ""


def target_of(ctx: click.Context, given: Mapping[str, Any]) -> Target:
    """Returns the target of a command with the options above.

    given    values of these options
    Errors   click.UsageError: the secret's file cannot be read, or an access key has no secret;
             Failure: the context is unknown, or the contexts cannot be read
    """
    contexts = read_contexts()
    name = given.get("context") or ""
    named = (name, contexts.named(name) if name else Context())
    secret = given.get("secret_key") or secret_of(given.get("secret_key_file"))
    direct = ("", Context(given.get("endpoint") or "", given.get("access_key") or "", secret))
    # An option is stronger than --context, which is stronger than the environment.
    is_option = {each for each in NAMES if ctx.get_parameter_source(each) is COMMANDLINE}
    weaker = [named, direct] if "context" in is_option else [direct, named]
    by_endpoint = [direct, *weaker] if "endpoint" in is_option else weaker
    by_user = [direct, *weaker] if is_option & CREDENTIALS else weaker
    current = (contexts.current, contexts.by_name.get(contexts.current, Context()))
    chosen, found = next((one for one in by_endpoint if one[1].endpoint), current)
    users = [*by_user, current] if found is current[1] else by_user
    user = next((one for _, one in users if one.access_key or one.secret_key), Context())
    if user == Context() and not chosen:
        user = admin_of_container(os.environ)
    if user.access_key and not user.secret_key:
        raise click.UsageError(f"access key {user.access_key!r} has no secret here; {_GIVE_SECRET}")
    endpoint = found.endpoint or DEFAULT_ENDPOINT
    return Target(endpoint, user.access_key, user.secret_key, chosen)


def admin_of_container(environment: Mapping[str, str]) -> Context:
    """Returns the credentials of a container's first admin; an empty Context if it has no secret.

    Thus commands inside a container need no keys beyond those it was started with.
    """
    secret = environment.get("POCKETMQ_ADMIN_SECRET", "")
    file = environment.get("POCKETMQ_ADMIN_SECRET_FILE", "")
    if not secret and not file:
        return Context()
    name = environment.get("POCKETMQ_ADMIN_USER", "") or "admin"
    return Context("", name, secret or secret_of(Path(file)))


def secret_of(file: Path | None) -> str:
    """Returns the secret in a file; "" for no file.

    Errors   click.UsageError: the file cannot be read, or is empty
    """
    if file is None:
        return ""
    try:
        secret = file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{file} cannot be read: {error}") from error
    if not secret:
        raise click.UsageError(f"{file} is empty: it must contain the secret")
    return secret
