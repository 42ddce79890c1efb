"""Checks that an offline tool may read a directory: it is a store that no process has open.

The check does not acquire the store's lock, but tests whether a process holds it. A tool that sets
`read_only` may also read a live store; records that the broker is writing may look torn.
"""

from pathlib import Path

from pocketmq.files.directory_lock import UNKNOWN, held_by
from pocketmq.files.disk import Disk
from pocketmq.files.enclosure import check_tree
from pocketmq.format.names import LOCK_FILE, STORE_NAMES
from pocketmq.log.store_directory import StoreDirectory
from pocketmq.model.errors import NotAStore, StoreLocked


def is_live(directory: Path) -> bool:
    """Returns whether a process has the store open."""
    return bool(held_by(directory / LOCK_FILE))


def in_use(directory: Path) -> StoreLocked:
    """Returns the error for a store that is in use; it names the process that uses the store."""
    return StoreLocked(path=str(directory), holder=held_by(directory / LOCK_FILE) or UNKNOWN)


def check_access(disk: Disk, directory: Path, *, read_only: bool, plain_only: bool = True) -> None:
    """Raises unless a tool may read the directory.

    read_only    accepts a store that is in use
    plain_only   rejects links, FIFOs, sockets and devices in the store before anything is read
    Errors       NotAStore, StoreLocked, NotAPlainFile
    """
    if not disk.exists(directory):
        raise NotAStore(path=str(directory), why="it does not exist")
    StoreDirectory(disk, directory).check(plain_only=plain_only)
    if plain_only:
        check_tree(directory, STORE_NAMES)
    if not read_only and is_live(directory):
        raise in_use(directory)
