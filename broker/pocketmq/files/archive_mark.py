"""Reads and writes up to where archives contain a store's log; see format/archived.py."""

from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.archived import (
    NOTHING_ARCHIVED,
    ArchivedUpto,
    decode_archived,
    encode_archived,
)
from pocketmq.format.names import ARCHIVED_FILE, OWN_DIRECTORY


def read_archived(disk: Disk, store: Path) -> ArchivedUpto:
    """Returns the furthest archive of a store's log; without a file nothing is archived.

    Errors   TableUnreadable
    """
    file = TableFile(disk, store / OWN_DIRECTORY / ARCHIVED_FILE)
    return file.read(decode_archived) or NOTHING_ARCHIVED


def write_archived(disk: Disk, store: Path, found: ArchivedUpto) -> ArchivedUpto:
    """Replaces the furthest archive if another one is further; returns the furthest one.

    Blocks   three syncs
    Errors   TableUnreadable; those of `TableFile.write`
    """
    before = read_archived(disk, store)
    if found.upto <= before.upto:
        return before
    TableFile(disk, store / OWN_DIRECTORY / ARCHIVED_FILE).write(encode_archived(found))
    return found
