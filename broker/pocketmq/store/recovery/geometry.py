"""Which sizes an existing store has: as set, as in `pocketmq/store.json`, as its files show.

Sizes that no source states are those of the settings, as for a new store. The style of the index
is found out later, when the log can be read (log/index_style.py).
"""

from dataclasses import replace
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.log.delay_levels import written_levels
from pocketmq.log.file_sizes import shown_sizes
from pocketmq.log.index_geometry import shown_geometry
from pocketmq.log.store_directory import StoreManifest
from pocketmq.model.store_shape import DEFAULT_DELAY_LEVELS, RECORDED
from pocketmq.store.settings import StoreSettings

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
    """Returns the settings with the shape that the store on disk has.

    Errors   UnknownGeometry
    Cost     reads index files only where neither settings nor manifest state their geometry
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
    """Returns (RocketMQ's name, value) of sizes of another broker's store that are only assumed.

    Neither an operator nor a file of the store states them.
    """
    found = _found_sizes(settings, disk) if manifest is None else {}
    if "commit_log_file_size_bytes" not in found:
        return []
    known = settings.explicit | found.keys()
    return [(name, getattr(settings, field)) for field, name in _NAMES if field not in known]


def _shown_levels(settings: StoreSettings, known: dict[str, Any], disk: Disk) -> str:
    """Returns the delay levels that the schedule topic's units show, else those of the settings."""
    log_file_bytes = known.get("commit_log_file_size_bytes", settings.commit_log_file_size_bytes)
    stated = settings.delay_levels or DEFAULT_DELAY_LEVELS
    levels = written_levels(disk, settings.directory, stated, log_file_bytes=log_file_bytes)
    return levels or settings.delay_levels


def _found_sizes(settings: StoreSettings, disk: Disk) -> dict[str, Any]:
    """Returns the sizes that the files themselves show, by name."""
    found = shown_sizes(disk, settings.directory)
    geometry = shown_geometry(disk, settings.directory, settings, settings.explicit)
    if geometry is not None:
        found[_SLOTS], found[_ENTRIES] = geometry
    return found
