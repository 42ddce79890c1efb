"""`pocketmq store`: working on a store directory without a broker."""

from typing import Final

import click

from broker.cli.groups import LazyGroup, Place

PLACES: Final = {
    "info": Place("broker.cli.store.info", "info", "Describe a store."),
    "dump": Place("broker.cli.store.dump", "dump", "Print every message, unit or index entry."),
    "verify": Place(
        "broker.cli.store.verify", "verify", "Find everything that is not as it must be."
    ),
    "rebuild": Place("broker.cli.store.rebuild", "rebuild", "Build queues and index from the log."),
    "repair": Place("broker.cli.store.repair", "repair", "Mend what verify finds."),
    "ls": Place("broker.cli.store.ls", "ls", "List the files of a store."),
    "diff": Place("broker.cli.store.diff", "diff", "Tell where two stores differ."),
    "backup": Place("broker.cli.store.backup", "backup", "Copy a store, running or stopped."),
    "restore": Place("broker.cli.store.backup", "restore", "Bring a copy back as a store."),
    "grep": Place("broker.cli.store.grep", "grep", "Print messages that match."),
    "stats": Place("broker.cli.store.stats", "stats", "Count messages and bytes."),
    "export": Place(
        "broker.cli.store.export", "export", "Write messages to Parquet, Arrow or JSONL."
    ),
}
EPILOG: Final = """\b
Examples:
  pocketmq store info ./store
  pocketmq store verify ./store
  pocketmq store rebuild ./store --out ./views
"""


@click.group(cls=LazyGroup, places=PLACES, epilog=EPILOG)
def store() -> None:
    """Look at, check and mend a store directory, without a broker.

    A store that is in use is refused; most commands look on with --read-only.
    """
