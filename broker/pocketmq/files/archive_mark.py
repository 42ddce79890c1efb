"""Reads and writes the file that records how much of a log is archived (format/archived.py)."""

from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.archived import (
    ArchivedUpto,
    decode_archived,
    encode_archived,
    least_of,
    with_report,
)
from pocketmq.format.names import ARCHIVED_FILE, OWN_DIRECTORY

RENEWED_MS: Final = 3_600_000
"""Age of an archive's row after which a report without progress is written too: it is alive."""


def archives_of(disk: Disk, store: Path) -> tuple[ArchivedUpto, ...]:
    """Returns the archives of a store's log.

    Errors   TableUnreadable, ReadFailed
    """
    file = TableFile(disk, store / OWN_DIRECTORY / ARCHIVED_FILE)
    return file.read(decode_archived) or ()


def read_archived(disk: Disk, store: Path) -> ArchivedUpto:
    """Returns the archive with the lowest end of a store's log; NOTHING_ARCHIVED without archives.

    Errors   TableUnreadable, ReadFailed
    """
    return least_of(archives_of(disk, store))


def write_archived(disk: Disk, store: Path, found: ArchivedUpto) -> ArchivedUpto:
    """Records a report of an archive; returns the archive with the lowest end of the log.

    Blocks   two syncs; none if the report shows no progress and the file is recent
    Errors   TableUnreadable, ReadFailed; those of `TableFile.write`
    """
    before = archives_of(disk, store)
    after = with_report(before, found)
    known = {one.target: one for one in before}
    is_new = any(
        one.target not in known
        or one.upto != known[one.target].upto
        or one.time_ms >= known[one.target].time_ms + RENEWED_MS
        for one in after
    )
    if is_new or len(after) < len(before):
        TableFile(disk, store / OWN_DIRECTORY / ARCHIVED_FILE).write(encode_archived(after))
    return least_of(after)
