"""The source of `pocketmq archive run`: a store's directory, or a running broker."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pocketmq.cli.output import progress
from pocketmq.cli.store.access import accessible, sizes_of
from pocketmq.cli.target import NAMES, target_of

if TYPE_CHECKING:
    from pocketmq.rebuild.range_pass import Advance
    from pocketmq.tools.lake.archiving import Archived
    from pocketmq.tools.lake.commits import Lake
    from pocketmq.tools.selection import LogSearch


def of_directory(
    lake: "Lake", directory: Path, patterns: tuple[str, ...], until_ms: int | None,
    assignments: tuple[str, ...],
) -> "tuple[Archived, LogSearch]":  # fmt: skip
    """Archives a store's directory; see archive_log."""
    from pocketmq.tools.lake.archiving import Archiver, archive_log, log_to_archive

    disk = accessible(directory, read_only=True)
    sizes = sizes_of(disk, directory, assignments, with_index=False)
    size = sizes.commit_log_file_size_bytes
    log = log_to_archive(disk, directory, size, patterns, until_ms)
    begin = lake.manifest.marks.begin(patterns)
    with progress("Archiving", sum(file.size for file in log.files if file.end > begin)) as advance:
        return archive_log(Archiver(lake), lake, log, advance=advance)


def of_broker(
    lake: "Lake", connection: dict[str, Any], patterns: tuple[str, ...], until_ms: int | None
) -> "Archived":
    """Archives the queues of a running broker; see archive_queues."""
    from pocketmq.cli.connection import BrokerConnection
    from pocketmq.cli.failures import failure_of_client
    from pocketmq.cli.store.lake_queues import archive_queues
    from pocketmq.client import ClientError
    from pocketmq.tools.lake.archiving import Archiver

    given = {name: connection.get(name) for name in NAMES}
    chosen = target_of(click.get_current_context(), given)
    with ExitStack() as drawn, BrokerConnection(*chosen[:3]) as broker:

        def bar(total: int) -> "Advance":
            return drawn.enter_context(progress("Archiving", total))

        try:
            return archive_queues(Archiver(lake), lake, broker, patterns, until_ms, advance=bar)
        except ClientError as error:
            raise failure_of_client(error, "archive") from error
