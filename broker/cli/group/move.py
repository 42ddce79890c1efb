"""`pocketmq group reset | clone`: where a group stands is changed, or shown as it would be."""

from collections.abc import Iterable
from typing import Any, Final

import click

from broker.cli.connection import Connection, endpoint_option
from broker.cli.documents import moved_document
from broker.cli.failures import EXIT_REFUSED, Failure
from broker.cli.output import Rows, column, output_option, talk
from broker.cli.store.options import yes_option
from broker.cli.times import MOMENT
from broker.client.admin_values import MovedOffset, ResetTarget

ENDS: Final = {"earliest": False, "min": False, "latest": True, "max": True}
COLUMNS: Final = {
    "TOPIC": column("topic"),
    "QUEUE": column("queue_id"),
    "OLD": column("old_offset"),
    "NEW": column("new_offset"),
}
MORE_COLUMNS: Final = {"GROUP": column("group")}


class _Where(click.ParamType[ResetTarget]):
    """earliest, latest, or a time."""

    name = "earliest|latest|TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ResetTarget:
        if isinstance(value, ResetTarget):
            return value
        if value in ENDS:
            return ResetTarget(latest=ENDS[value])
        return ResetTarget(time_ms=MOMENT.convert(value, param, ctx))


@click.command(
    epilog="""\b
Examples:
  pocketmq group reset billing --topic orders --to -1h              where it would stand
  pocketmq group reset billing --topic orders --to -1h --yes        move it
  pocketmq group reset billing --topic orders --to-offset 1200 --queue 0 --yes
"""
)
@click.argument("name")
@click.option("--topic", required=True, help="In which topic.")
@click.option("--to", "where", type=_Where(), help="The first message stored then or later.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="This queue offset.")
@click.option(
    "--queue", "queue_ids", type=click.IntRange(0), multiple=True,
    help="Only this queue; may be repeated [default: all].",
)  # fmt: skip
@yes_option
@output_option
@endpoint_option
def reset(
    name: str,
    topic: str,
    where: ResetTarget | None,
    to_offset: int | None,
    queue_ids: tuple[int, ...],
    yes: bool,
    output_format: str | None,
    endpoint: str,
) -> None:
    """Let a group stand at a time, an end or an offset of a topic's queues.

    Consumers that are running keep what they hold already; stop them first to be sure.
    """
    if (where is None) == (to_offset is None):
        raise click.UsageError("say where to: either --to earliest|latest|TIME or --to-offset N")
    target = where or ResetTarget(queue_offset=to_offset)
    with Connection(endpoint) as broker:
        moved = broker.ask(
            broker.client.reset_offsets(name, topic, target, queue_ids=queue_ids, dry_run=not yes)
        )
    _show(name, moved, output_format, is_done=yes)


@click.command(
    epilog="""\b
Examples:
  pocketmq group clone billing billing-2                      where it would stand
  pocketmq group clone billing billing-2 --topic orders --yes
"""
)
@click.argument("source")
@click.argument("target")
@click.option("--topic", default="", help="Only in this topic [default: all of SOURCE's].")
@yes_option
@output_option
@endpoint_option
def clone(
    source: str, target: str, topic: str, yes: bool, output_format: str | None, endpoint: str
) -> None:
    """Let group TARGET stand where group SOURCE stands.

    TARGET is made where there is none; what it had in these topics is replaced.
    """
    with Connection(endpoint) as broker:
        moved = broker.ask(broker.client.clone_offsets(source, target, topic, dry_run=not yes))
    if not moved:
        talk(f"{source} has no offset{f' in {topic}' if topic else ''}: there is nothing to clone")
    _show(target, moved, output_format, is_done=yes)


def _show(
    group: str, moved: Iterable[MovedOffset], output_format: str | None, *, is_done: bool
) -> None:
    """Print old and new offsets; raise Failure where they are a plan."""
    rows = [moved_document(group, row) for row in moved]
    with Rows(output_format, COLUMNS, MORE_COLUMNS) as table:
        for row in rows:
            table.add(row)
    if not is_done:
        text = f"nothing was done: {group} would be moved in {len(rows)} queues"
        raise Failure(text, EXIT_REFUSED, "add --yes to do it")
