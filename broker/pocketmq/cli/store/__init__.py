"""`pocketmq store`: working on a store directory without a broker."""

from typing import Final

import click

from pocketmq.cli.groups import LazyGroup, Place
from pocketmq.cli.options import examples

PLACES: Final = {
    "info": Place("pocketmq.cli.store.info", "Describe a store."),
    "dump": Place("pocketmq.cli.store.dump", "Print every message, unit or index entry."),
    "verify": Place("pocketmq.cli.store.verify", "Find everything that is not as it must be."),
    "rebuild": Place("pocketmq.cli.store.rebuild", "Build queues and index from the log."),
    "repair": Place("pocketmq.cli.store.repair", "Mend what verify finds."),
    "ls": Place("pocketmq.cli.store.ls", "List the files of a store."),
    "diff": Place("pocketmq.cli.store.diff", "Tell where two stores differ."),
    "backup": Place("pocketmq.cli.store.backup", "Copy a store, running or stopped."),
    "restore": Place("pocketmq.cli.store.restore", "Bring a copy back as a store."),
    "grep": Place("pocketmq.cli.store.grep", "Print messages that match."),
    "stats": Place("pocketmq.cli.store.stats", "Count messages and bytes."),
    "export": Place("pocketmq.cli.store.export", "Write messages to Parquet, Arrow or JSONL."),
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
    """Look at, check and mend a store directory, without a broker.

    A store that is in use is refused; most commands look on with --read-only.
    """
