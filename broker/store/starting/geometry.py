"""Which sizes an existing store has: as set, as `pocketmq/store.json` says, as its files show.

What none of them tells stays as in the settings, which hold for a new store. The style of the index
is found out later, when the log can be read (log/index_style.py).
"""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from broker.files.disk import Disk
from broker.format.index_layout import IndexGeometry
from broker.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    offset_from_file_name,
)
from broker.log.delay_levels import written_levels
from broker.log.index_geometry import complete_geometry, find_geometry
from broker.log.store_directory import StoreManifest
from broker.model.store_shape import DEFAULT_DELAY_LEVELS, RECORDED
from broker.store.settings import StoreSettings

_SLOTS: Final = "index_slot_count"
_ENTRIES: Final = "index_entry_count_max"
_NAMES: Final = (
    ("consume_queue_file_size_bytes", "mappedFileSizeConsumeQueue"),
    (_SLOTS, "maxHashSlotNum"),
    (_ENTRIES, "maxIndexNum"),
)
"""Sizes that are shown by views alone."""


def fit_to_disk(
    settings: StoreSettings, manifest: StoreManifest | None, disk: Disk
) -> StoreSettings:
    """Return the settings with the shape that the store on disk has.

    Errors   UnknownGeometry
    Cost     reads index files only where neither settings nor manifest tell their geometry
    """
    known: dict[str, Any] = {}
    if manifest is not None:
        known = {name: getattr(manifest, name) for name in RECORDED}
    else:
        known = _found_sizes(settings, disk)
    if manifest is None or not manifest.made_here:
        known["delay_levels"] = _shown_levels(settings, known, disk)
    chosen = {name: value for name, value in known.items() if name not in settings.explicit}
    return replace(settings, **chosen)


def unshown(
    settings: StoreSettings, manifest: StoreManifest | None, disk: Disk
) -> list[tuple[str, int]]:
    """Return (RocketMQ's name, value) of sizes of another broker's store that are only assumed.

    Neither an operator nor a file of the store tells them.
    """
    if manifest is not None or not disk.names(settings.directory / COMMIT_LOG_DIRECTORY):
        return []
    known = settings.explicit | _found_sizes(settings, disk).keys()
    return [(name, getattr(settings, field)) for field, name in _NAMES if field not in known]


def _shown_levels(settings: StoreSettings, known: dict[str, Any], disk: Disk) -> str:
    """Return the delay levels that the schedule topic's units show, else those of the settings."""
    log_file_bytes = known.get("commit_log_file_size_bytes", settings.commit_log_file_size_bytes)
    stated = settings.delay_levels or DEFAULT_DELAY_LEVELS
    levels = written_levels(disk, settings.directory, stated, log_file_bytes=log_file_bytes)
    return levels or settings.delay_levels


def _found_sizes(settings: StoreSettings, disk: Disk) -> dict[str, Any]:
    """Return the sizes that the files themselves tell, by name.

    Cost     reads names up to the first queue that has a file
    """
    root = settings.directory
    extension_size = _queue_file_size(disk, root / CONSUME_QUEUE_EXTENSION_DIRECTORY)
    found: dict[str, Any] = {
        "commit_log_file_size_bytes": _row_file_size(disk, root / COMMIT_LOG_DIRECTORY),
        "consume_queue_file_size_bytes": _queue_file_size(disk, root / CONSUME_QUEUE_DIRECTORY),
        "consume_queue_extension": extension_size > 0,
        "consume_queue_extension_file_size_bytes": extension_size,
    }
    geometry = _found_geometry(settings, disk)
    if geometry is not None:
        found[_SLOTS], found[_ENTRIES] = geometry
    return {name: value for name, value in found.items() if value}


def _queue_file_size(disk: Disk, root: Path) -> int:
    """Return the bytes of each file of the first queue that has one, 0 when none has."""
    queues = (
        root / topic / name for topic in disk.names(root) for name in disk.names(root / topic)
    )
    return next((size for queue in queues if (size := _row_file_size(disk, queue))), 0)


def _row_file_size(disk: Disk, directory: Path) -> int:
    """Return the bytes of each file of a row, 0 when it has none.

    Files in a row are of one length, and each is named by the offset of its first byte: two names
    that follow on each other tell the length too. A file that was cut short is outvoted.
    """
    bases = {name: offset_from_file_name(name) for name in disk.names(directory)}
    places = sorted(base for base in bases.values() if base is not None)
    lengths = [disk.file_size(directory / name) for name, base in bases.items() if base is not None]
    counts = Counter(length for length in lengths if length)
    if not counts:
        return 0
    step = min((after - before for before, after in pairwise(places)), default=0)
    return step if step in counts else counts.most_common(1)[0][0]


def _found_geometry(settings: StoreSettings, disk: Disk) -> IndexGeometry | None:
    directory = settings.directory / INDEX_DIRECTORY
    stated = IndexGeometry.of(settings)
    set_fields = settings.explicit & {_SLOTS, _ENTRIES}
    if len(set_fields) == 2:
        return stated
    if _SLOTS in set_fields:
        return complete_geometry(disk, directory, slot_count=stated.slot_count)
    if _ENTRIES in set_fields:
        return complete_geometry(disk, directory, entry_count_max=stated.entry_count_max)
    return find_geometry(disk, directory, stated)
