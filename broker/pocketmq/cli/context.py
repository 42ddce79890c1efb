"""`pocketmq context`: connections kept under a name."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from pocketmq.cli.completing import contexts as complete_name
from pocketmq.cli.context_file import Context, Contexts, read_contexts, write_contexts
from pocketmq.cli.groups import NamingGroup
from pocketmq.cli.options import DEFAULT_ENDPOINT, ENDPOINT, FILE, examples, form_option
from pocketmq.cli.output import Exit, Failure, Output, columns, talk
from pocketmq.cli.target import secret_of

ENDPOINT_VARIABLE: Final = "POCKETMQ_ENDPOINT"
COLUMNS: Final = columns("name", "current", "endpoint", "access_key")


@click.group(
    cls=NamingGroup,
    epilog=examples(
        "pocketmq context add prod --endpoint tls://mq.example:8081 --access-key ops",
        "pocketmq context use prod",
        "pocketmq topic ls --context prod",
    ),
)
def context() -> None:
    """Keep connections under names: address, access key and secret of a broker.

    A context in use applies to every command that names no other broker. Options, --context and
    POCKETMQ_ENDPOINT take precedence. Contexts are in ~/.config/pocketmq/contexts.json, which only
    its user can read.
    """


@context.command(
    epilog=examples(
        "pocketmq context add local --endpoint 127.0.0.1:8081",
        "pocketmq context add prod --endpoint tls://mq.example:8081 --access-key ops",
        "pocketmq context add prod --endpoint mq:8081 --access-key ops --secret-key-file ./secret",
    )
)
@click.argument("name")
@click.option(
    "--endpoint", type=ENDPOINT, default=DEFAULT_ENDPOINT, show_default=True,
    help="Address of the broker; PORT is 8081 by default.",
)  # fmt: skip
@click.option("--access-key", default="", help="Access key of the user.")
@click.option(
    "--secret-key-file", type=FILE,
    help="File with the user's secret [default: ask for it, without showing it].",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Replace an existing context.")
@form_option
def add(
    name: str, endpoint: str, access_key: str, secret_key_file: Path | None, yes: bool, out: Output
) -> None:
    """Keep a connection under NAME. The first context is used from then on.

    The secret is copied into the file of contexts; a change of the broker's secret needs a new
    `add --yes`.
    """
    if not name or not name.isprintable() or name != name.strip():
        raise click.UsageError(f"{name!r} is no name: it is empty or has blanks around it")
    contexts = read_contexts()
    if name in contexts.by_name and not yes:
        raise Failure(f"context {name!r} exists already", Exit.REFUSED, "replace it with --yes")
    if secret_key_file is not None and not access_key:
        raise click.UsageError("--secret-key-file requires --access-key")
    secret = secret_of(secret_key_file)
    if access_key and not secret:
        secret = _asked(access_key)
    contexts.by_name[name] = Context(endpoint, access_key, secret)
    _write(contexts._replace(current=contexts.current or name), name, out)


def _asked(access_key: str) -> str:
    """Returns the secret that is typed, or the first line of standard input."""
    if sys.stdin.isatty():
        return str(click.prompt(f"Secret of {access_key}", hide_input=True, err=True))
    secret = sys.stdin.readline().strip()
    if not secret:
        raise click.UsageError(
            "there is no terminal to ask for the secret: add --secret-key-file FILE"
        )
    return secret


@context.command(epilog=examples("pocketmq context ls"))
@form_option
def ls(out: Output) -> None:
    """List contexts by name, without their secrets."""
    out.table(_documents(read_contexts()), COLUMNS, none="no contexts")


@context.command(epilog=examples("pocketmq context use prod", "pocketmq context use --none"))
@click.argument("name", required=False, shell_complete=complete_name)
@click.option("--none", is_flag=True, help=f"Use no context: {DEFAULT_ENDPOINT} by default.")
@form_option
def use(name: str | None, none: bool, out: Output) -> None:
    """Use the context NAME in commands that name no other broker."""
    if (name is None) != none:
        raise click.UsageError("give a NAME, or --none")
    contexts = read_contexts()
    if name is not None:
        contexts.named(name)
    _write(contexts._replace(current=name or ""), name or "", out)


@context.command(epilog=examples("pocketmq context rm prod"))
@click.argument("name", shell_complete=complete_name)
@form_option
def rm(name: str, out: Output) -> None:
    """Remove the context NAME, and its secret from the file."""
    contexts = read_contexts()
    contexts.named(name)
    shown = next(one for one in _documents(contexts) if one["name"] == name)
    del contexts.by_name[name]
    write_contexts(contexts._replace(current="" if contexts.current == name else contexts.current))
    out.show(shown)


def _write(contexts: Contexts, name: str, out: Output) -> None:
    """Writes contexts, and prints the named one."""
    path = write_contexts(contexts)
    for document in _documents(contexts):
        if document["name"] == name:
            out.show(document)
    talk(f"Wrote {path}")
    if name and name == contexts.current and os.environ.get(ENDPOINT_VARIABLE):
        talk(f"Note: {ENDPOINT_VARIABLE} is set and comes before contexts: unset it to use {name}")


def _documents(contexts: Contexts) -> Iterator[dict[str, Any]]:
    for name, one in sorted(contexts.by_name.items()):
        yield {
            "name": name,
            "current": name == contexts.current,
            "endpoint": one.endpoint,
            "access_key": one.access_key,
        }
