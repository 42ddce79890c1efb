"""Verifies the FIFO journal: a broker stops reading before the first damaged row."""

from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.format.json_text import COUNT_MAX, is_integer
from pocketmq.format.names import (
    CONFIG_DIRECTORY,
    ORDER_INFO_FILE,
    ORDER_JOURNAL_FILE,
    OWN_DIRECTORY,
)
from pocketmq.format.order_changes import VERSION_MEMBER, lost_rows_at
from pocketmq.format.table_json import decode_table
from pocketmq.tools.verify.collector import Collector


def look_at_order_journal(disk: Disk, directory: Path, collector: Collector) -> None:
    """Checks for rows behind a damaged one, which a broker does not read.

    Without the table that the journal continues, no row counts.
    """
    path = directory / OWN_DIRECTORY / ORDER_JOURNAL_FILE
    table = directory / CONFIG_DIRECTORY / ORDER_INFO_FILE
    if not (disk.exists(path) and disk.exists(table)):
        return
    try:
        version = decode_table(disk.read_file(table)).get(VERSION_MEMBER)
    except ValueError:  # Told where tables are looked at.
        return
    if not is_integer(version, 1, COUNT_MAX):
        return
    position = lost_rows_at(disk.read_file(path), int(version or 0))
    if position is not None:
        collector.add(
            "table", path, position, expected="a row: sound ones lie behind it",
            found="none; what these say was settled in order comes again", repairable=False,
        )  # fmt: skip
