"""`pocketmq backfill`: builds a store's views from its log with many workers."""

from typing import Final

import click

from pocketmq.cli.groups import CommandModule, LazyGroup
from pocketmq.cli.options import examples

PLACES: Final = {
    "plan": CommandModule("pocketmq.cli.backfill.run", "Show what a run would do."),
    "run": CommandModule("pocketmq.cli.backfill.run", "Build queues and index from the log."),
    "verify": CommandModule("pocketmq.cli.backfill.verify", "Check what a run built."),
    "install": CommandModule(
        "pocketmq.cli.backfill.install", "Install the built views into a store."
    ),
    "status": CommandModule("pocketmq.cli.backfill.run", "Show the progress of a run."),
}


@click.group(
    cls=LazyGroup,
    places=PLACES,
    epilog=examples(
        "pocketmq backfill plan ./store --out ./views",
        "pocketmq backfill run ./store --out ./views --master 'local[4]'",
        "spark-submit --master spark://host:7077 broker/pocketmq/__main__.py "
        "backfill run /mnt/s --out /mnt/v",
        "pocketmq backfill verify ./views --store ./store",
        "pocketmq backfill install ./views --store ./store --yes",
    ),
)
def backfill() -> None:
    """Build consume queues and index of a large store with Spark.

    An interrupted run continues when it is called again. Store and output must have the same paths
    on every worker.
    """
