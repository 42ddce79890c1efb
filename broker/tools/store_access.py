"""Whether an offline tool may look at a directory: it is a store, and nobody is writing to it.

A tool never holds the store's lock; it asks whether somebody does. Told to, it reads a live store
all the same: what is being written meanwhile may then look torn.
"""

from pathlib import Path
from typing import NamedTuple

from broker.files.directory_lock import is_locked
from broker.files.disk import Disk
from broker.format.index_layout import STYLE_5_5, IndexGeometry
from broker.format.names import LOCK_FILE
from broker.log.store_directory import StoreDirectory
from broker.model.delay_levels import DEFAULT_DELAY_LEVELS
from broker.model.errors import NotAStore, StoreLocked
from broker.rebuild.log_files import ViewSettings


class Sizes(NamedTuple):
    """What must be known of a store before its files are opened; sizes are in bytes.

    geometry       of its index files
    style          STYLE_5_5 or STYLE_5_3: whether tags are indexed
    time_zone      the one index files are named in, for `zone_from_name`; "": the machine's
    delay_levels   delays by level as an operator writes them; "": RocketMQ's 18
    property_crc   records end with a CRC over all of them
    property_crc_from   physical offset from which on they do, OFFSET_MAX: nowhere yet; None where
                   the store does not say: the first records tell
    removed        where queues of removed topics go on, "" without any (`QueueTable`)
    """

    commit_log_file_bytes: int
    consume_queue_file_bytes: int
    geometry: IndexGeometry
    style: str = STYLE_5_5
    time_zone: str = ""
    delay_levels: str = ""
    property_crc: bool = False
    removed: str = ""
    property_crc_from: int | None = None


def view_settings(sizes: Sizes, *, check_crc: bool) -> ViewSettings:
    """Return what a store's views are built with."""
    return ViewSettings(
        sizes.consume_queue_file_bytes,
        sizes.geometry,
        sizes.style,
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
