"""The root of all commands: their names, and how the process ends."""

import os
import sys
from typing import Any, Final

import click

from broker import __version__
from broker.cli.groups import LazyGroup, Place
from broker.cli.options import examples
from broker.cli.output import Exit
from broker.config.units import is_utf8

PLACES: Final = {
    "dev": Place("broker.cli.serve", "Run a broker that leaves nothing behind."),
    "serve": Place("broker.cli.serve", "Run a broker."),
    "config": Place("broker.cli.config", "Make, check and show settings."),
    "status": Place("broker.cli.status", "Show how a broker is doing."),
    "top": Place("broker.cli.status", "Watch the busiest topics of a broker."),
    "topic": Place("broker.cli.topic", "Create, change, list, count, remove topics."),
    "group": Place("broker.cli.group", "Consumer groups, and where they stand."),
    "client": Place("broker.cli.client", "Ask connected clients what they do."),
    "produce": Place("broker.cli.produce", "Send messages."),
    "consume": Place("broker.cli.consume", "Print messages of a topic, or receive them."),
    "tail": Place("broker.cli.tail", "Print messages of a topic as they come."),
    "msg": Place("broker.cli.message", "Look single messages up, and where they went."),
    "delay": Place("broker.cli.delay", "See what waits for its time; take it back."),
    "txn": Place("broker.cli.transactions", "See transactions nobody decided; decide them."),
    "dlq": Place("broker.cli.dead_letters", "See what groups gave up; send it again."),
    "user": Place("broker.cli.user", "Who may call: users and their secrets."),
    "acl": Place("broker.cli.acl", "What users may do: grants, and why not."),
    "store": Place("broker.cli.store", "Look at, check and mend a store directory."),
    "backfill": Place("broker.cli.backfill", "Build queues and index with Spark."),
    "version": Place("broker.cli.version", "Show what runs here, compiled or not."),
    "completion": Place("broker.cli.completion", "Print what completes commands."),
}


class Program(LazyGroup):
    """The root group; turns errors of the broker and of its answers into exit codes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line of the process, which is UTF-8."""
        for number, text in enumerate(args, 1):
            if not is_utf8(text):
                shown = os.fsencode(text)
                raise click.UsageError(f"argument {number} is not UTF-8: {shown!r}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(Exit.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            failure = _failure_of(error, str(ctx.invoked_subcommand))
            if failure is None:
                raise
            raise failure from error


def _failure_of(error: Exception, command: str) -> click.ClickException | None:
    from broker.cli.failures import failure_of_broker, failure_of_client
    from broker.client import ClientError
    from broker.model.errors import BrokerError

    if isinstance(error, ClientError):
        return failure_of_client(error, command)
    if isinstance(error, BrokerError):
        return failure_of_broker(error)
    return None


@click.group(
    cls=Program,
    places=PLACES,
    epilog=examples(
        "pocketmq serve --store ./store",
        "pocketmq produce orders 'hello' -k order-42",
        "pocketmq consume orders --pull --queue 0 --from min",
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="pocketmq")
def program() -> None:
    """PocketMQ: Apache RocketMQ's storage and protocol in one Python process.

    Data go to standard output, talk goes to standard error. Exit codes: 0 ok, 1 failed, 2 usage,
    3 not found, 4 refused, 5 unreachable, 6 timeout, 10 damage found.
    """


def main() -> None:
    """Run the command line of this process."""
    program(prog_name="pocketmq")
