"""`pocketmq serve`: a broker in the foreground. `pocketmq dev`: a broker on a temporary store."""

import gc
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from types import FrameType
from typing import Any, Final

import click

from pocketmq.cli.collecting import collect_as_usual
from pocketmq.cli.options import (
    ReadBy,
    examples,
    file_option,
    force_option,
    preset_option,
    set_option,
)
from pocketmq.cli.output import talk
from pocketmq.model.message_kind import KINDS_TAKEN

Topics = Sequence[tuple[str, str]]
"""Pairs of (topic name, message type)."""

PREFIX: Final = "pocketmq-dev-"
PORT_MAX: Final = 65_535
ANY_PORT: Final = "127.0.0.1:0"
ENDING: Final = (signal.SIGHUP, signal.SIGTERM)
"""Signals that end `dev`, apart from Ctrl-C."""
HOW_TO_COME: Final = """\
RocketMQ 5 clients connect to {grpc}:
  Python   ClientConfiguration("{grpc}", Credentials())
  Java     ClientConfiguration.newBuilder().setEndpoints("{grpc}").enableSsl(false).build()
  Node.js  new Producer({{ endpoints: "{grpc}", namespace: "", topics: ["orders"] }})
  Go       golang.EnableSsl = false; &golang.Config{{Endpoint: "{grpc}"}}
  shell    export POCKETMQ_ENDPOINT={grpc}; pocketmq produce orders hello
Topics and groups are created by their first use; Ctrl-C ends the broker."""
"""Text that `dev` prints after its start."""


def topics_from_text(text: str) -> list[tuple[str, str]]:
    """Parses "orders,payments:fifo" to pairs (name, type); type "": unspecified.

    Errors   ValueError
    """
    topics = []
    for part in text.split(","):
        name, separator, type_name = part.strip().partition(":")
        if not name or (separator and type_name.upper() not in KINDS_TAKEN):
            types = ", ".join(sorted(KINDS_TAKEN)).lower()
            raise ValueError(f"{part!r} is not NAME or NAME:TYPE; types are {types}")
        topics.append((name, type_name.upper()))
    return topics


TOPICS: Final = ReadBy("NAME[:TYPE],…", topics_from_text)


insecure_option: Final = click.option(
    "--insecure", is_flag=True,
    help="Do not authenticate: all callers may do everything (access.check=off).",
)  # fmt: skip


