"""`pocketmq store`: commands on a store directory, without a broker."""

from typing import Final

import click

from pocketmq.cli.groups import CommandModule, LazyGroup
from pocketmq.cli.options import examples

PLACES: Final = {
    "info": CommandModule("pocketmq.cli.store.info", "Describe a store."),
    "dump": CommandModule("pocketmq.cli.store.dump", "Print every message, unit or index entry."),
    "verify": CommandModule(
        "pocketmq.cli.store.verify", "Check every record, unit, index entry and table."
    ),
    "rebuild": CommandModule("pocketmq.cli.store.rebuild", "Build queues and index from the log."),
    "repair": CommandModule("pocketmq.cli.store.repair", "Repair what verify finds."),
    "ls": CommandModule("pocketmq.cli.store.ls", "List the files of a store."),
    "diff": CommandModule("pocketmq.cli.store.diff", "Print where two stores differ."),
    "backup": CommandModule("pocketmq.cli.store.backup", "Copy a store, running or stopped."),
    "restore": CommandModule("pocketmq.cli.store.restore", "Copy a backup to a new store."),
    "grep": CommandModule("pocketmq.cli.store.grep", "Print messages that match."),
    "diverged": CommandModule(
        "pocketmq.cli.store.diverged", "Print messages that only this store has."
    ),
    "stats": CommandModule("pocketmq.cli.store.stats", "Count messages and bytes."),
    "export": CommandModule(
        "pocketmq.cli.store.export", "Write messages to Parquet, Arrow or JSONL."
    ),
}


@click.group(
    cls=LazyGroup,
    places=PLACES,
    epilog=examples(
        "pocketmq store info ./store",
        "pocketmq store verify ./store",
        "pocketmq store rebuild ./store --out ./views",
    ),
)
def store() -> None:
    """Inspect, check and repair a store directory, without a broker.

    A store in use is refused; most commands read it with --read-only.
    """
