"""Whether an offline tool may look at a directory: it is a store, and nobody is writing to it.

A tool never holds the store's lock; it asks whether somebody does. Told to, it reads a live store
all the same: what is being written meanwhile may then look torn.
"""

from dataclasses import dataclass
from pathlib import Path

from broker.files.directory_lock import is_locked
from broker.files.disk import Disk
from broker.format.index_layout import IndexGeometry
from broker.format.names import LOCK_FILE
from broker.log.store_directory import StoreDirectory
from broker.model.errors import NotAStore, StoreLocked
from broker.model.store_shape import DEFAULT_DELAY_LEVELS, StoreShape
from broker.rebuild.log_files import ViewSettings


@dataclass(frozen=True, kw_only=True)
class KnownShape(StoreShape):
    """The shape of an existing store, and what else must be known before its files are opened.

    property_crc_from   physical offset from which on records end with a CRC over all of them,
                        OFFSET_MAX: nowhere yet; None where the store does not say: the first
                        records tell
    removed             where queues of removed topics go on, "" without any (`QueueTable`)
    """

    removed: str = ""
    property_crc_from: int | None = None

    @property
    def geometry(self) -> IndexGeometry:
        """That of its index files."""
        return IndexGeometry.of(self)


def view_settings(sizes: KnownShape, *, check_crc: bool) -> ViewSettings:
    """Return what a store's views are built with."""
    return ViewSettings(
        sizes.consume_queue_file_size_bytes,
        sizes.geometry,
        sizes.index_style,
        sizes.time_zone,
        sizes.delay_levels or DEFAULT_DELAY_LEVELS,
        check_crc=check_crc,
        property_crc=sizes.property_crc,
        removed=sizes.removed,
    )


def is_live(directory: Path) -> bool:
    """Return whether a process has the store open."""
    return is_locked(directory / LOCK_FILE)


def check_access(disk: Disk, directory: Path, *, read_only: bool) -> None:
    """Raise unless the directory may be looked at; `read_only` allows a store that is in use.

    Errors   NotAStore, StoreLocked
    """
    if not disk.exists(directory):
        raise NotAStore(path=str(directory), why="it does not exist")
    StoreDirectory(disk, directory).check()
    if not read_only and is_live(directory):
        raise StoreLocked(path=str(directory))