@click.command(
    epilog=examples(
        "pocketmq serve --store ./store",
        "pocketmq serve -c broker.toml --preset server",
        "pocketmq serve --store ./store --listen 0.0.0.0:8081 --http 0.0.0.0:5557 "
        "--set store.flush=async",
    )
)
@click.option("--store", "directory", metavar="DIR", help="Directory of the store.")
@click.option("--listen", metavar="HOST:PORT", help="Address of gRPC; port 0: any.")
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Extra address of metrics and health; port 0: any; empty: only on the gRPC port.",
)
@click.option(
    "--transport",
    type=click.Choice(["own", "grpcio"]),
    help="Implementation of gRPC; grpcio is for comparison.",
)
@click.option(
    "--tls-cert", metavar="FILE", help="TLS certificate (PEM), instead of the broker's own."
)
@click.option("--tls-key", metavar="FILE", help="The certificate's key (PEM).")
@click.option("--no-tls", is_flag=True, help="Serve without TLS, and make no certificate.")
@insecure_option
@click.option(
    "--accept-damage",
    is_flag=True,
    help="Start without durable records that are damaged, or missing at the log's end.",
)
@file_option
@preset_option
@set_option
@force_option
def serve(
    directory: str | None,
    listen: str | None,
    http: str | None,
    transport: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    no_tls: bool,
    insecure: bool,
    accept_damage: bool,
    assignments: tuple[str, ...],
    **sources: Any,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C; a second one ends it at once.

    SIGHUP rereads the settings: those marked "Live." in conf/broker.toml are applied, other changes
    are logged by name. If any setting is invalid, nothing changes.

    Once the broker serves, it prints one line of JSON with the bound addresses to standard output.
    Its log is written to standard error.

    A broker that other machines can reach requires users, so create one first: `pocketmq user
    add admin --admin --store DIR`. In a container POCKETMQ_ADMIN_SECRET, or the file
    POCKETMQ_ADMIN_SECRET_FILE, is the secret of the user admin at the first start;
    POCKETMQ_INSECURE=1 is --insecure.

    A store that is damaged below its durable end is served read-only: repair it with `pocketmq
    store repair`, or start with --accept-damage, which copies the damaged bytes to
    pocketmq/quarantine/ and continues without them. With a missing or shortened file between
    others, no broker starts: `pocketmq store repair DIR --accept-loss`.
    """
    options = {
        "--store": ("store.directory", directory),
        "--listen": ("rpc.listen", listen),
        "--http": ("http.listen", http),
        "--transport": ("rpc.transport", transport),
        "--tls-cert": ("rpc.tls_cert", tls_cert),
        "--tls-key": ("rpc.tls_key", tls_key),
        "--no-tls": ("rpc.tls", "false" if no_tls else None),
        "--insecure": ("access.check", "off" if insecure else None),
    }
    given = {
        option: (f"{key}={value}",) for option, (key, value) in options.items() if value is not None
    }
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # ignored until the broker handles it
    with naming_options():
        sys.exit(
            run(
                {"--set": assignments, **given},
                accept_damage=accept_damage,
                is_live=True,
                **sources,
            )
        )


@click.command(epilog=examples("pocketmq dev", "pocketmq dev --port 8081 --topics o,steps:fifo"))
@click.option(
    "--listen", default=ANY_PORT, show_default=True, metavar="HOST:PORT",
    help="Address of gRPC; port 0: any.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, PORT_MAX), help="Short for --listen 127.0.0.1:PORT.")
@click.option(
    "--http", default=ANY_PORT, show_default=True, metavar="HOST:PORT",
    help="Address of metrics and health; port 0: any.",
)  # fmt: skip
@click.option(
    "--topics", type=TOPICS, default=(),
    help="Create these topics; types as in `topic create`.",
)  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the store at the end.")
@insecure_option
@set_option
def dev(
    listen: str,
    port: int | None,
    http: str,
    topics: Topics,
    keep: bool,
    insecure: bool,
    assignments: tuple[str, ...],
) -> None:
    """Run a broker on an empty store in a temporary directory, until SIGTERM, SIGHUP or Ctrl-C.

    Clients create topics and groups by their first use. --topics creates topics with a type, which
    ordered, delayed and transactional messages need.

    Once the broker serves, it prints one line of JSON to standard output, and on a terminal also
    an example for clients. `grpc` is the address for clients, `http` that of metrics and health.
    The log is written to standard error.
    """
    with _exiting_on(*ENDING):  # until the broker handles them
        where = listen if port is None else f"127.0.0.1:{port}"
        given: dict[str, Sequence[str]] = {
            "--set": ("broker.auto_create_topics=true", *assignments),
            "--insecure": ["access.check=off"] if insecure else [],
            "--listen": [f"rpc.listen={where}"],
            "--http": [f"http.listen={http}"],
        }
        with naming_options():
            code = _run_and_remove(given, topics, keep)
    sys.exit(code)


@contextmanager
def naming_options() -> Iterator[None]:
    """Reports an illegal address of --listen or --http as an illegal value of that option."""
    from pocketmq.model.errors import IllegalConfig

    try:
        yield
    except IllegalConfig as error:
        from pocketmq.cli.failures import ADDRESS_OPTIONS

        key, _, origin = error.field.partition(" ")
        option = ADDRESS_OPTIONS.get(key)
        if option is None or origin != f"({option})":
            raise
        raise click.BadParameter(error.why, param_hint=f"'{option}'") from error


@contextmanager
def _exiting_on(*numbers: signal.Signals) -> Iterator[None]:
    """Turns signals into SystemExit, so that cleanup runs."""
    before = {number: signal.signal(number, _exit_by) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_by(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _run_and_remove(assignments: Mapping[str, Sequence[str]], topics: Topics, keep: bool) -> int:
    # These signals are blocked until the `try` is entered, whose `finally` removes the directory.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    from pocketmq.config.sections import TEMPORARY_STORE

    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    given = {**assignments, TEMPORARY_STORE: [f"store.directory={directory}"]}
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        return run(given, topics=topics, announce=introduce, preset="dev", force=True)
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal may send it twice
        if keep:
            talk(f"The store is kept in {directory}")
        else:
            rmtree(directory, ignore_errors=True)


def run(
    assignments: Sequence[str] | Mapping[str, Sequence[str]], *, accept_damage: bool = False,
    is_live: bool = False, topics: Topics = (),
    announce: Callable[[Mapping[str, object]], None] | None = None, **sources: Any,
) -> int:  # fmt: skip
    """Runs a broker; returns its exit code. Assignments override settings of the environment.

    assignments  KEY=VALUE of --set; a mapping has them by option
    is_live   SIGHUP rereads the settings; False: SIGHUP ends the broker
    topics    are created before clients are served
    announce  receives the broker's addresses; None: prints them
    """
    # Objects that are created at the start live as long as the process, so a collection would find
    # nothing to free. The broker enables the collector once its store is open.
    gc.disable()
    try:
        from pocketmq.app.serve import run_broker
        from pocketmq.app.stage import Stage, with_topics
        from pocketmq.config.live import LiveConfig
        from pocketmq.config.load import examine, load
        from pocketmq.files.store_place import check_place

        sources |= {"environment": os.environ, "assignments": assignments}
        live = LiveConfig(load(**sources), partial(examine, **sources) if is_live else None)
        check_place(live.config.store_settings().directory)
        stage = Stage(prepare=with_topics(topics))
        collect_as_usual()
        return run_broker(live, announce or tell, accept_damage=accept_damage, stage=stage)
    finally:
        gc.enable()


def tell(addresses: Mapping[str, object]) -> None:
    """Prints the broker's addresses as a line of JSON."""
    click.echo(json.dumps(addresses))


def introduce(addresses: Mapping[str, object]) -> None:
    """Prints the broker's addresses, and on a terminal an example for clients."""
    tell(addresses)
    if sys.stdout.isatty():
        talk(HOW_TO_COME.format(grpc=addresses["grpc"]))
