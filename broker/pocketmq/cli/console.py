"""`pocketmq console`: the web console of a broker, or of a store directory."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pocketmq.cli.options import PATH, examples
from pocketmq.cli.output import Exit, Failure, talk
from pocketmq.cli.target import NAMES, connection_options, target_of
from pocketmq.config.addresses import split_address
from pocketmq.config.texts import address_from_text

if TYPE_CHECKING:
    from socket import socket

    from pocketmq.tools.store_browser import StoreBrowser

LISTEN: Final = "127.0.0.1:5558"
MISSING: Final = "the console's packages are not installed"
INSTALL: Final = "pip install '/path/to/pocketmq[console]'"


@click.command(
    epilog=examples(
        "pocketmq console",
        "pocketmq console --endpoint mq.example:8081",
        "pocketmq console ./store            a directory, without a broker",
        "pocketmq console --listen 127.0.0.1:0",
    )
)
@click.argument("directory", metavar="[DIR]", required=False, type=PATH)
@click.option(
    "--listen", "address", metavar="HOST:PORT", default=LISTEN, show_default=True,
    help="Address of the console; port 0: any.",
)  # fmt: skip
@click.option(
    "--insecure", is_flag=True,
    help="Listen beyond loopback without TLS; secrets can be read on the network.",
)  # fmt: skip
@click.option(
    "--changes-need-login", "needs_login", is_flag=True,
    help="Show pages to everyone, but accept changes only after a login.",
)  # fmt: skip
@connection_options
def console(
    directory: Path | None, address: str, insecure: bool, needs_login: bool, **given: Any
) -> None:  # fmt: skip
    """Serve pages that show and change a broker, or that show DIR, until SIGTERM or Ctrl-C.

    Users log in with their access key and secret, and may do what the broker grants them. A broker
    that checks no users needs no login. The console ignores --access-key and --secret-key.

    The pages of DIR show the files of a store, stopped or in use. Only a repair that the user
    confirms changes files. The printed URL contains the token that opens the pages.

    When it is ready, it prints one line of JSON with its address to standard output.
    """
    target = target_of(click.get_current_context(), {name: given.pop(name) for name in NAMES})
    try:
        from pocketmq.console import server
    except ImportError as error:
        raise Failure(MISSING, Exit.FAILED, INSTALL) from error
    listener = _listener(address, insecure)
    browser = None if directory is None else _browser(directory)

    def started(path: str) -> None:
        url = f"http://{server.address_of(listener)}{path}"
        click.echo(json.dumps({"console": url}))
        if sys.stdout.isatty():
            talk(f"Open {url}")

    served = server.Served(target.endpoint, browser=browser, needs_login=needs_login)
    server.run(served, listener, started)


def _listener(address: str, insecure: bool) -> "socket":
    """Returns a listening socket.

    Errors   Failure, UsageError: the address is illegal, insecure or in use
    """
    from pocketmq.console import server

    try:
        host, port = split_address(address_from_text(address))
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from error
    is_local = server.is_loopback(host)
    if not is_local and not insecure:
        text = f"{host} is reached from other machines, and the console has no TLS"
        raise Failure(text, Exit.REFUSED, "listen on 127.0.0.1, or accept it with --insecure")
    try:
        return server.listen(host, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        step = "name another port, such as --listen 127.0.0.1:0 for a free one"
        raise Failure(f"{address} cannot be used: {why}", Exit.FAILED, step) from error


def _browser(directory: Path) -> "StoreBrowser":
    """Returns a reader of a directory; raises if it is no store."""
    from pocketmq.cli.store.access import Given
    from pocketmq.tools.store_browser import StoreBrowser

    return StoreBrowser(*Given(directory, True, ()).opened(with_index=True))
