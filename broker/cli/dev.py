"""`pocketmq dev`: a broker to try things with, whose store goes when it ends."""

import os
import sys
import tempfile
from pathlib import Path
from shutil import rmtree
from typing import Final

import click

from broker.cli.options import set_option
from broker.cli.output import talk
from broker.cli.serve import announce

PREFIX: Final = "pocketmq-dev-"
PORT_MAX: Final = 65_535
ANY_PORT: Final = "127.0.0.1:0"


@click.command(
    epilog="""\b
Examples:
  pocketmq dev
  pocketmq dev --port 8081 --keep
"""
)
@click.option(
    "--listen", default=ANY_PORT, show_default=True, metavar="HOST:PORT",
    help="Where gRPC is served; port 0: any.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, PORT_MAX), help="As --listen 127.0.0.1:PORT.")
@click.option(
    "--http", default=ANY_PORT, show_default=True, metavar="HOST:PORT",
    help="Where metrics and health are; port 0: any.",
)  # fmt: skip
@click.option("--keep", is_flag=True, help="Leave the store where it is at the end.")
@set_option
def dev(listen: str, port: int | None, http: str, keep: bool, assignments: tuple[str, ...]) -> None:
    """Run a broker on an empty store in a temporary directory, until SIGTERM or Ctrl-C.

    Topics and groups are made by whoever uses them first. When it serves, standard output shows one
    line of JSON with the addresses bound; the log goes to standard error.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is told by us, once
    from broker.app import run_broker
    from broker.config.load import load

    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    given = {
        "store.directory": str(directory),
        "rpc.listen": listen if port is None else f"127.0.0.1:{port}",
        "http.listen": http,
    }
    settings = [f"{key}={value}" for key, value in given.items()]
    try:
        config = load(
            preset="dev",
            environment=os.environ,
            assignments=["broker.auto_create_topics=true", *assignments, *settings],
        )
        code = run_broker(config, announce)
    finally:
        if keep:
            talk(f"The store is kept in {directory}")
        else:
            rmtree(directory, ignore_errors=True)
    sys.exit(code)
