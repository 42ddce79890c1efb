"""Determines file sizes of a store from settings, `pocketmq/store.json` or its files.

The index style is determined when the log can be read (log/index_style.py).
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
"""(field, RocketMQ's name) of the sizes that only files of the views show."""


def fit_to_disk(
    settings: StoreSettings, manifest: StoreManifest | None, disk: Disk
) -> StoreSettings:
    """Returns the settings with the shape of the store on disk.

    Errors   UnknownGeometry
    Cost     reads index files only if neither settings nor manifest contain their geometry, and
             some records of delayed messages unless PocketMQ created the store
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
    """Returns (RocketMQ's name, value) of the default sizes assumed for a store of RocketMQ."""
    found = _found_sizes(settings, disk) if manifest is None else {}
    if "commit_log_file_size_bytes" not in found:
        return []
    known = settings.explicit | found.keys()
    return [(name, getattr(settings, field)) for field, name in _NAMES if field not in known]


def _shown_levels(settings: StoreSettings, known: dict[str, Any], disk: Disk) -> str:
    log_file_bytes = known.get("commit_log_file_size_bytes", settings.commit_log_file_size_bytes)
    stated = settings.delay_levels or DEFAULT_DELAY_LEVELS
    levels = written_levels(disk, settings.directory, stated, log_file_bytes=log_file_bytes)
    return levels or settings.delay_levels


def _found_sizes(settings: StoreSettings, disk: Disk) -> dict[str, Any]:
    found = shown_sizes(disk, settings.directory)
    geometry = shown_geometry(disk, settings.directory, settings, settings.explicit)
    if geometry is not None:
        found[_SLOTS], found[_ENTRIES] = geometry
    return found
