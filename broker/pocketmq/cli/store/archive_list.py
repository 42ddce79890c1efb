"""`pocketmq archive ls`: the hours of an archive, or the dates and topics of a lake."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import click

from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Document, Output, at, columns
from pocketmq.cli.store.archive_target import archive_errors, opened_objects

if TYPE_CHECKING:
    from pocketmq.tools.lake.catalog import Manifest

COLUMNS: Final = columns("hour", "moments", at("first_ms"), at("last_ms"))
OF_LAKE: Final = columns(
    "date", "topic", "files", "messages", "size_bytes", at("first_ms"), at("last_ms")
)


@click.command(epilog=examples("pocketmq archive ls /mnt/archive"))
@click.argument("target", metavar="TARGET")
@form_option
def ls(target: str, out: Output) -> None:
    """List the hours of an archive, or the dates and topics of a lake."""
    from pocketmq.files.disk import Disk
    from pocketmq.tools.archive.catalog import MOMENTS
    from pocketmq.tools.archive.moments import check_format, times_of
    from pocketmq.tools.lake.catalog import OWN
    from pocketmq.tools.lake.commits import read_lake

    def hours() -> Iterator[Document]:
        for hour in objects.names(MOMENTS):
            if times := times_of(objects, hour):
                count, first, last = len(times), times[0], times[-1]
                yield {"hour": hour, "moments": count, "first_ms": first, "last_ms": last}

    objects = opened_objects(Disk(), target)
    with archive_errors(objects):
        if OWN in objects.names(""):
            out.table(_partitions(read_lake(objects)), OF_LAKE, none=f"{objects.target} is empty")
            return
        check_format(objects)
        out.table(hours(), COLUMNS, none=f"{objects.target} has no moments yet")


def _partitions(manifest: "Manifest") -> Iterator[Document]:
    """Yields the dates and topics of a lake, in order."""
    files = sorted(manifest.files, key=lambda file: file.partition)
    for partition, of_partition in groupby(files, key=lambda file: file.partition):
        own = list(of_partition)
        date, topic = (part.partition("=")[2] for part in partition.split("/"))
        yield {
            "date": date, "topic": unquote(topic), "files": len(own),
            "messages": sum(file.rows for file in own),
            "size_bytes": sum(file.size for file in own),
            "first_ms": min(file.first_ms for file in own),
            "last_ms": max(file.last_ms for file in own),
        }  # fmt: skip
