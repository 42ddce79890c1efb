"""Changes users and grants of a store that no broker has open, or of a new directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.names import ACCESS_FILE, OWN_DIRECTORY
from pocketmq.format.roster_json import decode_roster, encode_roster
from pocketmq.log.store_directory import StoreDirectory
from pocketmq.model.roster import Roster


@contextmanager
def changed_roster(directory: Path) -> Iterator[Roster]:
    """Yields a store's users for the caller to change, and saves changes at the end.

    Effects  holds the store's lock until the end, so that no broker starts with the old users;
             creates a missing directory
    Errors   NotAStore, StoreLocked, TableUnreadable, DiskFull
    """
    disk = Disk()
    place = StoreDirectory(disk, directory)
    place.acquire()
    try:
        file = _file(disk, directory)
        roster = file.read(decode_roster) or Roster()
        before = encode_roster(roster)
        yield roster
        after = encode_roster(roster)
        if after != before:
            file.write(after)
    finally:
        place.release()


def read_roster(directory: Path) -> Roster:
    """Returns the users of a store; a broker may have the store open.

    Errors   NotAStore, TableUnreadable
    """
    disk = Disk()
    StoreDirectory(disk, directory).check()
    return _file(disk, directory).read(decode_roster) or Roster()


def _file(disk: Disk, directory: Path) -> TableFile:
    return TableFile(disk, directory / OWN_DIRECTORY / ACCESS_FILE, is_private=True)
