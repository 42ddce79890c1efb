"""`pocketmq store`: working on a store directory without a broker."""

from typing import Final

import click

from broker.cli.groups import LazyGroup, Place
from broker.cli.options import examples

PLACES: Final = {
    "info": Place("broker.cli.store.info", "Describe a store."),
    "dump": Place("broker.cli.store.dump", "Print every message, unit or index entry."),
    "verify": Place("broker.cli.store.verify", "Find everything that is not as it must be."),
    "rebuild": Place("broker.cli.store.rebuild", "Build queues and index from the log."),
    "repair": Place("broker.cli.store.repair", "Mend what verify finds."),
    "ls": Place("broker.cli.store.ls", "List the files of a store."),
    "diff": Place("broker.cli.store.diff", "Tell where two stores differ."),
    "backup": Place("broker.cli.store.backup", "Copy a store, running or stopped."),
    "restore": Place("broker.cli.store.restore", "Bring a copy back as a store."),
    "grep": Place("broker.cli.store.grep", "Print messages that match."),
    "stats": Place("broker.cli.store.stats", "Count messages and bytes."),
    "export": Place("broker.cli.store.export", "Write messages to Parquet, Arrow or JSONL."),
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
