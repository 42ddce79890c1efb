"""The root command: names of all commands, and the exit codes of errors."""

import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from pocketmq import __version__
from pocketmq.cli.groups import CommandModule, LazyGroup
from pocketmq.cli.options import SETTINGS, examples
from pocketmq.cli.output import Exit
from pocketmq.config.command_line import program_line
from pocketmq.config.units import is_utf8

PLACES: Final = {
    "dev": CommandModule("pocketmq.cli.serve", "Run a broker on a temporary store."),
    "serve": CommandModule("pocketmq.cli.serve", "Run a broker."),
    "mqbroker": CommandModule(
        "pocketmq.cli.official", "Run a broker by the command line of RocketMQ's mqbroker."
    ),
    "mqnamesrv": CommandModule("pocketmq.cli.official", "Wait for SIGTERM.", is_hidden=True),
    "mqproxy": CommandModule("pocketmq.cli.official", "Refuse to run.", is_hidden=True),
    "config": CommandModule("pocketmq.cli.config", "Write, check, show and compare settings."),
    "status": CommandModule("pocketmq.cli.status", "Show the state of a broker."),
    "top": CommandModule("pocketmq.cli.status", "Watch the busiest topics of a broker."),
    "topic": CommandModule("pocketmq.cli.topic", "Create, change, list, count, remove topics."),
    "group": CommandModule("pocketmq.cli.group", "Manage consumer groups and their offsets."),
    "client": CommandModule("pocketmq.cli.client", "Query connected clients."),
    "produce": CommandModule("pocketmq.cli.produce", "Send messages."),
    "consume": CommandModule("pocketmq.cli.consume", "Print messages of a topic, or receive them."),
    "tail": CommandModule("pocketmq.cli.tail", "Print messages of a topic as they are stored."),
    "msg": CommandModule("pocketmq.cli.message", "Look up single messages and their history."),
    "delay": CommandModule("pocketmq.cli.delay", "List and recall delayed messages."),
    "txn": CommandModule(
        "pocketmq.cli.transactions", "List, commit or roll back undecided transactions."
    ),
    "dlq": CommandModule("pocketmq.cli.dead_letters", "List, redrive or purge dead letters."),
    "user": CommandModule("pocketmq.cli.user", "Manage users and their secrets."),
    "acl": CommandModule("pocketmq.cli.acl", "Manage and explain permissions of users."),
    "definitions": CommandModule(
        "pocketmq.cli.definitions", "Export and import topics, groups, users, grants, settings."
    ),
    "store": CommandModule("pocketmq.cli.store", "Inspect, check and repair a store directory."),
    "archive": CommandModule(
        "pocketmq.cli.store.archive",
        "Ship a store to an object store; write Parquet files.",
    ),
    "backfill": CommandModule("pocketmq.cli.backfill", "Build queues and index with Spark."),
    "replica": CommandModule("pocketmq.cli.replica", "Show and change roles in replication."),
    "monitoring": CommandModule(
        "pocketmq.cli.monitoring", "Write files for Prometheus and Grafana."
    ),
    "bench": CommandModule("pocketmq.cli.bench", "Measure the rate and latency of a broker."),
    "console": CommandModule("pocketmq.cli.console", "Serve web pages that show a broker."),
    "context": CommandModule("pocketmq.cli.context", "Keep connections to brokers under names."),
    "version": CommandModule(
        "pocketmq.cli.version", "Show the installed version, compiled or not."
    ),
    "completion": CommandModule(
        "pocketmq.cli.completion", "Print the script for shell completion."
    ),
}


class Program(LazyGroup):
    """The root group; maps errors to exit codes and next steps."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line of the process, which must be UTF-8."""
        for number, text in enumerate(args, 1):
            if not is_utf8(text):
                shown = os.fsencode(text)
                raise click.UsageError(f"argument {number} is not UTF-8: {shown!r}", ctx)
        try:
            return super().parse_args(ctx, program_line(args, os.environ))
        except click.UsageError as error:
            raise _with_hint(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the named command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(Exit.INTERRUPTED)
        except click.UsageError as error:
            raise _with_hint(error) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            failure = _failure_of(error, str(ctx.invoked_subcommand), ctx.meta.get(SETTINGS))
            if failure is None:
                raise
            raise failure from error


def _with_hint(error: click.UsageError) -> click.UsageError:
    from pocketmq.cli.usage_hints import with_hint

    return with_hint(error)


def _failure_of(
    error: Exception, command: str, settings: Path | None
) -> click.ClickException | None:
    from pocketmq.cli.failures import failure_of_broker, failure_of_client, failure_of_file
    from pocketmq.client import ClientError
    from pocketmq.model.errors import BrokerError

    if isinstance(error, ClientError):
        return failure_of_client(error, command)
    if isinstance(error, BrokerError):
        return failure_of_broker(error, command, settings)
    if isinstance(error, PermissionError) and error.filename is not None:
        return failure_of_file(error)
    return None


def _print_version(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        from pocketmq.native.commit import short_commit

        click.echo(f"pocketmq, version {__version__} (commit {short_commit()})")
        context.exit()


@click.group(
    cls=Program,
    places=PLACES,
    epilog=examples(
        "pocketmq serve --store ./store",
        "pocketmq produce orders 'hello' -k order-42",
        "pocketmq consume orders --pull --from earliest",
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
    help="Show the version and commit, and exit.",
)  # fmt: skip
def program() -> None:
    """PocketMQ: Apache RocketMQ's storage and protocol in one Python process.

    Data is printed to standard output, notes and errors to standard error. Exit codes: 0 ok,
    1 failed, 2 usage, 3 not found, 4 refused or only planned, 5 unreachable, 6 timeout, 10 damage,
    74 serve: the disk failed a flush, 130 interrupted.

    A command calls the broker of --endpoint, --context, POCKETMQ_ENDPOINT or the context in use.
    """


def main() -> None:
    """Runs the command line of this process."""
    # gRPC reads this when it is imported. Commands report errors themselves, once.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Nothing here uses numpy's linear algebra, whose threads would take 40 ms of CPU at the import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    program(prog_name="pocketmq")
