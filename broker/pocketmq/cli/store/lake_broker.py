"""Archives a running broker for `pocketmq archive run`."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from pocketmq.cli.output import progress
from pocketmq.cli.store.archive_target import talk_unreported
from pocketmq.cli.target import NAMES, target_of

if TYPE_CHECKING:
    from pocketmq.rebuild.range_pass import Advance
    from pocketmq.tools.lake.archiving import Archived
    from pocketmq.tools.lake.commits import Lake


def of_broker(
    lake: "Lake", connection: dict[str, Any], patterns: tuple[str, ...], until_ms: int | None
) -> "Archived":
    """Archives the queues of a running broker; see archive_queues."""
    from pocketmq.cli.connection import BrokerConnection
    from pocketmq.cli.failures import failure_of_client
    from pocketmq.cli.store.lake_queues import archive_queues
    from pocketmq.client import ClientError
    from pocketmq.tools.archive.reporting import known_as
    from pocketmq.tools.lake.archiving import Archiver

    given = {name: connection.get(name) for name in NAMES}
    chosen = target_of(click.get_current_context(), given)
    with ExitStack() as drawn, BrokerConnection(*chosen[:3]) as broker:

        def bar(total: int) -> "Advance":
            return drawn.enter_context(progress("Archiving", total))

        try:
            found = archive_queues(Archiver(lake), lake, broker, patterns, until_ms, advance=bar)
        except ClientError as error:
            raise failure_of_client(error, "archive") from error
        if found.upto >= 0:
            try:
                broker.ask(broker.admin.report_archive(found.upto, known_as(lake.target)))
            except ClientError as error:  # The messages are archived even if the report fails.
                talk_unreported(error.message)
        return found
