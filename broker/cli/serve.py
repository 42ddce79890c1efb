"""`pocketmq serve`: a broker in the foreground."""

import gc
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from broker.cli.options import file_option, preset_option, set_option


@click.command(
    epilog="""\b
Examples:
  pocketmq serve --store ./store
  pocketmq serve -c broker.toml --preset server
  pocketmq serve --store ./store --listen 0.0.0.0:8081 --http 0.0.0.0:5557 --set store.flush=async
"""
)
@click.option("--store", "directory", metavar="DIR", help="Where the store lies.")
@click.option("--listen", metavar="HOST:PORT", help="Where gRPC is served; port 0: any.")
@click.option("--http", metavar="HOST:PORT", help="Where metrics and health are; port 0: any.")
@click.option(
    "--accept-damage",
    is_flag=True,
    help="Give up records that are damaged or gone although they were durable, and go on.",
)
@file_option
@preset_option
@set_option
def serve(
    directory: str | None,
    listen: str | None,
    http: str | None,
    accept_damage: bool,
    file: Path | None,
    preset: str | None,
    assignments: tuple[str, ...],
) -> None:
    """Run a broker until SIGTERM or Ctrl-C; a second one ends it at once.

    When it serves, standard output shows one line of JSON with the addresses bound; the log goes to
    standard error.

    A store that is damaged below what was durable is served read-only: mend it with `pocketmq store
    repair`, or start with --accept-damage, which sets the damaged bytes aside under
    pocketmq/quarantine/ and goes on without them.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is told by us, once
    flags = {"store.directory": directory, "rpc.listen": listen, "http.listen": http}
    given = [f"{key}={value}" for key, value in flags.items() if value is not None]
    gc.disable()  # All there is until the store is open, when it goes on, is there to stay.
    try:
        from broker.app import run_broker
        from broker.config.load import load

        config = load(
            file=file, environment=os.environ, assignments=(*assignments, *given), preset=preset
        )
        code = run_broker(config, announce, accept_damage=accept_damage)
    finally:
        gc.enable()
    sys.exit(code)


def announce(addresses: Mapping[str, object]) -> None:
    """Print the line that says where the broker is."""
    click.echo(json.dumps(addresses))
